"""The OpenAI Chat Completions format: `POST /v1/chat/completions`, streamed and whole."""

from __future__ import annotations

from collections.abc import Iterator

from coterie.rehearsal.lenient_json import Json, mapping, mappings, parsed, text, texts
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
from coterie.rehearsal.wire import Posted, SseEvent, WireFormat, unix_time

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


def refused(refusal: ErrorReply) -> tuple[int, Json]:
    """An error as this vendor spells it."""
    status = 503 if refusal.status == _OVERLOADED else refusal.status
    code = "insufficient_quota" if refusal.quota else _CODES.get(status)
    error: Json = {
        "message": refusal.message,
        "type": _kind(status, quota=refusal.quota),
        "param": None,
        "code": code,
    }
    return status, {"error": error}


def _kind(status: int, *, quota: bool) -> str:
    if quota:
        return "insufficient_quota"
    if status == 429:
        return "rate_limit_error"
    return "server_error" if status >= 500 else "invalid_request_error"


_STOPS = {"end": "stop", "length": "length", "refusal": "content_filter"}

# -- read --------------------------------------------------------------------------------------


def asked(posted: Posted) -> CompletionRequest:
    """The question in a request."""
    body = posted.body
    system: list[str] = []
    conversation: list[Item] = []
    for message in mappings(body.get("messages")):
        if message.get("role") in ("system", "developer"):
            system.extend(texts(message.get("content")))
        else:
            conversation.extend(_items(message))
    functions = (mapping(tool.get("function")) for tool in mappings(body.get("tools")))
    return CompletionRequest(
        dialect="chat",
        client=posted.client,
        model=text(body.get("model")),
        system=tuple(system),
        conversation=tuple(conversation),
        tools=tuple(text(function.get("name")) for function in functions),
        stream=body.get("stream") is True,
        schema=_schema(body),
        size=posted.size,
    )


def _schema(body: Json) -> Json | None:
    wanted = mapping(mapping(body.get("response_format")).get("json_schema"))
    return mapping(wanted.get("schema")) or None


def _items(message: Json) -> Iterator[Item]:
    said = texts(message.get("content"))
    if message.get("role") == "tool":
        yield ToolResult(text(message.get("tool_call_id")), "\n".join(said))
        return
    role = "assistant" if message.get("role") == "assistant" else "user"
    yield from (TextMessage(role, part) for part in said if part)
    for call in mappings(message.get("tool_calls")):
        function = mapping(call.get("function"))
        given = parsed(text(function.get("arguments")))
        yield ToolCall(text(function.get("name")), given, text(call.get("id")))


# -- write -------------------------------------------------------------------------------------


def whole(asked: CompletionRequest, reply: ModelReply) -> Json:
    """The completion in one."""
    message: Json = {"role": "assistant", "content": reply.text or None}
    if reply.thinking:
        message["reasoning_content"] = reply.thinking
    if reply.calls:
        message["tool_calls"] = [_call(call) for call in reply.calls]
    choice: Json = {"index": 0, "message": message, "finish_reason": _stop(reply)}
    return {
        "id": new_id("chatcmpl"),
        "object": "chat.completion",
        "created": unix_time(),
        "model": asked.model,
        "choices": [choice],
        "usage": _usage(asked, reply),
    }


def events(asked: CompletionRequest, reply: ModelReply) -> Iterator[SseEvent]:
    """The completion as it is streamed."""
    head: Json = {
        "id": new_id("chatcmpl"),
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


def _call(call: ToolCall) -> Json:
    function: Json = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _stop(reply: ModelReply) -> str:
    return "tool_calls" if reply.calls and reply.stop == "end" else _STOPS[reply.stop]


def _usage(asked: CompletionRequest, reply: ModelReply) -> Json:
    usage = reply.counted(asked)
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
    }


WIRE = WireFormat("chat", asked, whole, events, refused)
