"""Turns: opened before they are sent, closed with their reply, tried again when they fail."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import asdict

import anyio

from coterie.engine.attempt import Attempt
from coterie.engine.clocks import TurnClock
from coterie.engine.desk import Desk
from coterie.engine.journal import ASKED
from coterie.engine.questions import Asking
from coterie.errors import AgentMissing
from coterie.model import instant
from coterie.model.interaction import Ask
from coterie.model.journal import (
    AppendAudit,
    AppendMessage,
    CloseStep,
    CloseTurn,
    OpenStep,
    OpenTurn,
    SetMemberState,
    Step,
    Turn,
    Write,
)
from coterie.model.message import Message
from coterie.model.prompt import Prompt, compose
from coterie.model.record import DeltaRecord, ErrorRecord, MemberState, MessageRecord
from coterie.model.team import Member
from coterie.model.update import (
    Asked,
    End,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    Update,
    Waiting,
)
from coterie.ports import Channel

TRIES = 3
"""A turn that fails is tried this often before anybody is asked."""


class TurnRunner:
    """Takes the turns of one run."""

    def __init__(self, desk: Desk, asking: Asking, past: Iterable[Turn]) -> None:
        self._desk = desk
        self._asking = asking
        self._past: dict[str, list[Turn]] = {}
        for turn in past:
            self._past.setdefault(turn.step, []).append(turn)
        self._known: dict[str, tuple[Channel, int]] = {}
        """By member: its channel, and up to which message that knows the conversation."""
        self._running: Channel | None = None

    async def interrupt(self) -> None:
        """Break off the turn that runs now, if one does."""
        if self._running is not None:
            await self._running.interrupt()

    async def take(
        self, step: str, member: Member, number: int, new: Step | None
    ) -> Message | TurnFailed:
        """The reply, or the failure that was left after all tries.  `new`: not recorded yet."""
        past = self._past.pop(step, [])
        failures = sum(turn.outcome == "failed" for turn in past)
        tries = len(past)
        while True:
            tries += 1
            attempt = Attempt(self._desk.task.task_id, step, member, number, tries, new)
            end = await self._try(attempt, past)
            new, past = None, []
            if not isinstance(end, TurnFailed):
                return self._close(attempt, end)
            failures += 1
            last = failures >= TRIES or not end.retry
            self._fail(attempt, end, last=last)
            if last:
                return end

    # -- one try -------------------------------------------------------------------------------

    async def _try(self, attempt: Attempt, past: list[Turn]) -> End:
        desk, member = self._desk, attempt.member
        desk.tell_state(member, "starting")
        try:
            channel = await desk.channels.channel(member, None)
        except AgentMissing as missing:
            await desk.commit(*self._opening(attempt, past, None))
            return TurnFailed("missing", str(missing), retry=False)
        prompt = self._prompt(attempt, channel)
        await desk.commit(*self._opening(attempt, past, channel.thread))
        desk.tell_state(member, "working")
        self._running = channel
        try:
            end = await self._listen(attempt, channel, prompt)
        finally:
            self._running = None
        if isinstance(end, TurnFailed) or not channel.alive:
            await desk.channels.close(member)
        else:
            self._known[member.id] = (channel, len(desk.conversation) + 1)
        return end

    def _opening(self, attempt: Attempt, past: list[Turn], thread: str | None) -> list[Write]:
        now = instant.now()
        writes: list[Write] = [OpenStep(attempt.new)] if attempt.new else []
        for turn in past:
            if turn.outcome is None:  # cut by a crash: what became of it nobody knows
                cut = (turn.task_id, turn.step, turn.attempt)
                writes.append(CloseTurn(*cut, now, "unknown", None, turn.thread))
        token = self._desk.fence.token
        turn = Turn(
            attempt.task_id, attempt.step, attempt.tries, attempt.member.id, token, now, thread
        )
        return [*writes, OpenTurn(turn)]

    def _prompt(self, attempt: Attempt, channel: Channel) -> Prompt:
        said, team = self._desk.conversation, self._desk.task.team
        known = 0
        if channel.holds_past:
            earlier, upto = self._known.get(attempt.member.id, (None, 0))
            # A member that is asked twice in a row gets the newest message once more.
            known = min(upto, len(said) - 1) if earlier is channel else 0
        text = compose(
            said[known:] if known else said,
            self._desk.name_of,
            count=team.context_message_count,
            characters=team.context_characters,
        )
        return Prompt(text, f"{attempt.step}.{attempt.tries}", attempt.tries)

    async def _listen(self, attempt: Attempt, channel: Channel, prompt: Prompt) -> End:
        """Follow the updates to the end.  Past the total limit the turn has failed."""
        desk, member = self._desk, attempt.member
        limits = desk.channels.limits(member)
        with anyio.CancelScope() as scope:
            clock = TurnClock(limits, lambda silent: self._quiet(member, silent), scope.cancel)
            try:
                async with aclosing(channel.take_turn(prompt)) as updates:
                    async for update in updates:
                        if clock.is_quiet:
                            self._keep_state(member, "working", "")
                        clock.touch()
                        if isinstance(update, TurnCompleted | TurnFailed | TurnInterrupted):
                            return update
                        await self._handle(attempt, channel, clock, update)
            finally:
                clock.stop()
        if not scope.cancel_called:
            return TurnFailed("protocol", "its adapter ended without an outcome")
        desk.tell_state(member, "stuck", f"no end within {limits.total:g} s")
        return TurnFailed("timeout", f"no end within {limits.total:g} s: stuck")

    async def _handle(
        self, attempt: Attempt, channel: Channel, clock: TurnClock, update: Update
    ) -> None:
        desk = self._desk
        match update:
            case TextDelta(text):
                desk.observer.saw(DeltaRecord(attempt.task_id, attempt.member.id, text))
            case Asked():
                clock.pause()
                await self._ask(attempt, channel, update)
                clock.resume()
            case Waiting(reason):
                desk.tell_state(attempt.member, "waiting", reason)
            case ToolCallStarted() | ToolCallFinished():
                entry, record = attempt.tool_call(update)
                desk.post(AppendAudit(entry), after=lambda: desk.observer.saw(record))
            case _:
                pass

    async def _ask(self, attempt: Attempt, channel: Channel, asked: Asked) -> None:
        question = Ask(
            attempt.member.id,
            asked.kind,
            asked.display,
            asked.purpose,
            asked.options,
            asked.validation,
        )
        answer = await self._asking.ask(f"{attempt.step}{ASKED}{asked.key}", question)
        await channel.answer(asked.key, answer.response)
        self._desk.tell_state(attempt.member, "working")

    # -- closing -------------------------------------------------------------------------------

    def _close(self, attempt: Attempt, end: TurnCompleted | TurnInterrupted) -> Message:
        desk, member = self._desk, attempt.member
        usage = end.usage if isinstance(end, TurnCompleted) else None
        message = desk.message(
            member.id, end.text, turn=attempt.number, cut=isinstance(end, TurnInterrupted)
        )
        record = MessageRecord.of(message, duration_ms=attempt.milliseconds, usage=usage)
        desk.conversation.append(message)
        desk.post(
            AppendMessage(message),
            self._closing(
                attempt,
                "interrupted" if message.cut else "completed",
                json.dumps(asdict(usage)) if usage else None,
            ),
            CloseStep(message.task_id, attempt.step, f'{{"message":{message.seq}}}'),
            after=lambda: desk.observer.saw(record),
        )
        desk.tell_state(member, "idle")
        return message

    def _fail(self, attempt: Attempt, failure: TurnFailed, *, last: bool) -> None:
        desk = self._desk
        writes: list[Write] = [self._closing(attempt, "failed", failure.message)]
        if last:
            result = json.dumps({"failed": asdict(failure)})
            writes.append(CloseStep(attempt.task_id, attempt.step, result))
        desk.post(*writes)
        desk.tell_state(attempt.member, "gone", failure.message)
        tail = failure.stderr_tail.strip()
        desk.observer.saw(
            ErrorRecord(
                code=f"turn_{failure.kind}",
                message=f"{attempt.member.id} failed turn {attempt.number} "
                f"(try {attempt.tries}): {failure.message}" + (f"\n{tail}" if tail else ""),
                hint=f"coterie show {attempt.task_id}",
                member=attempt.member.id,
                where=desk.channels.folder(attempt.member),
                task=attempt.task_id,
            )
        )

    def _closing(self, attempt: Attempt, outcome: str, detail: str | None) -> CloseTurn:
        known = self._known.get(attempt.member.id)
        thread = known[0].thread if known else None
        return CloseTurn(
            attempt.task_id,
            attempt.step,
            attempt.tries,
            instant.now(),
            outcome,
            detail,
            thread,
        )

    def _quiet(self, member: Member, silent: float) -> None:
        self._keep_state(member, "quiet", f"nothing for {silent:.0f} s; its process is alive")

    def _keep_state(self, member: Member, state: MemberState, reason: str) -> None:
        """Tell a state that another process should be able to see too."""
        write = SetMemberState(self._desk.task.task_id, member.id, state, reason, instant.now())
        self._desk.post(write)
        self._desk.tell_state(member, state, reason)
