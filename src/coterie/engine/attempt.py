"""One attempt at a turn: what is known of it, how it is recorded, and its timeouts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import inf
from time import monotonic

from coterie.engine.resuming import EarlierAttempts, never_ran
from coterie.model import instant
from coterie.model.conversation import Brief, Limits, Prompt
from coterie.model.journal import (
    AppendAudit,
    AppendThread,
    CloseTurn,
    OpenStep,
    OpenTurn,
    SpendTurn,
    Step,
    Turn,
    TurnOutcome,
    Write,
)
from coterie.model.record import ErrorRecord, ToolCallRecord
from coterie.model.team import Member
from coterie.model.tool_call import DENIED, AuditEntry, not_run
from coterie.model.update import (
    REHEARSAL_USAGE,
    PendingCall,
    ThreadAppended,
    ToolCallFinished,
    ToolCallStarted,
    TurnFailed,
    Usage,
    Waiting,
    sum_of,
)

TOO_LATE = "the turn ended before anybody allowed it"
"""Why a call that somebody was asked about was not run."""
_EARLY = 0.001
"""How early timers may fire, in seconds."""


class TurnClock:
    """Times the attempts of one member, one after the other.

    Its timeouts are postponed with every update from the agent and restart with every attempt, so
    both must be cheap: the timer is left to fire, checks which timeout is due, if any, and is set
    again for the next.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._counts = False
        self.is_quiet: bool = False
        """Whether quiet was reported and no update has arrived since."""

    def start(
        self, limits: Limits, on_quiet: Callable[[], None], on_total: Callable[[], None]
    ) -> None:
        """Start timing an attempt."""
        self._limits = limits
        self._on_quiet, self._on_total = on_quiet, on_total
        self._left = limits.total
        self.resume()

    def touch(self) -> None:
        """Note a sign of life from the agent, which ends any quiet that was reported."""
        self._touched = self._loop.time()
        if self.is_quiet:
            self.is_quiet = False  # reported once per incident
            self._set_timer()

    def pause(self) -> None:
        """Stop counting time, while a person is asked."""
        self._left -= self._loop.time() - self._started
        self._counts = False

    def resume(self) -> None:
        """Count time again."""
        self._started = self._touched = self._loop.time()
        self.is_quiet = False
        self._counts = True
        self._set_timer()

    def stop(self) -> None:
        """End the attempt.  The timer is left for the next one; until then it does nothing."""
        self._counts = False
        self._on_quiet = self._on_total = _nothing

    def _set_timer(self) -> None:
        end = self._started + max(0.0, self._left)
        quiet = inf if self.is_quiet else self._touched + self._limits.quiet_after
        due = min(end, quiet)
        if self._timer is not None:
            if self._timer.when() <= due:
                return  # it fires earlier, and is then set again
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._look) if due != inf else None

    def _look(self) -> None:
        self._timer = None
        if not self._counts:
            return
        now = self._loop.time()
        if now + _EARLY >= self._started + self._left:
            self._on_total()
            return
        if not self.is_quiet and now - self._touched + _EARLY >= self._limits.quiet_after:
            self.is_quiet = True
            self._on_quiet()
        self._set_timer()


def _nothing() -> None: ...


@dataclass
class Attempt:
    """One attempt of a member at a turn."""

    step: Step
    is_new: bool
    """Whether the step is not recorded yet."""
    member: Member
    turn: int
    """The number of the turn in its task."""
    number: int
    """The number of the attempt at that turn."""
    token: int
    """The fencing token of the run."""
    earlier: EarlierAttempts = field(default_factory=EarlierAttempts)
    brief: Brief | None = None
    """The prompt, if it is not the conversation."""
    is_rehearsal: bool = False
    """Whether a stand-in answers: then no usage counts, whatever its agent reports."""
    part: str = ""
    """The ticket that the turn belongs to; empty for the task itself."""
    thread: str | None = None
    """The agent's own id of the conversation."""
    machine: str | None = None
    """The machine that makes it, in a store shared by several."""
    interrupts: float = inf
    """How often turns had been interrupted when its turn began; infinite: people are not."""
    opened_at: str = ""
    acted: bool = False
    """Whether the agent has used a tool: then a retry must be told about it."""
    spent: Usage | None = None
    """What it cost: the sum of its model calls so far, if the agent reports each."""
    has_snapshot: bool = False
    """Whether a snapshot of the files was taken, because the agent may change some."""
    waiting: Waiting | None = None
    """What the agent last reported that it is waiting for."""
    started: float = field(default_factory=monotonic)
    _asked: dict[str, PendingCall] = field(default_factory=dict[str, PendingCall])
    _allowed: set[str] = field(default_factory=set[str])
    _ended: set[str] = field(default_factory=set[str])
    _denied: dict[str, str] = field(default_factory=dict[str, str])
    """By call: why it was denied."""
    _calls: dict[str, tuple[ToolCallStarted, float]] = field(
        default_factory=dict[str, tuple[ToolCallStarted, float]]
    )

    @property
    def task_id(self) -> str:
        """The task whose turn it is."""
        return self.part or self.step.task_id

    @property
    def name(self) -> str:
        """The name of its step."""
        return self.step.name

    @property
    def is_calling(self) -> bool:
        """Whether one of its tool calls has begun and not ended."""
        return bool(self._calls)

    @property
    def milliseconds(self) -> int:
        """How long it has taken so far."""
        return round((monotonic() - self.started) * 1000)

    def prompt(self, text: str, newest: str, thread: str | None, now: str | None) -> Prompt:
        """What is sent: the text, after what is known of earlier attempts; `thread` is the agent's
        last thread and `now` the one that it has."""
        # An agent without a memory knows about its calls only what we tell it.
        needs_note = now or self.earlier.calls
        note = self.earlier.note(lost=thread not in (None, now)) if needs_note else ""
        schema = self.brief.schema if self.brief else None
        text = f"{note}\n{text}" if note else text
        return Prompt(text, self.number, self.name, schema, newest)

    @property
    def _key(self) -> tuple[str, str, int]:
        """The key of its row."""
        return self.task_id, self.name, self.number

    @property
    def row(self) -> Turn:
        """The attempt as it is recorded when it opens."""
        return Turn(*self._key, self.member.id, self.token, self.opened_at, self.thread)

    def open(self, past: Sequence[Turn]) -> list[Write]:
        """Record it before anything is sent, and close what a crash left open of `past`."""
        self.opened_at = instant.now()
        writes: list[Write] = [OpenStep(self.step)] if self.is_new else []
        for turn in past:
            if turn.outcome is None:
                row = (turn.task_id, turn.step, turn.attempt, self.opened_at)
                writes.append(CloseTurn(*row, "unknown", None, turn.thread))
        row = (*self._key, self.member.id, self.token, self.opened_at, self.thread, self.machine)
        return [*writes, OpenTurn(*row)]

    def close(
        self,
        outcome: TurnOutcome,
        detail: str | None = None,
        usage: Usage | None = None,
        at: str | None = None,
    ) -> CloseTurn:
        """Record how it ended."""
        self.spent = cost = usage or self.spent
        return CloseTurn(
            *self._key,
            at or instant.now(),
            outcome,
            detail,
            self.thread,
            json.dumps(asdict(cost)) if cost else None,
        )

    def used(self, reported: Usage | None) -> Usage | None:
        """The part of its agent's reported usage that counts."""
        return REHEARSAL_USAGE if self.is_rehearsal else reported

    def spend(self, usage: Usage) -> SpendTurn:
        """Count one model call; the write stores the sum in case the attempt is cut off."""
        self.spent = sum_of([usage] if self.spent is None else [self.spent, usage]) or usage
        return SpendTurn(*self._key, json.dumps(vars(self.spent)))

    def ask(self, call: PendingCall) -> None:
        """Note that a person or a rule is asked about a call: it does not run until allowed."""
        self._asked.setdefault(call.call_id, call)

    def allow(self, call_id: str) -> None:
        """Note that a call was allowed: from here on it may have run."""
        self._allowed.add(call_id)

    def failed(self, failure: TurnFailed, session: str, folder: str) -> ErrorRecord:
        """The record of its failure, for surfaces."""
        tail = failure.stderr_tail.strip()
        return ErrorRecord(
            code=f"turn_{failure.kind}",
            message=f"{self.member.id} failed turn {self.turn} (try {self.number}): "
            f"{failure.message}" + (f"\n{tail}" if tail else ""),
            hint=failure.hint
            or f"coterie show {session}{f' --stderr {self.member.id}' if tail else ''}",
            member=self.member.id,
            where=folder,
            task=self.task_id,
        )

    def deny(self, call_id: str, why: str) -> None:
        """Note that a call was denied: it did not run, however its agent reports its end."""
        self._denied[call_id] = why

    def calls_not_run(self) -> list[Write]:
        """End the calls that never ran and whose end the agent did not report."""
        rows: list[AuditEntry] = []
        for call_id, call in self._asked.items():
            if call_id in self._allowed | self._ended:
                continue
            if call_id not in self._calls:
                started = ToolCallStarted(call_id, call.name, call.input)
                rows.append(self.tool_call(started)[0])
            ended = ToolCallFinished(call_id, is_error=True, output=not_run(TOO_LATE))
            rows.append(self.tool_call(ended)[0])
        # Only once: a further attempt after this one has the same past.
        cut, self.earlier.unfinished = self.earlier.unfinished, ()
        left = [never_ran(one, TOO_LATE) for one in cut if one.tool_call_id not in self._ended]
        return [AppendAudit(row) for row in (*rows, *left)]

    def tool_call(
        self, update: ToolCallStarted | ToolCallFinished
    ) -> tuple[AuditEntry, ToolCallRecord]:
        """The start or end of a tool call, for the audit and for surfaces."""
        self.acted = True
        if isinstance(update, ToolCallStarted):
            self._calls[update.call_id] = (update, monotonic())
            return self._audited(update)
        self._ended.add(update.call_id)
        begun, since = self._calls.pop(
            update.call_id, (ToolCallStarted(update.call_id, update.name or "unknown"), monotonic())
        )
        why = self._denied.pop(update.call_id, "")
        if why:
            update = replace(update, is_error=True, output={**update.output, DENIED: why})
        elif update.call_id in self._asked and update.call_id not in self._allowed:
            # Its turn was interrupted, or ended by itself, while somebody was asked about it.
            update = replace(update, is_error=True, output={**update.output, **not_run(TOO_LATE)})
        return self._audited(begun, update, round((monotonic() - since) * 1000))

    def append_thread(self, appended: ThreadAppended) -> tuple[list[Write], list[ToolCallRecord]]:
        """The writes and tool call records for entries added to a thread that we store."""
        writes: list[Write] = []
        for place, entry in enumerate(appended.entries, appended.place):
            text = json.dumps(entry, ensure_ascii=False, separators=(",", ":"))
            writes.append(AppendThread(self.task_id, appended.thread, place, text))
        records: list[ToolCallRecord] = []
        for call in appended.calls:
            row, record = self.tool_call(call)
            writes.append(AppendAudit(row))
            records.append(record)
        return writes, records

    def _audited(
        self, begun: ToolCallStarted, ended: ToolCallFinished | None = None, took: int | None = None
    ) -> tuple[AuditEntry, ToolCallRecord]:
        entry = AuditEntry(
            "ToolCallCompleted" if ended else "ToolCallRequested",
            begun.call_id,
            begun.name,
            self.member.id,
            self.task_id,
            instant.now(),
            None if ended else begun.input,
            ended.output if ended else None,
            ended.is_error if ended else None,
            took,
        )
        return entry, ToolCallRecord.of(entry, begun.input, begun.effect)
