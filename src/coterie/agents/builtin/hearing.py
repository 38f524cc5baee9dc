"""Getting the next reply of the model: room is made for it, trouble that passes is waited out."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from itertools import chain

import anyio

from coterie.agents.builtin.breaker import Breaker
from coterie.agents.builtin.calls import Calls
from coterie.agents.builtin.compaction import Fold, left_out, room_for
from coterie.agents.builtin.entries import Noted, Replied, Summed
from coterie.agents.builtin.kit import Kit
from coterie.agents.builtin.speech import Conversation, Heard, Reply, ToolCallRequest, Trouble
from coterie.agents.builtin.text_calls import text_calls
from coterie.agents.builtin.thread import Thread
from coterie.agents.builtin.view import size
from coterie.model.update import Spent, TextDelta, TurnFailed, Update, Waiting

MOST_REPLIES = 200
"""A turn that needs more calls of its model will not end."""
LONGEST_WAIT = 30.0
"""A service that asks for more seconds than this is not waited for here."""
_LAST = (
    f"[Coterie] You have been asked {MOST_REPLIES} times in this turn. This is the last time: "
    "say now, without a call, what you did and what is left to do."
)
_CUT = "\n\n[cut off here: the model's reply reached its greatest length]"
_SQUEEZED = 0.6


class Hearing:
    """Asks the model, in one turn."""

    def __init__(self, kit: Kit, thread: Thread, breaker: Breaker, calls: Calls) -> None:
        self._kit = kit
        self._thread = thread
        self._breaker = breaker
        self._calls = calls
        self._characters = kit.characters
        self._reply: Reply | None = None
        self.said: str = ""
        """What the model has said in the reply that is under way."""

    async def reply(self) -> AsyncGenerator[Update]:
        """Ask until there is a reply, and have it kept before anything is done about it."""
        asked = len(self._thread.replies)
        if asked > MOST_REPLIES:
            message = f"the model did not come to an end in {MOST_REPLIES} replies"
            hint = "Ask for less at once."
            raise Trouble(TurnFailed("model", message, retry=False, hint=hint))
        if asked == MOST_REPLIES:
            yield self._thread.remember(Noted(_LAST))
        async with aclosing(self._whole()) as updates:
            async for update in updates:
                yield update
        reply = self._reply
        assert reply is not None
        self.said = ""
        if reply.stop == "refused":
            yield Spent(reply.usage)
            hint = "Say it in another way."
            failure = TurnFailed(
                "refused", "the model will not answer this", retry=False, hint=hint
            )
            raise Trouble(failure)
        yield self._remembered(reply)
        yield Spent(reply.usage)

    def _remembered(self, reply: Reply) -> Update:
        found = reply.calls or self._written(reply)
        calls = self._thread.numbered(found)
        text = reply.text + (_CUT if reply.stop == "length" and not calls else "")
        entry = Replied(text, calls, written=bool(calls) and not reply.calls)
        started = tuple(self._calls.started(call) for call in calls)
        return self._thread.remember(entry, calls=started, gates=bool(calls))

    def _written(self, reply: Reply) -> tuple[ToolCallRequest, ...]:
        """The calls in the text of a reply, where such count."""
        kit = self._kit
        if kit.tool_calls == "native":
            return ()
        return text_calls(reply.text, kit.tools, only_whole=kit.tool_calls == "auto")

    # -- until there is one --------------------------------------------------------------------

    async def _whole(self) -> AsyncGenerator[Update]:
        """One reply, tried for as often as trouble passes."""
        for pause in chain(self._kit.pauses, [None]):
            if self._thread.characters > self._characters:  # seldom, and known without a look
                async with aclosing(self._make_room()) as updates:
                    async for update in updates:
                        yield update
            said = self._thread.shown()
            try:
                conversation = Conversation(self._kit.system, said, self._kit.offered)
                async with aclosing(self._once(conversation)) as updates:
                    async for update in updates:
                        if isinstance(update, TextDelta):
                            self.said += update.text
                        yield update
                return
            except Trouble as trouble:
                wait = self._wait(trouble, pause)
                self._squeeze(trouble, size(said))
                self.said = ""
                yield Waiting(f"the model, once more in {wait:g} s: {trouble.failure.message}")
            await self._breaker.run(partial(anyio.sleep, wait))

    async def _once(self, conversation: Conversation) -> AsyncGenerator[Update]:
        self._reply = None
        async with aclosing(self._kit.model.reply(conversation)) as pieces:
            while True:
                try:
                    # Piece by piece: nothing that can be broken off may be held over a yield.
                    piece = await self._breaker.run(pieces.__anext__)
                except StopAsyncIteration:
                    return
                if isinstance(piece, Reply):
                    self._reply = piece
                else:
                    yield piece

    def _wait(self, trouble: Trouble, pause: float | None) -> float:
        """How long to wait before the next try; raises where there shall be none."""
        wait = trouble.wait if trouble.wait is not None else pause
        useful = trouble.passing or trouble.too_long
        if pause is None or wait is None or not useful or wait > LONGEST_WAIT:
            raise trouble
        return 0.0 if trouble.too_long else max(wait, pause)

    def _squeeze(self, trouble: Trouble, characters: int) -> None:
        """Take the service's word for it that so much is too long."""
        if trouble.too_long:
            self._characters = min(self._characters, int(characters * _SQUEEZED))

    # -- room ----------------------------------------------------------------------------------

    async def _make_room(self) -> AsyncGenerator[Update]:
        """Leave out what is oldest, where all of it would be too long."""
        entries = self._thread.entries
        while (needed := room_for(entries, self._characters)) is not None:
            if not isinstance(needed, Fold):
                yield self._thread.remember(needed)
                continue
            about = Conversation(self._kit.summing_up, [Heard(needed.transcript)])
            try:
                async with aclosing(self._once(about)) as updates:
                    async for update in updates:
                        if not isinstance(update, TextDelta):
                            yield update
            except Trouble:
                self._reply = None
            summary = self._reply.text.strip() if self._reply else ""
            text = summary or left_out(entries, needed.upto)
            yield self._thread.remember(Summed(needed.upto, text))
            if self._reply is not None:
                yield Spent(self._reply.usage)
