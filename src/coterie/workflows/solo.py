"""The workflow `solo`: one member, one job."""

from __future__ import annotations

from itertools import count

from coterie.model.message import Message
from coterie.model.task import Ended, TaskCreated
from coterie.ports import Context
from coterie.workflows.failed_turn import about_failure


class Solo:
    """The team's only AI member does what was asked for."""

    name = "solo"
    version = 1

    async def run(self, task: TaskCreated, context: Context) -> Ended:
        """Work to the end; what people say meanwhile is a further turn."""
        member = task.team.ai_members[0]
        number, newest = 1, await self._turn(context, task, 1)
        while newest is not None and await context.heard(f"heard/{number}"):
            number += 1
            newest = await self._turn(context, task, number)
        if newest is None:
            return Ended("skipped", f"{member.id} could not do it")
        return Ended("done", newest.text.strip().partition("\n")[0][:200])

    async def _turn(self, context: Context, task: TaskCreated, number: int) -> Message | None:
        """The member's reply; None where the user gave up on it."""
        member = task.team.ai_members[0]
        name = f"turn/{number}"
        for tries in count(1):
            outcome = await context.turn(name, member, number)
            if isinstance(outcome, Message):
                return outcome
            question = about_failure(member, outcome, [], number)
            answer = await context.ask(f"turn/{number}/failed/{tries}", question)
            choice = answer.response.selected_option_id
            if choice == "stop" and answer.fresh:
                context.park("stopped")  # a later run finds the answer and tries again
            if choice == "skip":
                return None
            name = f"turn/{number}/again/{tries}"
        return None
