"""The commands that a user may give at the end of a phase, and where a pipeline then continues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from coterie.model.interaction import Option
from coterie.model.phase_graph import PIPELINE_STEPS, PhaseGraph
from coterie.model.pipeline_state import Command, PipelineState, StepMessage

REVERT: Final = "revert"
COMMANDS: Mapping[Command, tuple[str, ...]] = {
    "plan": ("workshop",),
    "planreview": ("plan_review",),
    "meeting": ("review_meeting", "planning_meeting"),
    "codegen": ("codegen",),
    "review": ("code_review",),
    "test": ("test_run",),
    "accept": ("accept",),
}
"""The steps of each command: the first one that is possible is taken."""


class NextPhase(NamedTuple):
    """Where a pipeline continues."""

    phase: str
    step: str | None = None
    """The step to start with; None for the first."""
    message: StepMessage | None = None


def phase_for_command(
    command: Command, graph: PhaseGraph, state: PipelineState
) -> NextPhase | None:
    """Return the phase and step that a command leads to; None if the state does not allow it."""
    for step in COMMANDS[command]:
        for name, phase in graph.phases.items():
            if step in phase.steps and state.allows(step) and _is_due(step, state):
                return NextPhase(name, step)
    return None


def _is_due(step: str, state: PipelineState) -> bool:
    """Whether there is anything for a step to decide on: tests need a change."""
    return PIPELINE_STEPS[step].decides != "tests" or "code.patch" in state.files


def command_options(graph: PhaseGraph, state: PipelineState) -> list[Option]:
    """Return the alternatives to going on that the state allows."""
    able = [
        Option(id=one, label=f"/{one}") for one in COMMANDS if phase_for_command(one, graph, state)
    ]
    return [*able, Option(id=REVERT, label="revert the work")]
