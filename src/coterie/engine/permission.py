"""Permission to use a tool: decided by a rule, else by a person; bound to exactly one call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import anyio.to_thread

from coterie.engine.attempt import Attempt
from coterie.engine.questions import Questions, meaning_of
from coterie.engine.task_run import TaskRun
from coterie.model import instant, step_name
from coterie.model.about import AgentQuestion, ToolPermission
from coterie.model.interaction import (
    APPROVE,
    APPROVE_BY_RULE,
    APPROVE_FOR_TASK,
    COTERIE,
    READ_ONLY,
    REJECT,
    Ask,
    Display,
    Option,
    Response,
)
from coterie.model.journal import Journal, Request, Step
from coterie.model.question_text import call_display
from coterie.model.step_name import PermissionKey, parse
from coterie.model.team import Member, base_of
from coterie.model.tool_call import Action, Ruling, Verdict
from coterie.model.update import Asked, PendingCall
from coterie.tools.permission import decide, decide_at_once, suggest

RISKY = "confirm_risky_action"
_ANSWERS: Mapping[Verdict, str] = {"allow": APPROVE, "allow_read_only": READ_ONLY}


@dataclass
class Grants:
    """What the user has allowed beyond a single call, in this task."""

    exact: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Member and meaning of a call."""
    rules: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """By member: rules."""

    @classmethod
    def recorded(cls, journal: Journal) -> Grants:
        """The grants that the journal has recorded."""
        grants = cls()
        for name, step in journal.asked():
            if isinstance(name.subject, PermissionKey) and step.result is not None:
                response = Response.model_validate_json(step.result)
                grants.add(name.subject.member, step.digest, response)
        return grants

    def add(self, member: str, meaning: str, response: Response) -> None:
        """Add what an answer grants beyond its own question."""
        if response.selected_option_id == APPROVE_FOR_TASK:
            self.exact.add((member, meaning))
        elif response.selected_option_id == APPROVE_BY_RULE and response.input_value:
            self.rules.setdefault(base_of(member), []).append(response.input_value)


class PermissionGate:
    """Guards every tool call that an agent asks about."""

    def __init__(self, run: TaskRun, questions: Questions) -> None:
        self._run = run
        self._questions = questions
        self._grants = Grants.recorded(run.journal)
        self._is_complete = False
        """Whether grants given while nobody ran the task are included."""

    async def answer(self, attempt: Attempt, asked: Asked, call: PendingCall) -> Response:
        """Allow or deny one call, by the rules or by asking the user."""
        if asked.purpose != RISKY:
            return await self._ask(attempt, call, _plain(attempt.member, asked))
        attempt.ask(call)
        response = await self._decided(attempt, asked, call)
        if response.approves:
            attempt.allow(call.call_id)
        else:
            attempt.deny(call.call_id, response.comment or "the user said no")
        return response

    async def _decided(self, attempt: Attempt, asked: Asked, call: PendingCall) -> Response:
        member = attempt.member
        folder = self._run.channels.work_folder(member)
        ruling = await self._ruling(member, call, folder)
        if ruling.verdict != "ask":
            return self._ruled(asked.key, ruling)
        question = await self._question(member, asked, call, folder)
        meaning = meaning_of(question)
        if (member.id, meaning) in self._grants.exact:
            return self._ruled(asked.key, Ruling("allow", "you allowed it for this task"))
        if not (self._is_complete or attempt.earlier.unused.get(meaning)):
            await self._complete_grants()
            return await self._decided(attempt, asked, call)
        response = await self._ask(attempt, call, question)
        self._grants.add(member.id, meaning, response)
        if not response.approves and response.comment and not asked.takes_words:
            await self._tell(response)
        if not response.approves:
            return response
        return response.model_copy(update={"selected_option_id": APPROVE})

    async def _complete_grants(self) -> None:
        """Apply answers that grant more than one call, even if their own request is gone."""
        self._is_complete = True
        for name, step in self._run.journal.asked():
            if isinstance(name.subject, PermissionKey) and step.result is None:
                question = await self._run.storage.inbox.question(step.input)
                if question is not None and question.response is not None:
                    self._grants.add(name.subject.member, step.digest, question.response)

    async def permits(self, name: str, member: Member, call: PendingCall) -> bool:
        """Whether Coterie itself may do something on a member's behalf."""
        folder = call.action.cwd if call.action else call.cwd
        ruling = await self._ruling(member, call, folder)
        if ruling.verdict != "ask":
            return ruling.verdict == "allow"  # what Coterie runs itself is never read-only
        shown = Display(
            title="Run a check that the member asks for", content=call.said or str(call.input)
        )
        asked = Asked(call.call_id, "Confirm", RISKY, shown, call=call)
        question = await self._question(member, asked, call, folder)
        meaning = meaning_of(question)
        if (member.id, meaning) in self._grants.exact:
            return True
        response = (await self._questions.ask(name, question)).response
        self._grants.add(member.id, meaning, response)
        return response.approves

    async def _question(self, member: Member, asked: Asked, call: PendingCall, folder: str) -> Ask:
        # The rule to offer depends on what is in the folder: reading that must not block the loop.
        action = call.action
        guarded = self._run.services.guarded
        offer = partial(suggest, action, Path(folder), guarded) if action else str
        rule = await anyio.to_thread.run_sync(offer)
        if self._run.services.redactor.text(rule) != rule:
            rule = ""  # a rule that holds a secret could not be stored
        return _risky(self._run.task.task_id, member, asked, call, rule)

    async def _ruling(self, member: Member, call: PendingCall, folder: str) -> Ruling:
        action = call.action or Action("other", call.name, call.cwd)
        team = self._run.task.team.permissions
        known = decide_at_once(action, member.permissions, team)
        if known is not None:
            return known
        granted = tuple(self._grants.rules.get(base_of(member.id), ()))
        guarded = self._run.services.guarded
        ruling = await anyio.to_thread.run_sync(
            decide, action, member.permissions, team, Path(folder), granted, guarded
        )
        if ruling.verdict == "allow" and call.must_ask and member.permissions.mode != "full":
            return Ruling("ask", "no sandbox confines it")
        return ruling

    def _ruled(self, key: str, ruling: Ruling) -> Response:
        answer = _ANSWERS.get(ruling.verdict, REJECT)
        return Response(
            interaction_id=key,
            task_id=self._run.task.task_id,
            author_actor_id=COTERIE,
            selected_option_id=answer,
            comment=f"not permitted here: {ruling.because}" if answer == REJECT else None,
        )

    async def _ask(self, attempt: Attempt, call: PendingCall, question: Ask) -> Response:
        """An answer for this request: bound to this attempt, its tool, input and folder."""
        member = attempt.member.id
        name = step_name.permission(attempt.name, attempt.number, call.key, member)
        meaning = meaning_of(question)
        unused = attempt.earlier.take_unused(meaning)
        if unused is not None:
            await self._questions.reuse(name, question, *unused)
            return unused[1]
        before = attempt.earlier.delivered.get(meaning)
        if before is not None and call.is_untouched and _call_of(before.step) == call.key:
            del attempt.earlier.delivered[meaning]  # used once, like any answer
            await self._questions.reuse(name, question, before.step, before.response)
            return before.response
        if before is not None:
            question = _once_more(question, before.at)
        return (await self._questions.ask(name, question, interrupts=attempt.interrupts)).response

    async def _tell(self, response: Response) -> None:
        """Tell an agent why a person denied its call, if its protocol has no place for that."""
        if not response.by_person:  # it was withdrawn
            return
        task_id, text = self._run.task.task_id, response.comment or ""
        # Who answers at a terminal speaks for the team's human, and workflows listen to members.
        people = [one.id for one in self._run.task.team.people]
        author = response.author_actor_id
        author = author if author in people else people[0]
        number = await self._run.storage.inbox.request(task_id, "say", author, text)
        if self._run.is_new(number):
            self._run.queue_message(Request(number, task_id, "say", author, text, instant.now()))


def _call_of(step: Step) -> str:
    subject = parse(step.name).subject
    return subject.call if isinstance(subject, PermissionKey) else ""


def _plain(member: Member, asked: Asked) -> Ask:
    call = asked.call
    return Ask(
        member.id,
        asked.kind,
        AgentQuestion(),
        asked.purpose,
        asked.options,
        asked.validation,
        display=asked.display,
        intent=[call.name, call.input, call.cwd] if call else None,
    )


def _risky(task_id: str, member: Member, asked: Asked, call: PendingCall, rule: str) -> Ask:
    """The question about a risky action: the same choices, whichever agent asks."""
    action = call.action
    what = "exactly this command" if action and action.effect == "run" else "exactly this"
    options = [
        Option(id=APPROVE, label="once", style="primary"),
        Option(id=REJECT, label="deny", style="danger", detail=f"--say tells {member.id} why"),
        Option(
            id=APPROVE_FOR_TASK,
            label="this task",
            detail=f"{what}, {member.id} only, until {task_id} ends",
        ),
    ]
    if rule:
        options.append(Option(id=APPROVE_BY_RULE, label="rule", detail=rule))
    return Ask(
        member.id,
        "Confirm",
        ToolPermission(
            tool=call.name,
            cwd=call.cwd,
            effect=action.effect if action else "other",
            command=action.command if action else "",
            paths=action.paths if action else (),
            target=action.target if action else "",
            why=call.why,
            said=call.said,
            note=call.note,
            ticket=call.ticket,
        ),
        RISKY,
        tuple(options),
        display=asked.display or call_display(call),
        intent=[call.name, call.input, call.cwd],
    )


def _once_more(question: Ask, before: str) -> Ask:
    if not isinstance(question.about, ToolPermission):
        return question
    return replace(question, about=question.about.model_copy(update={"may_have_run_at": before}))
