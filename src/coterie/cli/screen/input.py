"""What is typed, and what becomes of it: a message to the task, an answer, a command, a key."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

import anyio

from coterie.cli import timeline
from coterie.cli.card import LiveCard
from coterie.cli.screen.status import ChatStatus
from coterie.cli.text import clip, one_line
from coterie.errors import AnswerRefused, CoterieError
from coterie.model.conversation import YOU, is_end
from coterie.model.interaction import (
    BY_RULE,
    Interaction,
    Option,
    answer_word,
    refuse_lost_words,
)
from coterie.model.record import MessageRecord, TaskRecord
from coterie.model.task import run_with

if TYPE_CHECKING:
    from coterie.app.project import App

Action = Callable[[], Awaitable[None]]
_COMMAND = re.compile(r"/[A-Za-z]+")
"""What looks like one word of command, known or not."""
_FEW = 20
"""So many tasks are listed, the newest."""


class ScreenActions(Protocol):
    """What input does to the screen."""

    def print(self, lines: list[str]) -> None: ...
    def redraw(self) -> None: ...
    def fill(self, line: str) -> None: ...
    def show_whole(self, question: Interaction) -> None: ...
    def command(self, word: str) -> Action | None: ...
    def park(self) -> None: ...


class InputHandler:
    """Takes lines and keys one after the other, and acts on the task."""

    def __init__(self, board: ChatStatus, around: ScreenActions) -> None:
        self._board = board
        self._around = around
        self._app: App | None = None
        self.card: OpenCard = OpenCard(board)
        self._send, self._actions = anyio.create_memory_object_stream[Action](100)
        self._began = anyio.Event()
        self.goal: str | None = None
        """What was typed before there was a task."""

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

    def typed(self, line: str) -> None:
        # A space before the slash makes it a word to the team.
        self.soon(partial(self._take, line.strip(), slash=line.startswith("/")))

    def stop(self) -> None:
        """Ctrl-C, or Ctrl-D on an empty line."""
        self._began.set()
        self._around.park()

    def escape(self) -> None:
        """Away with the card, else break off the turn."""
        if self.card_open:
            self._put_away()
        elif self._app is not None and self._board.busy:
            self.soon(partial(self._app.interrupt, self._board.task))

    def open_question(self) -> None:
        """The oldest open question becomes the card; where one is open, the next."""
        self.card.open_next()
        self._around.redraw()

    def pressed(self, key: str) -> None:
        """A key of the card."""
        question = self.card.question
        if question is None:
            return
        match key:
            case "l":
                self._put_away()
            case "s":
                self.soon(partial(self._show_turn, question))
            case "d":
                self._around.show_whole(question)
            case "e":
                self._around.fill(self.card.editable)
            case _:
                self.card.toggle_alike()
                self._around.redraw()

    def _put_away(self) -> None:
        self.card.put_away()
        self._around.redraw()

    @property
    def card_open(self) -> bool:
        """Whether a question has been opened, and is still open."""
        return self.card.question is not None

    @property
    def choosing(self) -> bool:
        return self.card.choosing

    def soon(self, action: Action) -> None:
        """Do something in its turn, after what was typed before."""
        try:
            self._send.send_nowait(action)
        except anyio.WouldBlock:
            self._around.print([" ! too much was typed at once; the last line was not sent"])

    async def _take(self, line: str, *, slash: bool) -> None:
        if self.card_open and self._app is not None:
            await self.card.answer(self._app, line, lambda note: self._around.print([note]))
        elif slash and (action := self._command(line)):
            await action()
        elif self._app is not None:
            # Only with its space is it said, and not the end, further on too.
            await self._say(self._app, f" {line}" if is_end(line) else line)
        else:
            self.goal = line
            self._began.set()

    async def _say(self, app: App, line: str) -> None:
        if await app.say(self._board.task, line) == "queued":
            said = clip(one_line(line), 50)
            self._around.print([f" {YOU}   {said}   ({self._board.queued})"])

    async def _show_turn(self, question: Interaction) -> None:
        """What was done in the turn that asks, before it asked."""
        entries = await self._app.timeline(question.task_id) if self._app is not None else []
        messages = [n for n, entry in enumerate(entries) if isinstance(entry.record, MessageRecord)]
        turn = entries[messages[-1] :] if messages else entries
        records = [entry.record for entry in turn if not isinstance(entry.record, TaskRecord)]
        logged = map(timeline.logged, records)
        lines = [f"   {who}  {clip(one_line(what), 200)}" for who, what in logged if what]
        if question.permission is not None and question.permission.said.strip():
            lines.append(f'   {question.author_actor_id}  "{one_line(question.permission.said)}"')
        self._around.print(lines)

    def _command(self, line: str) -> Action | None:
        """What a line does that is a command and nothing more; None for a path, or a sentence."""
        known: Mapping[str, Action] = {
            "/help": self._help,
            "/who": self._who,
            "/stop": self._stop,
            "/end": self._end,
            "/tasks": self._tasks,
        }
        word = line.lower()
        if word in self._board.commands and word in known:
            return known[word]
        special = self._around.command(line)
        return special or (partial(self._refuse, line) if _COMMAND.fullmatch(line) else None)

    async def _refuse(self, word: str) -> None:
        """Probably mistyped; it stays where it can be mended."""
        known = " ".join(self._board.commands)
        said = f" ! No command {word}. Here: {known}"
        self._around.print([f"{said}   (to say it, put a space before it)"])
        self._around.fill(word)

    async def _help(self) -> None:
        self._around.print(self._board.keys())

    async def _who(self) -> None:
        self._around.print(self._board.who())

    async def _stop(self) -> None:
        if self._app is not None and self._board.watches:
            await self._app.stop(self._board.task)
        else:
            self.stop()

    async def _end(self) -> None:
        if self._app is None:
            self._began.set()
        elif await self._app.say(self._board.task, "/end") == "queued":
            self._around.print([" ends when this turn is over"])

    async def _tasks(self) -> None:
        tasks = (await self._app.tasks())[-_FEW:] if self._app is not None else []
        lines = [f"   {one.id}   {one.status}   {clip(one_line(one.title), 50)}" for one in tasks]
        self._around.print(lines or ["   No task yet."])


class OpenCard:
    """At most one question of the board is open; it opens only on purpose."""

    def __init__(self, board: ChatStatus) -> None:
        self._board = board
        self._name: str | None = None
        self._with_alike = False

    @property
    def question(self) -> Interaction | None:
        """The question on the card; None when none was opened, or it was answered elsewhere."""
        found = next((one for one in self._asked if one.interaction_id == self._name), None)
        if found is None:
            self.put_away()
        return found

    @property
    def choosing(self) -> bool:
        """Whether the card is answered by a choice."""
        return self.question is not None and self.question.kind != "Input"

    def open_next(self) -> None:
        """The oldest open question; where a card is open, the one after it."""
        names = [one.interaction_id for one in self._asked]
        if names:
            place = names.index(self._name) + 1 if self._name in names else 0
            self.put_away()
            self._name = names[place % len(names)]

    def put_away(self) -> None:
        """Away with the card; its question stays in the inbox."""
        self._name, self._with_alike = None, False

    def toggle_alike(self) -> None:
        """Let the answer be for all that are alike too, or not any more."""
        self._with_alike = bool(self._alike) and not self._with_alike

    def live(self, height: int) -> LiveCard:
        """Where it stands among the open ones."""
        names = [one.interaction_id for one in self._asked]
        number = names.index(self._name) + 1 if self._name in names else 1
        return LiveCard(height, number, max(len(names), 1), len(self._alike))

    @property
    def prompt(self) -> str:
        if self.question is None:
            return " > "
        more = f" and {len(self._alike)} alike" if self._with_alike else ""
        return f" {self._name}{more}> "

    @property
    def editable(self) -> str:
        """The line that answers with the rule which is offered; empty where none is."""
        question = self.question
        if question is None or not rule_of(question):
            return ""
        ids = [option.id for option in question.options]
        return f"{ids.index(BY_RULE) + 1} {rule_of(question)}"

    async def answer(self, app: App, line: str, note: Callable[[str], None]) -> None:
        """Give the line as the answer, to the others that are alike too where that was wished.

        Raises AnswerRefused, with the reason; the card then stays.
        """
        question = self.question
        if question is None:
            return
        choice, text = typed(question, line)
        others = self._alike if self._with_alike else []
        give = partial(app.answer, choice=choice, text=text, author=YOU)
        answered = await give(question.interaction_id)
        for other in others:
            try:
                await give(other.interaction_id)
            except AnswerRefused as refused:  # answered elsewhere meanwhile
                note(f" ! {refused}")
        self.put_away()
        if answered.rule is not None:
            rules = f".coterie/teams/{answered.team}/rules.json"
            note(f"   saved for {answered.member}: {answered.rule}   (in {rules})")

    @property
    def _asked(self) -> list[Interaction]:
        return [record.interaction for record, _ in self._board.asked]

    @property
    def _alike(self) -> list[Interaction]:
        found = self.question
        return [other for other in self._asked if alike(found, other)] if found else []


def typed(question: Interaction, line: str) -> tuple[str | None, str | None]:
    """A line on an open card as choice and text.

    The choice stands by its number or its whole name: the beginning of a sentence that was meant
    for the team must not say yes.
    """
    if question.kind == "Input":
        return None, line
    for name, option in _names(question):
        if line.casefold() == name or line.casefold().startswith(f"{name} "):
            text = line[len(name) :].strip() or None
            refuse_lost_words(question, option, text)
            return option.id, text
    first = line.split(maxsplit=1)[0]
    name = question.interaction_id
    raise AnswerRefused(f'{name} has no choice "{first}"; type its number. It stays open.')


def _names(question: Interaction) -> list[tuple[str, Option]]:
    """What each option goes by, the longest names first."""
    names = [
        (name.casefold(), option)
        for number, option in enumerate(question.options, 1)
        for name in (str(number), option.id, option.label, answer_word(option))
    ]
    return sorted(names, key=lambda named: -len(named[0]))


def alike(one: Interaction, other: Interaction) -> bool:
    """Whether an answer to one could be meant for the other: the same tool of the same task, and
    the same command or a rule that would cover both."""
    elsewhere = run_with(one.task_id) != run_with(other.task_id)
    if one.interaction_id == other.interaction_id or elsewhere:
        return False
    call, second = one.permission, other.permission
    if call is None or second is None or call.tool != second.tool:
        return False
    same_command = bool(call.command) and call.command == second.command
    return same_command or (rule_of(one) != "" and rule_of(one) == rule_of(other))


def rule_of(question: Interaction) -> str:
    """The rule that is offered; empty where none is."""
    return next((option.detail for option in question.options if option.id == BY_RULE), "")
