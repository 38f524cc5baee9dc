"""Turns: opened before they are sent, closed with their reply, retried when they fail."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from coterie.engine.attempt import Attempt, TurnClock
from coterie.engine.permission import PermissionGate
from coterie.engine.questions import INTERRUPTED, NEVER, Questions
from coterie.engine.resuming import EarlierAttempts, earlier_attempts
from coterie.engine.subtask import Subtasks, interrupt_parts
from coterie.engine.task_run import TaskRun
from coterie.errors import AgentError
from coterie.model import instant, step_name, update
from coterie.model.conversation import Brief, Message, Prompt, compose
from coterie.model.interaction import Ask, Response
from coterie.model.journal import AppendAudit, AppendMessage, CloseStep, Step, TakeRequest, Turn
from coterie.model.record import DeltaRecord, MessageRecord
from coterie.model.task import RateLimited
from coterie.model.team import Member, is_instance_of
from coterie.model.tool_call import Effect
from coterie.model.update import TurnCompleted, TurnFailed, TurnInterrupted
from coterie.ports import Channel, Parked, RunChild

if TYPE_CHECKING:
    from coterie.engine.budgets import Budgets
    from coterie.engine.limits import RateLimiter

ATTEMPTS = 3
"""How often a failing turn is attempted before the user is asked."""


class TurnRunner:
    """Takes the turns of one run."""

    def __init__(
        self, run: TaskRun, questions: Questions, past: Iterable[Turn], run_child: RunChild
    ) -> None:
        self._run = run
        self._clocks = defaultdict[str, TurnClock](partial(TurnClock, asyncio.get_running_loop()))
        self._questions = questions
        self.budgets: Budgets | None = None
        if run.has_budgets:
            from coterie.engine.budgets import Budgets

            self.budgets = Budgets(run, questions)
        self._rate_limiter: RateLimiter | None = None
        self.permissions: PermissionGate = PermissionGate(run, questions)
        self._past: dict[str, list[Turn]] = {}
        self._threads: dict[tuple[str, str], str] = {}  # by member and topic: of its last turn
        self._elsewhere: set[str] = set()  # threads whose files are on other machines
        for turn in past:
            self._past.setdefault(turn.step, []).append(turn)
            if turn.thread:
                self._threads[turn.member, step_name.parse(turn.step).topic] = turn.thread
                if turn.machine not in (None, run.services.machine):
                    self._elsewhere.add(turn.thread)
        self._known: dict[str, tuple[Channel, int]] = {}
        """By member: its channel, and how many messages of the conversation the channel knows."""
        self._running: dict[str, Channel] = {}
        self._scope = type(anyio.CancelScope())
        """Cached, as anyio looks up this class for every scope, which costs more than the scope."""
        self._locks = defaultdict[str, asyncio.Lock](asyncio.Lock)
        """By member: held for each turn, as a member takes one turn at a time."""
        self._for_subtasks = run, questions, run_child, self._locks
        self._subtasks: Subtasks | None = None

    async def interrupt(self) -> None:
        """Interrupt the running turns with what they handed out, and withdraw their questions."""
        self._questions.interrupts += 1
        for channel in list(self._running.values()):
            await channel.interrupt()
        self._questions.end_waits()
        await interrupt_parts(self._run)
        await self._questions.withdraw(INTERRUPTED)

    async def stop_member(self, instance: str) -> None:
        """End a member's agent; what it is doing has been cancelled already."""
        await self._questions.withdraw("the member was stopped", instance)
        idle = [known for known in self._known if known not in self._running]
        for known in idle:
            member = self._run.task.team.instance(known)
            if member is not None and is_instance_of(instance, known):
                await self._run.channels.close(member)

    async def take(
        self, step: Step, is_new: bool, member: Member, number: int, brief: Brief | None
    ) -> Message | TurnFailed:
        """Take a turn; returns the reply, or the failure that remains after all attempts."""
        async with self._locks[member.id]:
            interrupts = NEVER if member.type == "human" else self._questions.interrupts
            past = self._past.pop(step.name, [])
            earlier = await self._earlier(step.name, member, past) if past else EarlierAttempts()
            failures = [turn.outcome for turn in past].count("failed")
            most = (brief.tries if brief else None) or ATTEMPTS
            token, attempts = self._run.fence.token, len(past)
            while True:
                attempts += 1
                arguments = (step, is_new, member, number, attempts, token, earlier, brief)
                attempt = Attempt(*arguments, part=self._run.task_of(step.name))
                attempt.is_rehearsal = self._run.task.rehearsal
                attempt.machine, attempt.interrupts = self._run.services.machine, interrupts
                if member.turns_per_minute is not None:
                    await self._limiter().begin(member, interrupts)
                try:
                    make, budgets = partial(self._attempt, attempt, past), self.budgets
                    end = await (budgets.reserved(attempt, make) if budgets else make())
                    is_new, past = False, []
                    if not isinstance(end, TurnFailed):
                        return await self._close(attempt, end)
                    if end.until is not None:
                        await self._wait_for_limit(attempt, end, end.until)
                    else:
                        failures += 1
                        last = failures >= most or not end.retry
                        await self._fail(attempt, end, last=last)
                        if last:
                            return end
                finally:
                    if attempt.spent is not None:
                        self._run.usages.append(attempt.spent)
                if attempt.acted:
                    earlier = await earlier.with_attempt(self._run.storage, attempt.row)

    def _limiter(self) -> RateLimiter:
        from coterie.engine.limits import RateLimiter  # few members have such a limit

        self._rate_limiter = self._rate_limiter or RateLimiter(self._run, self._questions)
        return self._rate_limiter

    async def _earlier(self, step: str, member: Member, past: list[Turn]) -> EarlierAttempts:
        """What is known of attempts cut off by a crash, a stop or a limit; waits out the limit."""
        if any(turn.outcome == "limited" for turn in past):
            await self._limiter().wait_for_reset(member, past)
        return await earlier_attempts(self._run.storage, past, self._run.journal.asked_in(step))

    async def _wait_for_limit(self, attempt: Attempt, failure: TurnFailed, until: str) -> None:
        """Wait for the end of a rate limit; parks if that takes longer than the run may wait."""
        run, member = self._run, attempt.member
        run.post(*attempt.calls_not_run(), attempt.close("limited", failure.message))
        left = instant.seconds_until(until)
        run.keep_state(member, "waiting", "limit", until=until)
        if not run.services.waits_for_limits and left > (run.wait or 0.0):
            raise Parked(RateLimited(member.id, until))
        await self._limiter().sleep_until(until, member, attempt.interrupts)
        run.keep_state(member, "working")

    async def _attempt(self, attempt: Attempt, past: list[Turn]) -> update.End:
        run, member = self._run, attempt.member
        topic = member.id, attempt.brief.topic if attempt.brief else ""
        thread = self._threads.get(topic)
        is_here = thread not in self._elsewhere or await run.storage.conversation.thread(thread)
        channel = await self._channel(attempt, thread if is_here else None)
        if isinstance(channel, _ENDS):
            await run.commit(*run.starting(attempt.task_id), *attempt.open(past))
            return channel
        if not getattr(channel, "asks_first", False):
            await self._snapshot(attempt, "other")
        prompt = self._prompt(attempt, channel, thread)
        attempt.thread = channel.thread
        await run.commit(*run.starting(attempt.task_id), *attempt.open(past))
        if self._questions.interrupts > attempt.interrupts:  # before anything was sent
            attempt.thread = thread
            await self._snapshot_after(attempt)
            return TurnInterrupted()
        run.observer.begin(member.id)
        run.show_state(member, "working", at=attempt.opened_at)
        self._running[member.id] = channel
        try:
            end = await self._listen(attempt, channel, prompt)
        except BaseException:
            # An agent in the middle of a turn could not take another one.
            with anyio.CancelScope(shield=True):
                await run.channels.close(member)
            raise
        finally:
            del self._running[member.id]
        attempt.thread = channel.thread or attempt.thread
        if attempt.thread:
            self._threads[topic] = attempt.thread
        if isinstance(end, TurnFailed) or not channel.alive:
            await run.channels.close(member)
        else:
            self._known[member.id] = (channel, len(run.conversation) + 1)
        await self._snapshot_after(attempt)
        return end

    async def _channel(self, attempt: Attempt, thread: str | None) -> Channel | update.End:
        """A running agent for the member's turn; else how the turn ends without one."""
        run, member, known = self._run, attempt.member, self._known.get(attempt.member.id)
        if self._questions.interrupts > attempt.interrupts:  # while an earlier attempt ended
            return TurnInterrupted()
        try:
            if known is not None and known[0].alive and not run.stops.is_stopped(member.id):
                return await run.channels.channel(member, thread)
            run.show_state(member, "starting")
            with run.stops.cancellable(member.id, anyio.CancelScope()):
                return await run.channels.channel(member, thread)
        except AgentError as problem:
            return TurnFailed("missing", str(problem), retry=False, hint=problem.hint)
        return _STOPPED

    def _prompt(self, attempt: Attempt, channel: Channel, thread: str | None) -> Prompt:
        messages, team, brief = self._run.conversation, self._run.task.team, attempt.brief
        if brief is not None:
            text = brief.text
        else:
            known = self._known_upto(attempt, channel, thread) if channel.holds_past else 0
            # A member that is asked twice in a row gets the newest message again.
            text = compose(
                messages[min(known, len(messages) - 1) :] if known else messages,
                self._run.name_of,
                count=team.context_message_count,
                characters=team.context_characters,
            )
        newest = messages[-1].text if messages else ""
        return attempt.prompt(text, newest, thread, channel.thread)

    def _known_upto(self, attempt: Attempt, channel: Channel, thread: str | None) -> int:
        """How many messages of the conversation the agent on this channel knows."""
        member = attempt.member
        earlier, upto = self._known.get(member.id, (None, 0))
        if earlier is channel:
            return upto
        if thread is None or thread != channel.thread:
            return 0
        # A resumed thread ends with its last message; for an empty one, perhaps nothing was sent.
        past = reversed(self._run.conversation)
        own = (one for one in past if one.member == member.id and (one.text or not one.cut))
        return next((one.seq for one in own), 0)

    async def _listen(self, attempt: Attempt, channel: Channel, prompt: Prompt) -> update.End:
        """Follow the updates to the end.  Past the total timeout, the turn fails."""
        run, member = self._run, attempt.member
        limits, clock = run.channels.limits(member), self._clocks[member.id]
        with run.stops.cancellable(member.id, self._scope()) as scope:
            clock.start(limits, lambda: self._quiet(attempt), scope.cancel)
            try:
                async with aclosing(channel.take_turn(prompt)) as updates:
                    async for emitted in updates:
                        if clock.is_quiet or (attempt.waiting and attempt.waiting != emitted):
                            attempt.waiting = None
                            run.keep_state(member, "working")
                        clock.touch()
                        if isinstance(emitted, _ENDS):
                            return emitted
                        if not isinstance(emitted, _ASKS):
                            await self._handle(attempt, channel, emitted)
                            continue
                        clock.pause()
                        await self._handle(attempt, channel, emitted)
                        clock.resume()
            finally:
                clock.stop()
        if not scope.cancel_called:
            return TurnFailed("protocol", "its adapter ended without an outcome")
        if run.stops.is_stopped(member.id):
            return _STOPPED
        waiting = attempt.waiting
        why = f" (it was waiting for the {waiting.waits_for}: {waiting.detail})" if waiting else ""
        hint = "Try again, or give the member more time in the team file: timeoutMs."
        return TurnFailed("timeout", f"no reply within {limits.total:g} s: stuck{why}", hint=hint)

    async def _handle(self, attempt: Attempt, channel: Channel, emitted: update.Update) -> None:
        """Do what one update asks for; the agent continues when this returns."""
        run = self._run
        match emitted:
            case update.TextDelta(text):
                run.observer.saw(DeltaRecord(attempt.task_id, attempt.member.id, text))
            case update.ToolCallStarted() | update.ToolCallFinished():
                await self._tool_call(attempt, emitted)
            case update.Asked() | update.Delegated():
                await channel.answer(emitted.key, await self._answer(attempt, emitted))
                run.show_state(attempt.member, "working")
            case update.ThreadAppended():
                await self._append_thread(attempt, emitted)
            case update.Spent(usage, is_last):
                await self._spend(attempt, attempt.used(usage) or usage, is_last=is_last)
            case update.Waiting() if emitted != attempt.waiting:  # shown once, even if repeated
                attempt.waiting = emitted
                run.keep_state(attempt.member, "waiting", emitted.waits_for, emitted.detail)
            case _:
                pass

    async def _tool_call(
        self, attempt: Attempt, call: update.ToolCallStarted | update.ToolCallFinished
    ) -> None:
        if isinstance(call, update.ToolCallStarted):
            await self._snapshot(attempt, call.effect)
        entry, record = attempt.tool_call(call)
        self._run.post(AppendAudit(entry), after=lambda: self._run.observer.saw(record))

    async def _spend(self, attempt: Attempt, usage: update.Usage, *, is_last: bool) -> None:
        if usage != update.UNKNOWN_USAGE:
            self._run.post(attempt.spend(usage))
        if self.budgets is not None and not is_last:
            await self.budgets.check(attempt)

    async def _answer(self, attempt: Attempt, asked: update.Asked | update.Delegated) -> Response:
        if isinstance(asked, update.Delegated):
            self._subtasks = self._subtasks or Subtasks(*self._for_subtasks)
            response = await self._subtasks.hand_out(attempt, asked)
            if self.budgets is not None:  # the subtask has used some of it
                await self.budgets.check(attempt)
            return response
        call = asked.call
        if call is not None:
            # Before anybody approves: what the call changes can be undone back to this point.
            await self._snapshot(attempt, call.action.effect if call.action else "other")
            return await self.permissions.answer(attempt, asked, call)
        about = asked.about, asked.purpose, asked.options, asked.validation
        question = Ask(attempt.member.id, asked.kind, *about, display=asked.display)
        name = attempt.earlier.step_for(question, attempt.name, attempt.number, asked.key)
        answer = await self._questions.ask(name, question, interrupts=attempt.interrupts)
        return answer.response

    async def _append_thread(self, attempt: Attempt, appended: update.ThreadAppended) -> None:
        writes, records = attempt.append_thread(appended)

        def show() -> None:
            for record in records:
                self._run.observer.saw(record)

        if appended.gates:
            await self._run.commit(*writes, after=show)
        else:
            self._run.post(*writes, after=show)

    async def _snapshot(self, attempt: Attempt, effect: Effect) -> None:
        """Snapshot the files before the first action in a turn that may change them."""
        snapshots = self._run.services.snapshots
        if snapshots is None or attempt.has_snapshot or effect == "read":
            return
        attempt.has_snapshot = True
        folder = self._run.channels.work_folder(attempt.member)
        await anyio.to_thread.run_sync(snapshots.before, attempt.step.task_id, folder)

    async def _snapshot_after(self, attempt: Attempt) -> None:
        """Snapshot the files as the turn leaves them, if that was done before it."""
        if attempt.has_snapshot and (snapshots := self._run.services.snapshots):
            folder = self._run.channels.work_folder(attempt.member)
            await anyio.to_thread.run_sync(snapshots.after, attempt.step.task_id, folder)

    async def _close(self, attempt: Attempt, end: TurnCompleted | TurnInterrupted) -> Message:
        run, member = self._run, attempt.member
        if attempt.earlier.questions:
            await attempt.earlier.close_questions(run.storage.inbox)
        reported = (end.usage if isinstance(end, TurnCompleted) else None) or attempt.spent
        usage = attempt.used(reported)
        cut = isinstance(end, TurnInterrupted)
        task_id, step = attempt.task_id, attempt.step
        message = run.message(member.id, end.text, turn=attempt.turn, cut=cut, task_id=task_id)
        record = MessageRecord.of(message, duration_ms=attempt.milliseconds, usage=usage)
        run.conversation_of(task_id).append(message)
        where = f',"task":"{task_id}"' if task_id != step.task_id else ""
        run.post(
            *attempt.calls_not_run(),
            AppendMessage(message),
            attempt.close("interrupted" if cut else "completed", usage=usage, at=message.at),
            CloseStep(step.task_id, step.name, f'{{"message":{message.seq}{where}}}'),
            after=lambda: run.observer.saw(record),
        )
        run.show_state(member, "idle", at=message.at)
        return message

    async def _fail(self, attempt: Attempt, failure: TurnFailed, *, last: bool) -> None:
        run, member = self._run, attempt.member
        writes = [*attempt.calls_not_run(), attempt.close("failed", failure.message)]
        if last:
            await attempt.earlier.close_questions(run.storage.inbox)
            result = run.services.redactor.value({"failed": asdict(failure)})
            writes.append(CloseStep(attempt.step.task_id, attempt.name, json.dumps(result)))
        if failure.kind == "stopped":
            writes += map(TakeRequest, run.stops.take_done(member.id))
        run.post(*writes)
        run.show_state(member, "stuck" if failure.kind == "timeout" else "gone", failure.message)
        if failure.kind == "stopped":  # the user knows, and is asked what to do
            return
        run.observer.saw(attempt.failed(failure, run.task.session_id, run.channels.folder(member)))

    def _quiet(self, attempt: Attempt) -> None:
        waiting = attempt.waiting
        waits_for = "command" if attempt.is_calling else waiting.waits_for if waiting else "model"
        self._run.keep_state(attempt.member, "quiet", waits_for, waiting.detail if waiting else "")


_STOPPED = TurnFailed("stopped", "you stopped it", retry=False)
_ENDS = (TurnCompleted, TurnFailed, TurnInterrupted)
_ASKS = (update.Asked, update.Delegated, update.Spent)
"""Updates after which a person may be asked: the time that takes does not count."""
