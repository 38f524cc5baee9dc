"""A pipeline as it happens, line by line: when, which phase, what."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from coterie.cli import report
from coterie.cli.lines import FAILED, RecordLines, RecordText, prose
from coterie.cli.text import Meaning, clock, event, one_line
from coterie.model import instant
from coterie.model.record import (
    Entry,
    InteractionRecord,
    MessageRecord,
    PhaseRecord,
    Record,
    ResultRecord,
)

if TYPE_CHECKING:
    from coterie.app.project import App
    from coterie.model.pipeline_state import PipelineState


@dataclass
class PhaseEvents(RecordLines):
    """Lays out records as events of phases."""

    _at: str = field(default="", init=False)
    _phase_now: str = field(default="", init=False)

    async def report(self, app: App, result: ResultRecord) -> list[str]:
        """Return how far the pipeline got: its gates, and what is next."""
        if report.was_interrupted(result):
            return [report.stopped_line(result.task)]
        state = (await app.pipelines.view(result.task)).state
        if state.meta.commit == "":  # nothing is in the user's tree yet
            result = replace(result, changed=())
        lines = self._report(result, ())
        return [lines[0], *state_lines(state), *lines[1:]]

    def past(self, entry: Entry) -> list[str]:
        self._at = entry.at
        return [] if isinstance(entry.record, InteractionRecord) else super().lines(entry.record)

    def lines(self, record: Record) -> list[str]:
        self._at = instant.now()
        return super().lines(record)

    def _phase(self, record: PhaseRecord) -> list[str]:
        self._phase_now = record.phase
        if not record.step:
            return self._event("starts", "name")
        if record.status == "in_progress" and not record.logs:
            again = f" (round {record.round})" if record.round > 1 else ""
            return self._event(f"{record.step}{again}", "dim")
        lines = [line for log in record.logs for line in self._event(f"{record.step}: {log}")]
        if record.passed is not None:
            word, meaning = ("passed", "good") if record.passed else ("failed", "bad")
            why = f": {'; '.join(record.issues)}" if record.issues else ""
            lines += self._event(f"gate {record.gate} {word}{why}", meaning)
        return lines

    def _notice(self, text: RecordText) -> list[str]:
        if text.mark != FAILED:
            return self._event(f"{text.who} {text.what}", text.meaning)
        note = f" · {text.note}" if text.note else ""
        return self._event(f"{text.mark} {text.what}{note}", text.meaning)

    def _question(self, record: InteractionRecord, text: RecordText) -> list[str]:
        if record.state == "open":
            lines = self._event(f"{text.who} {text.what}", "asks")
            return [*lines, *self._card(record)] if self.cards else lines
        return self._event(text.what, "dim")

    def _message(self, record: MessageRecord, text: RecordText) -> list[str]:
        by_person = self.team.is_person(record.member)
        message = one_line(text.what) if by_person else prose(text.what)
        return self._event(f"{record.member}: {message}") if message else []

    def _event(self, what: str, meaning: Meaning | None = None) -> list[str]:
        margin = "" if self.cards else " "
        phase = f"{self._phase_now}  " if self._phase_now else ""
        head = f"{margin}{clock(self._at)}  {phase}"
        width = self.width() if self.fold else None
        return event(head, what, width, partial(self.paint, meaning=meaning))


def state_lines(state: PipelineState) -> list[str]:
    """Return a pipeline's current phase, its gates and its commit."""
    gates = [_gate(name, state) for name in state.meta.gates]
    lines = [f"  phase    {state.phase}" + (" (redo)" if state.meta.status == "redo" else "")]
    lines += [f"  gates    {' · '.join(gates)}"] if gates else []
    return lines + ([f"  commit   {state.meta.commit[:12]}"] if state.meta.commit else [])


def _gate(name: str, state: PipelineState) -> str:
    if name in state.meta.overrides:
        return f"{name} overridden"
    return f"{name} {'passed' if state.meta.gates[name].passed else 'failed'}"
