"""The OpenAI Responses format: `POST /v1/responses`, streamed and whole.

Codex speaks nothing else.  It takes a finished item from `response.output_item.done` and a
finished reply from `response.completed`; the events between them are what other clients show.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from coterie.rehearsal import chat_completions
from coterie.rehearsal.lenient_json import Json, compact, mapping, mappings, parsed, text, texts
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

# -- read --------------------------------------------------------------------------------------


def asked(posted: Posted) -> CompletionRequest:
    """The question in a request."""
    body = posted.body
    system = [*texts(body.get("instructions"))]
    conversation: list[Item] = []
    tools = [*_names(body.get("tools"))]
    given = body.get("input")
    if isinstance(given, str):
        conversation.append(TextMessage("user", given))
    for item in mappings(given):
        if item.get("type") == "additional_tools":  # where Codex offers its code mode
            tools.extend(_names(item.get("tools")))
        elif item.get("role") in ("developer", "system"):
            system.extend(texts(item.get("content")))
        else:
            conversation.extend(_items(item))
    return CompletionRequest(
        dialect="responses",
        client=posted.client,
        model=text(body.get("model")),
        system=tuple(system),
        conversation=tuple(conversation),
        tools=tuple(tools),
        stream=body.get("stream") is True,
        schema=_schema(body),
        size=posted.size,
    )


def _schema(body: Json) -> Json | None:
    return mapping(mapping(mapping(body.get("text")).get("format")).get("schema")) or None


def _names(tools: object) -> Iterator[str]:
    for tool in mappings(tools):
        if tool.get("type") == "namespace":
            yield from _names(tool.get("tools"))
        else:
            yield text(tool.get("name")) or text(tool.get("type"))


def _items(item: Json) -> Iterator[Item]:
    match item.get("type", "message"):
        case "message":
            role = "assistant" if item.get("role") == "assistant" else "user"
            yield from (TextMessage(role, said) for said in texts(item.get("content")))
        case "function_call":
            given = parsed(text(item.get("arguments")))
            yield ToolCall(text(item.get("name")), given, text(item.get("call_id")))
        case "custom_tool_call":
            name, given = text(item.get("name")), text(item.get("input"))
            yield ToolCall(name, given, text(item.get("call_id")))
        case "function_call_output" | "custom_tool_call_output":
            yield ToolResult(text(item.get("call_id")), "\n".join(texts(item.get("output"))))
        case _:  # reasoning and the like
            pass


# -- write -------------------------------------------------------------------------------------


def whole(asked: CompletionRequest, reply: ModelReply) -> Json:
    """The response in one."""
    return _response(asked, reply, new_id("resp"), list(_output(reply)))


def events(asked: CompletionRequest, reply: ModelReply) -> Iterator[SseEvent]:
    """The response as it is streamed."""
    number = count()

    def event(kind: str, **fields: object) -> SseEvent:
        data = {"type": kind, "sequence_number": next(number), **fields}
        return SseEvent(data, kind, kind == "response.output_text.delta")

    opened, output = new_id("resp"), list(_output(reply))
    yield event("response.created", response=_response(asked, reply, opened, None))
    for index, item in enumerate(output):
        yield event("response.output_item.added", output_index=index, item=_begun(item))
        for kind, fields in _progress(item, reply):
            yield event(kind, item_id=item["id"], output_index=index, **fields)
        yield event("response.output_item.done", output_index=index, item=item)
    done = _response(asked, reply, opened, output)
    yield event(f"response.{done['status']}", response=done)


def _response(
    asked: CompletionRequest, reply: ModelReply, opened: str, output: list[Json] | None
) -> Json:
    usage = reply.counted(asked)
    short = reply.stop != "end"
    reason = "content_filter" if reply.stop == "refusal" else "max_output_tokens"
    return {
        "id": opened,
        "object": "response",
        "created_at": unix_time(),
        "model": asked.model,
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


def _output(reply: ModelReply) -> Iterator[Json]:
    if reply.thinking:
        summary: list[Json] = [{"type": "summary_text", "text": reply.thinking}]
        yield {"type": "reasoning", "id": new_id("rs"), "summary": summary}
    if reply.pieces:
        yield {
            "type": "message",
            "id": new_id("msg"),
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": reply.text, "annotations": []}],
        }
    yield from (_call(call) for call in reply.calls)


def _call(call: ToolCall) -> Json:
    # Which of the two a tool is shows in its input: Codex's apply_patch and exec take text.
    item: Json = {"status": "completed", "call_id": call.id, "name": call.name}
    if call.namespace:
        item["namespace"] = call.namespace
    if isinstance(call.input, str):
        return {"type": "custom_tool_call", "id": new_id("ctc"), **item, "input": call.input}
    arguments = compact(call.input)
    return {"type": "function_call", "id": new_id("fc"), **item, "arguments": arguments}


def _begun(item: Json) -> Json:
    """An item before anything of it was streamed."""
    empty: Json = {"content": [], "summary": [], "arguments": "", "input": ""}
    empty["status"] = "in_progress"
    return item | {key: value for key, value in empty.items() if key in item}


def _progress(item: Json, reply: ModelReply) -> Iterator[tuple[str, Json]]:
    """What is streamed of an item between its beginning and its end."""
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


def refused(refusal: ErrorReply) -> tuple[int, Json]:
    """An error as this vendor spells it; of a plan that is used up only Codex ever hears."""
    if refusal.resets_in is None:
        return chat_completions.refused(refusal)
    error: Json = {"type": "usage_limit_reached", "message": refusal.message, "plan_type": "plus"}
    return refusal.status, {"error": {**error, "resets_at": unix_time(refusal.resets_in)}}


def limited(seconds: float) -> dict[str, str]:
    """What is told of a plan whose five hours are used up."""
    primary = "x-codex-primary"
    return {
        f"{primary}-used-percent": "100",
        f"{primary}-window-minutes": "300",
        f"{primary}-reset-at": str(unix_time(seconds)),
    }


WIRE = WireFormat("responses", asked, whole, events, refused, limited)
