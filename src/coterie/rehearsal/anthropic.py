"""The Anthropic Messages format: `POST /v1/messages`, streaming and non-streaming."""

from __future__ import annotations

from collections.abc import Iterator

from coterie.rehearsal import model_api as api
from coterie.rehearsal.lenient_json import Json, mapping, mappings, nested, text, texts
from coterie.rehearsal.wire import ParsedRequest, SseEvent, WireFormat, by_role, unix_time

_STOPS = {"end": "end_turn", "tools": "tool_use", "length": "max_tokens", "refusal": "refusal"}
_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def _read(request: ParsedRequest) -> api.CompletionRequest:
    body = request.body
    # Claude Code puts facts about its environment into system messages.
    system, conversation = by_role(body.get("messages"), _items)
    tools = (text(tool.get("name")) for tool in mappings(body.get("tools")))
    schema = nested(body, "output_config", "format", "schema")
    return request.asks(
        "anthropic", [*texts(body.get("system")), *system], conversation, tools, schema
    )


def _items(message: Json) -> Iterator[api.ConversationItem]:
    role = "assistant" if message.get("role") == "assistant" else "user"
    content = message.get("content")
    if isinstance(content, str):
        yield api.TextMessage(role, content)
    for block in mappings(content):
        match block.get("type"):
            case "text":
                yield api.TextMessage(role, text(block.get("text")))
            case "tool_use":
                name, arguments = text(block.get("name")), mapping(block.get("input"))
                yield api.ToolCall(name, arguments, text(block.get("id")))
            case "tool_result":
                output = "\n".join(texts(block.get("content")))
                failed = block.get("is_error") is True
                yield api.ToolResult(text(block.get("tool_use_id")), output, failed)
            case _:  # thinking, images: of no use to a stand-in
                pass


def _whole(request: api.CompletionRequest, reply: api.ModelReply) -> Json:
    content = [full for _, _, full in _blocks(reply)]
    usage = _usage(request, reply, reply.counted(request).output)
    end: Json = {"stop_reason": _STOPS[reply.stopped], "usage": usage}
    return {**_opening(request, reply), "content": content, **end}


def _events(request: api.CompletionRequest, reply: api.ModelReply) -> Iterator[SseEvent]:
    yield _event("message_start", message=_opening(request, reply))
    for index, (opening, deltas, _) in enumerate(_blocks(reply)):
        yield _event("content_block_start", index=index, content_block=opening)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    end: Json = {"stop_reason": _STOPS[reply.stopped], "stop_sequence": None}
    usage = _usage(request, reply, reply.counted(request).output)
    yield _event("message_delta", delta=end, usage=usage)
    yield _event("message_stop")


def _event(kind: str, **fields: object) -> SseEvent:
    piece = mapping(fields.get("delta")).get("type") == "text_delta"
    return SseEvent({"type": kind, **fields}, kind, piece)


def _opening(request: api.CompletionRequest, reply: api.ModelReply) -> Json:
    return {
        "id": api.new_id("msg"),
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _usage(request, reply, 1),
    }


def _usage(request: api.CompletionRequest, reply: api.ModelReply, output: int) -> Json:
    return {
        "input_tokens": reply.counted(request).input,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": output,
        "service_tier": "standard",
    }


def _blocks(reply: api.ModelReply) -> Iterator[tuple[Json, list[Json], Json]]:
    """Yield each content block as its opening, its deltas and its complete form."""
    if reply.thinking:
        thought: Json = {"type": "thinking", "thinking": "", "signature": ""}
        deltas: list[Json] = [
            {"type": "thinking_delta", "thinking": reply.thinking},
            {"type": "signature_delta", "signature": "cmVoZWFyc2Fs"},
        ]
        yield thought, deltas, thought | {"thinking": reply.thinking, "signature": "cmVoZWFyc2Fs"}
    if reply.pieces:
        deltas = [{"type": "text_delta", "text": piece} for piece in reply.pieces]
        yield {"type": "text", "text": ""}, deltas, {"type": "text", "text": reply.text}
    for call in reply.calls:
        opening: Json = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        delta: Json = {"type": "input_json_delta", "partial_json": call.arguments}
        yield opening, [delta], opening | {"input": call.input}


def _error(refusal: api.ErrorReply) -> tuple[int, Json]:
    body: Json = {"type": _ERRORS.get(refusal.status, "api_error"), "message": refusal.message}
    return refusal.status, {"type": "error", "error": body, "request_id": api.new_id("req")}


def _limit_headers(seconds: float) -> dict[str, str]:
    """The headers of a subscription whose five-hour window is used up."""
    unified = "anthropic-ratelimit-unified"
    return {
        f"{unified}-status": "rejected",
        f"{unified}-reset": str(unix_time(seconds)),
        f"{unified}-representative-claim": "five_hour",
    }


WIRE = WireFormat("anthropic", _read, _whole, _events, _error, _limit_headers)
