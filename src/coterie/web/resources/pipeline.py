"""A build: its graph, its current phase, its gates."""

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
    """The state of one actor of a build."""

    round: int
    status: str
    reason: str
    failed_step: str

    @classmethod
    def of(cls, actor: ActorState) -> ActorShown:
        """Convert an actor's state."""
        return cls.model_validate(actor.model_dump(by_alias=False))


class PipelineShown(Shown):
    """The current state of a build."""

    task: str
    graph: PhaseGraph
    steps: dict[str, str]
    """What each step of the graph does."""
    phase: str
    status: str
    actors: dict[str, ActorShown]
    gates: dict[str, GateDecision]
    """The last decision of each gate, with its reasons."""
    overrides: dict[str, str]
    artifacts: dict[str, str]
    """The files of artifacts, below the task's artifacts folder, by name."""
    reverts: int
    tree: str
    message: str
    commit: str

    @classmethod
    def of(cls, task: str, graph: PhaseGraph, state: PipelineState) -> PipelineShown:
        """Convert a build's graph and state."""
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
    """Show where a build is; to decide how it continues, answer its question."""
    view = await app.pipelines.view(task)
    return PipelineShown.of(task, view.graph, view.state)
