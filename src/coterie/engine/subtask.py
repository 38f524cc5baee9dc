"""Subtasks: a part of a member's work that another member does, as a task of its own."""

from __future__ import annotations

import json

from coterie.engine.attempt import Attempt
from coterie.engine.questions import Questions
from coterie.engine.task_run import TaskRun
from coterie.model import instant, step_name
from coterie.model.about import Subtask
from coterie.model.conversation import Message
from coterie.model.interaction import REJECT, Ask, Option, Response
from coterie.model.journal import CloseStep, OpenStep
from coterie.model.task import Caps, Stopped, TaskCreated
from coterie.model.team import Member
from coterie.model.update import Delegated
from coterie.ports import Parked, RunChild


class Subtasks:
    """Hands out subtasks: asks who should do each one, and returns what came of it."""

    def __init__(self, run: TaskRun, questions: Questions, run_child: RunChild) -> None:
        self._run = run
        self._questions = questions
        self._run_child = run_child

    async def hand_out(self, attempt: Attempt, asked: Delegated) -> Response:
        """Return what the other member said, as `input_value`; a rejection if nobody does it."""
        others = [one for one in self._run.task.team.ai_members if one.id != attempt.member.id]
        if not others:
            return self._response(asked.key, REJECT, "There is no other member in this team.")
        name = step_name.asked(attempt.name, asked.key)
        response = (await self._questions.ask(name, _who(attempt.member, asked, others))).response
        member = next((one for one in others if one.id == response.selected_option_id), None)
        if member is None:
            return response.model_copy(update={"selected_option_id": REJECT})
        reply = await self._done(name, member, asked.goal, attempt.task_id)
        return self._response(asked.key, member.id, reply)

    async def _done(self, name: str, member: Member, goal: str, parent: str) -> str:
        run, task = self._run, self._run.task
        step, is_new = self._run.journal.begin(step_name.subtask(name), "step", [member.id, goal])
        if step.result is not None:
            return str(json.loads(step.result))
        child = step.input
        if is_new:
            child = f"{task.task_id}.{self._run.journal.new_subtask()}"
            await run.commit(OpenStep(step._replace(input=child)))
        # Its process in this task would share a home with its process in the subtask.
        await run.channels.close(member)
        created = TaskCreated(
            task_id=child,
            at=instant.now(),
            session_id=task.session_id,
            parent_id=parent,
            workflow="solo",
            workflow_version=1,
            goal=run.services.redactor.text(goal),
            author=task.author,
            team=task.team.only(member),
            team_file=task.team_file,
            caps=Caps(),
            rehearsal=task.rehearsal,
            script=task.script,
            root=task.root,
        )
        result = await self._run_child(created)
        if result.status == "waiting":
            raise Parked(result.stop or Stopped(result.reason))
        reply = await self._last_word(child)
        outcome = reply if result.status == "completed" else f"{result.status}: {result.summary}"
        run.post(CloseStep(task.task_id, step.name, json.dumps(outcome)))
        return outcome

    async def _last_word(self, child: str) -> str:
        messages: list[Message] = await self._run.storage.conversation.messages(child)
        return messages[-1].text if messages else ""

    def _response(self, key: str, choice: str, text: str) -> Response:
        return Response(
            interaction_id=key,
            task_id=self._run.task.task_id,
            author_actor_id="coterie",
            selected_option_id=choice,
            input_value=text,
        )


def _who(asker: Member, asked: Delegated, others: list[Member]) -> Ask:
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
                )
                for one in others
            ),
            Option(id=REJECT, label="nobody", style="danger"),
        ),
        intent=[asked.goal, asked.member],
    )
