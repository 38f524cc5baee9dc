"""The workflow `pipeline`: plan, review, code, review, test, accept, by a graph that is data."""

from __future__ import annotations

from coterie.errors import UsageError
from coterie.model.task import Ended, TaskCreated
from coterie.model.team import Team
from coterie.ports import Context


class Pipeline:
    """A goal becomes one commit, phase by phase, each behind its gate."""

    name: str = "pipeline"
    version: int = 1

    async def run(self, task: TaskCreated, context: Context) -> Ended:
        """Carry the goal out."""
        check_pipeline_team(task.team)
        # All that it needs is imported when it runs: other commands only look it up by its name.
        from coterie.workflows.pipeline.runner import PipelineRunner

        return await PipelineRunner(task, context).run()


def check_pipeline_team(team: Team) -> None:
    """Raise UsageError where a team cannot carry a pipeline out."""
    if not team.ai_members:
        problem = f"Team {team.name} has nobody with an agent, and a pipeline needs one."
        raise UsageError(problem, "coterie team add NAME --agent claude")
