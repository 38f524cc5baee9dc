"""What a user may say at the end of a phase, and where a pipeline then goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from coterie.model.interaction import Option
from coterie.model.phase_graph import PIPELINE_STEPS, PhaseGraph
from coterie.model.pipeline_state import PipelineState, StepMessage

REVERT = "revert"
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "plan": ("workshop",),
    "planreview": ("plan_review",),
    "meeting": ("review_meeting", "planning_meeting"),
    "codegen": ("codegen",),
    "review": ("code_review",),
    "test": ("test_run",),
    "accept": ("accept",),
}
"""By command: the step that is then taken; of several, the first that can be."""


class NextPhase(NamedTuple):
    """Where a pipeline goes on."""

    phase: str
    step: str | None = None
    """The step that it begins with; None: the first."""
    message: StepMessage | None = None


def meant_by(command: str, graph: PhaseGraph, state: PipelineState) -> NextPhase | None:
    """The phase and step that a command means; None where the state does not allow it."""
    for step in COMMANDS[command]:
        for name, phase in graph.phases.items():
            if step in phase.steps and state.allows(step) and _is_due(step, state):
                return NextPhase(name, step)
    return None


def _is_due(step: str, state: PipelineState) -> bool:
    """Whether what a step decides about is there: tests need a change."""
    return PIPELINE_STEPS[step].decides != "tests" or "code.patch" in state.files


def command_options(graph: PhaseGraph, state: PipelineState) -> list[Option]:
    """What may be done besides going on, as far as the state allows it."""
    able = [Option(id=one, label=f"/{one}") for one in COMMANDS if meant_by(one, graph, state)]
    return [*able, Option(id=REVERT, label="take the work back")]
