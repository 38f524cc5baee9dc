"""Subtasks: a part of a member's work that another member does, as a task of its own."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Container

from coterie.engine.attempt import Attempt
from coterie.engine.questions import Questions
from coterie.engine.task_run import TaskRun
from coterie.model import instant, step_name
from coterie.model.about import Subtask
from coterie.model.conversation import END, Message
from coterie.model.interaction import COTERIE, REJECT, Ask, Option, Response
from coterie.model.journal import CloseStep, OpenStep, Step
from coterie.model.task import Caps, Stopped, TaskCreated
from coterie.model.team import Member
from coterie.model.update import Delegated
from coterie.ports import Parked, RunChild


class Subtasks:
    """Hands out subtasks: asks who should do each one, and returns what came of it."""

    def __init__(
        self,
        run: TaskRun,
        questions: Questions,
        run_child: RunChild,
        locks: defaultdict[str, asyncio.Lock],
    ) -> None:
        self._run = run
        self._questions = questions
        self._run_child = run_child
        self._locks = locks
        """By member: held while it takes a turn."""
        self._goals: dict[str, str] = {}
        """By name: what was handed out in this run."""
        self._steps: dict[str, Step] = {}
        """By name: the subtasks that this run has begun, with the results of those it has done."""

    async def hand_out(self, attempt: Attempt, asked: Delegated) -> Response:
        """Return what the other member said, as `input_value`; a rejection if nobody does it."""
        others = [one for one in self._run.task.team.ai_members if one.id != attempt.member.id]
        if not others:
            return self._response(asked.key, REJECT, "There is no other member in this team.")
        name = step_name.asked(attempt.name, asked.key)
        earlier = self._goals.setdefault(name, asked.goal)
        if earlier != asked.goal:
            why = f"Its key, {asked.key}, is that of another subtask of this turn: {earlier}."
            return self._response(asked.key, REJECT, f"{why} Ask again.")
        busy = {one.id for one in others if self._locks[one.id].locked()}
        question = _who(attempt.member, asked, others, busy)
        answer = await self._questions.ask(name, question, interrupts=attempt.interrupts)
        response = answer.response
        member = next((one for one in others if one.id == response.selected_option_id), None)
        if member is None or self._questions.interrupts > attempt.interrupts:
            return response.model_copy(update={"selected_option_id": REJECT})
        reply = await self._reply(name, member, asked.goal, attempt.task_id)
        if reply is None:
            why = f"{member.id} is busy with a turn of its own. Do it yourself, or ask again later."
            return self._response(asked.key, REJECT, why)
        return self._response(asked.key, member.id, reply)

    async def _reply(self, name: str, member: Member, goal: str, parent: str) -> str | None:
        """What the member says about the goal; None if it takes another turn now.

        That turn is not waited for: it could itself wait for this one, for a subtask or a budget.
        """
        step = self._begin(step_name.subtask(name), member, goal)
        if step.result is not None:
            return str(json.loads(step.result))
        lock = self._locks[member.id]
        try:
            async with asyncio.timeout(0):  # unless somebody has it, or is next to get it
                await lock.acquire()
        except TimeoutError:
            return None
        try:
            return await self._done(step, member, goal, parent)
        finally:
            lock.release()

    def _begin(self, name: str, member: Member, goal: str) -> Step:
        """The subtask's step: the same one if the agent, perhaps retried, hands it out again."""
        if name not in self._steps:
            self._steps[name], _ = self._run.journal.begin(name, "step", [member.id, goal])
        return self._steps[name]

    async def _done(self, step: Step, member: Member, goal: str, parent: str) -> str:
        run, task = self._run, self._run.task
        child = step.input or f"{task.task_id}.{run.journal.new_subtask()}"
        run.parts[child] = True  # from here on an interrupt reaches it
        try:
            if not step.input:
                step = self._steps[step.name] = step._replace(input=child)
                await run.commit(OpenStep(step))
            # Its process in this task would share a home with its process in the subtask.
            await run.channels.close(member)
            result = await self._run_child(self._created(child, member, goal, parent))
        finally:
            del run.parts[child]
        if result.status == "waiting":
            raise Parked(result.stop or Stopped(result.reason))
        reply = await self._last_word(child, member)
        outcome = reply if result.status == "completed" else f"{result.status}: {result.summary}"
        self._steps[step.name] = step._replace(result=json.dumps(outcome))
        run.post(CloseStep(task.task_id, step.name, json.dumps(outcome)))
        return outcome

    def _created(self, child: str, member: Member, goal: str, parent: str) -> TaskCreated:
        task = self._run.task
        return TaskCreated(
            task_id=child,
            at=instant.now(),
            session_id=task.session_id,
            parent_id=parent,
            workflow="solo",
            workflow_version=1,
            goal=self._run.services.redactor.text(goal),  # it is stored as it is
            author=task.author,
            team=task.team.only(member),
            team_file=task.team_file,
            caps=Caps(),
            rehearsal=task.rehearsal,
            script=task.script,
            root=task.root,
        )

    async def _last_word(self, child: str, member: Member) -> str:
        messages: list[Message] = await self._run.storage.conversation.messages(child)
        return next((one.text for one in reversed(messages) if one.member == member.id), "")

    def _response(self, key: str, choice: str, text: str) -> Response:
        return Response(
            interaction_id=key,
            task_id=self._run.task.task_id,
            author_actor_id=COTERIE,
            selected_option_id=choice,
            input_value=text,
        )


async def interrupt_parts(run: TaskRun) -> None:
    """Interrupt the tasks that a task waits for; one that would then ask how to go on ends."""
    for part, ends in list(run.parts.items()):
        for kind in ("end", "interrupt") if ends else ("interrupt",):
            await run.storage.inbox.request(part, kind, run.task.author, END)


def _who(asker: Member, asked: Delegated, others: list[Member], busy: Container[str]) -> Ask:
    return Ask(
        author=asker.id,
        kind="Select",
        purpose="assign_subtask",
        about=Subtask(asker=asker.id, proposed=asked.member),
        content=asked.goal,
        options=(
            *(
                Option(
                    id=one.id,
                    label=f"{one.id} does it",
                    style="primary" if one.id == asked.member else "plain",
                    detail="busy now" if one.id in busy else "",
                )
                for one in others
            ),
            Option(id=REJECT, label="nobody", style="danger"),
        ),
        intent=[asked.goal, asked.member],
    )
