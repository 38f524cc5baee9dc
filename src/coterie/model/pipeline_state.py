"""The state of a pipeline: its phase, the state of each actor, and the existing artifacts.

It is folded from the pipeline's steps in the journal and stored nowhere else: `state.json` is only
written from it, for people and programs to read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Literal, cast, get_args

from pydantic import BaseModel, ConfigDict, Field

from coterie.model import step_name
from coterie.model.artifact import GateDecision
from coterie.model.interaction import Ask
from coterie.model.phase_graph import PIPELINE_STEPS, PhaseGraph
from coterie.model.trajectory import StepCost, TrajectoryLine, TrajectoryState

Command = Literal["plan", "planreview", "meeting", "codegen", "review", "test", "accept", "revert"]
"""What a user may have done next at the end of a phase."""
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
"""The actor of each step."""
_PLANNING = "planning"
_ROUNDS = frozenset({"workshop", "codegen", "code_review", "test_run", "accept"})
"""The steps that begin a new round of their actor."""
_OF_CHANGE = frozenset(
    name
    for step in ("codegen", "code_review", "review_meeting", "test_run")
    for name in PIPELINE_STEPS[step].writes
)
"""The artifacts about a change: after a revert they say nothing about the next change."""


class _Value(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", validate_by_name=True, serialize_by_alias=True
    )


class PipelineSettings(_Value):
    """What a pipeline was started with; stored with its task."""

    graph: PhaseGraph
    accept: str | None = None
    """If set, the change is accepted without asking once every gate has passed, with this commit
    message."""
    evals: tuple[str, ...] = ()
    """Test commands given by the user, which replace those of the project."""
    attended: bool = False
    """Whether the user is asked at the end of every phase what comes next."""


class ActorState(_Value):
    """The state of one actor of the pipeline."""

    round: int = 0
    status: ActorStatus = "idle"
    reason: str = ""
    failed_step: str = Field(default="", alias="failedStep")


class PipelineMeta(_Value):
    """The state of the pipeline as a whole."""

    status: Literal["active", "redo", "done"] = "active"
    gates: Mapping[str, GateDecision] = Field(default_factory=dict[str, GateDecision])
    """The last decision of each gate."""
    overrides: Mapping[str, str] = Field(default_factory=dict[str, str])
    """Why the user continued despite a failed gate, by gate."""
    reverts: int = 0
    """How often the work was reverted."""
    tree: str = ""
    """The hash of the files that the user was last asked to accept."""
    message: str = ""
    """The commit message that the user gave."""
    commit: str = ""
    """The commit of the accepted change on the user's branch."""


class StepMessage(_Value):
    """A message to a step when it runs, from the user or from the step before it."""

    sender: Literal["user", "agent"]
    content: str = ""
    choice: str = ""
    """The option that was chosen, if it answers a question."""
    answers: tuple[str, ...] = ()
    """The answer to each question, if several were asked."""
    said: str = ""
    """What people have said since a step last made use of that."""

    @property
    def text(self) -> str:
        """All of it, for a member to read."""
        return lines(self.content, self.said)


class StatePatch(_Value):
    """What a step changes in the state."""

    status: ActorStatus = "completed"
    reason: str = ""
    artifacts: Mapping[str, str] = Field(default_factory=dict[str, str])
    """The files of artifacts under the task's artifacts, by artifact name."""
    gate: GateDecision | None = None
    overrides: Mapping[str, str] = Field(default_factory=dict[str, str])
    """Why the user continued despite a failed gate, by gate."""
    trees: Mapping[str, str] = Field(default_factory=dict[str, str])
    """The hash of the files after the change was moved onto a branch that had advanced, by gate
    whose decision still holds for it."""
    tree: str = ""
    message: str = ""
    commit: str = ""


class StepResult(_Value):
    """The result of a step: a state change, log lines for people, suggestions, and questions."""

    patch: StatePatch = StatePatch()
    logs: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    """Suggested next actions, for people: such as `suggest_plan_review`, `call_review`,
    `run_tests`, `ask_user`.  Nothing is decided by them."""
    command: Command | None = None
    """What the user wants done next instead of the phase's other steps."""
    needs_user: bool = False
    """Whether another round could not pass the gate either, so that the user must decide."""
    questions: tuple[Ask, ...] = ()
    """Questions whose answers are passed to the step when it runs again."""
    ended_at: str = ""
    cost: StepCost = Field(default_factory=StepCost)
    """What it used; like `ended_at`, filled in by the code that runs the step."""

    @classmethod
    def stored(cls, value: Mapping[str, object]) -> StepResult:
        """Read a recorded result; before `command` there was, `actions` said it too."""
        result = cls.model_validate(value)
        if "command" in value:
            return result
        command = next((one for one in get_args(Command) if one in result.actions), None)
        needs_user = "ask_user" in result.actions
        return result.model_copy(update={"command": command, "needs_user": needs_user})


class PipelineState(_Value):
    """The state of a pipeline, as written to `state.json`."""

    task_id: str
    phase: str
    actors: Mapping[Actor, ActorState] = Field(
        default_factory=lambda: {name: ActorState() for name in ACTORS}
    )
    artifacts: Mapping[str, object] = Field(default_factory=dict[str, object])
    """The files of artifacts under the task's artifacts, by name, nested at the dots."""
    meta: PipelineMeta = PipelineMeta()

    @property
    def files(self) -> dict[str, str]:
        """The file of each existing artifact, by its full name."""
        return dict(_flat(self.artifacts))

    def allows(self, step: str) -> bool:
        """Whether a step can run: all the artifacts that it reads exist."""
        return PIPELINE_STEPS[step].reads <= self.files.keys()

    def passed(self, gate: str) -> bool:
        """Whether a gate is open: it passed, or the user overrode it."""
        decided = self.meta.gates.get(gate)
        return decided is not None and (decided.passed or gate in self.meta.overrides)

    def entered(self, phase: str, reverts: int) -> PipelineState:
        """The state at the beginning of a phase, after this many reverts."""
        state = self.reverted(reverts) if reverts > self.meta.reverts else self
        return state.model_copy(update={"phase": phase})

    def begun(self, step: str) -> PipelineState:
        """The state while a step runs."""
        name = ACTOR_OF[step]
        rounds = self.actors[name].round + (step in _ROUNDS)
        begun = ActorState(round=rounds, status="in_progress")
        state = self._with_actor(name, begun)
        if name == "codegen" and self.meta.status == "redo":
            return state._with_meta(status="active")
        return state

    def after(self, step: str, patch: StatePatch) -> PipelineState:
        """The state after a step, with its changes applied."""
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
        """The state after the user overrode a failed gate."""
        return self._with_meta(overrides={**self.meta.overrides, gate: why})

    def reverted(self, reverts: int) -> PipelineState:
        """The state after the task's change was reverted."""
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
        others = {name: why for name, why in self.meta.overrides.items() if name != decision.gate}
        return self._with_meta(gates=gates, overrides=others)

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


def lines(*texts: str) -> str:
    """These texts below each other, without those that are empty."""
    return "\n".join(filter(None, texts))


def _flat(nested: Mapping[str, object], above: str = "") -> Iterator[tuple[str, str]]:
    for name, value in nested.items():
        if isinstance(value, str):
            yield f"{above}{name}", value
        else:
            yield from _flat(cast("Mapping[str, object]", value), f"{above}{name}.")


def _nested(flat: Mapping[str, str]) -> dict[str, object]:
    nested: dict[str, object] = {}
    for name, file in flat.items():
        group, _, key = name.rpartition(".")
        place = cast("dict[str, object]", nested.setdefault(group, {})) if group else nested
        place[key] = file
    return nested


def trajectory_line(
    visit: int, step: str, before: PipelineState, result: StepResult
) -> TrajectoryLine | None:
    """The trajectory entry for a step: its state, action and outcome; None if it only asked."""
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
    """The state after the recorded journal steps and their results, in order.

    `reverts` is how often the work has been reverted so far, by anyone.
    """
    state = PipelineState(task_id=task_id, phase=start)
    for text, result in recorded:
        name = step_name.parse(text).pipeline
        if name is None:
            continue
        value = None if result is None else json.loads(result)
        if name.kind == "step":
            state = state.begun(name.step) if name.number == 1 else state
            if value is not None:
                state = state.after(name.step, StepResult.model_validate(value).patch)
        elif value is not None:
            state = _moved(state, name.kind, value)
    return state.reverted(reverts) if reverts > state.meta.reverts else state


def _moved(state: PipelineState, kind: str, value: Mapping[str, str | int]) -> PipelineState:
    if kind == "enter":
        return state.entered(str(value["phase"]), int(value["reverts"]))
    return state.overridden(str(value["gate"]), str(value["why"]))
