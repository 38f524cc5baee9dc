"""Which path is which: the wire formats, and the small things that CLIs look up beside them.

Only the end of a path counts, so that a base URL may say more in front (`/member/alice/v1`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from coterie.rehearsal import anthropic, chat_completions, gemini, responses
from coterie.rehearsal.dialogue import tokens
from coterie.rehearsal.loose import Json
from coterie.rehearsal.received import Opened
from coterie.rehearsal.wire import Wire

MODEL = "rehearsal"
"""The name of the only model there is; any other name is answered too."""

_WIRES: Mapping[str, Wire] = {
    "/messages": anthropic.WIRE,
    "/responses": responses.WIRE,
    "/chat/completions": chat_completions.WIRE,
    ":generateContent": gemini.WIRE,
    ":streamGenerateContent": gemini.WIRE,
}
_MODELS = re.compile(r"/models(?:/[^/:]+)?$")


def wire_for(request: Opened) -> Wire | None:
    """The format in which a request asks the model; None when it asks something else."""
    if request.method != "POST":
        return None
    found = (wire for end, wire in _WIRES.items() if request.path.endswith(end))
    return next(found, None)


def looked_up(request: Opened) -> tuple[int, Json]:
    """The answer to everything that is not a question to the model."""
    path = request.path
    if path.endswith("/count_tokens"):
        return 200, {"input_tokens": tokens(request.size)}
    if path.endswith(":countTokens"):
        return 200, {"totalTokens": tokens(request.size)}
    if path in ("/", "/api/hello"):
        return 200, {"message": "hello"}
    if request.method == "GET" and _MODELS.search(path):
        model: Json = {"id": MODEL, "object": "model", "owned_by": "coterie"}
        return 200, {"object": "list", "data": [model]}
    return 404, {"error": {"message": f"There is no {request.method} {path} in a rehearsal."}}
