"""What is typed, and what becomes of it: a word to the task, an answer, a command, a key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

import anyio

from coterie.cli.screen.board import Board
from coterie.cli.screen.completion import COMMANDS
from coterie.cli.text import clip, one_line
from coterie.errors import AnswerRefused, CoterieError
from coterie.model.interaction import Interaction
from coterie.model.message import YOU

if TYPE_CHECKING:
    from coterie.app import App

Action = Callable[[], Awaitable[None]]


class Surroundings(Protocol):
    """What the entry needs of the screen."""

    def print(self, lines: list[str]) -> None:
        """Lines for the scrollback."""
        ...

    def redraw(self) -> None:
        """The live lines have changed."""
        ...

    def park(self) -> None:
        """Stop, keep."""
        ...


class Entry:
    """Takes lines and keys one after the other, and acts on the task."""

    def __init__(self, board: Board, around: Surroundings) -> None:
        self._board = board
        self._around = around
        self._app: App | None = None
        self._opened: str | None = None
        self._send, self._actions = anyio.create_memory_object_stream[Action](100)
        self._began = anyio.Event()
        self.goal: str | None = None
        """What was typed before there was a task."""

    # -- life ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Act on what is typed until `close`."""
        async with self._actions:
            async for action in self._actions:
                try:
                    await action()
                except CoterieError as error:
                    hint = f"  {error.hint}" if error.hint else ""
                    self._around.print([f" ! {one_line(str(error))}{hint}"])
                self._around.redraw()

    def close(self) -> None:
        """Nothing more is taken."""
        self._send.close()
        self._began.set()

    async def first_word(self) -> str | None:
        """The line that a conversation begins with; None when the user left instead."""
        await self._began.wait()
        return self.goal

    def attach(self, app: App) -> None:
        """From now on there is a task to talk to."""
        self._app = app

    # -- keys ----------------------------------------------------------------------------------

    def typed(self, line: str) -> None:
        """A line was entered."""
        self._soon(partial(self._take, line.strip()))

    def stop(self) -> None:
        """Ctrl-C, or Ctrl-D on an empty line."""
        self._began.set()
        self._around.park()

    def escape(self) -> None:
        """Away with the card, else break off the turn."""
        if self._opened is not None:
            self.later()
        elif self._app is not None and self._board.busy:
            self._soon(partial(self._app.interrupt, self._board.task))

    def open_question(self) -> None:
        """The oldest open question becomes the card."""
        asked = self._board.asked
        if asked and self._opened is None:
            self._opened = asked[0][0].interaction.interaction_id
            self._around.redraw()

    def later(self) -> None:
        """The card is put away; its question stays in the inbox."""
        self._opened = None
        self._around.redraw()

    @property
    def card_open(self) -> bool:
        """Whether a question has been opened, and is still open."""
        return self.question is not None

    @property
    def choosing(self) -> bool:
        """Whether the card is answered by a choice."""
        return self.question is not None and self.question.kind != "Input"

    @property
    def question(self) -> Interaction | None:
        """The question on the card."""
        for record, _ in self._board.asked:
            if record.interaction.interaction_id == self._opened:
                return record.interaction
        self._opened = None  # it was answered elsewhere
        return None

    def _soon(self, action: Action) -> None:
        try:
            self._send.send_nowait(action)
        except anyio.WouldBlock:
            self._around.print([" ! too much was typed at once; the last line was not sent"])

    # -- lines ---------------------------------------------------------------------------------

    async def _take(self, line: str) -> None:
        question = self.question
        if question is not None:
            await self._answer(question, line)
        elif line.startswith("/"):
            await self._command(line)
        elif self._app is not None:
            await self._say(self._app, line)
        else:
            self.goal = line
            self._began.set()

    async def _say(self, app: App, line: str) -> None:
        if await app.say(self._board.task, line) == "queued":
            self._around.print([f" {YOU}   {clip(one_line(line), 50)}   (heard after this turn)"])

    async def _answer(self, question: Interaction, line: str) -> None:
        if self._app is None:
            return
        choice, text = _parted(question, line)
        await self._app.answer(question.interaction_id, choice=choice, text=text, author=YOU)
        self.later()

    async def _command(self, line: str) -> None:
        word = line.split(maxsplit=1)[0]
        match word:
            case "/help":
                self._around.print(_keys())
            case "/who":
                self._around.print(self._board.who())
            case "/stop":
                self.stop()
            case "/end":
                await self._end()
            case "/tasks":
                await self._tasks()
            case _:
                self._around.print([f" ! No command {word}. Here: {' '.join(COMMANDS)}"])

    async def _end(self) -> None:
        if self._app is None:
            self._began.set()
        elif await self._app.say(self._board.task, "/end") == "queued":
            self._around.print([" ends when this turn is over"])

    async def _tasks(self) -> None:
        tasks = await self._app.tasks() if self._app is not None else []
        lines = [f"   {one.id}   {one.status}   {clip(one_line(one.title), 50)}" for one in tasks]
        self._around.print(lines or ["   No task yet."])


def _parted(question: Interaction, line: str) -> tuple[str | None, str | None]:
    """A typed line as choice and text, as the kind of question wants them."""
    if question.kind == "Input":
        return None, line
    choice, _, text = line.partition(" ")
    if text.strip() and question.kind != "Composite":
        raise AnswerRefused(f"{question.interaction_id} takes a choice alone. It stays open.")
    return choice, text.strip() or None


def _keys() -> list[str]:
    commands = [f"   {name:<8} {what}" for name, what in COMMANDS.items()]
    return [
        "   Enter    say it to the team; while somebody works, it is heard after that turn",
        "   @name    picks who speaks next",
        "   Tab      opens the oldest question; completes names and commands",
        "   Esc      breaks off the turn that runs",
        "   ^C       stops and keeps: coterie resume goes on",
        *commands,
    ]
