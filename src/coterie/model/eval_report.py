"""The artifact of a test run: the commands that Coterie ran, on which tree, and their results."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from coterie.model.artifact import ArtifactData, GateDecision, Lines, NonEmptyText

EvalOrigin = Literal["written", "given", "found"]
"""Where a command comes from: the user's `eval.conf`, the user's `--eval`, or detection from the
project's files."""


class EvalCommand(NamedTuple):
    """A command that tests the project."""

    name: str
    command: str
    origin: EvalOrigin


class EvalRun(ArtifactData):
    """One command that was run."""

    name: NonEmptyText = Field(description="Its name.")
    command: NonEmptyText = Field(description="What was run.")
    origin: EvalOrigin = Field(description="Where the command comes from.")
    exit_code: int | None = Field(
        default=None, description="Its exit code. Omitted if it did not finish."
    )
    duration_ms: Annotated[int, Field(ge=0)] = Field(default=0, description="How long it took.")
    log: str = Field(default="", description="The file with its whole output, among the artifacts.")
    digest: str = Field(default="", description="`sha256:…` of that file.")
    output: str = Field(default="", description="The end of its output.")

    @property
    def passed(self) -> bool:
        """Whether it ended with exit code 0."""
        return self.exit_code == 0


class Debrief(ArtifactData):
    """A member's analysis of a failed test run."""

    summary: NonEmptyText = Field(description="What failed, in a sentence or two.")
    causes: Lines = Field(default=(), description="Why, as far as known.")
    next_actions: Lines = Field(default=(), description="What to change.")


class EvalReport(ArtifactData):
    """`eval-report.json`: every command of a test run, and whether all passed."""

    gate: GateDecision = Field(description="Whether the work may continue, and for which tree.")
    runs: tuple[EvalRun, ...] = Field(default=(), description="In the order they were run.")
    debrief: Debrief | None = Field(
        default=None, description="A member's analysis. Omitted if nothing failed."
    )
