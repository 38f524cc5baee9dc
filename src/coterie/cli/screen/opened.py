"""The card: which question is open, which others are alike, and what a typed line answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from coterie.cli.card import Live
from coterie.cli.reply import alike, rule_of, typed
from coterie.cli.screen.board import Board
from coterie.errors import AnswerRefused
from coterie.model.interaction import BY_RULE, Interaction
from coterie.model.message import YOU

if TYPE_CHECKING:
    from coterie.app import Answered, App


class OpenCard:
    """At most one question of the board is open; it opens only on purpose."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._name: str | None = None
        self._with_alike = False

    # -- which ---------------------------------------------------------------------------------

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

    # -- showing -------------------------------------------------------------------------------

    def live(self, height: int) -> Live:
        """Where it stands among the open ones."""
        names = [one.interaction_id for one in self._asked]
        number = names.index(self._name) + 1 if self._name in names else 1
        return Live(height, number, max(len(names), 1), len(self._alike))

    @property
    def prompt(self) -> str:
        """What stands before the cursor."""
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

    # -- answering -----------------------------------------------------------------------------

    async def answer(self, app: App, line: str, told: Callable[[str], None]) -> None:
        """Give the line as the answer, to the others that are alike too where that was wished.

        Raises AnswerRefused, with the reason; the card then stays.
        """
        question = self.question
        if question is None:
            return
        choice, text = typed(question, line)
        others = self._alike if self._with_alike else []
        answered = await self._give(app, question, choice, text)
        for other in others:
            try:
                await self._give(app, other, choice, text)
            except AnswerRefused as refused:  # answered elsewhere meanwhile
                told(f" ! {refused}")
        self.put_away()
        if answered.rule is not None:
            rules = f".coterie/teams/{answered.team}/rules.json"
            told(f"   saved for {answered.member}: {answered.rule}   (in {rules})")

    async def _give(
        self, app: App, question: Interaction, choice: str | None, text: str | None
    ) -> Answered:
        return await app.answer(question.interaction_id, choice=choice, text=text, author=YOU)

    @property
    def _asked(self) -> list[Interaction]:
        return [record.interaction for record, _ in self._board.asked]

    @property
    def _alike(self) -> list[Interaction]:
        found = next((one for one in self._asked if one.interaction_id == self._name), None)
        return [one for one in self._asked if alike(found, one)] if found else []
