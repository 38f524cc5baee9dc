"""The state of a pipeline: where it is, how each actor stands, which artifacts there are.

It is folded from what the journal has of the pipeline's steps, and never kept in another way:
`state.json` is written from it, for people and for programs to read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Literal, cast

from pydantic import BaseModel, ConfigDict, Field

from coterie.model import step_name
from coterie.model.artifact import GateDecision
from coterie.model.interaction import Ask
from coterie.model.phase_graph import PIPELINE_STEPS, PhaseGraph
from coterie.model.trajectory import StepCost, TrajectoryLine, TrajectoryState

Actor = Literal["planning", "codegen", "review", "test", "accept", "revert"]
ActorStatus = Literal["idle", "in_progress", "completed", "failed", "error", "redo"]
ACTORS: tuple[Actor, ...] = ("planning", "codegen", "review", "test", "accept", "revert")
ACTOR_OF: Mapping[str, Actor] = {
    "workshop": "planning",
    "plan_review": "planning",
    "planning_meeting": "planning",
    "codegen": "codegen",
    "test_codegen": "codegen",
    "code_review": "review",
    "review_meeting": "review",
    "test_run": "test",
    "accept": "accept",
}
"""By step: whose round it is."""
_PLANNING = "planning"
_ROUNDS = frozenset({"workshop", "codegen", "code_review", "test_run", "accept"})
"""Steps with which a round of their actor begins."""
_OF_CHANGE = frozenset(
    name
    for step in ("codegen", "code_review", "review_meeting", "test_run")
    for name in PIPELINE_STEPS[step].writes
)
"""Artifacts about a change: those of a change that was taken back say nothing of the next one."""


class _Value(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", validate_by_name=True, serialize_by_alias=True
    )


class PipelineSettings(_Value):
    """What a pipeline was started with; kept with its task."""

    graph: PhaseGraph
    accept: str | None = None
    """The message of the commit with which the change is taken where every gate has passed."""
    evals: tuple[str, ...] = ()
    """Test commands that the user gave, in place of those of the project."""
    attended: bool = False
    """Whether somebody says at the end of every phase what comes next."""


class ActorState(_Value):
    """How one actor of the pipeline stands."""

    round: int = 0
    status: ActorStatus = "idle"
    reason: str = ""
    failed_step: str = Field(default="", alias="failedStep")


class PipelineMeta(_Value):
    """What is known of the whole."""

    status: Literal["active", "redo", "done"] = "active"
    gates: Mapping[str, GateDecision] = Field(default_factory=dict[str, GateDecision])
    """By gate: the last decision."""
    overrides: Mapping[str, str] = Field(default_factory=dict[str, str])
    """By gate that failed: why the user went on all the same."""
    reverts: int = 0
    """How often the work was taken back."""
    tree: str = ""
    """The files that the user was last asked to take."""
    message: str = ""
    """What the user said the commit should say."""
    commit: str = ""
    """What the accepted change is on the user's branch."""


class StepMessage(_Value):
    """What a step is told when it is taken: by the user, or by the step before it."""

    sender: Literal["user", "agent"]
    content: str = ""
    choice: str = ""
    """The option that was chosen, where it answers a question."""
    answers: tuple[str, ...] = ()
    """What was said to each question, where several were asked."""


class StatePatch(_Value):
    """What a step changes of the state."""

    status: ActorStatus = "completed"
    reason: str = ""
    artifacts: Mapping[str, str] = Field(default_factory=dict[str, str])
    """By name: the file below the task's artifacts."""
    gate: GateDecision | None = None
    overrides: Mapping[str, str] = Field(default_factory=dict[str, str])
    """By gate that failed: why the user went on all the same."""
    trees: Mapping[str, str] = Field(default_factory=dict[str, str])
    """By gate that holds as it was decided: the files it is for, as the change was brought on to a
    branch that had moved."""
    tree: str = ""
    message: str = ""
    commit: str = ""


class StepResult(_Value):
    """What a step gives: a change of the state, words for people, what it suggests, questions."""

    patch: StatePatch = StatePatch()
    logs: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    """What it suggests, such as `suggest_plan_review`, `call_review`, `run_tests`, `ask_user`."""
    questions: tuple[Ask, ...] = ()
    """The answers are what the step is told when it is taken again."""
    ended_at: str = ""
    cost: StepCost = Field(default_factory=StepCost)
    """What it used; like the time, filled in by whoever takes the step."""


class PipelineState(_Value):
    """Where a pipeline is; `state.json` holds it."""

    task_id: str
    phase: str
    actors: Mapping[Actor, ActorState] = Field(
        default_factory=lambda: {name: ActorState() for name in ACTORS}
    )
    artifacts: Mapping[str, object] = Field(default_factory=dict[str, object])
    """By name, nested at its points: the file below the task's artifacts."""
    meta: PipelineMeta = PipelineMeta()

    @property
    def files(self) -> dict[str, str]:
        """The file of each artifact there is, by the whole name."""
        return dict(_flat(self.artifacts))

    def allows(self, step: str) -> bool:
        """Whether a step can be taken: all that it reads is there."""
        return PIPELINE_STEPS[step].reads <= self.files.keys()

    def passed(self, gate: str) -> bool:
        """Whether a gate stands open: it was passed, or the user went on over it."""
        decided = self.meta.gates.get(gate)
        return decided is not None and (decided.passed or gate in self.meta.overrides)

    def entered(self, phase: str, reverts: int) -> PipelineState:
        """The state at the beginning of a phase, after work was taken back so often."""
        state = self.reverted(reverts) if reverts > self.meta.reverts else self
        return state.model_copy(update={"phase": phase})

    def begun(self, step: str) -> PipelineState:
        """The state while a step is taken."""
        name = ACTOR_OF[step]
        rounds = self.actors[name].round + (step in _ROUNDS)
        begun = ActorState(round=rounds, status="in_progress")
        state = self._with_actor(name, begun)
        if name == "codegen" and self.meta.status == "redo":
            return state._with_meta(status="active")
        return state

    def after(self, step: str, patch: StatePatch) -> PipelineState:
        """The state with what a step changed."""
        failed = step if patch.status in ("failed", "error") else ""
        own = {"status": patch.status, "reason": patch.reason, "failed_step": failed}
        name = ACTOR_OF[step]
        state = self._with_actor(name, self.actors[name].model_copy(update=own))
        if patch.trees:
            state = state._carried(patch.trees)
        if patch.gate is not None:
            state = state._decided(patch.gate)
        for gate, why in patch.overrides.items():
            state = state.overridden(gate, why)
        if patch.tree:
            state = state._with_meta(tree=patch.tree)
        if patch.message:
            state = state._with_meta(message=patch.message)
        if patch.commit:
            state = state._with_meta(commit=patch.commit, status="done")
        if patch.artifacts:
            artifacts = _nested({**self.files, **patch.artifacts})
            state = state.model_copy(update={"artifacts": artifacts})
        return state

    def overridden(self, gate: str, why: str) -> PipelineState:
        """The state after the user went on over a gate that failed."""
        return self._with_meta(overrides={**self.meta.overrides, gate: why})

    def reverted(self, reverts: int) -> PipelineState:
        """The state after the task's change was taken back."""
        actors: dict[Actor, ActorState] = {
            **self.actors,
            "revert": ActorState(round=self.actors["revert"].round + 1, status="completed"),
            "codegen": self.actors["codegen"].model_copy(update={"status": "redo"}),
        }
        plan = {name: gate for name, gate in self.meta.gates.items() if name == "plan"}
        update = {
            "phase": _PLANNING,
            "actors": actors,
            "artifacts": _nested({k: v for k, v in self.files.items() if k not in _OF_CHANGE}),
        }
        state = self.model_copy(update=update)
        return state._with_meta(status="redo", gates=plan, overrides={}, reverts=reverts)

    def _decided(self, decision: GateDecision) -> PipelineState:
        gates = {**self.meta.gates, decision.gate: decision}
        left = {name: why for name, why in self.meta.overrides.items() if name != decision.gate}
        return self._with_meta(gates=gates, overrides=left)

    def _carried(self, trees: Mapping[str, str]) -> PipelineState:
        gates = {
            name: gate.model_copy(update={"tree": trees[name]}) if name in trees else gate
            for name, gate in self.meta.gates.items()
        }
        return self._with_meta(gates=gates)

    def _with_meta(self, **update: object) -> PipelineState:
        return self.model_copy(update={"meta": self.meta.model_copy(update=update)})

    def _with_actor(self, name: Actor, actor: ActorState) -> PipelineState:
        return self.model_copy(update={"actors": {**self.actors, name: actor}})


def _flat(nested: Mapping[str, object], above: str = "") -> Iterator[tuple[str, str]]:
    for name, value in nested.items():
        if isinstance(value, str):
            yield f"{above}{name}", value
        else:
            yield from _flat(cast("Mapping[str, object]", value), f"{above}{name}.")


def _nested(flat: Mapping[str, str]) -> dict[str, object]:
    made: dict[str, object] = {}
    for name, file in flat.items():
        group, _, key = name.rpartition(".")
        place = cast("dict[str, object]", made.setdefault(group, {})) if group else made
        place[key] = file
    return made


def trajectory_line(
    visit: int, step: str, before: PipelineState, result: StepResult
) -> TrajectoryLine | None:
    """What was done in which state and how it went; None for a step that only asks something."""
    status, gate = result.patch.status, result.patch.gate
    if status in ("idle", "in_progress") or not result.ended_at:
        return None
    where = TrajectoryState(
        phase=before.phase,
        rounds={name: actor.round for name, actor in before.actors.items() if actor.round},
        gates={name: one.passed for name, one in before.meta.gates.items()},
    )
    return TrajectoryLine(
        timestamp=result.ended_at,
        visit=visit,
        state=where,
        action=step,
        outcome=status,
        gate=gate.passed if gate else None,
        issues=len(gate.reasons) if gate else 0,
        cost=result.cost,
    )


def folded(
    task_id: str, start: str, recorded: Iterable[tuple[str, str | None]], reverts: int = 0
) -> PipelineState:
    """The state after what is recorded: steps of the journal and their results, in order.

    `reverts`: how often the work was taken back so far, by whoever.
    """
    state = PipelineState(task_id=task_id, phase=start)
    for text, result in recorded:
        name = step_name.parse(text).pipeline
        if name is None:
            continue
        given = None if result is None else json.loads(result)
        if name.kind == "step":
            state = state.begun(name.step) if name.number == 1 else state
            if given is not None:
                state = state.after(name.step, StepResult.model_validate(given).patch)
        elif given is not None:
            state = _moved(state, name.kind, given)
    return state.reverted(reverts) if reverts > state.meta.reverts else state


def _moved(state: PipelineState, kind: str, given: Mapping[str, str | int]) -> PipelineState:
    if kind == "enter":
        return state.entered(str(given["phase"]), int(given["reverts"]))
    return state.overridden(str(given["gate"]), str(given["why"]))
