"""A session with tickets as it happens, line by line: when, which ticket, what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from coterie.app.views import WITHDRAWN, is_at_work, read_report, read_session, ticket_of
from coterie.cli import report
from coterie.cli.lines import FAILED, RecordLines, RecordText, prose
from coterie.cli.text import Meaning, clock, counted, event, one_line
from coterie.cli.ticket_table import counts, rows
from coterie.model import instant
from coterie.model.about import PlanApproval, ReportConfirmation
from coterie.model.interaction import APPROVE
from coterie.model.record import (
    Entry,
    InteractionRecord,
    MessageRecord,
    Record,
    ResultRecord,
    TicketRecord,
)
from coterie.model.ticket import Ticket, TicketState, TicketView

if TYPE_CHECKING:
    from coterie.app.project import App

_ENDS: Mapping[str, tuple[str, Meaning]] = {
    "done": ("done", "good"),
    "blocked": ("blocked", "asks"),
    "error": ("failed", "bad"),
}


def _happened(
    record: TicketRecord, before: TicketState | None, manager: str
) -> tuple[str, Meaning | None]:
    """Say what happened to a ticket, with a colour; `before` is the state it was in."""
    message, owner = one_line(record.message), record.owner or "nobody"
    if record.closed_by is not None:
        withdrawn = record.closed_by in WITHDRAWN
        what = f"{record.closed_by}: {message}" if withdrawn else f"is now {record.closed_by}"
        return what, "dim"
    if before == record.state:
        return message, None
    if record.state in _ENDS:
        word, meaning = _ENDS[record.state]
        return f"{word}: {message}", meaning
    if record.state == "discussing":
        return f"{manager} and {owner} are discussing it", None
    if record.state != "in_progress":
        return message, None
    if before == "awaiting_review":
        return f"sent back to {owner}: {message}", "asks"
    return f"{owner} continues: {message}" if before == "blocked" else f"{owner} starts", None


@dataclass
class TicketEvents(RecordLines):
    """Lays out records as events of tickets; remembers the last state of each ticket."""

    _known: dict[str, Ticket | TicketRecord] = field(
        default_factory=dict[str, Ticket | TicketRecord], init=False
    )
    """By id: each ticket as last seen."""
    _past: dict[str, TicketState] = field(default_factory=dict[str, TicketState], init=False)
    """By id: the state of each ticket while past entries are shown."""
    _created: list[TicketRecord] = field(default_factory=list[TicketRecord], init=False)
    """Tickets that a plan created and that have not been printed yet."""
    _approved: bool = field(default=False, init=False)
    _at: str = field(default="", init=False)
    """When the event being shown happened."""

    def load_tickets(self, tickets: Iterable[TicketView]) -> None:
        self._known |= {view.ticket.id: view.ticket for view in tickets}

    async def report(self, app: App, result: ResultRecord) -> list[str]:
        """Return the report of a completed session; of another, how far it got."""
        if result.status == "completed":
            from coterie.cli import ticket_report

            ended = await read_report(app, result.task)
            return ["", *ticket_report.report_lines(ended, self.width(), self.paint)]
        if report.was_interrupted(result):
            return [report.stopped_line(result.task)]
        if await app.branch(result.task):  # nothing is in the user's tree yet
            result = replace(result, changed=())
        lines = self._report(result, ())
        if listed := rows(await read_session(app, result.task)):
            lines.insert(1, f"  tickets  {counts(listed)}   coterie tickets {result.task}")
        return lines

    def past(self, entry: Entry) -> list[str]:
        """Return the lines for a past entry, without updating the known tickets."""
        self._at, record = entry.at, entry.record
        if isinstance(record, InteractionRecord):
            return []
        if not isinstance(record, TicketRecord):
            return super().lines(record)
        before = self._past.get(record.id)
        self._past[record.id] = record.state
        what, meaning = _happened(record, before, self.team.manager.id)
        return [] if record.is_new else self._event(record.id, what, meaning)

    def lines(self, record: Record) -> list[str]:
        """Return the lines for a record; new tickets are held back until a plan's are all known."""
        self._at = instant.now()
        if isinstance(record, TicketRecord) and record.is_new:
            self._created.append(record)
            return []
        return [*self._new_plan(), *super().lines(record)]

    def _notice(self, text: RecordText) -> list[str]:
        if text.mark != FAILED:
            return self._event("", f"{text.who} {text.what}", text.meaning)
        note = f" · {text.note}" if text.note else ""
        return self._event("", f"{text.mark} {text.what}{note}", text.meaning)

    def _new_plan(self) -> list[str]:
        """Return the lines for the tickets that a plan created, once all of them are known."""
        created, self._created = self._created, []
        if not created:
            return []
        first = not self._known
        self._known |= {record.id: record for record in created}
        count = counted(len(created), "ticket")
        lines: list[str] = []
        if not first:
            lines += self._event("", f"the plan has changed: {count} more")
        elif not self._approved:
            lines += self._event("", f"plan with {count}")
        if not self.cards and first:
            return lines
        for record in created:
            after = f", after {' '.join(record.dependencies)}" if record.dependencies else ""
            lines += self._event(record.id, f"{record.title}{after}")
        return lines

    def _ticket(self, record: TicketRecord) -> list[str]:
        before = self._known.get(record.id)
        self._known[record.id] = record
        what, meaning = _happened(record, before.state if before else None, self.team.manager.id)
        return self._event(record.id, what, meaning) if what else []

    def _question(self, record: InteractionRecord, text: RecordText) -> list[str]:
        ticket = ticket_of(record.interaction, self._known)
        if record.state == "open":
            lines = self._event(ticket, f"{text.who} {text.what}", "asks")
            return [*lines, *self._card(record)] if self.cards else lines
        match record.interaction.about, record.answer:
            case PlanApproval(tickets=tickets), answer if answer == APPROVE:
                self._approved = True
                count = counted(tickets, "ticket")
                return self._event("", f"plan approved by {record.by or 'you'}, {count}", "dim")
            case ReportConfirmation(), answer if answer == APPROVE:
                return self._event("", f"report confirmed by {record.by or 'you'}", "dim")
            case _:
                return self._event(ticket, text.what, "dim")

    def _message(self, record: MessageRecord, text: RecordText) -> list[str]:
        by_person = self.team.is_person(record.member)
        message = one_line(text.what) if by_person else prose(text.what)
        if not message or record.member == self.team.manager.id:
            return []  # what a manager says shows in the events it causes
        if by_person:
            return self._event("", f"{record.member}: {message}")
        at_work = [
            name
            for name, ticket in self._known.items()
            if ticket.owner == record.member and is_at_work(ticket)
        ]
        return self._event(at_work[-1] if at_work else "", f'{record.member}: "{message}"')

    def _event(self, ticket: str, what: str, meaning: Meaning | None = None) -> list[str]:
        margin = "" if self.cards else " "
        head = f"{margin}{clock(self._at)}  " + (f"{ticket}  " if ticket else "")
        width = self.width() if self.fold else None
        return event(head, what, width, partial(self.paint, meaning=meaning))
