"""The tools of ours in an agent that reaches them by programs it starts."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio

from coterie.agents.inside import Serving
from coterie.agents.inside.listening import Call, Listening
from coterie.agents.inside.serving import NO_TURN, NOBODY_ANSWERED
from coterie.agents.program import ProgramAdapter
from coterie.agents.wire import Object
from coterie.model.interaction import Response
from coterie.model.team import Member
from coterie.model.update import Asked
from coterie.model.workspace import ToolCommands, Workspace


class Inside:
    """Where they are called, and who serves them.  Whoever opened it closes it."""

    def __init__(self, serving: Serving, listening: Listening) -> None:
        self._serving = serving
        self._listening = listening
        self._waiting: dict[str, Call] = {}

    @classmethod
    async def open(cls, workspace: Workspace) -> Inside:
        """Begin to listen, in a member's own folder."""
        serving = Serving(workspace.others)
        return cls(serving, await Listening.open(workspace.tmp, serving.tools))

    @property
    def servers(self) -> list[Object]:
        """The tools for an agent that takes servers."""
        return self._listening.servers

    @property
    def commands(self) -> ToolCommands:
        """The tools for an agent that takes commands."""
        return self._listening.commands

    def divert(self, sink: Callable[[Object], None]) -> None:
        """Have calls put there, as messages."""
        self._listening.divert(sink)

    def begin(self) -> None:
        """A turn begins."""
        self.forget()
        self._serving.begin()

    def hear(self, call: Call, *, in_turn: bool) -> Asked | None:
        """Answer a call, or have something asked first."""
        outcome = self._serving.call(call.key, call.tool, call.given) if in_turn else NO_TURN
        if isinstance(outcome, Asked):
            self._waiting[call.key] = call
            return outcome
        call.answer(outcome)
        return None

    def answer(self, key: str, response: Response) -> bool:
        """Give the answer to a question of a call; whether it was one."""
        call = self._waiting.pop(key, None)
        if call is None:
            return False
        call.answer(self._serving.answered(key, response) or NOBODY_ANSWERED)
        return True

    def forget(self) -> None:
        """Tell those who wait that nobody answers."""
        for call in self._waiting.values():
            call.answer(NOBODY_ANSWERED)
        self._waiting.clear()

    def ended(self, said: str) -> str:
        """The reply of a turn that is over, with whom it hands over to."""
        return self._serving.ended(said)

    async def close(self) -> None:
        """Listen no more."""
        await self._listening.close()


@asynccontextmanager
async def served(
    adapter: ProgramAdapter, member: Member, workspace: Workspace
) -> AsyncGenerator[Inside]:
    """The tools for a channel that is being opened, which has them then; closed if it fails."""
    try:
        inside = await Inside.open(workspace)
    except OSError as error:
        problem = f"its tools cannot be served: {error.strerror or error}"
        raise adapter.missing(member, workspace, problem) from error
    try:
        yield inside
    except BaseException:
        with anyio.CancelScope(shield=True):
            await inside.close()
        raise
