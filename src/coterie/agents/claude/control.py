"""Claude's control channel: what is asked and answered beside the conversation."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import uuid4

from coterie.agents.wire import Object, Wire


@dataclass(frozen=True)
class Control:
    """Our side of it."""

    wire: Wire

    def request(self, subtype: str, **more: object) -> str:
        """Ask for something; the id by which its answer is known."""
        request_id = str(uuid4())
        request = {"subtype": subtype, **more}
        self.wire.send({"type": "control_request", "request_id": request_id, "request": request})
        return request_id

    def reply(self, request_id: str, response: Object) -> None:
        """Answer a request of Claude's."""
        body = {"subtype": "success", "request_id": request_id, "response": response}
        self.wire.send({"type": "control_response", "response": body})

    def refuse(self, request_id: str, error: str) -> None:
        """Answer it with an error, which to Claude is a no."""
        body = {"subtype": "error", "request_id": request_id, "error": error}
        self.wire.send({"type": "control_response", "response": body})
