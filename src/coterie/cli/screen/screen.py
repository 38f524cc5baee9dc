"""The chat on a terminal: events go to the scrollback, the live lines show the current state."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from coterie.cli import card, report
from coterie.cli.card_content import content_lines
from coterie.cli.lines import RecordLines, Surface, Transcript
from coterie.cli.main import Call
from coterie.cli.screen.input import Action, InputHandler
from coterie.cli.screen.prompt import PromptArea
from coterie.cli.screen.status import ChatStatus
from coterie.cli.text import asking, clip, clocked, wrap
from coterie.errors import CoterieError
from coterie.model.interaction import Interaction
from coterie.model.record import Entry, InteractionRecord, QuestionView, Record, ResultRecord
from coterie.model.team import Team

if TYPE_CHECKING:
    from prompt_toolkit.history import History
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

    from coterie.app.project import App


class Screen(Surface):
    """An observer that shows a run on a terminal and takes what is typed there."""

    renderer: type[RecordLines] = Transcript

    def __init__(
        self,
        call: Call,
        team: Team,
        max_turns: int | None,
        history: History | None,
        streams: tuple[Input, Output] | None = None,
    ) -> None:
        self._call = call
        self._team = team
        self._parked: Callable[[], None] = lambda: None
        self._board = self._make_board(max_turns)
        self._paint = call.paint
        self._report: list[str] = []
        self._entry = InputHandler(self._board, self)
        names = [member.id for member in team.in_order]
        self._prompt = PromptArea(
            self, self._entry, names, history, colour=call.colour, streams=streams
        )
        self._renderer = self.renderer(
            team, lambda: self._prompt.width, call.paint, fold=True, cards=False
        )

    def _make_board(self, max_turns: int | None) -> ChatStatus:
        return ChatStatus(self._team, max_turns)

    @asynccontextmanager
    async def shown(self, on_stop: Callable[[], None]) -> AsyncGenerator[None]:
        """Show the live lines for the duration of the block; Ctrl-C calls `on_stop`."""
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
        """Ask for the first line of a conversation; None if the user left instead."""
        who = ", ".join(member.id for member in self._team.in_order)
        self.print([f" {self._team.name}: {who}.   What should they do?"])
        return await self._entry.first_word()

    def attach(self, app: App, task_id: str) -> None:
        """From now on, send what is typed to this task."""
        self._board.began(task_id)
        self._entry.attach(app)

    def watch(self) -> None:
        """Watch a task that runs elsewhere: leaving does not stop it."""
        self._board.watch()

    def caught_up(self, tokens: int, questions: Sequence[QuestionView]) -> None:
        """Take over what earlier runs of the task used and were granted."""
        self._board.caught_up(tokens, questions)

    def look_back(self, entries: Sequence[Entry]) -> None:
        """Show the last entries from before this run."""
        for entry in entries:
            if not isinstance(entry.record, InteractionRecord):
                self.saw(entry.record)

    def saw(self, record: Record) -> None:
        self._board.saw(record)
        own = isinstance(record, InteractionRecord) and self._board.is_person(record.member)
        if not own:  # a human's own turn shows in the live lines
            self._prompt.print(self._renderer.lines(record))
        self.redraw()

    def idle_seconds(self) -> float | None:
        return self._prompt.idle_seconds

    async def finished(self, app: App, result: ResultRecord) -> None:
        """Keep the report, to be shown once the live lines are gone."""
        self._report = [report.stopped_line(result.task)]  # in case the full report fails
        self._report = await self._renderer.report(app, result)

    def print(self, lines: list[str]) -> None:
        """Print the screen's own lines to the scrollback, folded here."""
        width = self._prompt.width - 1
        self._prompt.print([part for line in lines for part in wrap(line, width)])

    def redraw(self) -> None:
        self._prompt.redraw()

    def fill(self, line: str) -> None:
        """Put a line into the prompt, to be edited."""
        if line:
            self._prompt.fill(line)

    def show_whole(self, question: Interaction) -> None:
        """Print the whole content of a question to the scrollback."""
        lines = content_lines(question.display, self._prompt.width - 1, self._paint)
        title = f" {question.interaction_id}  {card.heading(question)}"
        self._prompt.print([clip(title, self._prompt.width), *lines, ""])

    def command(self, word: str) -> Action | None:
        """Return the action of a command that only this kind of screen has."""
        return None

    def park(self) -> None:
        self._prompt.close()
        self._parked()

    def card(self, width: int, height: int) -> list[str]:
        opened = self._entry.card
        for record, came in self._board.questions:
            if record.interaction is opened.question:
                context = card.QuestionContext(
                    record.interaction,
                    asking(self._team.get(record.member), record.member),
                    clocked(time.monotonic() - came),
                    self._board.place(record.interaction),
                )
                return card.card(context, width, self._paint, opened.live(height))
        return []

    def table(self, width: int, height: int) -> list[str]:
        """Return what is shown above the status line: nothing, in a chat."""
        return []

    def status(self, width: int) -> str:
        return self._board.status(width, self._paint)

    def hint(self, width: int) -> str:
        if self._entry.card_open:
            digit = "digit, then Enter" if self._entry.choosing else "type, then Enter"
            keys = [digit, "Esc later"]
            if len(self._board.questions) > 1:
                keys.insert(1, "Tab next question")
            return clip(f" {' · '.join(keys)}", width)
        return self._board.hint(width)

    def commands(self) -> Sequence[str]:
        return list(self._board.commands)

    def prompt(self) -> str:
        return self._entry.card.prompt
