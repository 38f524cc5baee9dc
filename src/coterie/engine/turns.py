"""Turns: opened before they are sent, closed with their reply, tried again when they fail."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import asdict

import anyio

from coterie.engine.attempt import Attempt
from coterie.engine.budget import Budgets
from coterie.engine.journal import ASKED, Journal
from coterie.engine.permission import PERMISSION, Gate
from coterie.engine.questions import Asking
from coterie.engine.resuming import Cut, cut_turn
from coterie.engine.subtask import RunChild, Subtasks
from coterie.engine.task_run import TaskRun
from coterie.engine.timing import RateLimiter, TurnClock
from coterie.engine.updates import Updates
from coterie.errors import AgentError
from coterie.model import instant
from coterie.model.journal import (
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
from coterie.model.prompt import Brief, Prompt, compose
from coterie.model.record import ErrorRecord, MemberState, MessageRecord
from coterie.model.team import Member
from coterie.model.update import (
    Asked,
    Delegated,
    End,
    Spent,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    Update,
    Usage,
    Waiting,
)
from coterie.ports import Channel, Parked

TRIES = 3
"""A turn that fails is tried this often before anybody is asked."""


_TOPIC = "ticket/"


def topic_of(step: str) -> str:
    """What a turn is about: its ticket, else the conversation.  A thread belongs to one of them."""
    return step.split("/", 2)[1] if step.startswith(_TOPIC) else ""


class TurnRunner:
    """Takes the turns of one run."""

    def __init__(
        self,
        run: TaskRun,
        asking: Asking,
        journal: Journal,
        past: Iterable[Turn],
        run_child: RunChild,
    ) -> None:
        self._run = run
        self._asking = asking
        self._journal = journal
        self._budgets = Budgets(run, asking, journal)
        self._pace = RateLimiter(run)
        self.gate: Gate = Gate(run, asking, journal)
        self._updates = Updates(
            run,
            asking,
            self.gate,
            self._budgets,
            Subtasks(run, asking, journal, run_child),
        )
        self._past: dict[str, list[Turn]] = {}
        self._threads: dict[tuple[str, str], str] = {}
        """By member and what it is about: the thread that its last turn was on."""
        for turn in past:
            self._past.setdefault(turn.step, []).append(turn)
            if turn.thread:
                self._threads[turn.member, topic_of(turn.step)] = turn.thread
        self._known: dict[str, tuple[Channel, int]] = {}
        """By member: its channel, and up to which message that knows the conversation."""
        self._running: dict[str, Channel] = {}
        self._seats: dict[str, anyio.Lock] = {}
        """By member: it takes one turn at a time."""

    async def interrupt(self) -> None:
        """Break off the turns that run now, and take back what their agents ask."""
        for channel in list(self._running.values()):
            await channel.interrupt()
        await self._asking.withdraw("the turn was broken off")

    async def take(
        self, step: str, member: Member, number: int, new: Step | None, brief: Brief | None = None
    ) -> Message | TurnFailed:
        """The reply, or the failure that was left after all tries.  `new`: not recorded yet."""
        async with self._seats.setdefault(member.id, anyio.Lock()):
            return await self._take(step, member, number, new, brief)

    async def _take(
        self, step: str, member: Member, number: int, new: Step | None, brief: Brief | None
    ) -> Message | TurnFailed:
        past = self._past.pop(step, [])
        cut = await self._cut(step, past)
        failures = sum(turn.outcome == "failed" for turn in past)
        tries = len(past)
        most = (brief.tries if brief else None) or TRIES
        while True:
            tries += 1
            attempt = Attempt(self._run.task.task_id, step, member, number, tries, new, cut, brief)
            await self._budgets.check(attempt)
            await self._pace.begin(member)
            end = await self._try(attempt, past)
            await self._updates.turn_over(attempt)
            new, past = None, []
            if not isinstance(end, TurnFailed):
                return self._close(attempt, end)
            if end.until is not None:
                await self._limited(attempt, end, end.until)
            else:
                failures += 1
                last = failures >= most or not end.retry
                self._fail(attempt, end, last=last)
                if last:
                    return end
            if attempt.acted:
                cut = await cut_turn(self._run.storage, [self._turn(attempt)], ())

    async def _limited(self, attempt: Attempt, failure: TurnFailed, until: str) -> None:
        """Wait for the end of a rate limit, or park where nobody has that patience."""
        run, member = self._run, attempt.member
        run.post(self._closing(attempt, "limited", failure.message, attempt.spent))
        left = instant.seconds_until(until)
        reason = f"rate limit until {until[11:16]} UTC ({round(left / 60)} min)"
        self._keep_state(member, "waiting", reason)
        if not run.services.waits_for_limits and left > (run.patience or 0.0):
            raise Parked("rate_limit")
        await anyio.sleep(max(left, 0.0))
        self._keep_state(member, "working", "")

    # -- one try -------------------------------------------------------------------------------

    async def _try(self, attempt: Attempt, past: list[Turn]) -> End:
        run, member = self._run, attempt.member
        run.tell_state(member, "starting")
        try:
            channel = await run.channels.channel(member, self._thread(attempt))
        except AgentError as problem:
            await run.commit(*self._opening(attempt, past))
            return TurnFailed("missing", str(problem), retry=False, hint=problem.hint)
        prompt = self._prompt(attempt, channel)
        attempt.thread = channel.thread
        await run.commit(*self._opening(attempt, past))
        run.tell_state(member, "working")
        self._running[member.id] = channel
        try:
            end = await self._listen(attempt, channel, prompt)
        except BaseException:
            # Left in the middle of a turn, it could take no other.
            with anyio.CancelScope(shield=True):
                await run.channels.close(member)
            raise
        finally:
            del self._running[member.id]
        attempt.thread = channel.thread or attempt.thread
        if attempt.thread:
            self._threads[member.id, topic_of(attempt.step)] = attempt.thread
        if isinstance(end, TurnFailed) or not channel.alive:
            await run.channels.close(member)
        else:
            self._known[member.id] = (channel, len(run.conversation) + 1)
        return end

    async def _cut(self, step: str, past: list[Turn]) -> Cut:
        """What is known of tries that a crash or a stop cut."""
        if not past:
            return Cut()
        asked: list[tuple[str, Step]] = []
        for below in self._journal.asked_below(step):
            about = PERMISSION.fullmatch(below.name.rpartition(ASKED)[2])
            if about is not None:
                asked.append((about["call"], below))
        return await cut_turn(self._run.storage, past, asked)

    def _opening(self, attempt: Attempt, past: list[Turn]) -> list[Write]:
        now = attempt.opened_at = instant.now()
        writes: list[Write] = [OpenStep(attempt.new)] if attempt.new else []
        for turn in past:
            if turn.outcome is None:  # cut by a crash: what became of it nobody knows
                cut = (turn.task_id, turn.step, turn.attempt)
                writes.append(CloseTurn(*cut, now, "unknown", None, turn.thread))
        return [*writes, OpenTurn(self._turn(attempt))]

    def _turn(self, attempt: Attempt) -> Turn:
        return Turn(
            attempt.task_id,
            attempt.step,
            attempt.tries,
            attempt.member.id,
            self._run.fence.token,
            attempt.opened_at,
            attempt.thread,
        )

    def _prompt(self, attempt: Attempt, channel: Channel) -> Prompt:
        brief = attempt.brief
        text = brief.text if brief else self._conversation(attempt, channel)
        thread = self._thread(attempt)
        lost = thread is not None and thread != channel.thread
        note = attempt.cut.note(lost=lost) if channel.thread else ""
        return Prompt(
            f"{note}\n{text}" if note else text,
            attempt.tries,
            attempt.step,
            brief.schema if brief else None,
            self._run.conversation[-1].text if self._run.conversation else "",
        )

    def _conversation(self, attempt: Attempt, channel: Channel) -> str:
        """What was said, as far as the agent does not know it."""
        said, team = self._run.conversation, self._run.task.team
        known = self._upto(attempt, channel) if channel.holds_past else 0
        # A member that is asked twice in a row gets the newest message once more.
        return compose(
            said[min(known, len(said) - 1) :] if known else said,
            self._run.name_of,
            count=team.context_message_count,
            characters=team.context_characters,
        )

    def _thread(self, attempt: Attempt) -> str | None:
        return self._threads.get((attempt.member.id, topic_of(attempt.step)))

    def _upto(self, attempt: Attempt, channel: Channel) -> int:
        """Up to which message the agent on this channel knows the conversation."""
        member = attempt.member
        earlier, upto = self._known.get(member.id, (None, 0))
        if earlier is channel:
            return upto
        thread = self._thread(attempt)
        if thread is None or thread != channel.thread:
            return 0
        # A thread that was taken up again ends with the last thing the member said.
        mine = [message.seq for message in self._run.conversation if message.member == member.id]
        return mine[-1] if mine else 0

    async def _listen(self, attempt: Attempt, channel: Channel, prompt: Prompt) -> End:
        """Follow the updates to the end.  Past the total limit the turn has failed."""
        run, member = self._run, attempt.member
        limits = run.channels.limits(member)
        with anyio.CancelScope() as scope:
            clock = TurnClock(limits, lambda silent: self._quiet(member, silent), scope.cancel)
            try:
                async with aclosing(channel.take_turn(prompt)) as updates:
                    async for update in updates:
                        if clock.is_quiet:
                            self._keep_state(member, "working", "")
                        elif attempt.waiting and not isinstance(update, Waiting):
                            run.tell_state(member, "working")
                        attempt.waiting = update.reason if isinstance(update, Waiting) else ""
                        clock.touch()
                        if isinstance(update, TurnCompleted | TurnFailed | TurnInterrupted):
                            return update
                        await self._act(attempt, channel, clock, update)
            finally:
                clock.stop()
        if not scope.cancel_called:
            return TurnFailed("protocol", "its adapter ended without an outcome")
        run.tell_state(member, "stuck", f"no end within {limits.total:g} s")
        why = f" (it waited for {attempt.waiting})" if attempt.waiting else ""
        hint = "Try again, or give the member more time in the team file: timeoutMs."
        return TurnFailed("timeout", f"no end within {limits.total:g} s: stuck{why}", hint=hint)

    async def _act(
        self, attempt: Attempt, channel: Channel, clock: TurnClock, update: Update
    ) -> None:
        waits = isinstance(update, Asked | Delegated | Spent)
        if waits:
            clock.pause()
        await self._updates.act(attempt, channel, update)
        if waits:
            clock.resume()

    # -- closing -------------------------------------------------------------------------------

    def _close(self, attempt: Attempt, end: TurnCompleted | TurnInterrupted) -> Message:
        run, member = self._run, attempt.member
        usage = (end.usage if isinstance(end, TurnCompleted) else None) or attempt.spent
        message = run.message(
            member.id, end.text, turn=attempt.number, cut=isinstance(end, TurnInterrupted)
        )
        record = MessageRecord.of(message, duration_ms=attempt.milliseconds, usage=usage)
        run.conversation.append(message)
        run.post(
            AppendMessage(message),
            self._closing(attempt, "interrupted" if message.cut else "completed", None, usage),
            CloseStep(message.task_id, attempt.step, f'{{"message":{message.seq}}}'),
            after=lambda: run.observer.saw(record),
        )
        # Calls that were told one by one are counted already.
        self._budgets.spent(member, None if attempt.spent else usage, turns=1)
        run.tell_state(member, "idle")
        return message

    def _fail(self, attempt: Attempt, failure: TurnFailed, *, last: bool) -> None:
        run = self._run
        writes: list[Write] = [self._closing(attempt, "failed", failure.message, attempt.spent)]
        if last:
            result = json.dumps({"failed": asdict(failure)})
            writes.append(CloseStep(attempt.task_id, attempt.step, result))
        run.post(*writes)
        run.tell_state(attempt.member, "gone", failure.message)
        tail = failure.stderr_tail.strip()
        run.observer.saw(
            ErrorRecord(
                code=f"turn_{failure.kind}",
                message=f"{attempt.member.id} failed turn {attempt.number} "
                f"(try {attempt.tries}): {failure.message}" + (f"\n{tail}" if tail else ""),
                hint=failure.hint or f"coterie show {attempt.task_id}",
                member=attempt.member.id,
                where=run.channels.folder(attempt.member),
                task=attempt.task_id,
            )
        )

    def _closing(
        self, attempt: Attempt, outcome: str, detail: str | None, usage: Usage | None = None
    ) -> CloseTurn:
        return CloseTurn(
            attempt.task_id,
            attempt.step,
            attempt.tries,
            instant.now(),
            outcome,
            detail,
            attempt.thread,
            json.dumps(asdict(usage)) if usage else None,
        )

    def _quiet(self, member: Member, silent: float) -> None:
        self._keep_state(member, "quiet", f"nothing for {silent:.0f} s; its process is alive")

    def _keep_state(self, member: Member, state: MemberState, reason: str) -> None:
        """Tell a state that another process should be able to see too."""
        write = SetMemberState(self._run.task.task_id, member.id, state, reason, instant.now())
        self._run.post(write)
        self._run.tell_state(member, state, reason)
