"""A human member: an agent whose turn is a question in the inbox."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from coterie.model.about import HumanTurn
from coterie.model.conversation import Limits, Prompt
from coterie.model.interaction import Response, Validation
from coterie.model.question_text import display_of
from coterie.model.team import Member
from coterie.model.update import Asked, TurnCompleted, TurnFailed, Update
from coterie.model.workspace import Workspace

_TIMEOUT = 10 * 365 * 86_400.0
"""A person may take ten years: an answer counts whenever it arrives."""


class HumanAdapter:
    """Opens the channel to a person."""

    def limits(self, member: Member) -> Limits:
        """Return limits too long to matter: people have no clocks."""
        return Limits(total=_TIMEOUT, quiet_after=_TIMEOUT)

    async def open(self, member: Member, workspace: Workspace, thread: str | None) -> HumanChannel:
        """Open a channel; nothing needs to be started."""
        return HumanChannel(member)


class HumanChannel:
    """The channel to a person: one question per turn, with a key that survives a crash."""

    thread = None
    holds_past = True
    asks_first = True
    pid = None

    def __init__(self, member: Member) -> None:
        self.alive = True
        self._member = member
        self._response: Response | None = None

    async def take_turn(self, prompt: Prompt) -> AsyncGenerator[Update]:
        self._response = None
        turn = HumanTurn(member=self._member.id, name=self._member.display_name)
        yield Asked(
            key="turn",
            kind="Input",
            purpose="request_info",
            display=display_of(turn, prompt.newest),
            about=turn,
            validation=Validation(required=True),
        )
        # The engine has called `answer` before it asks for the next update.
        response = self._response
        if response is None:
            yield TurnFailed("refused", "nobody answered", retry=False)
        else:
            yield TurnCompleted(response.input_value or "")

    async def answer(self, key: str, response: Response) -> None:
        self._response = response

    async def interrupt(self) -> None:
        """Do nothing: a person is not interrupted."""

    async def close(self) -> None:
        """Mark the channel closed; nothing was started."""
        self.alive: bool = False
