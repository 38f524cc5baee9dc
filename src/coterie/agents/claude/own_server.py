"""The server of our own tools: no process, as Claude speaks to it over the control channel."""

from __future__ import annotations

from dataclasses import asdict

from coterie.agents.claude.control import Control
from coterie.agents.fields import mapping
from coterie.agents.inside.program import called, replied, result_of
from coterie.agents.inside.serving import NO_TURN, Serving
from coterie.agents.inside.tools import SERVER
from coterie.agents.wire import Object
from coterie.model.interaction import Response
from coterie.model.update import Asked

SUBTYPE = "mcp_message"
CONFIG: Object = {"mcpServers": {SERVER: {"type": "sdk", "name": SERVER}}}
_NOTED: Object = {"jsonrpc": "2.0", "result": {}}


class OwnServer:
    """Answers what Claude asks of it; a call that needs a person waits for the answer."""

    def __init__(self, control: Control, serving: Serving) -> None:
        self.serving = serving
        self.is_met: bool = False
        """Whether Claude has spoken to it at all; an older one would not."""
        self.is_listed: bool = False
        """Whether Claude knows its tools."""
        self._control = control
        self._waiting: dict[str, tuple[str, Object]] = {}
        """By the key of a question: the request, and the call in it."""

    def hear(self, request_id: str, request: Object, *, in_turn: bool) -> Asked | None:
        """Answer a message, or have something asked first."""
        self.is_met = True
        message = mapping(request.get("message"))
        call = called(message)
        if call is None:
            self._reply(request_id, replied(message, self.serving.tools) or _NOTED)
            self.is_listed = self.is_listed or message.get("method") == "tools/list"
            return None
        key = f"ask.{request_id}"
        outcome = self.serving.call(key, *call) if in_turn else NO_TURN
        if isinstance(outcome, Asked):
            self._waiting[key] = (request_id, message)
            return outcome
        self._reply(request_id, result_of(message, asdict(outcome)))
        return None

    def answer(self, key: str, response: Response) -> bool:
        """Give the answer to a question of its; whether it was one."""
        request_id, message = self._waiting.pop(key, ("", {}))
        result = self.serving.answered(key, response)
        if result is None or not request_id:
            return False
        self._reply(request_id, result_of(message, asdict(result)))
        return True

    def forget(self) -> None:
        """Nobody waits any more for what was asked."""
        self._waiting.clear()

    def _reply(self, request_id: str, message: Object) -> None:
        self._control.reply(request_id, {"mcp_response": message})
