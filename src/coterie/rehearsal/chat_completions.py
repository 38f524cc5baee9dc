"""The OpenAI Chat Completions format: `POST /v1/chat/completions`, streamed and whole."""

from __future__ import annotations

from collections.abc import Iterator

from coterie.rehearsal import model_api as api
from coterie.rehearsal.lenient_json import Json, mappings, nested, parsed, text, texts
from coterie.rehearsal.wire import ParsedRequest, SseEvent, WireFormat, by_role, unix_time

_CODES = {
    400: "invalid_value",
    401: "invalid_api_key",
    404: "model_not_found",
    429: "rate_limit_exceeded",
    500: "server_error",
    503: "server_is_overloaded",
}
_OVERLOADED = 529
"""Anthropic's number alone; here it is 503."""


_STOPS = {"end": "stop", "length": "length", "refusal": "content_filter"}


def read(request: ParsedRequest) -> api.CompletionRequest:
    """What a request asks of the model."""
    body = request.body
    system, conversation = by_role(body.get("messages"), _items)
    tools = (text(nested(tool, "function").get("name")) for tool in mappings(body.get("tools")))
    schema = nested(body, "response_format", "json_schema", "schema")
    return request.asks("chat", system, conversation, tools, schema)


def _items(message: Json) -> Iterator[api.ConversationItem]:
    said = texts(message.get("content"))
    if message.get("role") == "tool":
        yield api.ToolResult(text(message.get("tool_call_id")), "\n".join(said))
        return
    role = "assistant" if message.get("role") == "assistant" else "user"
    yield from (api.TextMessage(role, part) for part in said if part)
    for call in mappings(message.get("tool_calls")):
        function = nested(call, "function")
        given = parsed(text(function.get("arguments")))
        yield api.ToolCall(text(function.get("name")), given, text(call.get("id")))


def whole(asked: api.CompletionRequest, reply: api.ModelReply) -> Json:
    """The completion in one."""
    message: Json = {"role": "assistant", "content": reply.text or None}
    if reply.thinking:
        message["reasoning_content"] = reply.thinking
    if reply.calls:
        message["tool_calls"] = [_call(call) for call in reply.calls]
    choice: Json = {"index": 0, "message": message, "finish_reason": _stop(reply)}
    return {
        "id": api.new_id("chatcmpl"),
        "object": "chat.completion",
        "created": unix_time(),
        "model": asked.model,
        "choices": [choice],
        "usage": _usage(asked, reply),
    }


def events(asked: api.CompletionRequest, reply: api.ModelReply) -> Iterator[SseEvent]:
    """The completion as it is streamed."""
    head: Json = {
        "id": api.new_id("chatcmpl"),
        "object": "chat.completion.chunk",
        "created": unix_time(),
        "model": asked.model,
    }
    yield _chunk(head, {"role": "assistant", "content": ""})
    if reply.thinking:
        yield _chunk(head, {"reasoning_content": reply.thinking})
    for piece in reply.pieces:
        yield _chunk(head, {"content": piece}, piece=True)
    for index, call in enumerate(reply.calls):
        yield _chunk(head, {"tool_calls": [{"index": index, **_call(call)}]})
    yield _chunk(head, {}, stop=_stop(reply))
    # Sent unasked as well: a client that did not ask for usage passes over a chunk without choices.
    yield SseEvent({**head, "choices": [], "usage": _usage(asked, reply)})
    yield SseEvent("[DONE]")


def _chunk(head: Json, delta: Json, *, stop: str | None = None, piece: bool = False) -> SseEvent:
    choice: Json = {"index": 0, "delta": delta, "finish_reason": stop}
    return SseEvent({**head, "choices": [choice]}, piece=piece)


def _call(call: api.ToolCall) -> Json:
    function: Json = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _stop(reply: api.ModelReply) -> str:
    return "tool_calls" if reply.calls and reply.stop == "end" else _STOPS[reply.stop]


def _usage(asked: api.CompletionRequest, reply: api.ModelReply) -> Json:
    usage = reply.counted(asked)
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
    }


def error(refusal: api.ErrorReply) -> tuple[int, Json]:
    """An error as OpenAI spells it, in both of its formats."""
    status = 503 if refusal.status == _OVERLOADED else refusal.status
    code = "insufficient_quota" if refusal.quota else _CODES.get(status)
    kind = _error_type(status, quota=refusal.quota)
    body: Json = {"message": refusal.message, "type": kind, "param": None, "code": code}
    return status, {"error": body}


def _error_type(status: int, *, quota: bool) -> str:
    if quota:
        return "insufficient_quota"
    if status == 429:
        return "rate_limit_error"
    return "server_error" if status >= 500 else "invalid_request_error"


WIRE = WireFormat("chat", read, whole, events, error)
