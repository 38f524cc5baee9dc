"""A build: its graph, where it is, its gates."""

from __future__ import annotations

from fastapi import APIRouter

from coterie.model.artifact import GateDecision
from coterie.model.phase_graph import PIPELINE_STEPS, PhaseGraph
from coterie.model.pipeline_state import ActorState, PipelineState
from coterie.web.hub import TheProject
from coterie.web.parameters import TheTask
from coterie.web.schema import Shown

router: APIRouter = APIRouter(tags=["pipeline"])


class ActorShown(Shown):
    """How one actor of a build stands."""

    round: int
    status: str
    reason: str
    failed_step: str

    @classmethod
    def of(cls, actor: ActorState) -> ActorShown:
        """An actor's state."""
        return cls.model_validate(actor.model_dump(by_alias=False))


class PipelineShown(Shown):
    """A build as it stands."""

    task: str
    graph: PhaseGraph
    steps: dict[str, str]
    """What each step of the graph does."""
    phase: str
    status: str
    actors: dict[str, ActorShown]
    gates: dict[str, GateDecision]
    """By gate: the last decision, with its reasons."""
    overrides: dict[str, str]
    artifacts: dict[str, str]
    """By name: the file below the task's artifacts."""
    reverts: int
    tree: str
    message: str
    commit: str

    @classmethod
    def of(cls, task: str, graph: PhaseGraph, state: PipelineState) -> PipelineShown:
        """A build."""
        used = {step for phase in graph.phases.values() for step in phase.steps}
        meta = state.meta
        return cls(
            task=task,
            graph=graph,
            steps={name: PIPELINE_STEPS[name].what for name in sorted(used)},
            phase=state.phase,
            status=meta.status,
            actors={name: ActorShown.of(one) for name, one in state.actors.items()},
            gates=dict(meta.gates),
            overrides=dict(meta.overrides),
            artifacts=dict(state.files),
            reverts=meta.reverts,
            tree=meta.tree,
            message=meta.message,
            commit=meta.commit,
        )


@router.get("/projects/{project}/tasks/{task}/pipeline")
async def show_pipeline(app: TheProject, task: TheTask) -> PipelineShown:
    """Where a build is; what comes next is said by answering its question."""
    found = await app.pipelines.view(task)
    return PipelineShown.of(task, found.graph, found.state)
