"""A session with tickets on a terminal: events in the scrollback, the table live below them."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from coterie.cli import report, ticket_page
from coterie.cli.plain_tickets import concluded
from coterie.cli.screen.entry import Action
from coterie.cli.screen.screen import Lines, Screen
from coterie.cli.screen.tickets_board import TicketBoard
from coterie.cli.ticket_lines import TicketLines
from coterie.model.message import YOU
from coterie.model.record import (
    InteractionRecord,
    MessageRecord,
    Record,
    ResultRecord,
    TicketRecord,
)
from coterie.model.view import Entry

if TYPE_CHECKING:
    from coterie.app import App

_REST = 10
"""The board is read anew for one part of the time in so many."""
_TICKET = re.compile(r"/(T\d+)", re.IGNORECASE)


class TicketScreen(Screen):
    """The screen of a chat, with another board."""

    _tickets: TicketBoard
    _app: App | None = None
    _is_stale: bool = False
    """Whether something happened since the board was last read."""
    _rests_until: float = 0.0
    _result: ResultRecord | None = None

    def _make_board(self, max_turns: int | None) -> TicketBoard:
        self._tickets = TicketBoard(self._team, max_turns)
        return self._tickets

    def _make_transcript(self) -> Lines:
        self._events = TicketLines(
            self._team, lambda: self._prompt.width, self._paint, fold=True, cards=False
        )
        return self._events

    # -- life ----------------------------------------------------------------------------------

    def attach(self, app: App, task_id: str) -> None:
        """From now on what is typed goes to this session's manager."""
        super().attach(app, task_id)
        self._app = app
        self._entry.soon(self._catch_up)

    def opened(self, goal: str, author: str = YOU) -> None:
        """The goal stands above the table."""
        self._tickets.goal = goal

    def look_back(self, entries: Sequence[Entry]) -> None:
        """The end of what happened before; how tickets stand is read from what is kept."""
        self._prompt.print([line for entry in entries for line in self._events.past(entry)])

    def saw(self, record: Record) -> None:
        super().saw(record)
        if isinstance(record, TicketRecord | MessageRecord | InteractionRecord):
            self._is_stale = True
            self._refresh_soon()

    def finished(self, result: ResultRecord) -> None:
        """How it ended is told by `conclude`, which can look at all that was done."""
        self._result = result

    async def conclude(self, app: App) -> None:
        """The report, for when the live lines are gone."""
        result = self._result
        if result is None or result.reason == "interrupted":
            self._report = [report.stopped_line(self._board.task)]
            return
        seconds = time.monotonic() - self._began
        self._report = await concluded(app, self._call, result, seconds)

    # -- what is kept --------------------------------------------------------------------------

    async def _catch_up(self) -> None:
        """What was there before this run."""
        if self._app is None:
            return
        task = self._board.task
        created = (await self._app.show(task)).state.created
        self._tickets.goal = created.goal
        costs = await self._app.costs(task)
        self._tickets.spent(sum((one.usage.cost_usd or 0.0) for one in costs if one.usage))
        views = await self._app.tickets(task)
        self._tickets.load(views)
        self._events.knows({one.ticket.id: one.ticket for one in views})

    def _refresh_soon(self) -> None:
        if self._is_stale and self._app is not None and time.monotonic() > self._rests_until:
            self._is_stale = False
            self._rests_until = math.inf
            self._entry.soon(self._refresh)

    async def _refresh(self) -> None:
        """What tickets took is known only to the record of turns."""
        began = time.monotonic()
        if self._app is not None:
            self._tickets.load(await self._app.tickets(self._board.task))
        now = time.monotonic()
        # A session of a thousand tickets takes long to read: most of the time is for others.
        self._rests_until = now + _REST * (now - began)

    # -- looking -------------------------------------------------------------------------------

    def table(self, width: int, height: int) -> list[str]:
        """What it is about, how far it is, and the tickets."""
        self._refresh_soon()
        lines = self._tickets.table(width, height, self._paint)
        return [self.symbols(line) for line in lines]

    def commands(self) -> Sequence[str]:
        """What may be typed after a slash."""
        known = [name for name in self._board.commands if not _TICKET.fullmatch(name)]
        return [*known, *(f"/{name}" for name in self._tickets.tickets)]

    def command(self, word: str) -> Action | None:
        """`/T4` shows one ticket."""
        found = _TICKET.fullmatch(word)
        return partial(self._show_ticket, found[1].upper()) if found else None

    async def _show_ticket(self, name: str) -> None:
        row = next((one for one in self._tickets.rows() if one.ticket.id == name), None)
        if row is None or self._app is None:
            self.print([f" ! No ticket {name}."])
            return
        views = {one.ticket.id: one for one in await self._app.tickets(self._board.task)}
        said = await self._app.envelopes(self._board.task)
        page = ticket_page.Page.of(self._board.task, row.with_view(views[name]), said)
        width = self._prompt.width - 1
        shown = ticket_page.lines(page, width, self._paint, whole=False)
        self._prompt.print([*(f" {line}" for line in shown), ""])
