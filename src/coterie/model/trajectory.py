"""The artifact recorded for later learning: what was done in which state, and the outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from coterie.model.artifact import ArtifactData
from coterie.model.instant import Instant

Amount = Annotated[int, Field(ge=0)]


class TrajectoryState(ArtifactData):
    """The state of the task before a step."""

    phase: str = Field(description="The phase.")
    rounds: Mapping[str, Amount] = Field(
        default_factory=dict[str, int], description="By actor: how often it has worked."
    )
    gates: Mapping[str, bool] = Field(
        default_factory=dict[str, bool], description="By gate: how it was last decided."
    )


class StepCost(ArtifactData):
    """What a step used, as far as its agents reported it."""

    turns: Amount = Field(default=0, description="Turns taken.")
    input_tokens: Amount = Field(default=0, description="Tokens sent.")
    output_tokens: Amount = Field(default=0, description="Tokens received.")
    usd: Annotated[float, Field(ge=0)] = Field(default=0.0, description="Money, in US dollars.")
    duration_ms: Amount = Field(default=0, description="How long it took.")


class TrajectoryLine(ArtifactData):
    """One line of `trajectory.jsonl`."""

    timestamp: Instant = Field(description="When the step ended: UTC, ISO 8601.")
    visit: Annotated[int, Field(ge=1)] = Field(description="The number of the visit to a phase.")
    state: TrajectoryState = Field(description="The state of the task before the step.")
    action: str = Field(description="The step.")
    outcome: Literal["completed", "failed", "error", "redo"] = Field(description="How it went.")
    gate: bool | None = Field(
        default=None, description="Whether the gate that it decides passed. Omitted if none."
    )
    issues: Amount = Field(default=0, description="How many issues were found that must be fixed.")
    cost: StepCost = Field(default_factory=StepCost, description="What it used.")
