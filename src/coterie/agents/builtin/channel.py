"""A member's line to the built-in agent: it lives in this process, and its memory in our store."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from coterie.agents.builtin.breaker import Breaker
from coterie.agents.builtin.kit import Answers, Kit
from coterie.agents.builtin.thread import Thread
from coterie.agents.builtin.turn import Turn
from coterie.model.interaction import Response
from coterie.model.prompt import Prompt
from coterie.model.update import Update


class BuiltinChannel:
    """`ports.Channel` to a model."""

    holds_past = True
    pid = None

    def __init__(self, kit: Kit, thread: Thread) -> None:
        self._kit = kit
        self._thread = thread
        self._breaker = Breaker()
        self._answers = Answers()
        self.alive: bool = True

    @property
    def thread(self) -> str:
        """The thread that we keep for it."""
        return self._thread.id

    def take_turn(self, prompt: Prompt) -> AsyncGenerator[Update]:
        """Ask the model and make its calls, until it makes none."""
        self._breaker.reset()
        return Turn(self._kit, self._thread, self._breaker, self._answers).take(prompt)

    async def answer(self, key: str, response: Response) -> None:
        """Give the turn the answer to what it asked."""
        self._answers.give(key, response)

    async def interrupt(self) -> None:
        """Break off what the turn waits for; a command that runs is ended."""
        self._breaker.interrupt()

    async def close(self) -> None:
        """Let go of the model; what a turn ran has ended with the turn."""
        if self.alive:
            self.alive = False
            await self._kit.model.close()
