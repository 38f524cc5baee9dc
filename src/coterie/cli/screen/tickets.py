"""A session with tickets on a terminal: events in the scrollback, the table live below them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from coterie.app.views import is_at_work, read_ticket, ticket_of
from coterie.cli.lines import RecordLines
from coterie.cli.screen.input import Action
from coterie.cli.screen.screen import Screen
from coterie.cli.screen.status import HELP, STOPS, WORK_COMMANDS, ChatStatus, work_keys
from coterie.cli.text import NO_COLOUR, Paint, cells, clip, duration, ends, one_line
from coterie.cli.ticket_events import TicketEvents
from coterie.cli.ticket_report import page_lines
from coterie.cli.ticket_table import Row, progress, rows_of, table, thousands
from coterie.model.interaction import Interaction, in_short
from coterie.model.record import Entry, MessageRecord, Record, TicketRecord
from coterie.model.task import running_task, ticket_task
from coterie.model.team import YOU, Team
from coterie.model.ticket import Ticket, TicketView, named_ticket

if TYPE_CHECKING:
    from coterie.app.project import App

_CHANGING = {"ticket", "message", "interaction"}
"""Records after which the table is reloaded."""
_RELOAD_PAUSE_FACTOR = 10
"""How long to pause after reloading the table, as a multiple of the time that it took."""
_TELLS = "type to tell the manager"
_HEAD = 3
"""Lines above the table: the title, the progress, a blank one."""


class TicketStatus(ChatStatus):
    """Follows the records of a session and the state of each ticket."""

    commands: Mapping[str, str] = {
        **WORK_COMMANDS,
        "/T4": "one ticket: its history, instruction, report and review",
    }
    shortcuts: Mapping[str, str] = work_keys("send it to the manager, who may change the plan")
    dropped_first: Sequence[str] = (HELP, _TELLS, STOPS)
    queued: str = "the manager reads it next"

    def __init__(self, team: Team, max_turns: int | None) -> None:
        super().__init__(team, max_turns)
        self.goal: str = ""
        self._views: dict[str, TicketView] = {}
        self._started: dict[str, tuple[float, float]] = {}
        """By ticket that is worked on: since when, and how long it had taken before that."""
        self._money = 0.0

    def load(self, views: Iterable[TicketView]) -> None:
        """Load the state of the tickets and the time they took, as stored."""
        before, self._views = self._views, {}
        for view in views:
            known = before.get(view.ticket.id)
            # The end of a turn may not be recorded yet.
            seconds = view.seconds or (known.seconds if known else 0.0)
            self._views[view.ticket.id] = replace(view, seconds=seconds)
            self._clock(view)

    def spent(self, money: float) -> None:
        """Set what earlier runs cost."""
        self._money = money

    def saw(self, record: Record) -> None:
        super().saw(record)
        if isinstance(record, TicketRecord):
            self._ticket(record)
        elif isinstance(record, MessageRecord) and record.usage is not None:
            self._money += record.usage.cost_usd or 0.0

    def _ticket(self, record: TicketRecord) -> None:
        before = self._views.get(record.id) or TicketView(Ticket(record.id, "", record.title))
        ticket = replace(
            before.ticket,
            state=record.state,
            owner=record.owner,
            dependencies=record.dependencies,
            closed_by=record.closed_by,
        )
        view = replace(before, ticket=ticket, seconds=self._seconds_so_far(before))
        self._views[record.id] = view
        self._clock(view)

    def _clock(self, view: TicketView) -> None:
        """Keep a ticket's clock running while somebody works on it."""
        name = view.ticket.id
        if not is_at_work(view.ticket):
            self._started.pop(name, None)
        elif name not in self._started:
            self._started[name] = (time.monotonic(), view.seconds)

    @property
    def tickets(self) -> Sequence[str]:
        return list(self._views)

    def rows(self) -> list[Row]:
        """Return all tickets as they are right now."""
        views = [replace(view, seconds=self._seconds_so_far(view)) for view in self._views.values()]
        return rows_of(views, self._team, self._asking())

    def _seconds_so_far(self, view: TicketView) -> float:
        """Return how long a ticket has taken so far, whether or not that is recorded yet."""
        begun = self._started.get(view.ticket.id)
        if begun is None:
            return view.seconds
        since, before = begun
        return max(view.seconds, before + time.monotonic() - since)

    def _asking(self) -> dict[str, str]:
        """Return, by ticket, the question that its work waits for."""
        questions: dict[str, str] = {}
        for record, _ in self.questions:
            question = record.interaction
            questions.setdefault(self._about(question), question.interaction_id)
        return questions

    def _about(self, question: Interaction) -> str:
        return ticket_of(question, {name: view.ticket for name, view in self._views.items()})

    def place(self, question: Interaction) -> str:
        """What a question is about: its ticket, else the session."""
        name = self._about(question)
        return ticket_task(running_task(question.task_id), name) if name else question.task_id

    def table(self, width: int, height: int, paint: Paint = NO_COLOUR) -> list[str]:
        """The title, the progress and the tickets, in at most `height` lines."""
        if not self.task:
            return []
        listed = self.rows()
        lines = [self._title(width, paint)]
        if listed:
            lines.append(progress(listed, width))
            if height > _HEAD + 2:
                lines += ["", *table(listed, width, paint, height - _HEAD)]
        return lines[: max(height, 0)]

    def _title(self, width: int, paint: Paint) -> str:
        facts = [_clock(time.monotonic() - self._began), self._used(thousands)]
        facts.append(f"${self._money:.2f}" if self._money else "")
        right = " · ".join(fact for fact in facts if fact)
        left = clip(f" {self.task}  {one_line(self.goal)}", max(width - cells(right) - 2, 8))
        return ends(left, right, width).replace(left, paint(left, "title"), 1)

    def status(self, width: int, paint: Paint = NO_COLOUR) -> str:
        """The oldest open question; if there is none, who does what."""
        if not self.questions:
            return super().status(width, paint)
        record, came = self.questions[0]
        question = record.interaction
        more = f"   and {len(self.questions) - 1} more" if len(self.questions) > 1 else ""
        waiting = f"{more}   waiting {_clock(time.monotonic() - came)}"
        line = f" ▲ {question.interaction_id} {record.member} {in_short(question)}"
        return paint(ends(line, waiting.strip(), width), "asks")

    def _facts(self) -> list[str]:
        """Empty once there is a task: the facts are then shown above the table."""
        return [] if self.task else super()._facts()

    def _hints(self) -> list[str]:
        asking = [name for name in self._asking() if name]
        at_work = [name for name, view in self._views.items() if is_at_work(view.ticket)]
        # Only the first is offered: a ticket for which there is something to see.
        tickets = [f"/{name} one ticket" for name in [*asking, *at_work, *self._views]]
        return [_TELLS if self.task else "type the goal, Enter", *tickets[:1], self.stops, HELP]


class TicketScreen(Screen):
    """The screen of a chat, with a table of tickets above the status line."""

    _tickets: TicketStatus
    _app: App | None = None
    _is_stale: bool = False
    """Whether something happened since the table was last read."""
    _next_reload: float = 0.0
    renderer: type[RecordLines] = TicketEvents

    def _make_board(self, max_turns: int | None) -> TicketStatus:
        self._tickets = TicketStatus(self._team, max_turns)
        return self._tickets

    def attach(self, app: App, task_id: str) -> None:
        """From now on, send what is typed to this session's manager."""
        super().attach(app, task_id)
        self._app = app
        self._entry.enqueue(self._catch_up)

    def show_goal(self, goal: str, author: str = YOU) -> None:
        """Show the goal above the table."""
        self._tickets.goal = goal

    def look_back(self, entries: Sequence[Entry]) -> None:
        """Show the last entries from before this run; the tickets' state comes from the store."""
        self._prompt.print([line for entry in entries for line in self._renderer.past(entry)])

    def saw(self, record: Record) -> None:
        super().saw(record)
        if record.type in _CHANGING:
            self._is_stale = True
            self._refresh_soon()

    async def _catch_up(self) -> None:
        """Load what existed before this run."""
        if self._app is None:
            return
        task = self._board.task
        created = (await self._app.show(task)).state.created
        self._tickets.goal = created.goal
        costs = await self._app.costs(task)
        self._tickets.spent(sum((cost.usage.cost_usd or 0.0) for cost in costs if cost.usage))
        views = await self._app.tickets(task)
        self._tickets.load(views)
        self._renderer.load_tickets(views)

    def _refresh_soon(self) -> None:
        if self._is_stale and self._app is not None and time.monotonic() > self._next_reload:
            self._is_stale = False
            self._next_reload = math.inf
            self._entry.enqueue(self._refresh)

    async def _refresh(self) -> None:
        """Reload the tickets: how long they took is known only from the recorded turns."""
        began = time.monotonic()
        if self._app is not None:
            self._tickets.load(await self._app.tickets(self._board.task))
        now = time.monotonic()
        # A session of a thousand tickets takes long to read: leave most of the time to the rest.
        self._next_reload = now + _RELOAD_PAUSE_FACTOR * (now - began)

    def table(self, width: int, height: int) -> list[str]:
        self._refresh_soon()
        return self._tickets.table(width, height, self._paint)

    def commands(self) -> Sequence[str]:
        known = [name for name in self._board.commands if not named_ticket(name)]
        return [*known, *(f"/{name}" for name in self._tickets.tickets)]

    def command(self, word: str) -> Action | None:
        """`/T4` shows one ticket."""
        match named_ticket(word):
            case "", ticket:
                return partial(self._show_ticket, ticket)
            case _:
                return None

    async def _show_ticket(self, name: str) -> None:
        row = next((row for row in self._tickets.rows() if row.ticket.id == name), None)
        if row is None or self._app is None:
            self.print([f" ! No ticket {name}."])
            return
        detail = await read_ticket(self._app, self._board.task, name)
        view = next(one for one in detail.session.tickets if one.ticket.id == name)
        width = self._prompt.width - 1
        shown = page_lines(detail, replace(row, view=view), width, self._paint, whole=False)
        self._prompt.print([*(f" {line}" for line in shown), ""])


def _clock(seconds: float) -> str:
    """`0m20s`, `12m04s`, `2h03m`: of the same length for as long as possible."""
    minutes, left = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{left:02d}s"
    return duration(seconds).replace(" ", "")
