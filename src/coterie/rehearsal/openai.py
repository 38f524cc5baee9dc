"""OpenAI's formats: Chat Completions and Responses, each streaming and non-streaming.

Codex speaks only Responses.  It takes finished items from `response.output_item.done` and the
finished reply from `response.completed`; the events in between are what other clients display.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

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
"""A status that only Anthropic uses; here it becomes 503."""
_STOPS = {"end": "stop", "tools": "tool_calls", "length": "length", "refusal": "content_filter"}


def _read_chat(request: ParsedRequest) -> api.CompletionRequest:
    body = request.body
    system, conversation = by_role(body.get("messages"), _chat_items)
    tools = (text(nested(tool, "function").get("name")) for tool in mappings(body.get("tools")))
    schema = nested(body, "response_format", "json_schema", "schema")
    return request.asks("chat", system, conversation, tools, schema)


def _chat_items(message: Json) -> Iterator[api.ConversationItem]:
    parts = texts(message.get("content"))
    if message.get("role") == "tool":
        yield api.ToolResult(text(message.get("tool_call_id")), "\n".join(parts))
        return
    role = "assistant" if message.get("role") == "assistant" else "user"
    yield from (api.TextMessage(role, part) for part in parts if part)
    for call in mappings(message.get("tool_calls")):
        function = nested(call, "function")
        arguments = parsed(text(function.get("arguments")))
        yield api.ToolCall(text(function.get("name")), arguments, text(call.get("id")))


def _chat_whole(request: api.CompletionRequest, reply: api.ModelReply) -> Json:
    message: Json = {"role": "assistant", "content": reply.text or None}
    if reply.thinking:
        message["reasoning_content"] = reply.thinking
    if reply.calls:
        message["tool_calls"] = [_chat_call(call) for call in reply.calls]
    choice: Json = {"index": 0, "message": message, "finish_reason": _STOPS[reply.stopped]}
    head = _chat_head(request, "chat.completion")
    return {**head, "choices": [choice], "usage": _chat_usage(request, reply)}


def _chat_events(request: api.CompletionRequest, reply: api.ModelReply) -> Iterator[SseEvent]:
    head = _chat_head(request, "chat.completion.chunk")
    yield _chunk(head, {"role": "assistant", "content": ""})
    if reply.thinking:
        yield _chunk(head, {"reasoning_content": reply.thinking})
    for piece in reply.pieces:
        yield _chunk(head, {"content": piece}, piece=True)
    for index, call in enumerate(reply.calls):
        yield _chunk(head, {"tool_calls": [{"index": index, **_chat_call(call)}]})
    yield _chunk(head, {}, stop=_STOPS[reply.stopped])
    # Sent even if not requested: clients that did not ask for usage ignore it, having no choices.
    yield SseEvent({**head, "choices": [], "usage": _chat_usage(request, reply)})
    yield SseEvent("[DONE]")


def _chat_head(request: api.CompletionRequest, kind: str) -> Json:
    opened = api.new_id("chatcmpl")
    return {"id": opened, "object": kind, "created": unix_time(), "model": request.model}


def _chunk(head: Json, delta: Json, *, stop: str | None = None, piece: bool = False) -> SseEvent:
    choice: Json = {"index": 0, "delta": delta, "finish_reason": stop}
    return SseEvent({**head, "choices": [choice]}, piece=piece)


def _chat_call(call: api.ToolCall) -> Json:
    function: Json = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _chat_usage(request: api.CompletionRequest, reply: api.ModelReply) -> Json:
    usage = reply.counted(request)
    counts: Json = {"prompt_tokens": usage.input, "completion_tokens": usage.output}
    return {**counts, "total_tokens": usage.input + usage.output}


def _error(refusal: api.ErrorReply) -> tuple[int, Json]:
    """Build an error as OpenAI sends it in both formats."""
    status = 503 if refusal.status == _OVERLOADED else refusal.status
    kind, code = "invalid_request_error", _CODES.get(status)
    if refusal.quota:
        kind = code = "insufficient_quota"
    elif status == 429:
        kind = "rate_limit_error"
    elif status >= 500:
        kind = "server_error"
    body: Json = {"message": refusal.message, "type": kind, "param": None, "code": code}
    return status, {"error": body}


CHAT = WireFormat("chat", _read_chat, _chat_whole, _chat_events, _error)


def _read_response(request: ParsedRequest) -> api.CompletionRequest:
    body, entries = request.body, request.body.get("input")
    system, conversation = by_role(entries, _response_items)
    if isinstance(entries, str):
        conversation.append(api.TextMessage("user", entries))
    offered = [body.get("tools")]
    # Codex offers its code mode here.
    offered += [
        item.get("tools") for item in mappings(entries) if item.get("type") == "additional_tools"
    ]
    tools = (name for listed in offered for name in _tool_names(listed))
    schema = nested(body, "text", "format", "schema")
    return request.asks(
        "responses", [*texts(body.get("instructions")), *system], conversation, tools, schema
    )


def _tool_names(tools: object) -> Iterator[str]:
    for tool in mappings(tools):
        if tool.get("type") == "namespace":
            yield from _tool_names(tool.get("tools"))
        else:
            yield text(tool.get("name")) or text(tool.get("type"))


def _response_items(item: Json) -> Iterator[api.ConversationItem]:
    match item.get("type", "message"):
        case "message":
            role = "assistant" if item.get("role") == "assistant" else "user"
            yield from (api.TextMessage(role, part) for part in texts(item.get("content")))
        case "function_call":
            arguments = parsed(text(item.get("arguments")))
            yield api.ToolCall(text(item.get("name")), arguments, text(item.get("call_id")))
        case "custom_tool_call":
            name, arguments = text(item.get("name")), text(item.get("input"))
            yield api.ToolCall(name, arguments, text(item.get("call_id")))
        case "function_call_output" | "custom_tool_call_output":
            yield api.ToolResult(text(item.get("call_id")), "\n".join(texts(item.get("output"))))
        case _:  # reasoning and the like
            pass


def _response_whole(request: api.CompletionRequest, reply: api.ModelReply) -> Json:
    return _response(request, reply, api.new_id("resp"), list(_output(reply)))


def _response_events(request: api.CompletionRequest, reply: api.ModelReply) -> Iterator[SseEvent]:
    number = count()

    def event(kind: str, **fields: object) -> SseEvent:
        data = {"type": kind, "sequence_number": next(number), **fields}
        return SseEvent(data, kind, kind == "response.output_text.delta")

    opened, output = api.new_id("resp"), list(_output(reply))
    yield event("response.created", response=_response(request, reply, opened, None))
    for index, item in enumerate(output):
        yield event("response.output_item.added", output_index=index, item=_begun(item))
        for kind, fields in _progress(item, reply):
            yield event(kind, item_id=item["id"], output_index=index, **fields)
        yield event("response.output_item.done", output_index=index, item=item)
    done = _response(request, reply, opened, output)
    yield event(f"response.{done['status']}", response=done)


def _response(
    request: api.CompletionRequest, reply: api.ModelReply, opened: str, output: list[Json] | None
) -> Json:
    usage = reply.counted(request)
    short = reply.stop != "end"
    reason = "content_filter" if reply.stop == "refusal" else "max_output_tokens"
    return {
        "id": opened,
        "object": "response",
        "created_at": unix_time(),
        "model": request.model,
        "status": "in_progress" if output is None else "incomplete" if short else "completed",
        "incomplete_details": {"reason": reason} if short and output is not None else None,
        "error": None,
        "output": output or [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": None
        if output is None
        else {
            "input_tokens": usage.input,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.input + usage.output,
        },
    }


def _output(reply: api.ModelReply) -> Iterator[Json]:
    if reply.thinking:
        summary: list[Json] = [{"type": "summary_text", "text": reply.thinking}]
        yield {"type": "reasoning", "id": api.new_id("rs"), "summary": summary}
    if reply.pieces:
        yield {
            "type": "message",
            "id": api.new_id("msg"),
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": reply.text, "annotations": []}],
        }
    yield from (_call(call) for call in reply.calls)


def _call(call: api.ToolCall) -> Json:
    # The input tells the two kinds of tools apart: Codex's apply_patch and exec take text.
    item: Json = {"status": "completed", "call_id": call.id, "name": call.name}
    if call.namespace:
        item["namespace"] = call.namespace
    if isinstance(call.input, str):
        return {"type": "custom_tool_call", "id": api.new_id("ctc"), **item, "input": call.input}
    item["arguments"] = call.arguments
    return {"type": "function_call", "id": api.new_id("fc"), **item}


def _begun(item: Json) -> Json:
    """Return an item as it is before any of its content is streamed."""
    empty: Json = {"content": [], "summary": [], "arguments": "", "input": ""}
    empty["status"] = "in_progress"
    return item | {key: value for key, value in empty.items() if key in item}


def _progress(item: Json, reply: api.ModelReply) -> Iterator[tuple[str, Json]]:
    """Yield the events between the start and the end of an item."""
    match item["type"]:
        case "message":
            part: Json = {"type": "output_text", "text": "", "annotations": []}
            yield "response.content_part.added", {"content_index": 0, "part": part}
            for piece in reply.pieces:
                yield "response.output_text.delta", {"content_index": 0, "delta": piece}
            yield "response.output_text.done", {"content_index": 0, "text": reply.text}
            full = part | {"text": reply.text}
            yield "response.content_part.done", {"content_index": 0, "part": full}
        case "reasoning":
            part = {"type": "summary_text", "text": ""}
            yield "response.reasoning_summary_part.added", {"summary_index": 0, "part": part}
            delta: Json = {"summary_index": 0, "delta": reply.thinking}
            yield "response.reasoning_summary_text.delta", delta
        case "function_call":
            arguments = item["arguments"]
            yield "response.function_call_arguments.delta", {"delta": arguments}
            yield "response.function_call_arguments.done", {"arguments": arguments}
        case _:
            pass


def _response_error(refusal: api.ErrorReply) -> tuple[int, Json]:
    """Build an error as OpenAI sends it; only Codex is ever told that a plan is used up."""
    if refusal.resets_in is None:
        return _error(refusal)
    body: Json = {"type": "usage_limit_reached", "message": refusal.message, "plan_type": "plus"}
    return refusal.status, {"error": {**body, "resets_at": unix_time(refusal.resets_in)}}


def _limit_headers(seconds: float) -> dict[str, str]:
    """The headers of a plan whose five-hour window is used up."""
    primary = "x-codex-primary"
    return {
        f"{primary}-used-percent": "100",
        f"{primary}-window-minutes": "300",
        f"{primary}-reset-at": str(unix_time(seconds)),
    }


RESPONSES = WireFormat(
    "responses", _read_response, _response_whole, _response_events, _response_error, _limit_headers
)
