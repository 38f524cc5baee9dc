"""The workflows `chat` and `solo`, and what the user may do about a turn that fails.

In a chat members speak in turn until a human ends it or a cap is reached; solo is one member with
one job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from coterie.model import step_name
from coterie.model.about import FailedTurn
from coterie.model.conversation import (
    RUNAWAY,
    YOU,
    Message,
    Rounds,
    following,
    mentioned,
    summary_of,
)
from coterie.model.interaction import Answer, Ask, Option
from coterie.model.task import BY_PERSON, Ended, Stopped, TaskCreated
from coterie.model.team import Member, Team
from coterie.model.update import TurnFailed
from coterie.ports import Context

STOP = Option(id="stop", label="stop and keep", style="danger")


class Chat:
    """A team that talks."""

    name = "chat"
    version = 2
    """Since 2, a turn that was broken off gives the floor to the person in every chat."""

    async def run(self, task: TaskCreated, context: Context) -> Ended:
        return await _Talk(task, context).to_its_end()


class _Talk:
    def __init__(self, task: TaskCreated, context: Context) -> None:
        self._context = context
        self._team = task.team
        self._caps = task.caps
        self._waits_after_cut = task.caps.floor == "ask" or task.workflow_version >= 2
        self._order = task.team.in_order
        self._ai = task.team.ai_members
        self._rounds = Rounds(frozenset(member.id for member in self._ai))
        self._turns = 0
        self._last_member = task.author
        """Whose turn it last was: the order goes on from there."""
        self._newest: Message | None = None
        self._stand_ins: dict[str, Member] = {}
        self._listener: Member | None = None
        """Which AI member spoke last."""
        self._called: list[Member] = []
        """Who was mentioned and has not spoken since, where a team is routed so."""

    async def to_its_end(self) -> Ended:
        opening = self._context.opening
        if opening is not None:
            self._hear(opening)
        while True:
            for message in await self._context.heard(step_name.said(self._turns + 1)):
                self._hear(message)
            following = self._ended() or self._next()
            if isinstance(following, Ended):
                return following
            await self._turn(following)

    def _ended(self) -> Ended | None:
        newest = self._newest
        if newest is not None and newest.done and self._is_human(newest.member):
            return self._end(BY_PERSON)
        if self._caps.max_turns is not None and self._turns >= self._caps.max_turns:
            return self._end("max_turns")
        return None

    def _next(self) -> Member | Ended:
        newest = self._newest
        # Only a finished turn hands the word on; whoever broke it off says how it should go on.
        if newest is None or (newest.cut and self._waits_after_cut):
            return _human(self._team)
        member = self._following(newest)
        if member is None:
            return _human(self._team) if self._caps.floor == "ask" else self._end("nobody_named")
        if member.type == "human":
            return member
        cap = self._cap_reached()
        if cap is None:
            return member
        if self._caps.floor == "ask":
            return _human(self._team)
        # A round in which everybody was skipped is over, too.
        return self._end("skipped" if self._is_human(newest.member) else cap)

    def _following(self, newest: Message) -> Member | None:
        """Whose turn it is by the team's routing; None: nobody's, so the person has the floor."""
        named = self._team.get(newest.next) if newest.next else None
        if self._team.routing == "round_robin":
            return named or following(self._order, self._last_member)
        if self._team.routing == "mention":
            named = self._called[0] if self._called else None
        if named is None and self._is_human(newest.member):
            return self._spoken_with()
        return named

    def _spoken_with(self) -> Member:
        """Whom a person means who names nobody: the member that spoke last, else the first."""
        return self._listener or self._ai[0]

    def _cap_reached(self) -> str | None:
        caps, rounds = self._caps, self._rounds
        if caps.max_rounds is not None and rounds.over >= caps.max_rounds:
            return "max_rounds"
        if caps.max_turns is None and rounds.turns >= RUNAWAY:
            return "runaway"
        return None

    def _is_human(self, member_id: str) -> bool:
        member = self._team.get(member_id)
        return member is None or member.type == "human"

    def _end(self, reason: str) -> Ended:
        return Ended(reason, summary_of(self._newest.text) if self._newest else "")

    def _hear(self, message: Message) -> None:
        """Somebody said something that was nobody's turn."""
        self._newest = message
        self._last_member = message.member
        self._rounds = self._rounds.after(self._team.get(message.member))
        self._call(message)

    def _call(self, message: Message) -> None:
        """Keep who is spoken to; those who were before and have not spoken yet come after them."""
        if self._team.routing != "mention":
            return
        now = mentioned(self._team, message)
        # A person begins anew: what members had asked of each other is over.
        before = [] if self._is_human(message.member) else self._called
        left = [one for one in before if one not in now and one.id != message.member]
        self._called = [*now, *left]

    async def _turn(self, member: Member) -> None:
        """One member's turn: its reply, that of whoever takes its place, or nothing if skipped."""
        self._turns += 1
        speaker = self._stand_ins.get(member.id, member)
        reply, speaker = await turn_or_skip(self._context, self._turns, speaker, self._ai)
        self._newest = reply or self._newest
        self._called = [one for one in self._called if one.id != member.id]
        if reply is not None:
            self._call(reply)
        if member.type == "ai":
            self._listener = member
        self._stand_ins[member.id] = speaker
        # A stand-in speaks in the member's place: the order goes on from there.
        self._last_member = member.id
        self._rounds = self._rounds.after(member)


class Solo:
    """One member does what was asked for; it may hand parts of it to the others."""

    name = "solo"
    version = 1

    async def run(self, task: TaskCreated, context: Context) -> Ended:
        """Work to the end; what people say meanwhile is a further turn.

        A turn that was broken off is not the end: whoever did so is asked how it should go on.
        """
        member = task.team.member(task.member) if task.member else task.team.ai_members[0]
        number, reply = 1, await _reply(context, 1, member)
        while reply is not None:
            said = await context.heard(step_name.said(number))
            word = said[-1] if said else None
            if word is None and reply.cut:
                number += 1
                word = await _reply(context, number, _human(task.team))
            summary = summary_of(reply.text)
            if word is None:
                return Ended("done", summary)
            if word.done:
                return Ended(BY_PERSON, summary, failed=reply.cut)
            number += 1
            reply = await _reply(context, number, member)
        return Ended("skipped", f"{member.id} could not do it", failed=True)


def _human(team: Team) -> Member:
    """Who gets the floor: the team's human, else the person at the terminal."""
    humans = [member for member in team.in_order if member.type == "human"]
    return humans[0] if humans else Member(id=YOU, name=YOU, display_name="You", type="human")


async def _reply(context: Context, number: int, member: Member) -> Message | None:
    """What a member says in a turn; None where that is skipped."""
    reply, _ = await turn_or_skip(context, number, member)
    return reply


async def answer_or_stop(context: Context, name: str, question: Ask) -> Answer:
    """The user's answer.  Parks the task where they choose to stop now: a later run finds that
    answer recorded and goes on."""
    answer = await context.ask(name, question)
    if answer.response.selected_option_id == STOP.id and answer.fresh:
        context.park(Stopped("stopped"))
    return answer


async def turn_or_skip(
    context: Context, number: int, speaker: Member, team: Sequence[Member] = ()
) -> tuple[Message | None, Member]:
    """The reply to a turn, and who gave it; no reply where the user skips the turn.

    `team` are those who may take the turns of a member whose agent fails.
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
                Option(id=choice, label=f"{other.id} takes the turns of {speaker.id}")
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
    """The question about a turn that failed; `more` are facts about it besides."""
    about = FailedTurn(
        member=member.id,
        turn=number,
        failure=failure.kind,
        message=failure.message,
        hint=failure.hint,
        **more,
    )
    return Ask(member.id, "Select", about, options=options, content=failure.stderr_tail)
