"""The workflows `chat` and `solo`, and the user's choices when a turn fails.

In a chat members speak in turn until a human ends it or a cap is reached; solo is one member with
one job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from coterie.errors import UsageError
from coterie.model import step_name
from coterie.model.about import FailedTurn
from coterie.model.conversation import (
    MAX_UNCAPPED_TURNS,
    Message,
    Rounds,
    mentioned,
    next_in_order,
    summary_of,
)
from coterie.model.interaction import STOP_TASK, Answer, Ask, Option
from coterie.model.task import BY_PERSON, Ended, Stopped, TaskCreated
from coterie.model.team import CHAT, SOLO, Member, Team
from coterie.model.update import TurnFailed
from coterie.ports import Context

STOP = Option(id=STOP_TASK, label="stop for now", style="danger")


class Chat:
    """A conversation between the members of a team."""

    name = CHAT
    version = 3
    """Since 2, an interrupted turn gives the floor to the human in every chat; since 3, a skipped
    turn is over even if its member was named."""

    async def run(self, task: TaskCreated, context: Context) -> Ended:
        return await _Conversation(task, context).run()


class _Conversation:
    def __init__(self, task: TaskCreated, context: Context) -> None:
        self._context = context
        self._team = task.team
        self._caps = task.caps
        self._waits_after_cut = task.caps.floor == "ask" or task.workflow_version >= 2
        self._passes_over = task.workflow_version >= 3
        self._order = task.team.in_order
        self._ai = task.team.ai_members
        self._rounds = Rounds(frozenset(member.id for member in self._ai))
        self._turns = 0
        self._last_member = task.author
        """The member who had the last turn: the order continues from there."""
        self._newest: Message | None = None
        self._is_skipped = False
        """Whether the member that the newest message addresses was skipped."""
        self._stand_ins: dict[str, Member] = {}
        self._listener: Member | None = None
        """The AI member that spoke last."""
        self._mentioned: list[Member] = []
        """With routing by mention, the members that were mentioned and have not spoken since."""

    async def run(self) -> Ended:
        opening = self._context.opening
        if opening is not None:
            self._take_message(opening)
        while True:
            for message in await self._context.heard(step_name.messages_before(self._turns + 1)):
                self._take_message(message)
            following = self._ended() or self._next()
            if isinstance(following, Ended):
                return following
            await self._turn(following)

    def _ended(self) -> Ended | None:
        newest = self._newest
        if newest is not None and newest.done and self._team.is_person(newest.member):
            return self._end(BY_PERSON)
        if self._caps.max_turns is not None and self._turns >= self._caps.max_turns:
            return self._end("max_turns")
        return None

    def _next(self) -> Member | Ended:
        newest = self._newest
        # Only a finished turn passes the floor on; a human who interrupts one decides what follows.
        if newest is None or (newest.cut and self._waits_after_cut):
            return self._team.people[0]
        member = self._following(newest)
        reason: str | None = "nobody_named"
        if member is not None:
            reason = None if member.type == "human" else self._cap_reached()
            if reason is None:
                return member
        if self._caps.floor == "ask":
            return self._team.people[0]
        # A round in which everybody was skipped is over, too.
        return self._end("skipped" if self._team.is_person(newest.member) else reason)

    def _following(self, newest: Message) -> Member | None:
        """Return who speaks next by the team's routing; None gives the floor to the human."""
        named = self._team.get(newest.next) if newest.next and not self._is_skipped else None
        if self._team.routing == "round_robin":
            return named or next_in_order(self._order, self._last_member)
        if self._team.routing == "mention":
            named = self._mentioned[0] if self._mentioned else None
        if named is None and self._team.is_person(newest.member) and not self._is_skipped:
            return self._spoken_with()
        return named

    def _spoken_with(self) -> Member:
        """Return whom a human addresses without naming anybody: the last AI speaker, else the
        first AI member."""
        return self._listener or self._ai[0]

    def _cap_reached(self) -> str | None:
        caps, rounds = self._caps, self._rounds
        if caps.max_rounds is not None and rounds.over >= caps.max_rounds:
            return "max_rounds"
        if caps.max_turns is None and rounds.turns >= MAX_UNCAPPED_TURNS:
            return "runaway"
        return None

    def _end(self, reason: str) -> Ended:
        return Ended(reason, summary_of(self._newest.text) if self._newest else "")

    def _take_message(self, message: Message) -> None:
        """Take in a message that somebody sent outside a turn."""
        self._newest, self._is_skipped = message, False
        self._last_member = message.member
        self._rounds = self._rounds.after(self._team.get(message.member))
        self._call(message)

    def _call(self, message: Message) -> None:
        """Queue the members a message mentions, ahead of those who were mentioned before."""
        if self._team.routing != "mention":
            return
        now = mentioned(self._team, message)
        # A message by a human starts over: earlier mentions between members are dropped.
        before = [] if self._team.is_person(message.member) else self._mentioned
        earlier = [one for one in before if one not in now and one.id != message.member]
        self._mentioned = [*now, *earlier]

    async def _turn(self, member: Member) -> None:
        """Take one member's turn: its own reply, its stand-in's, or none if it is skipped."""
        self._turns += 1
        speaker = self._stand_ins.get(member.id, member)
        reply, speaker = await turn_or_skip(self._context, self._turns, speaker, self._ai)
        self._newest = reply or self._newest
        self._is_skipped = reply is None and self._passes_over
        self._mentioned = [one for one in self._mentioned if one.id != member.id]
        if reply is not None:
            self._call(reply)
        if member.type == "ai":
            self._listener = member
        self._stand_ins[member.id] = speaker
        # A stand-in speaks in the member's place: the order continues from the member.
        self._last_member = member.id
        self._rounds = self._rounds.after(member)


class Solo:
    """One member does the job; it may hand parts of it to the others."""

    name = SOLO
    version = 1

    async def run(self, task: TaskCreated, context: Context) -> Ended:
        """Work until the job is done; what people say meanwhile causes a further turn.

        An interrupted turn does not end the task: the human is asked how to continue.
        """
        member = task.team.member(task.member) if task.member else first_ai(task.team)
        number, reply = 1, await _reply(context, 1, member)
        while reply is not None:
            messages = await context.heard(step_name.messages_before(number))
            message = messages[-1] if messages else None
            if message is None and reply.cut:
                number += 1
                message = await _reply(context, number, task.team.people[0])
            summary = summary_of(reply.text)
            if message is None:
                return Ended("done", summary)
            if message.done:
                return Ended(BY_PERSON, summary, failed=reply.cut)
            number += 1
            reply = await _reply(context, number, member)
        return Ended("skipped", f"{member.id} could not do it", failed=True)


def first_ai(team: Team) -> Member:
    """Return the first member with an agent; raises UsageError if there is none."""
    if not team.ai_members:
        raise UsageError(f"Team {team.name} has no member with an agent.", "coterie team add")
    return team.ai_members[0]


async def _reply(context: Context, number: int, member: Member) -> Message | None:
    """Return a member's reply in a turn; None if the turn is skipped."""
    reply, _ = await turn_or_skip(context, number, member)
    return reply


async def answer_or_stop(context: Context, name: str, question: Ask) -> Answer:
    """Return the user's answer.

    Parks the task if they choose to stop now: a later run finds that answer recorded and continues.
    """
    answer = await context.ask(name, question)
    if answer.response.selected_option_id == STOP.id and answer.fresh:
        context.park(Stopped("stopped"))
    return answer


async def turn_or_skip(
    context: Context, number: int, speaker: Member, team: Sequence[Member] = ()
) -> tuple[Message | None, Member]:
    """Return the reply to a turn and who gave it; no reply if the user skips the turn.

    `team` are the members who may take over the turns of one whose agent fails.
    """
    for tries in count():
        outcome = await context.turn(step_name.turn(number, tries), speaker, number)
        if isinstance(outcome, Message):
            return outcome, speaker
        others = {f"replace-{one.id}": one for one in team if one.id != speaker.id}
        options = (
            Option(id="retry", label="try again", style="primary"),
            Option(id="skip", label=f"skip {speaker.id} this time"),
            *(
                Option(id=choice, label=f"let {other.id} take {speaker.id}'s turns")
                for choice, other in others.items()
            ),
            STOP,
        )
        question = replace(failed_turn(speaker, outcome, number, options), if_ended="skip")
        answer = await answer_or_stop(context, step_name.failed_turn(number, tries + 1), question)
        choice = answer.response.selected_option_id or ""
        if choice == "skip":
            break
        speaker = others.get(choice, speaker)
    return None, speaker


def failed_turn(
    member: Member, failure: TurnFailed, number: int, options: tuple[Option, ...], **more: Any
) -> Ask:
    """Build the question about a failed turn; `more` are further facts about it."""
    about = FailedTurn(
        member=member.id,
        turn=number,
        failure=failure.kind,
        message=failure.message,
        hint=failure.hint,
        **more,
    )
    return Ask(member.id, "Select", about, options=options, content=failure.stderr_tail)
