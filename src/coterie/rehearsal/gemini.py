"""The Gemini format: `models/NAME:generateContent` and `:streamGenerateContent`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from coterie.rehearsal import model_api as api
from coterie.rehearsal.lenient_json import Json, compact, mapping, mappings, nested, text, texts
from coterie.rehearsal.model_api import CompletionRequest, ModelReply
from coterie.rehearsal.wire import ParsedRequest, SseEvent, WireFormat

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
"""The keys under which clients put a tool's output."""
_PATH = re.compile(r"/models/(?P<model>[^/:]+):(?P<verb>\w+)$")


def _read(request: ParsedRequest) -> CompletionRequest:
    """Parse a request; its path names the model and says whether to stream."""
    body, path = request.body, _PATH.search(request.path)
    conversation = (item for content in mappings(body.get("contents")) for item in _items(content))
    system = texts(nested(body, "systemInstruction").get("parts"))
    tools = (
        text(function.get("name"))
        for tool in mappings(body.get("tools"))
        for function in mappings(tool.get("functionDeclarations"))
    )
    config = nested(body, "generationConfig")
    schema = mapping(config.get("responseJsonSchema") or config.get("responseSchema"))
    return replace(
        request.asks("gemini", system, conversation, tools, schema),
        model=path["model"] if path else "",
        stream=request.path.endswith(":streamGenerateContent"),
    )


def _items(content: Json) -> Iterator[api.ConversationItem]:
    role = "assistant" if content.get("role") == "model" else "user"
    for part in mappings(content.get("parts")):
        if "functionCall" in part:
            call = mapping(part["functionCall"])
            name = text(call.get("name"))
            yield api.ToolCall(name, mapping(call.get("args")), text(call.get("id")) or name)
        elif "functionResponse" in part:
            yield _result(mapping(part["functionResponse"]))
        elif "text" in part and part.get("thought") is not True:
            yield api.TextMessage(role, text(part["text"]))


def _result(response: Json) -> api.ToolResult:
    fields = mapping(response.get("response"))
    output = next((fields[key] for key in _OUTPUTS if key in fields), fields)
    shown = output if isinstance(output, str) else compact(output)
    call = text(response.get("id")) or text(response.get("name"))
    return api.ToolResult(call, shown, "error" in fields)


def _whole(request: CompletionRequest, reply: ModelReply) -> Json:
    one = replace(reply, pieces=(reply.text,) if reply.pieces else ())
    parts = [part for part, _ in _parts(one)]
    return _response(request, reply, api.new_id("resp"), parts, last=True)


def _events(request: CompletionRequest, reply: ModelReply) -> Iterator[SseEvent]:
    """Yield the streamed response: complete response objects, each with one of the parts."""
    opened = api.new_id("resp")
    parts = list(_parts(reply)) or [({"text": ""}, False)]
    for index, (part, piece) in enumerate(parts):
        last = index == len(parts) - 1
        yield SseEvent(_response(request, reply, opened, [part], last=last), piece=piece)


def _parts(reply: ModelReply) -> Iterator[tuple[Json, bool]]:
    if reply.thinking:
        yield {"text": reply.thinking, "thought": True}, False
    for piece in reply.pieces:
        yield {"text": piece}, True
    for call in reply.calls:
        yield {"functionCall": {"id": call.id, "name": call.name, "args": call.input}}, False


def _response(
    request: CompletionRequest, reply: ModelReply, opened: str, parts: list[Json], *, last: bool
) -> Json:
    candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
    if last:
        candidate["finishReason"] = _STOPS[reply.stop]
    usage = reply.counted(request)
    counts: Json = {"promptTokenCount": usage.input, "candidatesTokenCount": usage.output}
    return {
        "candidates": [candidate],
        "usageMetadata": {**counts, "totalTokenCount": usage.input + usage.output},
        "modelVersion": request.model,
        "responseId": opened,
    }


def _error(refusal: api.ErrorReply) -> tuple[int, Json]:
    status = 503 if refusal.status == 529 else refusal.status
    body: Json = {
        "code": status,
        "message": refusal.message,
        "status": _STATUSES.get(status, "UNKNOWN"),
        "details": list(_details(refusal)),
    }
    return status, {"error": body}


def _details(refusal: api.ErrorReply) -> Iterator[Json]:
    """Gemini CLI learns only from these how long to wait, or that waiting is useless."""
    if refusal.quota:
        daily: Json = {"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}
        yield {"@type": f"{_DETAILS}QuotaFailure", "violations": [daily]}
    elif (seconds := refusal.seconds) is not None:
        yield {"@type": f"{_DETAILS}RetryInfo", "retryDelay": f"{seconds:g}s"}


WIRE = WireFormat("gemini", _read, _whole, _events, _error)
