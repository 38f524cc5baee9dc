"""The workflow `solo`: one member, one job."""

from __future__ import annotations

from coterie.model import step_name
from coterie.model.task import Ended, TaskCreated
from coterie.ports import Context
from coterie.workflows.failed_turns import turn_or_skip


class Solo:
    """The team's only AI member does what was asked for."""

    name = "solo"
    version = 1

    async def run(self, task: TaskCreated, context: Context) -> Ended:
        """Work to the end; what people say meanwhile is a further turn."""
        member = task.team.ai_members[0]
        number = 1
        reply, _ = await turn_or_skip(context, number, member)
        while reply is not None and await context.heard(step_name.said(number)):
            number += 1
            reply, _ = await turn_or_skip(context, number, member)
        if reply is None:
            return Ended("skipped", f"{member.id} could not do it", failed=True)
        return Ended("done", reply.text.strip().partition("\n")[0][:200])
