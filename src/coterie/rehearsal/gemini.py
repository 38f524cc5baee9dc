"""The Gemini format: `models/NAME:generateContent` and `:streamGenerateContent`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from coterie.rehearsal.lenient_json import Json, compact, mapping, mappings, text, texts
from coterie.rehearsal.model_api import (
    CompletionRequest,
    ErrorReply,
    Item,
    ModelReply,
    TextMessage,
    ToolCall,
    ToolResult,
    new_id,
)
from coterie.rehearsal.wire import Posted, SseEvent, WireFormat

_STOPS = {"end": "STOP", "length": "MAX_TOKENS", "refusal": "SAFETY"}
_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
_DETAILS = "type.googleapis.com/google.rpc."
_OUTPUTS = ("output", "return_value", "error")
"""Under which name a client puts what a tool gave."""
_PATH = re.compile(r"/models/(?P<model>[^/:]+):(?P<verb>\w+)$")


def model_in(path: str) -> str:
    """The model that a path names."""
    found = _PATH.search(path)
    return found["model"] if found else ""


# -- read --------------------------------------------------------------------------------------


def asked(posted: Posted) -> CompletionRequest:
    """The question in a request."""
    body = posted.body
    conversation = [item for content in mappings(body.get("contents")) for item in _items(content)]
    declared = [
        function
        for tool in mappings(body.get("tools"))
        for function in mappings(tool.get("functionDeclarations"))
    ]
    return CompletionRequest(
        dialect="gemini",
        client=posted.client,
        model=model_in(posted.path),
        system=texts(mapping(body.get("systemInstruction")).get("parts")),
        conversation=tuple(conversation),
        tools=tuple(text(function.get("name")) for function in declared),
        stream=posted.path.endswith(":streamGenerateContent"),
        schema=_schema(body),
        size=posted.size,
    )


def _schema(body: Json) -> Json | None:
    settings = mapping(body.get("generationConfig"))
    return mapping(settings.get("responseJsonSchema") or settings.get("responseSchema")) or None


def _items(content: Json) -> Iterator[Item]:
    role = "assistant" if content.get("role") == "model" else "user"
    for part in mappings(content.get("parts")):
        if "functionCall" in part:
            call = mapping(part["functionCall"])
            name = text(call.get("name"))
            yield ToolCall(name, mapping(call.get("args")), text(call.get("id")) or name)
        elif "functionResponse" in part:
            yield _result(mapping(part["functionResponse"]))
        elif "text" in part and part.get("thought") is not True:
            yield TextMessage(role, text(part["text"]))


def _result(response: Json) -> ToolResult:
    given = mapping(response.get("response"))
    said = next((given[key] for key in _OUTPUTS if key in given), given)
    shown = said if isinstance(said, str) else compact(said)
    call = text(response.get("id")) or text(response.get("name"))
    return ToolResult(call, shown, "error" in given)


# -- write -------------------------------------------------------------------------------------


def whole(asked: CompletionRequest, reply: ModelReply) -> Json:
    """The response in one."""
    one = replace(reply, pieces=(reply.text,) if reply.pieces else ())
    parts = [part for part, _ in _parts(one)]
    return _response(asked, reply, new_id("resp"), parts, last=True)


def events(asked: CompletionRequest, reply: ModelReply) -> Iterator[SseEvent]:
    """The response as it is streamed: whole responses, each with some of the parts."""
    opened = new_id("resp")
    parts = list(_parts(reply)) or [({"text": ""}, False)]
    for index, (part, piece) in enumerate(parts):
        last = index == len(parts) - 1
        yield SseEvent(_response(asked, reply, opened, [part], last=last), piece=piece)


def _parts(reply: ModelReply) -> Iterator[tuple[Json, bool]]:
    if reply.thinking:
        yield {"text": reply.thinking, "thought": True}, False
    for piece in reply.pieces:
        yield {"text": piece}, True
    for call in reply.calls:
        yield {"functionCall": {"id": call.id, "name": call.name, "args": call.input}}, False


def _response(
    asked: CompletionRequest, reply: ModelReply, opened: str, parts: list[Json], *, last: bool
) -> Json:
    candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
    if last:
        candidate["finishReason"] = _STOPS[reply.stop]
    usage = reply.counted(asked)
    return {
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": usage.input,
            "candidatesTokenCount": usage.output,
            "totalTokenCount": usage.input + usage.output,
        },
        "modelVersion": asked.model,
        "responseId": opened,
    }


def refused(refusal: ErrorReply) -> tuple[int, Json]:
    """An error as this vendor spells it."""
    status = 503 if refusal.status == 529 else refusal.status
    error: Json = {
        "code": status,
        "message": refusal.message,
        "status": _STATUSES.get(status, "UNKNOWN"),
        "details": list(_details(refusal)),
    }
    return status, {"error": error}


def _details(refusal: ErrorReply) -> Iterator[Json]:
    """Gemini CLI takes its waiting time, and that waiting is of no use, from here alone."""
    if refusal.quota:
        daily: Json = {"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}
        yield {"@type": f"{_DETAILS}QuotaFailure", "violations": [daily]}
    elif (seconds := refusal.seconds) is not None:
        yield {"@type": f"{_DETAILS}RetryInfo", "retryDelay": f"{seconds:g}s"}


WIRE = WireFormat("gemini", asked, whole, events, refused)
