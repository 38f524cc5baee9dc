"""The artifacts of planning: a structured plan, what was said about it, and the files it means."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from coterie.model.artifact import ArtifactData, FileOperation, Lines, Said
from coterie.model.instant import Instant
from coterie.model.visible import visible


def _as(field: str) -> BeforeValidator:
    """One text stands for an object with that text in its main field."""

    def made(given: object) -> object:
        return {field: given} if isinstance(given, str) else given

    return BeforeValidator(made)


_NOBODYS = frozenset({".git", ".coterie"})


def relative_path(given: str) -> str:
    """The path of a file of the project, with `/`; one that leads out of it is refused."""
    path = PurePosixPath(given.replace("\\", "/"))
    if not given.strip() or path.is_absolute() or ".." in path.parts or path == PurePosixPath():
        raise ValueError(f"{visible(given)} is no path of a file below the project's folder")
    if any(part.casefold() in _NOBODYS for part in path.parts):
        raise ValueError(f"{visible(given)} is git's or Coterie's own, and part of no plan")
    return str(path)


ProjectPath = Annotated[str, AfterValidator(relative_path)]


class Scenario(ArtifactData):
    """One case that shows that a requirement holds."""

    name: str = Field(default="", description="What the case is called.")
    given: str = Field(default="", description="What holds before. Left out: nothing particular.")
    when: str = Field(default="", description="What happens.")
    then: str = Field(default="", description="What must be seen.")


class Requirement(ArtifactData):
    """Something that must hold when the work is done."""

    title: Said = Field(description="Its name, in a few words.")
    text: str = Field(default="", description="What must hold, in a sentence.")
    scenarios: tuple[Annotated[Scenario, _as("then")], ...] = Field(
        default=(), description="Cases that show it."
    )


class FileImpact(ArtifactData):
    """A file that the work will touch."""

    path: ProjectPath = Field(description="Relative to the project's folder.")
    purpose: str = Field(default="", description="Why it is touched.")
    type: FileOperation = Field(default="modify", description="What is done with it.")


class PlanRisk(ArtifactData):
    """What could go wrong."""

    description: Said = Field(description="What could go wrong.")
    mitigation: str = Field(default="", description="What is done about it.")
    rollback: str = Field(default="", description="How it is undone where it did go wrong.")


class PlannedCase(ArtifactData):
    """A test that is to be there."""

    name: Said = Field(description="What is tested.")
    steps: str = Field(default="", description="How.")
    expected: str = Field(default="", description="What must come out.")
    automated: bool = Field(default=True, description="False: a person must look.")


class PlannedTests(ArtifactData):
    """`test-plan.json`: how it will be known that the work is right."""

    strategy: str = Field(default="", description="What is tested, and at which level.")
    key_cases: tuple[Annotated[PlannedCase, _as("name")], ...] = Field(
        default=(), description="The tests that matter most."
    )
    automation: str = Field(default="", description="What runs by itself and what a person does.")
    write_tests: bool = Field(
        default=True, description="Whether tests are to be written in a step of their own."
    )


class PlannedTask(ArtifactData):
    """One piece of the work."""

    title: Said = Field(description="What is to be done.")
    details: Lines = Field(default=(), description="Its parts.")


class StructuredPlan(ArtifactData):
    """`planning.ai.json`, `planning.draft.json` and `planning.final.json`: the plan as data."""

    title: Said = Field(description="The change, in a few words.")
    why: Said = Field(description="What it is good for.")
    what: Said = Field(description="What will be different.")
    capability: str = Field(
        default="", description="The part of the product it belongs to, in a word or two."
    )
    requirements: tuple[Annotated[Requirement, _as("title")], ...] = Field(
        default=(), description="What must hold in the end."
    )
    scope: Lines = Field(default=(), description="What belongs to it.")
    non_goals: Lines = Field(default=(), description="What does not.")
    design: str = Field(default="", description="How it is built, and why so.")
    file_impacts: tuple[Annotated[FileImpact, _as("path")], ...] = Field(
        default=(), description="Files that will be touched."
    )
    tasks: tuple[Annotated[PlannedTask, _as("title")], ...] = Field(
        default=(), description="The work, in order."
    )
    risks: tuple[Annotated[PlanRisk, _as("description")], ...] = Field(
        default=(), description="What could go wrong."
    )
    test_plan: Annotated[PlannedTests, _as("strategy")] = Field(
        default_factory=PlannedTests, description="How it will be known that the work is right."
    )
    assumptions: Lines = Field(default=(), description="What was taken for granted.")
    open_questions: Lines = Field(
        default=(), description="What only the user can say; nothing the team can settle itself."
    )


class RoleNotes(ArtifactData):
    """What one role of the workshop has to say about a goal or a draft."""

    summary: Said = Field(description="The role's view, in a few sentences.")
    requirements: tuple[Annotated[Requirement, _as("title")], ...] = Field(
        default=(), description="What must hold in the end."
    )
    scope: Lines = Field(default=(), description="What belongs to it.")
    non_goals: Lines = Field(default=(), description="What does not.")
    design: str = Field(default="", description="How it should be built.")
    file_impacts: tuple[Annotated[FileImpact, _as("path")], ...] = Field(
        default=(), description="Files that will be touched."
    )
    risks: tuple[Annotated[PlanRisk, _as("description")], ...] = Field(
        default=(), description="What could go wrong."
    )
    test_plan: Annotated[PlannedTests, _as("strategy")] | None = Field(
        default=None, description="How it will be known that the work is right."
    )
    assumptions: Lines = Field(default=(), description="What was taken for granted.")
    open_questions: Lines = Field(
        default=(), description="What neither the project nor another role can answer."
    )


class RoleAnswer(ArtifactData):
    """A role's answer to one open question."""

    number: Annotated[int, Field(ge=1)] = Field(description="Of the question.")
    answer: str = Field(default="", description="Left out: only the user can say.")


class RoleAnswers(ArtifactData):
    """What a role can settle of the open questions of a draft."""

    answers: tuple[RoleAnswer, ...] = Field(
        default=(), description="Those questions that the project or common sense answers."
    )


class TranscriptLine(ArtifactData):
    """One line of `planning.transcript.jsonl`."""

    timestamp: Instant = Field(description="When it was said: UTC, ISO 8601.")
    round: Annotated[int, Field(ge=1)] = Field(description="Which round of planning.")
    source: Literal["user", "agent"] = Field(alias="from", description="Who says it.")
    role: str = Field(default="", description="The role that speaks. Empty: the user.")
    member: str = Field(default="", description="The member that fills it.")
    content: str = Field(description="What was said.")


class PlanFiles(ArtifactData):
    """`plan.files.json`: the files that the change may touch."""

    files: tuple[FileImpact, ...] = Field(default=(), description="Each file once.")

    @classmethod
    def of(cls, plan: StructuredPlan) -> PlanFiles:
        """The files of a plan, each once; of two about the same file the later one is meant."""
        latest: Mapping[str, FileImpact] = {one.path: one for one in plan.file_impacts}
        return cls(files=tuple(latest.values()))
