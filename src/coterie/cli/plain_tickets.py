"""A session with tickets told in plain lines: for pipes, files and terminals that cannot redraw."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from coterie.cli import report, ticket_report
from coterie.cli.call import Call
from coterie.cli.ticket_lines import TicketLines
from coterie.cli.ticket_table import counts, rows
from coterie.model.message import YOU
from coterie.model.record import ErrorRecord, MessageRecord, Record, ResultRecord
from coterie.model.team import Team
from coterie.model.ticket_view import TicketView

if TYPE_CHECKING:
    from coterie.app.project import App


class PlainTickets:
    """An observer that prints; what went wrong goes to stderr."""

    def __init__(self, call: Call, team: Team) -> None:
        self._call = call
        self._team = team
        self._began = time.monotonic()
        self._result: ResultRecord | None = None
        self._lines = TicketLines(team, lambda: call.width, call.paint, fold=call.attended)

    def knows(self, tickets: Iterable[TicketView]) -> None:
        """Tickets that were there before."""
        self._lines.knows({one.ticket.id: one.ticket for one in tickets})

    def opened(self, goal: str, author: str = YOU) -> None:
        """The word that a task starts with."""
        self.saw(MessageRecord(task="", turn=0, member=author, text=goal))

    def saw(self, record: Record) -> None:
        lines = self._lines.lines(record)
        if isinstance(record, ErrorRecord) and lines:
            self._call.note("\n".join(lines))
        else:
            self._call.lines(lines)

    def finished(self, result: ResultRecord) -> None:
        """How it ended is told by `conclude`, which can look at all that was done."""
        self._result = result

    async def conclude(self, app: App) -> None:
        """The report at the end."""
        result = self._result
        if result is None:
            return
        if result.reason == "interrupted":
            self._call.note(report.stopped_line(result.task))
        else:
            seconds = time.monotonic() - self._began
            self._call.lines(await concluded(app, self._call, result, seconds))


async def concluded(app: App, call: Call, result: ResultRecord, seconds: float) -> list[str]:
    """How a run of a session ended: the report of a whole one, else how far it came."""
    if result.status == "completed":
        ended = await ticket_report.gathered(app, result.task)
        return ["", *ticket_report.lines(ended, call.width, call.paint)]
    team = (await app.show(result.task)).state.created.team
    listed = rows(await app.tickets(result.task), team)
    lines = report.lines(result, seconds, call.paint)
    if listed:
        lines.insert(1, f"  tickets  {counts(listed)}   coterie tickets {result.task}")
    return lines
