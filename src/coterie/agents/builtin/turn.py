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
    InboundText,
    ModelInput,
    ModelTrouble,
    PromptEntry,
    Reply,
    ReplyEntry,
    SummaryEntry,
)
from coterie.agents.builtin.services import Answers, Interrupted, Interrupter, TurnServices
from coterie.agents.builtin.text_calls import TextCalls, text_calls
from coterie.agents.builtin.thread import BuiltinThread, SummaryDue, left_out, room_for, size
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
"""A turn that asks its model more often is assumed never to end."""
LONGEST_WAIT = 30.0
"""The longest wait, in seconds, that a service may ask for; a longer one ends the turn."""
_LAST = (
    f"[Coterie] You have been asked {MOST_REPLIES} times in this turn. This is the last time: "
    "say now, without a call, what you did and what is left to do."
)
_CUT = "\n\n[cut off here: the model's reply reached its maximum length]"
_SQUEEZED = 0.6
_DOUBT = (
    "[Coterie] This part of your reply looks like a tool call but is not one, so nothing was run:"
    "\n\n{text}\n\nIf you meant to call a tool, {how}. If not, repeat your whole answer."
)
_IN_TEXT = "write the call in the form described, outside of code, and end your reply there"
_NATIVELY = "call it"
_LONGEST_DOUBT = 300


@dataclass
class ModelRequest:
    """Asks the model for replies in one turn."""

    _services: TurnServices
    _thread: BuiltinThread
    _interrupter: Interrupter
    _calls: BuiltinCalls
    _reply: Reply | None = None
    streamed: str = ""
    """What the model has said so far in the current reply."""

    def __post_init__(self) -> None:
        self._characters = self._services.characters

    async def reply(self) -> AsyncGenerator[Update]:
        """Ask until there is a reply, and have it stored before anything is done about it."""
        count = len(self._thread.replies)
        if count > MOST_REPLIES:
            message = f"the model did not finish within {MOST_REPLIES} replies"
            hint = "Give it a smaller task."
            raise ModelTrouble(TurnFailed("model", message, retry=False, hint=hint))
        if count == MOST_REPLIES:
            yield self._thread.append(InboundText(_LAST))
        async with aclosing(self._one_reply()) as updates:
            async for update in updates:
                yield update
        reply = self._reply
        assert reply is not None
        self.streamed = ""
        if reply.stop == "refused":
            yield Spent(reply.usage, is_last=True)
            raise ModelTrouble(REFUSED.failure("builtin"))
        yield self._remembered(reply)
        yield Spent(reply.usage, is_last=self._thread.final is not None)

    def _remembered(self, reply: Reply) -> Update:
        parsed = TextCalls(reply.calls) if reply.calls else self._written(reply)
        calls = self._thread.numbered(parsed.calls)
        text = reply.text + (_CUT if reply.stop == "length" and not calls else "")
        entry = ReplyEntry(text, calls, written=bool(calls) and not reply.calls)
        notes: list[InboundText] = []
        if parsed.doubtful and not self._thread.ends_with_note:
            # Stored with the reply, so that it does not count as the turn's end after a crash.
            notes = [InboundText(self._doubt(parsed.doubtful))]
        started = tuple(self._calls.started(call) for call in calls)
        return self._thread.append(entry, *notes, calls=started, gates=bool(calls))

    def _written(self, reply: Reply) -> TextCalls:
        """Return the calls in the text of a reply, where such calls count."""
        services = self._services
        parsed = text_calls(reply.text, services.tools, only_known=services.tool_calls != "text")
        if services.tool_calls != "native":
            return parsed
        return TextCalls(doubtful=reply.text if parsed.calls else parsed.doubtful)

    def _doubt(self, text: str) -> str:
        how = _IN_TEXT if self._services.tool_calls == "text" else _NATIVELY
        return _DOUBT.format(text=text[:_LONGEST_DOUBT], how=how)

    async def _one_reply(self) -> AsyncGenerator[Update]:
        """Get one reply, retrying after temporary failures."""
        for pause in chain(self._services.pauses, [None]):
            if self._thread.characters > self._characters:  # rare, and cheap to check
                async with aclosing(self._make_room()) as updates:
                    async for update in updates:
                        yield update
            items = self._thread.shown()
            try:
                model_input = ModelInput(self._services.system, items, self._services.offered)
                async with aclosing(self._once(model_input)) as updates:
                    async for update in updates:
                        if isinstance(update, TextDelta):
                            self.streamed += update.text
                        yield update
                return
            except ModelTrouble as trouble:
                wait = self._wait(trouble, pause)
                self._squeeze(trouble, size(items))
                self.streamed = ""
                yield Waiting("model", f"retrying in {wait:g} s: {trouble.failure.message}")
            await self._interrupter.run(partial(anyio.sleep, wait))

    async def _once(self, model_input: ModelInput) -> AsyncGenerator[Update]:
        self._reply = None
        async with aclosing(self._services.model.reply(model_input)) as pieces:
            while True:
                try:
                    # Piece by piece: no cancel scope may be held open across a yield.
                    piece = await self._interrupter.run(pieces.__anext__)
                except StopAsyncIteration:
                    return
                if isinstance(piece, Reply):  # the complete reply, always last
                    self._reply = piece
                    return
                yield piece

    def _wait(self, trouble: ModelTrouble, pause: float | None) -> float:
        """Return how long to wait before the next try; raises the trouble if there is none."""
        wait = trouble.wait if trouble.wait is not None else pause
        useful = trouble.passing or trouble.too_long
        if pause is None or wait is None or not useful or wait > LONGEST_WAIT:
            raise trouble
        return 0.0 if trouble.too_long else max(wait, pause)

    def _squeeze(self, trouble: ModelTrouble, characters: int) -> None:
        """Lower the limit if the service says that this many characters are too many."""
        if trouble.too_long:
            self._characters = min(self._characters, int(characters * _SQUEEZED))

    async def _make_room(self) -> AsyncGenerator[Update]:
        """Leave out the oldest part while the whole would be too long."""
        entries = self._thread.entries
        while (needed := room_for(entries, self._characters)) is not None:
            if not isinstance(needed, SummaryDue):
                yield self._thread.append(needed)
                continue
            about = ModelInput(self._services.summing_up, [InboundText(needed.transcript)])
            try:
                async with aclosing(self._once(about)) as updates:
                    async for update in updates:
                        if not isinstance(update, TextDelta):
                            yield update
            except ModelTrouble:
                self._reply = None
            summary = self._reply.text.strip() if self._reply else ""
            text = summary or left_out(entries, needed.upto)
            yield self._thread.append(SummaryEntry(needed.upto, text))
            if self._reply is not None:
                yield Spent(self._reply.usage)


class BuiltinTurn:
    """Asks the model and makes its calls, until it makes none."""

    def __init__(
        self,
        services: TurnServices,
        thread: BuiltinThread,
        interrupter: Interrupter,
        answers: Answers,
    ) -> None:
        self._thread = thread
        self._calls = BuiltinCalls(services, thread, interrupter, answers)
        self._request = ModelRequest(services, thread, interrupter, self._calls)

    async def take(self, prompt: Prompt) -> AsyncGenerator[Update]:
        """Yield the updates of the turn, the last one its end."""
        # A first try never continues another turn, even if it has the name of one that the user
        # has set aside.
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
            yield self._thread.append(PromptEntry(prompt.turn, prompt.text))
        if self._thread.final is not None:
            # It ended before a crash: nothing is asked a second time, and nothing is spent.
            yield Spent(Usage(0, 0, 0.0, "model"), is_last=True)

    def _ended(self) -> Update:
        """Return the end of a turn that has its last reply."""
        final = self._thread.final
        if final is not None and final.cut:
            return TurnInterrupted(final.text)
        return TurnCompleted(self._last_words())

    def _cut_short(self, trouble: ModelTrouble | Interrupted) -> Iterator[Update]:
        if isinstance(trouble, ModelTrouble):
            yield from self._calls.left_over()
            yield trouble.failure
            return
        yield from self._calls.end_interrupted()
        text = self._request.streamed or self._last_words()
        yield self._thread.append(ReplyEntry(self._request.streamed, cut=True))
        yield TurnInterrupted(text)

    def _parts(self, *, resumed: bool) -> Iterator[AsyncGenerator[Update]]:
        """Yield the calls of the last reply, one after the other, then the next reply."""
        for pending in self._thread.pending():
            yield self._calls.serve(pending, resumed=resumed)
        yield self._request.reply()

    def _last_words(self) -> str:
        """Return the last text of the model; some say nothing more after their last call."""
        texts = (reply.text.strip() for reply in reversed(self._thread.replies))
        return next((text for text in texts if text), "")


class BuiltinChannel:
    """`ports.Channel` to a model."""

    holds_past = True
    asks_first = True
    pid = None

    def __init__(self, services: TurnServices, thread: BuiltinThread) -> None:
        self._services = services
        self._thread = thread
        self._interrupter = Interrupter(services.deadline)
        self._answers: Answers = {}
        self.alive: bool = True

    @property
    def thread(self) -> str:
        return self._thread.id

    def take_turn(self, prompt: Prompt) -> AsyncGenerator[Update]:
        """Ask the model and make its calls, until it makes none."""
        self._interrupter.reset()
        return BuiltinTurn(self._services, self._thread, self._interrupter, self._answers).take(
            prompt
        )

    async def answer(self, key: str, response: Response) -> None:
        self._answers[key] = response

    async def interrupt(self) -> None:
        """Cancel what the turn is waiting for; a running command is ended."""
        self._interrupter.interrupt()

    async def close(self) -> None:
        """Close the model's connections; what a turn ran has ended with the turn."""
        if self.alive:
            self.alive = False
            await self._services.model.close()
