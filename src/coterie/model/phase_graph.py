"""The phases of a pipeline as data: what each does, the gate it must pass, and where it leads.

A graph is checked before it is used, so that a run cannot reach a phase without its inputs, wait
for a gate that no step decides, or loop forever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StringConstraints

from coterie.model.flags import words

DONE = "done"
"""The final phase of every graph."""
ROUNDS = 3
NAME = r"^[a-z][a-z0-9_]{0,39}$"

PhaseName = Annotated[str, StringConstraints(pattern=NAME)]
Gate = Literal["plan", "review", "tests"]


class PipelineStep(NamedTuple):
    """What a step of the pipeline reads and writes; the team's roles say who carries it out."""

    what: str
    reads: frozenset[str] = frozenset()
    """Artifacts, by their names in the state."""
    writes: frozenset[str] = frozenset()
    decides: Gate | None = None


def _step(
    what: str, reads: str = "", writes: str = "", decides: Gate | None = None
) -> PipelineStep:
    return PipelineStep(what, frozenset(words(reads)), frozenset(words(writes)), decides)


PIPELINE_STEPS: Mapping[str, PipelineStep] = {
    "workshop": _step(
        "roles agree on a plan",
        writes="planning.current planning.draft planning.final planning.transcript plan_files plan "
        "test.plan openspec.change openspec.spec openspec.tasks",
    ),
    "plan_review": _step(
        "the plan is checked by rules and by a reviewer", "planning.current", "review.plan", "plan"
    ),
    "planning_meeting": _step(
        "a chair merges plan and review, and settles what is open",
        "planning.current review.plan",
        "planning.meeting",
    ),
    "codegen": _step(
        "a member states its intent for each file, and makes the change",
        writes="code.plan code.ir code.patch code.files_dir",
    ),
    "code_review": _step(
        "the change is reviewed, by a second opinion and for security too",
        "code.patch",
        "review.code review.second_opinion",
        "review",
    ),
    "review_meeting": _step("a chair merges the reviews", "review.code", "review.meeting"),
    "test_codegen": _step("tests are written from the test plan", "code.patch"),
    "test_run": _step("Coterie runs the tests", writes="test.report", decides="tests"),
    "accept": _step("gates are decided, and the user accepts the work", "code.patch"),
}
"""Every step that a graph may name."""


class Phase(BaseModel):
    """One phase: its steps, the gate that they must pass, and the phases that may follow."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    steps: tuple[str, ...] = Field(default=(), description="What is done, in order.")
    gate: Gate | None = Field(
        default=None, description="What must pass before the next phase; a step here decides it."
    )
    next: PhaseName | None = Field(default=None, description="The phase that follows.")
    back: PhaseName | None = Field(
        default=None, description="The phase that follows if the gate fails."
    )
    rounds: Annotated[StrictInt, Field(ge=1, le=20)] = Field(
        default=ROUNDS,
        description="How often it may go back before the user is asked what to do.",
    )


class PhaseGraph(BaseModel):
    """The phases of a pipeline, from `start` to `done`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    name: PhaseName = Field(description="The name of the graph.")
    description: str = Field(default="", description="What it is for, in a sentence.")
    start: PhaseName = Field(description="The first phase.")
    phases: Mapping[PhaseName, Phase] = Field(description="Every phase by its name.")

    def edges(self) -> Iterator[PhaseEdge]:
        """Every edge from one phase to another, in the order of the phases."""
        for name, phase in self.phases.items():
            if phase.next is not None:
                yield PhaseEdge(name, phase.next)
            if phase.back is not None:
                yield PhaseEdge(name, phase.back, phase.rounds)


class PhaseEdge(NamedTuple):
    """An edge from one phase to another."""

    source: str
    target: str
    rounds: int | None = None
    """How often it may be taken; None for the edge to the next phase, taken once the gate has
    passed."""


class GraphMistake(NamedTuple):
    """What makes a graph unusable, and where, as a path of keys in the graph."""

    place: tuple[str | int, ...]
    problem: str


def graph_mistakes(graph: PhaseGraph) -> list[GraphMistake]:
    """All mistakes in a graph; later checks run only if the earlier ones, on which they rely, find
    none."""
    return (
        [*_unknown_names(graph), *_repeated_steps(graph), *_wrong_gates(graph)]
        or [*_dead_ends(graph), *_unreachable(graph)]
        or _endless(graph)
        or _missing_inputs(graph)
    )


def _unknown_names(graph: PhaseGraph) -> Iterator[GraphMistake]:
    if graph.start not in graph.phases:
        yield GraphMistake(("start",), f"names an unknown phase: {graph.start}")
    if DONE not in graph.phases:
        yield GraphMistake(("phases",), f'has no "{DONE}", the final phase of every graph')
    for name, phase in graph.phases.items():
        for key, target in (("next", phase.next), ("back", phase.back)):
            if target is not None and target not in graph.phases:
                yield GraphMistake(("phases", name, key), f"names an unknown phase: {target}")
        for number, step in enumerate(phase.steps):
            if step not in PIPELINE_STEPS:
                known = ", ".join(PIPELINE_STEPS)
                place = ("phases", name, "steps", number)
                yield GraphMistake(place, f"is not a step: {step}; known steps: {known}")


def _repeated_steps(graph: PhaseGraph) -> Iterator[GraphMistake]:
    for name, phase in graph.phases.items():
        for number, step in enumerate(phase.steps):
            if step in phase.steps[:number]:
                place = ("phases", name, "steps", number)
                yield GraphMistake(place, f"appears twice in {name}: {step}")


def _wrong_gates(graph: PhaseGraph) -> Iterator[GraphMistake]:
    for name, phase in graph.phases.items():
        place = ("phases", name)
        decided = {PIPELINE_STEPS[step].decides for step in phase.steps if step in PIPELINE_STEPS}
        if phase.gate is not None and phase.gate not in decided:
            deciding = [step for step, one in PIPELINE_STEPS.items() if one.decides == phase.gate]
            problem = f'waits for "{phase.gate}", which no step of {name} decides'
            yield GraphMistake((*place, "gate"), f"{problem}; add {' or '.join(deciding)}")
        if phase.back is not None and phase.gate is None:
            yield GraphMistake((*place, "back"), "is never taken: this phase has no gate")


def _dead_ends(graph: PhaseGraph) -> Iterator[GraphMistake]:
    for name, phase in graph.phases.items():
        if name == DONE and (phase.next or phase.steps):
            yield GraphMistake(("phases", name), 'is the final phase: remove its steps and "next"')
        elif name != DONE and phase.next is None:
            yield GraphMistake(("phases", name), 'is a dead end: it has no "next"')


def _unreachable(graph: PhaseGraph) -> Iterator[GraphMistake]:
    seen: set[str] = set()
    waiting = [graph.start]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += [edge.target for edge in graph.edges() if edge.source == name]
    for name in graph.phases:
        if name not in seen:
            yield GraphMistake(("phases", name), f"is never reached from {graph.start}")


def _endless(graph: PhaseGraph) -> list[GraphMistake]:
    """Cycles made of `next` alone; a cycle with a `back` ends once its rounds are used up."""
    mistakes: list[GraphMistake] = []
    ends = {DONE}
    for first in graph.phases:
        path: list[str] = []
        name = first
        while name not in ends and name not in path:
            path.append(name)
            name = graph.phases[name].next or DONE
        if name in path:
            circle = path[path.index(name) :]
            problem = f"loops forever: {' → '.join((*circle, name))}"
            mistakes.append(GraphMistake(("phases", name, "next"), problem))
        ends.update(path)
    return mistakes


def _missing_inputs(graph: PhaseGraph) -> list[GraphMistake]:
    """Steps that read artifacts not written on every path to them."""
    everything = frozenset[str]().union(*(step.writes for step in PIPELINE_STEPS.values()))
    before = dict.fromkeys(graph.phases, everything) | {graph.start: frozenset[str]()}
    changing = True
    while changing:
        changing = False
        for source, target, _ in graph.edges():
            known = before[target] & (before[source] | _written(graph.phases[source]))
            changing, before[target] = changing or known != before[target], known
    mistakes: list[GraphMistake] = []
    for name, phase in graph.phases.items():
        known = before[name]
        for number, step in enumerate(phase.steps):
            missing = sorted(PIPELINE_STEPS[step].reads - known)
            if missing:
                problem = f"{step} reads {', '.join(missing)}, which nothing before it writes"
                mistakes.append(GraphMistake(("phases", name, "steps", number), problem))
            known |= PIPELINE_STEPS[step].writes
    return mistakes


def _written(phase: Phase) -> frozenset[str]:
    return frozenset[str]().union(*(PIPELINE_STEPS[step].writes for step in phase.steps))
