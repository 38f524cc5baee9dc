"""The manager's word: asked for, and where it cannot be had, the user decides what to do."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import anyio

from coterie.model.envelope import Payload, PayloadType
from coterie.model.interaction import Ask
from coterie.model.team import Member
from coterie.model.update import TurnFailed
from coterie.ports import Context, Parked
from coterie.workflows.failed_turn import about_failure
from coterie.workflows.tickets.correspondence import Correspondence, Inquiry


class Managing:
    """Speaks with the manager, who has one memory for all tickets and says one thing at a time."""

    def __init__(self, context: Context, letters: Correspondence, manager: Member) -> None:
        self.manager: Member = manager
        self._context = context
        self._letters = letters
        self._turn = anyio.Lock()
        self._silent: str | None = None
        """Why it cannot be asked any more in this run: a question about it is open."""

    async def say(
        self, name: str, prompt: str, wanted: PayloadType, ticket: str | None = None
    ) -> Payload:
        """What it answers.  Raises Parked where it cannot speak and nobody says what to do."""
        async with self._turn:  # held while the user is asked: one question about one trouble
            if self._silent is not None:
                self._context.park(self._silent)
            try:
                return await self._said(name, prompt, wanted, ticket)
            except Parked as stop:
                self._silent = stop.reason
                raise

    async def _said(
        self, name: str, prompt: str, wanted: PayloadType, ticket: str | None
    ) -> Payload:
        inquiry = Inquiry(prompt, wanted, ticket)
        for tries in count(1):
            step = f"{name}/{tries}" if tries > 1 else name
            said = await self._letters.hear_from(step, self.manager, inquiry)
            if not isinstance(said, TurnFailed):
                return said
            answer = await self._context.ask(
                f"{name}/failed/{tries}", self._trouble(said, tries, ticket)
            )
            if answer.response.selected_option_id == "stop" and answer.fresh:
                self._context.park("stopped")
        raise AssertionError("counting never ends")

    def _trouble(self, failure: TurnFailed, tries: int, ticket: str | None) -> Ask:
        question = about_failure(self.manager, failure, [], tries)
        # Nobody else can manage, so the manager cannot be skipped.
        options = tuple(one for one in question.options if one.id in ("retry", "stop"))
        about = question.about.model_copy(update={"manages": True, "ticket": ticket})
        return replace(question, options=options, about=about)
