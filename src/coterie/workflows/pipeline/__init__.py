"""The workflow `pipeline`: plan, review, code, review, test, accept, by a graph given as data."""

from __future__ import annotations

from coterie.errors import UsageError
from coterie.model.task import Ended, TaskCreated
from coterie.model.team import PIPELINE, Team
from coterie.ports import Context


class Pipeline:
    """Turns a goal into one commit, phase by phase, each with its gate."""

    name: str = PIPELINE
    version: int = 1

    async def run(self, task: TaskCreated, context: Context) -> Ended:
        """Carry out the goal."""
        check_pipeline_team(task.team)
        # Imported only when the workflow runs: other commands just look it up by name.
        from coterie.workflows.pipeline.runner import PipelineRunner

        return await PipelineRunner(task, context).run()


def check_pipeline_team(team: Team) -> None:
    """Raise UsageError if a team cannot carry out a pipeline."""
    if not team.ai_members:
        problem = f"Team {team.name} has no member with an agent; a pipeline needs one."
        raise UsageError(problem, "coterie team add NAME --agent claude")
