"""One turn: from a prompt to the model's last word, whatever cuts it on the way."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from coterie.agents.builtin.breaker import Breaker, Interrupted
from coterie.agents.builtin.calls import Calls
from coterie.agents.builtin.entries import Prompted, Replied
from coterie.agents.builtin.hearing import Hearing
from coterie.agents.builtin.kit import Answers, Kit
from coterie.agents.builtin.speech import Trouble
from coterie.agents.builtin.thread import Thread
from coterie.model.prompt import Prompt
from coterie.model.update import TurnCompleted, TurnInterrupted, Update


class Turn:
    """Ask the model, make its calls, and so on until it makes none."""

    def __init__(self, kit: Kit, thread: Thread, breaker: Breaker, answers: Answers) -> None:
        self._thread = thread
        self._calls = Calls(kit, thread, breaker, answers)
        self._hearing = Hearing(kit, thread, breaker, self._calls)

    async def take(self, prompt: Prompt) -> AsyncGenerator[Update]:
        """The updates of the turn, the last of them its end."""
        try:
            async with aclosing(self._whole(prompt)) as updates:
                async for update in updates:
                    yield update
        except Trouble as trouble:
            for result in self._calls.left_over():
                yield result
            yield trouble.failure
        except Interrupted:
            for result in self._calls.broken_off():
                yield result
            text = self._hearing.said or self._last_words()
            yield self._thread.remember(Replied(self._hearing.said, cut=True))
            yield TurnInterrupted(text)

    async def _whole(self, prompt: Prompt) -> AsyncGenerator[Update]:
        # A first try is never the rest of another one, even if it has the name of one that the
        # user has set aside.
        resumed = prompt.tries > 1 and self._thread.turn == prompt.turn
        if not resumed:
            for result in self._calls.left_over():
                yield result
            yield self._thread.remember(Prompted(prompt.turn, prompt.text))
        while (final := self._thread.final) is None:
            for updates in (self._calls.make(resumed=resumed), self._hearing.reply()):
                async with aclosing(updates):
                    async for update in updates:
                        yield update
            resumed = False
        # It may have ended before a crash: then nothing is asked a second time.
        yield TurnInterrupted(final.text) if final.cut else TurnCompleted(self._last_words())

    def _last_words(self) -> str:
        """The last thing that the model said; some say nothing more after their last call."""
        said = (reply.text.strip() for reply in reversed(self._thread.replies))
        return next((text for text in said if text), "")
