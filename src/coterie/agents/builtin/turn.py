"""One turn of the built-in agent, and the channel that takes it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from itertools import chain

import anyio

from coterie.agents.builtin.calls import BuiltinCalls
from coterie.agents.builtin.conversation import (
    Conversation,
    Heard,
    ModelTrouble,
    Noted,
    Prompted,
    Replied,
    Reply,
    Summed,
)
from coterie.agents.builtin.services import Answers, Breaker, Interrupted, TurnServices
from coterie.agents.builtin.text_calls import TextCalls, text_calls
from coterie.agents.builtin.thread import BuiltinThread, Fold, left_out, room_for, size
from coterie.agents.failures import REFUSED
from coterie.model.conversation import Prompt
from coterie.model.interaction import Response
from coterie.model.update import (
    Spent,
    TextDelta,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    Update,
    Usage,
    Waiting,
)

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
_DOUBT = (
    "[Coterie] This in your reply looks like the call of a tool and is none, so nothing was run:"
    "\n\n{text}\n\nIf you meant to call a tool, {how}. If not, give your whole answer once more."
)
_IN_TEXT = "write the call as you were told to, outside of code, and end your reply there"
_NATIVELY = "call it"
_LONGEST_DOUBT = 300


@dataclass
class ModelRequest:
    """Asks the model, in one turn."""

    _services: TurnServices
    _thread: BuiltinThread
    _breaker: Breaker
    _calls: BuiltinCalls
    _reply: Reply | None = None
    said: str = ""
    """What the model has said in the reply that is under way."""

    def __post_init__(self) -> None:
        self._characters = self._services.characters

    async def reply(self) -> AsyncGenerator[Update]:
        """Ask until there is a reply, and have it kept before anything is done about it."""
        asked = len(self._thread.replies)
        if asked > MOST_REPLIES:
            message = f"the model did not come to an end in {MOST_REPLIES} replies"
            hint = "Ask for less at once."
            raise ModelTrouble(TurnFailed("model", message, retry=False, hint=hint))
        if asked == MOST_REPLIES:
            yield self._thread.remember(Noted(_LAST))
        async with aclosing(self._whole()) as updates:
            async for update in updates:
                yield update
        reply = self._reply
        assert reply is not None
        self.said = ""
        if reply.stop == "refused":
            yield Spent(reply.usage, is_last=True)
            raise ModelTrouble(REFUSED.failure("builtin"))
        yield self._remembered(reply)
        yield Spent(reply.usage, is_last=self._thread.final is not None)

    def _remembered(self, reply: Reply) -> Update:
        found = TextCalls(reply.calls) if reply.calls else self._written(reply)
        calls = self._thread.numbered(found.calls)
        text = reply.text + (_CUT if reply.stop == "length" and not calls else "")
        entry = Replied(text, calls, written=bool(calls) and not reply.calls)
        told: list[Noted] = []
        if found.doubtful and not self._thread.was_told:
            # With the reply, so that nobody takes it for the end of the turn after a crash.
            told = [Noted(self._doubt(found.doubtful))]
        started = tuple(self._calls.started(call) for call in calls)
        return self._thread.remember(entry, *told, calls=started, gates=bool(calls))

    def _written(self, reply: Reply) -> TextCalls:
        """The calls in the text of a reply, where such count."""
        services = self._services
        found = text_calls(reply.text, services.tools, only_known=services.tool_calls != "text")
        if services.tool_calls != "native":
            return found
        return TextCalls(doubtful=reply.text if found.calls else found.doubtful)

    def _doubt(self, text: str) -> str:
        how = _IN_TEXT if self._services.tool_calls == "text" else _NATIVELY
        return _DOUBT.format(text=text[:_LONGEST_DOUBT], how=how)

    async def _whole(self) -> AsyncGenerator[Update]:
        """One reply, tried for as often as trouble passes."""
        for pause in chain(self._services.pauses, [None]):
            if self._thread.characters > self._characters:  # seldom, and known without a look
                async with aclosing(self._make_room()) as updates:
                    async for update in updates:
                        yield update
            said = self._thread.shown()
            try:
                conversation = Conversation(self._services.system, said, self._services.offered)
                async with aclosing(self._once(conversation)) as updates:
                    async for update in updates:
                        if isinstance(update, TextDelta):
                            self.said += update.text
                        yield update
                return
            except ModelTrouble as trouble:
                wait = self._wait(trouble, pause)
                self._squeeze(trouble, size(said))
                self.said = ""
                yield Waiting("model", f"once more in {wait:g} s: {trouble.failure.message}")
            await self._breaker.run(partial(anyio.sleep, wait))

    async def _once(self, conversation: Conversation) -> AsyncGenerator[Update]:
        self._reply = None
        async with aclosing(self._services.model.reply(conversation)) as pieces:
            while True:
                try:
                    # Piece by piece: nothing that can be broken off may be held over a yield.
                    piece = await self._breaker.run(pieces.__anext__)
                except StopAsyncIteration:
                    return
                if isinstance(piece, Reply):  # the whole of it, and the last
                    self._reply = piece
                    return
                yield piece

    def _wait(self, trouble: ModelTrouble, pause: float | None) -> float:
        """How long to wait before the next try; raises where there shall be none."""
        wait = trouble.wait if trouble.wait is not None else pause
        useful = trouble.passing or trouble.too_long
        if pause is None or wait is None or not useful or wait > LONGEST_WAIT:
            raise trouble
        return 0.0 if trouble.too_long else max(wait, pause)

    def _squeeze(self, trouble: ModelTrouble, characters: int) -> None:
        """Take the service's word for it that so much is too long."""
        if trouble.too_long:
            self._characters = min(self._characters, int(characters * _SQUEEZED))

    async def _make_room(self) -> AsyncGenerator[Update]:
        """Leave out what is oldest, where all of it would be too long."""
        entries = self._thread.entries
        while (needed := room_for(entries, self._characters)) is not None:
            if not isinstance(needed, Fold):
                yield self._thread.remember(needed)
                continue
            about = Conversation(self._services.summing_up, [Heard(needed.transcript)])
            try:
                async with aclosing(self._once(about)) as updates:
                    async for update in updates:
                        if not isinstance(update, TextDelta):
                            yield update
            except ModelTrouble:
                self._reply = None
            summary = self._reply.text.strip() if self._reply else ""
            text = summary or left_out(entries, needed.upto)
            yield self._thread.remember(Summed(needed.upto, text))
            if self._reply is not None:
                yield Spent(self._reply.usage)


class BuiltinTurn:
    """Ask the model, make its calls, and so on until it makes none."""

    def __init__(
        self, services: TurnServices, thread: BuiltinThread, breaker: Breaker, answers: Answers
    ) -> None:
        self._thread = thread
        self._calls = BuiltinCalls(services, thread, breaker, answers)
        self._request = ModelRequest(services, thread, breaker, self._calls)

    async def take(self, prompt: Prompt) -> AsyncGenerator[Update]:
        """The updates of the turn, the last of them its end."""
        # A first try is never the rest of another one, even if it has the name of one that the
        # user has set aside.
        resumed = prompt.tries > 1 and self._thread.turn == prompt.turn
        for update in self._begun(prompt, resumed=resumed):
            yield update
        try:
            while self._thread.final is None:
                for part in self._parts(resumed=resumed):
                    async with aclosing(part) as updates:
                        async for update in updates:
                            yield update
                resumed = False
        except (ModelTrouble, Interrupted) as trouble:
            for update in self._cut_short(trouble):
                yield update
        else:
            yield self._ended()

    def _begun(self, prompt: Prompt, *, resumed: bool) -> Iterator[Update]:
        if not resumed:
            yield from self._calls.left_over()
            yield self._thread.remember(Prompted(prompt.turn, prompt.text))
        if self._thread.final is not None:
            # It ended before a crash: nothing is asked a second time, and nothing is used.
            yield Spent(Usage(0, 0, 0.0, "model"), is_last=True)

    def _ended(self) -> Update:
        """The end of a turn whose last reply is there."""
        final = self._thread.final
        if final is not None and final.cut:
            return TurnInterrupted(final.text)
        return TurnCompleted(self._last_words())

    def _cut_short(self, trouble: ModelTrouble | Interrupted) -> Iterator[Update]:
        if isinstance(trouble, ModelTrouble):
            yield from self._calls.left_over()
            yield trouble.failure
            return
        yield from self._calls.broken_off()
        text = self._request.said or self._last_words()
        yield self._thread.remember(Replied(self._request.said, cut=True))
        yield TurnInterrupted(text)

    def _parts(self, *, resumed: bool) -> Iterator[AsyncGenerator[Update]]:
        """The calls of the last reply, one after the other, and the next reply."""
        for pending in self._thread.pending():
            yield self._calls.serve(pending, resumed=resumed)
        yield self._request.reply()

    def _last_words(self) -> str:
        """The last thing that the model said; some say nothing more after their last call."""
        said = (reply.text.strip() for reply in reversed(self._thread.replies))
        return next((text for text in said if text), "")


class BuiltinChannel:
    """`ports.Channel` to a model."""

    holds_past = True
    asks_first = True
    pid = None

    def __init__(self, services: TurnServices, thread: BuiltinThread) -> None:
        self._services = services
        self._thread = thread
        self._breaker = Breaker(services.deadline)
        self._answers: Answers = {}
        self.alive: bool = True

    @property
    def thread(self) -> str:
        return self._thread.id

    def take_turn(self, prompt: Prompt) -> AsyncGenerator[Update]:
        """Ask the model and make its calls, until it makes none."""
        self._breaker.reset()
        return BuiltinTurn(self._services, self._thread, self._breaker, self._answers).take(prompt)

    async def answer(self, key: str, response: Response) -> None:
        self._answers[key] = response

    async def interrupt(self) -> None:
        """Break off what the turn waits for; a command that runs is ended."""
        self._breaker.interrupt()

    async def close(self) -> None:
        """Let go of the model; what a turn ran has ended with the turn."""
        if self.alive:
            self.alive = False
            await self._services.model.close()
