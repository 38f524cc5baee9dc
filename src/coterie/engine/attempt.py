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
from coterie.model.conversation import Brief, Limits
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
    REHEARSED,
    PendingCall,
    Remembered,
    ToolCallFinished,
    ToolCallStarted,
    TurnFailed,
    Usage,
    Waiting,
    sum_of,
)

TOO_LATE = "the turn ended before anybody allowed it"
"""Why a call was not run that somebody was asked about."""
_EARLY = 0.001
"""Timers may fire this much too soon, in seconds."""


class TurnClock:
    """Watches the attempts of one member, one after the other.

    Its timeouts are put off with every update of the agent, and start anew with every attempt, so
    that costs next to nothing: a timer that fires looks which of them is due, if any, and is set
    again for the next.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._counts = False
        self.is_quiet: bool = False
        """Whether quiet was told and nothing has come since."""

    def start(
        self, limits: Limits, on_quiet: Callable[[], None], on_total: Callable[[], None]
    ) -> None:
        """An attempt begins."""
        self._limits = limits
        self._on_quiet, self._on_total = on_quiet, on_total
        self._left = limits.total
        self.resume()

    def touch(self) -> None:
        """The agent gave a sign of life: whatever was told of its quiet is over."""
        self._touched = self._loop.time()
        if self.is_quiet:
            self.is_quiet = False  # told once per incident
            self._set_timer()

    def pause(self) -> None:
        """A person is asked: time does not count."""
        self._left -= self._loop.time() - self._started
        self._counts = False

    def resume(self) -> None:
        """Time counts again."""
        self._started = self._touched = self._loop.time()
        self.is_quiet = False
        self._counts = True
        self._set_timer()

    def stop(self) -> None:
        """The attempt is over.  The timer is left for the next one: it finds nothing to do."""
        self._counts = False
        self._on_quiet = self._on_total = _nothing

    def _set_timer(self) -> None:
        end = self._started + max(0.0, self._left)
        quiet = inf if self.is_quiet else self._touched + self._limits.quiet_after
        due = min(end, quiet)
        if self._timer is not None:
            if self._timer.when() <= due:
                return  # it looks, and is set again
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
    """An attempt of a member at a turn."""

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
    """The prompt, where it is not the conversation."""
    is_rehearsal: bool = False
    """Whether a stand-in answers: then nothing is used, whatever its agent reports."""
    part: str = ""
    """The ticket that it is a turn of; empty: of the task itself."""
    thread: str | None = None
    """The agent's own id of the conversation."""
    machine: str | None = None
    """Where it is taken, in a store of several machines."""
    opened_at: str = ""
    acted: bool = False
    """Whether the agent has used a tool: then a retry must be told of it."""
    spent: Usage | None = None
    """What it cost: the sum of its model calls so far, where the agent reports each."""
    keeps_files: bool = False
    """Whether a snapshot of the files was taken, since the agent may change some."""
    waiting: Waiting | None = None
    """What the agent last reported to wait for."""
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
        """Whether a tool call of it has begun and not ended."""
        return bool(self._calls)

    @property
    def milliseconds(self) -> int:
        """How long it has taken so far."""
        return round((monotonic() - self.started) * 1000)

    @property
    def row(self) -> Turn:
        """The attempt as it is recorded when it opens."""
        return Turn(
            self.task_id,
            self.name,
            self.number,
            self.member.id,
            self.token,
            self.opened_at,
            self.thread,
        )

    def open(self, past: Sequence[Turn]) -> list[Write]:
        """Record it before anything is sent; what a crash left open of `past` is closed."""
        self.opened_at = instant.now()
        writes: list[Write] = [OpenStep(self.step)] if self.is_new else []
        for turn in past:
            if turn.outcome is None:
                row = (turn.task_id, turn.step, turn.attempt, self.opened_at)
                writes.append(CloseTurn(*row, "unknown", None, turn.thread))
        row = (self.task_id, self.name, self.number, self.member.id)
        return [*writes, OpenTurn(*row, self.token, self.opened_at, self.thread, self.machine)]

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
            self.task_id,
            self.name,
            self.number,
            at or instant.now(),
            outcome,
            detail,
            self.thread,
            json.dumps(asdict(cost)) if cost else None,
        )

    def used(self, told: Usage | None) -> Usage | None:
        """What counts of the usage that its agent reports."""
        return REHEARSED if self.is_rehearsal else told

    def spend(self, usage: Usage) -> SpendTurn:
        """Count one model call; the write keeps it, should the attempt be cut."""
        self.spent = sum_of([usage] if self.spent is None else [self.spent, usage]) or usage
        return SpendTurn(self.task_id, self.name, self.number, json.dumps(vars(self.spent)))

    def ask(self, call: PendingCall) -> None:
        """A person or a rule is asked about a call: until it is allowed, it is not run."""
        self._asked.setdefault(_call(call.call_id), call)

    def allow(self, call_id: str) -> None:
        """A call was allowed: from here on it may have been run."""
        self._allowed.add(_call(call_id))

    def failed(self, failure: TurnFailed, session: str, folder: str) -> ErrorRecord:
        """Its failure, for surfaces."""
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
        """A call was denied: however its agent reports its end, it was not run."""
        self._denied[_call(call_id)] = why

    def calls_not_run(self) -> list[Write]:
        """How calls end that were never run and of which their agent said no more."""
        rows: list[AuditEntry] = []
        for call_id, call in self._asked.items():
            if call_id in self._allowed | self._ended:
                continue
            if call_id not in self._calls:
                started = ToolCallStarted(call_id, call.name, call.input)
                rows.append(self.tool_call(started)[0])
            ended = ToolCallFinished(call_id, is_error=True, output=not_run(TOO_LATE))
            rows.append(self.tool_call(ended)[0])
        # Once: a further try after this one has the same past.
        cut, self.earlier.left_open = self.earlier.left_open, ()
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
            # Its turn was broken off, or ended by itself, while somebody was asked about it.
            update = replace(update, is_error=True, output={**update.output, **not_run(TOO_LATE)})
        return self._audited(begun, update, round((monotonic() - since) * 1000))

    def remember(self, told: Remembered) -> tuple[list[Write], list[ToolCallRecord]]:
        """What is added to a thread that we keep, with the tool calls that it is about."""
        writes: list[Write] = []
        for place, entry in enumerate(told.entries, told.place):
            kept = json.dumps(entry, ensure_ascii=False, separators=(",", ":"))
            writes.append(AppendThread(self.task_id, told.thread, place, kept))
        records: list[ToolCallRecord] = []
        for call in told.calls:
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


def _call(key: str) -> str:
    """The call that a question is about, which may be a further one about it."""
    return key.partition("#")[0]
