"""What is typed, and what it does: a message to the task, an answer, a command, a key."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

import anyio

from coterie.cli import timeline
from coterie.cli.card import LiveCard
from coterie.cli.screen.status import ChatStatus
from coterie.cli.text import clip, one_line, state_of
from coterie.errors import AnswerRefused, CoterieError
from coterie.model.conversation import is_end
from coterie.model.interaction import (
    APPROVE_BY_RULE,
    Interaction,
    Option,
    answer_word,
    refuse_unused_text,
)
from coterie.model.record import MessageRecord, TaskRecord
from coterie.model.task import running_task
from coterie.model.team import YOU

if TYPE_CHECKING:
    from coterie.app.project import App

Action = Callable[[], Awaitable[None]]
_COMMAND = re.compile(r"/[A-Za-z]+")
"""What looks like a one-word command, known or not."""
_FEW = 20
"""How many tasks are listed, the newest ones."""


class ScreenActions(Protocol):
    """What input does to the screen."""

    def print(self, lines: list[str]) -> None: ...
    def redraw(self) -> None: ...
    def fill(self, line: str) -> None: ...
    def show_whole(self, question: Interaction) -> None: ...
    def command(self, word: str) -> Action | None: ...
    def park(self) -> None: ...


class InputHandler:
    """Handles lines and keys one after the other, and acts on the task."""

    def __init__(self, board: ChatStatus, screen: ScreenActions) -> None:
        self._board = board
        self._screen = screen
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
                    self._screen.print([f" ! {one_line(str(error))}{hint}"])
                self._screen.redraw()

    def close(self) -> None:
        """Accept no more input."""
        self._send.close()
        self._began.set()

    async def first_word(self) -> str | None:
        """Wait for the first line of a conversation; None if the user left instead."""
        await self._began.wait()
        return self.goal

    def attach(self, app: App) -> None:
        """From now on, act on the task of this app."""
        self._app = app

    def typed(self, line: str) -> None:
        # A space before the slash makes it a message to the team.
        self.enqueue(partial(self._handle_line, line.strip(), slash=line.startswith("/")))

    def stop(self) -> None:
        """Ctrl-C, or Ctrl-D on an empty line."""
        self._began.set()
        self._screen.park()

    def escape(self) -> None:
        """Put the card away, else interrupt the turn."""
        if self.card_open:
            self._close_card()
        elif self._app is not None and self._board.busy:
            self.enqueue(partial(self._app.interrupt, self._board.task))

    def open_question(self) -> None:
        """Open the card of the oldest open question; if a card is open, of the next one."""
        self.card.open_next()
        self._screen.redraw()

    def pressed(self, key: str) -> None:
        """Handle a key of the card."""
        question = self.card.question
        if question is None:
            return
        match key:
            case "l":
                self._close_card()
            case "s":
                self.enqueue(partial(self._show_turn, question))
            case "d":
                self._screen.show_whole(question)
            case "e":
                self._screen.fill(self.card.editable)
            case _:
                self.card.toggle_alike()
                self._screen.redraw()

    def _close_card(self) -> None:
        self.card.close_card()
        self._screen.redraw()

    @property
    def card_open(self) -> bool:
        """Whether a question has been opened, and is still open."""
        return self.card.question is not None

    @property
    def choosing(self) -> bool:
        return self.card.choosing

    def enqueue(self, action: Action) -> None:
        """Queue an action behind what was typed before."""
        try:
            self._send.send_nowait(action)
        except anyio.WouldBlock:
            self._screen.print([" ! input came too fast; the last line was not sent"])

    async def _handle_line(self, line: str, *, slash: bool) -> None:
        if self.card_open and self._app is not None:
            await self.card.answer(self._app, line, lambda note: self._screen.print([note]))
        elif slash and (action := self._command(line)):
            await action()
        elif (name := self.card.closed_elsewhere) is not None:
            # Keep the space: without it, a message such as " /end" would be sent as a command.
            self._keep(name, line if slash or not line.startswith("/") else f" {line}")
        elif self._app is not None:
            # Keep the space: without it, the message would end the conversation further on.
            await self._say(self._app, f" {line}" if is_end(line) else line)
        else:
            self.goal = line
            self._began.set()

    def _keep(self, name: str, line: str) -> None:
        """Leave a line in the prompt that may have been meant as the answer on a card."""
        self.card.close_card()
        notice = f" ! {name} is no longer open, so this did not answer it"
        self._screen.print([f"{notice}   (to send it as a message, press Enter again)"])
        self._screen.fill(line)

    async def _say(self, app: App, line: str) -> None:
        if (await app.say(self._board.task, line)).question is None:
            text = clip(one_line(line), 50)
            self._screen.print([f" {YOU}   {text}   ({self._board.queued})"])

    async def _show_turn(self, question: Interaction) -> None:
        """Print what was done in the turn that asks, before it asked."""
        entries = await self._app.timeline(question.task_id) if self._app is not None else []
        messages = [n for n, entry in enumerate(entries) if isinstance(entry.record, MessageRecord)]
        turn = entries[messages[-1] :] if messages else entries
        records = [entry.record for entry in turn if not isinstance(entry.record, TaskRecord)]
        logged = map(timeline.logged, records)
        lines = [f"   {who}  {clip(one_line(what), 200)}" for who, what in logged if what]
        if question.permission is not None and question.permission.said.strip():
            lines.append(f'   {question.author_actor_id}  "{one_line(question.permission.said)}"')
        self._screen.print(lines)

    def _command(self, line: str) -> Action | None:
        """Return the action of a line that is just a command; None for a path or a sentence."""
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
        special = self._screen.command(line)
        return special or (partial(self._refuse, line) if _COMMAND.fullmatch(line) else None)

    async def _refuse(self, word: str) -> None:
        """Refuse a probably mistyped command, and leave it in the prompt to be corrected."""
        known = " ".join(self._board.commands)
        notice = f" ! No command {word}. Here: {known}"
        self._screen.print([f"{notice}   (to send it as a message, put a space before it)"])
        self._screen.fill(word)

    async def _help(self) -> None:
        self._screen.print(self._board.keys())

    async def _who(self) -> None:
        self._screen.print(self._board.who())

    async def _stop(self) -> None:
        if self._app is not None and self._board.watches:
            await self._app.stop(self._board.task)
        else:
            self.stop()

    async def _end(self) -> None:
        if self._app is None:
            self._began.set()
        elif (await self._app.say(self._board.task, "/end")).question is None:
            self._screen.print([" ends after this turn"])

    async def _tasks(self) -> None:
        tasks = (await self._app.tasks())[-_FEW:] if self._app is not None else []
        lines = [f"   {t.id}   {state_of(t)}   {clip(one_line(t.title), 50)}" for t in tasks]
        self._screen.print(lines or ["   No task yet."])


class OpenCard:
    """The card, with at most one question of the board; it opens only on request."""

    def __init__(self, board: ChatStatus) -> None:
        self._board = board
        self._name: str | None = None
        self._with_alike = False
        self.closed_elsewhere: str | None = None
        """The question that was on the card when it was answered elsewhere: the next line may still
        be meant for it."""

    @property
    def question(self) -> Interaction | None:
        """The question on the card; None if none was opened, or if it was answered elsewhere."""
        question = next((one for one in self._questions if one.interaction_id == self._name), None)
        if question is None and self._name is not None:
            name = self._name
            self.close_card()
            self.closed_elsewhere = name
        return question

    @property
    def choosing(self) -> bool:
        """Whether the card is answered by a choice."""
        return self.question is not None and self.question.kind != "Input"

    def open_next(self) -> None:
        """Open the oldest open question; if a card is open, the one after it."""
        names = [one.interaction_id for one in self._questions]
        if names:
            place = names.index(self._name) + 1 if self._name in names else 0
            self.close_card()
            self._name = names[place % len(names)]

    def close_card(self) -> None:
        """Put the card away; its question stays in the inbox."""
        self._name, self._with_alike, self.closed_elsewhere = None, False, None

    def toggle_alike(self) -> None:
        """Toggle whether the answer also applies to all similar questions."""
        self._with_alike = bool(self._alike) and not self._with_alike

    def live(self, height: int) -> LiveCard:
        """Return the card's position among the open questions."""
        names = [one.interaction_id for one in self._questions]
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
        """The line that answers with the offered rule; empty if none is offered."""
        question = self.question
        if question is None or not rule_of(question):
            return ""
        ids = [option.id for option in question.options]
        return f"{ids.index(APPROVE_BY_RULE) + 1} {rule_of(question)}"

    async def answer(self, app: App, line: str, note: Callable[[str], None]) -> None:
        """Give the line as the answer, also to all similar questions if that was chosen.

        Raises AnswerRefused with the reason; the card stays open if the question does.
        """
        question = self.question
        if question is None:
            return
        choice, text = typed(question, line)
        others = self._alike if self._with_alike else []
        give = partial(app.answer, choice=choice, text=text, author=YOU)
        try:
            answered = await give(question.interaction_id)
        except AnswerRefused:
            still_open = (view.interaction.interaction_id for view in await app.questions())
            if question.interaction_id not in still_open:
                self.close_card()  # the refusal says so: the next line is not meant for it
            raise
        for other in others:
            try:
                await give(other.interaction_id)
            except AnswerRefused as refused:  # answered elsewhere meanwhile
                note(f" ! {refused}")
        self.close_card()
        if answered.rule is not None:
            rules = f".coterie/teams/{answered.team}/rules.json"
            note(f"   saved for {answered.member}: {answered.rule}   (in {rules})")

    @property
    def _questions(self) -> list[Interaction]:
        return [record.interaction for record, _ in self._board.questions]

    @property
    def _alike(self) -> list[Interaction]:
        question = self.question
        return [other for other in self._questions if alike(question, other)] if question else []


def typed(question: Interaction, line: str) -> tuple[str | None, str | None]:
    """Parse a line on an open card into choice and text.

    The choice is given by its number or its whole name: the beginning of a sentence that was meant
    for the team must not approve anything.
    """
    if question.kind == "Input":
        return None, line
    for name, option in _names(question):
        if line.casefold() == name or line.casefold().startswith(f"{name} "):
            text = line[len(name) :].strip() or None
            refuse_unused_text(question, option, text)
            return option.id, text
    first = line.split(maxsplit=1)[0]
    name = question.interaction_id
    problem = f'{name} has no choice "{first}"; type its number.'
    raise AnswerRefused(f"{problem} The question stays open.")


def _names(question: Interaction) -> list[tuple[str, Option]]:
    """Return the names of every option, the longest first."""
    names = [
        (name.casefold(), option)
        for number, option in enumerate(question.options, 1)
        for name in (str(number), option.id, option.label, answer_word(option))
    ]
    return sorted(names, key=lambda named: -len(named[0]))


def alike(one: Interaction, other: Interaction) -> bool:
    """Whether an answer to one could apply to the other: the same tool in the same run, and the
    same command or the same offered rule."""
    elsewhere = running_task(one.task_id) != running_task(other.task_id)
    if one.interaction_id == other.interaction_id or elsewhere:
        return False
    call, second = one.permission, other.permission
    if call is None or second is None or call.tool != second.tool:
        return False
    same_command = bool(call.command) and call.command == second.command
    return same_command or (rule_of(one) != "" and rule_of(one) == rule_of(other))


def rule_of(question: Interaction) -> str:
    """Return the offered rule; empty if none is offered."""
    return next((option.detail for option in question.options if option.id == APPROVE_BY_RULE), "")
