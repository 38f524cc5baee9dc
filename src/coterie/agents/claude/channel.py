"""A member's line to Claude: one process, one turn at a time."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, replace
from uuid import uuid4

import anyio

from coterie.agents.claude.asking import QUESTION, Asking, Request, asking
from coterie.agents.claude.failures import exited
from coterie.agents.claude.turn import Turn
from coterie.agents.fields import mapping, text
from coterie.agents.wire import Object, Wire, WireEnded
from coterie.model.interaction import Response
from coterie.model.prompt import Prompt
from coterie.model.team import Mode
from coterie.model.update import Activity, End, TurnCompleted, Update

AFTER_INTERRUPT = 10.0
"""How long Claude may take to break off before it is ended; in practice a tenth of a second."""
BACKGROUND = 600.0
"""How long a finished turn waits, with no word, for what runs in the background.

A build ends and Claude speaks of it; a server never does and is stopped.
"""


@dataclass(frozen=True)
class Line:
    """What a channel is opened with."""

    thread: str
    cwd: str
    mode: Mode
    version: str
    rehearsed: bool
    """Whether the model is a stand-in, whose tokens nobody pays for."""


class ClaudeChannel:
    """The line to one Claude."""

    holds_past = True

    def __init__(self, wire: Wire, line: Line) -> None:
        self.thread: str | None = line.thread
        self.version = line.version
        """What Claude says that it is."""
        self._wire = wire
        self._line = line
        self._turn: Turn | None = None
        self._open: dict[str, Asking] = {}
        """By its key: the request that a question belongs to."""
        self._waiting = anyio.CancelScope()

    @property
    def pid(self) -> int | None:
        """The process, while it runs."""
        return self._wire.pid

    @property
    def alive(self) -> bool:
        """Whether another turn can be taken here."""
        return self._wire.alive

    async def take_turn(self, prompt: Prompt) -> AsyncGenerator[Update]:
        """Send the prompt and yield what comes, the last of it an `End`."""
        # Never the id of an earlier try: Claude would take it for answered and say nothing.
        turn = self._turn = Turn(str(uuid4()), self._line.cwd)
        self._clear_the_desk()
        said: Object = {"role": "user", "content": prompt.text}
        self._wire.send({"type": "user", "uuid": turn.message_id, "message": said})
        try:
            while not turn.over:
                message = await self._next(turn)
                if message is None:
                    await self._out_of_patience(turn)
                    continue
                for update in self._read(turn, message):
                    yield update
                if turn.failure is not None and not turn.interrupted:
                    await self.interrupt()
            self.version: str = turn.version or self.version
            yield self._priced(turn.end())
        except WireEnded as end:
            yield turn.end() if turn.interrupted else exited(end)
        finally:
            self._turn = None

    async def answer(self, key: str, response: Response) -> None:
        """Give Claude the answer to what it asked; after an interrupt nobody waits for one."""
        asked = self._open.pop(key, None)
        reply = asked.take(key, response) if asked is not None else None
        if asked is not None and reply is not None:
            self._reply(asked.request.id, reply)

    async def interrupt(self) -> None:
        """Have Claude break off, also what it left in the background; between turns nothing."""
        turn = self._turn
        if turn is None:
            return
        turn.interrupted = True
        turn.deadline = anyio.current_time() + AFTER_INTERRUPT
        self._waiting.deadline = min(self._waiting.deadline, turn.deadline)
        self._open.clear()  # an answer that comes now is too late
        self._request("interrupt")
        self._stop(turn.tasks)

    async def close(self) -> None:
        """End the process and its whole tree."""
        await self._wire.close()

    # -- listening -----------------------------------------------------------------------------

    async def _next(self, turn: Turn) -> Object | None:
        """The next message; None when there was none in the time that there is."""
        patience = BACKGROUND if turn.answered else math.inf
        latest = min(turn.deadline, anyio.current_time() + patience)
        with anyio.CancelScope(deadline=latest) as self._waiting:
            return await self._wire.receive()
        return None

    async def _out_of_patience(self, turn: Turn) -> None:
        self._stop(turn.tasks)
        turn.give_up_background()
        if turn.interrupted:
            await self._wire.close()  # and so the next look at the wire finds its end
            turn.deadline = math.inf

    def _priced(self, end: End) -> End:
        if not (self._line.rehearsed and isinstance(end, TurnCompleted) and end.usage):
            return end
        return replace(end, usage=replace(end.usage, cost_usd=None, source="rehearsal"))

    def _read(self, turn: Turn, message: Object) -> Iterable[Update]:
        if message.get("type") != "control_request":
            return turn.hear(message)
        request_id = text(message.get("request_id"))
        return self._asked(turn, request_id, mapping(message.get("request")))

    # -- what Claude asks of us ----------------------------------------------------------------

    def _asked(self, turn: Turn, request_id: str, request: Object) -> Iterable[Update]:
        match request.get("subtype"):
            case "hook_callback":
                hook = mapping(request.get("input"))
                turn.cwd = text(hook.get("cwd")) or turn.cwd
                # The call is told of before it is let go on, so no call can be missed.
                yield turn.calls.begin(hook)
                self._reply(request_id, {})
            case "can_use_tool":
                yield from self._permission(turn, Request.of(request_id, request))
            case other:
                self._refuse(request_id, f"Coterie does not know {other}")
                yield Activity()

    def _clear_the_desk(self) -> None:
        """Refuse what was asked since the last turn: Claude must not wait for it for ever."""
        self._open.clear()
        for message in self._wire.drop_pending():
            if message.get("type") == "control_request":
                self._refuse(text(message.get("request_id")), "It is nobody's turn.")

    def _permission(self, turn: Turn, request: Request) -> Iterable[Update]:
        if self._line.mode == "full" and request.tool != QUESTION:
            self._reply(request.id, request.allowed)
            yield Activity()
            return
        asked = asking(request, turn.cwd, turn.speech.last)
        for question in asked.questions:
            if not turn.interrupted:
                self._open[question.key] = asked
                yield question  # and when this goes on, it is answered

    # -- saying --------------------------------------------------------------------------------

    def _stop(self, tasks: Iterable[str]) -> None:
        for task in tasks:
            self._request("stop_task", task_id=task)

    def _request(self, subtype: str, **more: object) -> None:
        request = {"subtype": subtype, **more}
        self._wire.send({"type": "control_request", "request_id": str(uuid4()), "request": request})

    def _reply(self, request_id: str, response: Object) -> None:
        body = {"subtype": "success", "request_id": request_id, "response": response}
        self._wire.send({"type": "control_response", "response": body})

    def _refuse(self, request_id: str, error: str) -> None:
        body = {"subtype": "error", "request_id": request_id, "error": error}
        self._wire.send({"type": "control_response", "response": body})
