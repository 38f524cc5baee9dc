"""The artifact of a test run: which commands Coterie ran, on which tree, and how they ended."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from coterie.model.artifact import ArtifactData, GateDecision, Lines, Said

EvalOrigin = Literal["written", "given", "found"]
"""Who says that a command is to be run: the user in `eval.conf`, the user with `--eval`, or nobody
but the look of the project."""


class EvalCommand(NamedTuple):
    """A command that tests the project."""

    name: str
    command: str
    origin: EvalOrigin


class EvalRun(ArtifactData):
    """One command that was run."""

    name: Said = Field(description="What it is called.")
    command: Said = Field(description="What was run.")
    origin: EvalOrigin = Field(description="Who says that it is to be run.")
    exit_code: int | None = Field(
        default=None, description="How it ended. Left out: not in its time, or it did not start."
    )
    duration_ms: Annotated[int, Field(ge=0)] = Field(default=0, description="How long it took.")
    log: str = Field(default="", description="All that it printed, among the artifacts.")
    digest: str = Field(default="", description="`sha256:…` of that file.")
    output: str = Field(default="", description="The end of what it printed.")

    @property
    def passed(self) -> bool:
        """Whether it ended with exit code 0."""
        return self.exit_code == 0


class Debrief(ArtifactData):
    """What a member makes of a failed test run."""

    summary: Said = Field(description="What failed, in a sentence or two.")
    causes: Lines = Field(default=(), description="Why, as far as can be told.")
    next_actions: Lines = Field(default=(), description="What is to be changed.")


class EvalReport(ArtifactData):
    """`eval-report.json`: every command of a test run, and whether all passed."""

    gate: GateDecision = Field(description="Whether the work may go on, and on which tree.")
    runs: tuple[EvalRun, ...] = Field(default=(), description="In the order they were run.")
    debrief: Debrief | None = Field(
        default=None, description="What a member makes of it. Left out: nothing failed."
    )
