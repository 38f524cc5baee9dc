"""The chat on a terminal: what happens goes to the scrollback, the live lines say what is now."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from coterie.cli import card, figures, report
from coterie.cli.call import Call
from coterie.cli.screen.board import Board
from coterie.cli.screen.entry import Entry
from coterie.cli.screen.prompt import Prompt
from coterie.cli.text import ASCII, clip, wrap
from coterie.cli.transcript import Transcript, asking
from coterie.errors import CoterieError
from coterie.model.message import YOU
from coterie.model.record import InteractionRecord, MessageRecord, Record, ResultRecord
from coterie.model.team import Team

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

    from coterie.app import App


class Screen:
    """An observer that shows a run on a terminal and takes what is typed there."""

    def __init__(
        self,
        call: Call,
        team: Team,
        max_turns: int | None,
        history: Path | None,
        streams: tuple[Input, Output] | None = None,
    ) -> None:
        self._call = call
        self._team = team
        self._parked: Callable[[], None] = lambda: None
        self._board = Board(team, max_turns)
        self._paint = call.paint
        self._began = time.monotonic()
        self._report: list[str] = []
        encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
        self._unicode = encoding.startswith("utf")
        self._entry = Entry(self._board, self)
        names = [member.id for member in team.in_order]
        self._prompt = Prompt(
            self, self._entry, names, history, colour=call.colour, streams=streams
        )
        self._transcript = Transcript(
            team, lambda: self._prompt.width, self._paint, fold=True, cards=False
        )

    # -- life ----------------------------------------------------------------------------------

    @asynccontextmanager
    async def shown(self, on_stop: Callable[[], None]) -> AsyncGenerator[None]:
        """The live lines, for the length of the block; `on_stop` is what Ctrl-C does."""
        self._parked = on_stop
        failure: CoterieError | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(self._prompt.run)
            group.start_soon(self._entry.run)
            try:
                yield
            except CoterieError as error:  # kept out of the group, which would wrap it
                failure = error
            finally:
                self._prompt.close()
                self._entry.close()
        self._call.lines([*self._prompt.leftover(), *self._report])
        if failure is not None:
            raise failure

    async def first_word(self) -> str | None:
        """The line that a conversation begins with; None when the user left instead."""
        who = ", ".join(member.id for member in self._team.in_order)
        self.print([f" {self._team.name}: {who}.   What should they do?"])
        return await self._entry.first_word()

    def attach(self, app: App, task_id: str) -> None:
        """From now on what is typed goes to this task."""
        self._board.began(task_id)
        self._entry.attach(app)

    # -- what happens --------------------------------------------------------------------------

    def opened(self, goal: str, author: str = YOU) -> None:
        """The word that a task starts with."""
        self.saw(MessageRecord(task="", turn=0, member=author, text=goal))

    def saw(self, record: Record) -> None:
        self._board.saw(record)
        own = isinstance(record, InteractionRecord) and self._board.is_person(record.member)
        if not own:  # a human's own turn shows in the live lines
            self._prompt.print(self._transcript.lines(record))
        self.redraw()

    def finished(self, result: ResultRecord) -> None:
        """The report, for when the live lines are gone."""
        if result.reason == "interrupted":
            self._report = [report.stopped_line(result.task)]
        else:
            self._report = report.lines(result, time.monotonic() - self._began, self._paint)

    # -- for the entry -------------------------------------------------------------------------

    def print(self, lines: list[str]) -> None:
        """Lines of ours for the scrollback, which are folded here."""
        width = self._prompt.width - 1
        self._prompt.print([part for line in lines for part in wrap(line, width)])

    def redraw(self) -> None:
        """The live lines have changed."""
        self._prompt.redraw()

    def park(self) -> None:
        """Stop, keep."""
        self._prompt.close()
        self._parked()

    # -- for the prompt ------------------------------------------------------------------------

    def card(self, width: int, height: int) -> list[str]:
        """The open question."""
        question = self._entry.question
        for record, came in self._board.asked:
            if record.interaction is question:
                asked = card.Asked(
                    record.interaction,
                    asking(self._team.get(record.member), record.member),
                    figures.clocked(time.monotonic() - came),
                    self._board.task,
                )
                lines = card.card(asked, width, height, self._paint)
                return [self.symbols(line) for line in lines]
        return []

    def status(self, width: int) -> str:
        """Who does what, how far it is."""
        return self.symbols(self._board.status(width))

    def hint(self, width: int) -> str:
        """The keys that do something now."""
        if self._entry.card_open:
            digit = "digit, then Enter" if self._entry.choosing else "type, then Enter"
            later = "l later" if self._entry.choosing else "Esc later"
            return self.symbols(clip(f" {digit} · {later}, stays in the inbox", width))
        return self.symbols(self._board.hint(width))

    def prompt(self) -> str:
        """What stands before the cursor."""
        question = self._entry.question
        return f" {question.interaction_id}> " if question else " > "

    def symbols(self, text: str) -> str:
        """The text in symbols that the terminal's encoding has."""
        return text if self._unicode else text.translate(ASCII)
