"""One try at a turn, and how what happens in it is told and kept."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from time import monotonic

from coterie.engine.resuming import Cut
from coterie.model import instant
from coterie.model.journal import SpendTurn, Step
from coterie.model.prompt import Brief
from coterie.model.record import ToolCallRecord
from coterie.model.team import Member
from coterie.model.tool_call import DENIED, AuditEntry
from coterie.model.update import ToolCallFinished, ToolCallStarted, Usage, sum_of


@dataclass
class Attempt:
    """Who tries what, for which time."""

    task_id: str
    step: str
    member: Member
    number: int
    """Which turn of the task it is."""
    tries: int
    new: Step | None
    """The step, where it is not in the journal yet."""
    cut: Cut = field(default_factory=Cut)
    """What is known of earlier tries that were cut."""
    brief: Brief | None = None
    """The prompt, where it is not the conversation."""
    thread: str | None = None
    """The agent's own id of the conversation."""
    opened_at: str = ""
    acted: bool = False
    """Whether the agent has used a tool: then another try must be told of it."""
    spent: Usage | None = None
    """What calls of its model cost, where the agent tells of each."""
    watched: bool = False
    """Whether the files are looked after: the agent may change some."""
    waiting: str = ""
    """What the agent has said that it waits for, and nothing since."""
    started: float = field(default_factory=monotonic)
    _refused: dict[str, str] = field(default_factory=dict[str, str])
    """By call: why it was not permitted."""
    _calls: dict[str, tuple[ToolCallStarted, float]] = field(
        default_factory=dict[str, tuple[ToolCallStarted, float]]
    )

    @property
    def milliseconds(self) -> int:
        """How long it has taken so far."""
        return round((monotonic() - self.started) * 1000)

    def spend(self, usage: Usage) -> SpendTurn:
        """Count one call of a model; the write keeps it, should the try be cut."""
        self.spent = sum_of([usage] if self.spent is None else [self.spent, usage]) or usage
        kept = json.dumps(vars(self.spent))
        return SpendTurn(self.task_id, self.step, self.tries, kept)

    def refuse(self, call_id: str, why: str) -> None:
        """A call was not permitted: however its agent tells of its end, it was not run."""
        self._refused[call_id.partition("#")[0]] = why  # a further question about one call

    def tool_call(
        self, update: ToolCallStarted | ToolCallFinished
    ) -> tuple[AuditEntry, ToolCallRecord]:
        """A tool call's begin or end, as the audit keeps it and as surfaces show it."""
        self.acted = True
        if isinstance(update, ToolCallStarted):
            self._calls[update.call_id] = (update, monotonic())
            return self._entry(update, None), self._record(update, None)
        begun, since = self._calls.pop(
            update.call_id, (ToolCallStarted(update.call_id, update.name or "unknown"), monotonic())
        )
        why = self._refused.pop(update.call_id, "")
        if why:
            update = replace(update, is_error=True, output={**update.output, DENIED: why})
        ended = (update, round((monotonic() - since) * 1000))
        return self._entry(begun, ended), self._record(begun, ended)

    def _entry(
        self, begun: ToolCallStarted, ended: tuple[ToolCallFinished, int] | None
    ) -> AuditEntry:
        return AuditEntry(
            kind="ToolCallCompleted" if ended else "ToolCallRequested",
            tool_call_id=begun.call_id,
            tool_name=begun.name,
            author_actor_id=self.member.id,
            task_id=self.task_id,
            timestamp=instant.now(),
            input=None if ended else begun.input,
            output=ended[0].output if ended else None,
            is_error=ended[0].is_error if ended else None,
            duration_ms=ended[1] if ended else None,
        )

    def _record(
        self, begun: ToolCallStarted, ended: tuple[ToolCallFinished, int] | None
    ) -> ToolCallRecord:
        return ToolCallRecord(
            task=self.task_id,
            member=self.member.id,
            id=begun.call_id,
            name=begun.name,
            input=begun.input,
            status="completed" if ended else "started",
            is_error=ended[0].is_error if ended else None,
            duration_ms=ended[1] if ended else None,
            denied=str(ended[0].output.get(DENIED, "")) if ended else "",
        )
