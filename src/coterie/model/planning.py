"""The artifacts of planning: a structured plan, its transcript, and the files it concerns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from coterie.model.artifact import (
    ArtifactData,
    FileOperation,
    Lines,
    NonEmptyText,
    object_from_text,
)
from coterie.model.instant import Instant
from coterie.model.visible import visible

_NOBODYS = frozenset({".git", ".coterie"})


def relative_path(text: str) -> str:
    """Normalize the path of a project file to use `/`.

    Raises ValueError for a path outside the project, or inside `.git` or `.coterie`.
    """
    path = PurePosixPath(text.replace("\\", "/"))
    leads_away = path.is_absolute() or ".." in path.parts or path == PurePosixPath()
    if leads_away or not text.strip() or "\0" in text:
        raise ValueError(f"{visible(text)} is not the path of a file in the project's folder")
    if any(part.casefold() in _NOBODYS for part in path.parts):
        raise ValueError(f"{visible(text)} belongs to git or Coterie and cannot be part of a plan")
    return str(path)


ProjectPath = Annotated[str, AfterValidator(relative_path)]


class Scenario(ArtifactData):
    """A case that shows that a requirement is met."""

    name: str = Field(default="", description="The name of the case.")
    given: str = Field(default="", description="The precondition. Omitted if there is none.")
    when: str = Field(default="", description="What happens.")
    then: str = Field(default="", description="The expected outcome.")


class Requirement(ArtifactData):
    """Something that must hold when the work is done."""

    title: NonEmptyText = Field(description="Its name, in a few words.")
    text: str = Field(default="", description="What must hold, in a sentence.")
    scenarios: tuple[Annotated[Scenario, object_from_text("then")], ...] = Field(
        default=(), description="Cases that show it."
    )


class FileImpact(ArtifactData):
    """A file that the work will touch."""

    path: ProjectPath = Field(description="Relative to the project's folder.")
    purpose: str = Field(default="", description="Why it is touched.")
    type: FileOperation = Field(default="modify", description="What is done with it.")


class PlanRisk(ArtifactData):
    """Something that could go wrong."""

    description: NonEmptyText = Field(description="What could go wrong.")
    mitigation: str = Field(default="", description="What is done about it.")
    rollback: str = Field(default="", description="How to undo it if it does go wrong.")


class PlannedCase(ArtifactData):
    """A test that should exist."""

    name: NonEmptyText = Field(description="What is tested.")
    steps: str = Field(default="", description="How.")
    expected: str = Field(default="", description="The expected result.")
    automated: bool = Field(default=True, description="False: a person must check.")


class PlannedTests(ArtifactData):
    """`test-plan.json`: how to verify that the work is correct."""

    strategy: str = Field(default="", description="What is tested, and at which level.")
    key_cases: tuple[Annotated[PlannedCase, object_from_text("name")], ...] = Field(
        default=(), description="The tests that matter most."
    )
    automation: str = Field(default="", description="What is automated and what a person does.")
    write_tests: bool = Field(
        default=True, description="Whether a separate step should write tests."
    )


class PlannedTask(ArtifactData):
    """One piece of the work."""

    title: NonEmptyText = Field(description="What is to be done.")
    details: Lines = Field(default=(), description="Its parts.")


_Requirements = tuple[Annotated[Requirement, object_from_text("title")], ...]
_FileImpacts = tuple[Annotated[FileImpact, object_from_text("path")], ...]
_PlanRisks = tuple[Annotated[PlanRisk, object_from_text("description")], ...]


class StructuredPlan(ArtifactData):
    """`planning.ai.json`, `planning.draft.json` and `planning.final.json`: the plan as data."""

    title: NonEmptyText = Field(description="The change, in a few words.")
    why: NonEmptyText = Field(description="Why it is worth doing.")
    what: NonEmptyText = Field(description="What will change.")
    capability: str = Field(
        default="", description="The part of the product it belongs to, in a word or two."
    )
    requirements: _Requirements = Field(default=(), description="What must hold in the end.")
    scope: Lines = Field(default=(), description="What belongs to it.")
    non_goals: Lines = Field(default=(), description="What does not belong to it.")
    design: str = Field(default="", description="How it is built, and why.")
    file_impacts: _FileImpacts = Field(default=(), description="Files that will be touched.")
    tasks: tuple[Annotated[PlannedTask, object_from_text("title")], ...] = Field(
        default=(), description="The work, in order."
    )
    risks: _PlanRisks = Field(default=(), description="What could go wrong.")
    test_plan: Annotated[PlannedTests, object_from_text("strategy")] = Field(
        default_factory=PlannedTests, description="How to verify that the work is correct."
    )
    assumptions: Lines = Field(default=(), description="Assumptions made.")
    open_questions: Lines = Field(
        default=(), description="What only the user can say; nothing the team can settle itself."
    )


class RoleNotes(ArtifactData):
    """What one role of the workshop says about a goal or a draft."""

    summary: NonEmptyText = Field(description="The role's view, in a few sentences.")
    requirements: _Requirements = Field(default=(), description="What must hold in the end.")
    scope: Lines = Field(default=(), description="What belongs to it.")
    non_goals: Lines = Field(default=(), description="What does not belong to it.")
    design: str = Field(default="", description="How it should be built.")
    file_impacts: _FileImpacts = Field(default=(), description="Files that will be touched.")
    risks: _PlanRisks = Field(default=(), description="What could go wrong.")
    test_plan: Annotated[PlannedTests, object_from_text("strategy")] | None = Field(
        default=None, description="How to verify that the work is correct."
    )
    assumptions: Lines = Field(default=(), description="Assumptions made.")
    open_questions: Lines = Field(
        default=(), description="What neither the project nor another role can answer."
    )


class RoleAnswer(ArtifactData):
    """A role's answer to one open question."""

    number: Annotated[int, Field(ge=1)] = Field(description="The number of the question.")
    answer: str = Field(default="", description="Empty: only the user can say.")


class RoleAnswers(ArtifactData):
    """A role's answers to those open questions of a draft that it can settle."""

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
        """The files of a plan, each once; for duplicates the last entry wins."""
        latest: Mapping[str, FileImpact] = {one.path: one for one in plan.file_impacts}
        return cls(files=tuple(latest.values()))
