"""Our conversation in the terms of the model library, and a reply of it in ours."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import cast

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.tools import ToolDefinition

from coterie.agents.builtin.entries import exactly
from coterie.agents.builtin.speech import Conversation, Got, Heard, Spoke, ToolCallRequest
from coterie.agents.builtin.text_calls import CUT
from coterie.agents.fields import text
from coterie.tools.toolbox import ToolSpec

_NO_OBJECT = "The arguments of the call are no JSON object. Make it again."


def messages(conversation: Conversation) -> list[ModelMessage]:
    """What is sent; a request for each side in turn."""
    native = bool(conversation.tools)
    found: list[ModelMessage] = []
    results: list[ModelRequestPart] = []
    for one in conversation.said:
        if isinstance(one, Got):
            results.append(_result(one, native=native))
            continue
        found += [ModelRequest(parts=results)] if results else []
        results = []
        found += _message(one, native=native)
    return [*found, ModelRequest(parts=results)] if results else found


def _message(one: Heard | Spoke, *, native: bool) -> Iterator[ModelMessage]:
    if isinstance(one, Heard):
        yield ModelRequest(parts=[UserPromptPart(one.text)])
        return
    parts: list[ModelResponsePart] = [TextPart(one.text)] if one.text.strip() else []
    if native and not one.written:
        parts += [ToolCallPart(call.name, dict(call.arguments), call.id) for call in one.calls]
    elif not one.written:
        parts += [TextPart(_as_text(call)) for call in one.calls]
    if parts:
        yield ModelResponse(parts=parts)


def _result(got: Got, *, native: bool) -> ModelRequestPart:
    call = got.call
    if native and not got.written:
        outcome = "failed" if got.is_error else "success"
        return ToolReturnPart(call.name, got.text, call.id, outcome=outcome)
    # What a result holds cannot end it.
    inside = got.text.replace("</tool_result", "<\\/tool_result")
    failed = ' failed="true"' if got.is_error else ""
    head = f'<tool_result id="{call.id}" tool="{call.name}"{failed}>'
    return UserPromptPart(f"{head}\n{inside}\n</tool_result>")


def _as_text(call: ToolCallRequest) -> str:
    given = json.dumps(dict(call.arguments), ensure_ascii=False)
    return f'<tool name="{call.name}">\n{given}\n</tool>'


def definitions(tools: Sequence[ToolSpec]) -> list[ToolDefinition]:
    """The tools that the model may call natively."""
    return [
        # Not strict: that would need every argument to be given, and we check them anyway.
        ToolDefinition(
            name=tool.name,
            parameters_json_schema=dict(tool.parameters),
            description=tool.description,
            strict=False,
        )
        for tool in tools
    ]


def said_in(response: ModelResponse) -> str:
    """The text of a reply."""
    return text("".join(part.content for part in response.parts if isinstance(part, TextPart)))


def calls_in(response: ModelResponse) -> tuple[ToolCallRequest, ...]:
    """The native calls of a reply; one whose arguments cannot be read says so."""
    is_cut = response.finish_reason == "length"
    found = [part for part in response.parts if isinstance(part, ToolCallPart)]
    return tuple(_request(part, is_cut=is_cut and part is found[-1]) for part in found)


def _request(part: ToolCallPart, *, is_cut: bool) -> ToolCallRequest:
    given: object = part.args
    if isinstance(given, str):
        try:
            given = json.loads(given or "{}")
        except (ValueError, RecursionError):
            given = None
    name = text(part.tool_name)[:200] or "unknown"
    if given is None and not part.args:
        given = {}
    if isinstance(given, dict):
        return ToolCallRequest(name, exactly(cast("object", given)))
    kept = exactly({"text": str(part.args)[:2000]})
    return ToolCallRequest(name, kept, CUT if is_cut else _NO_OBJECT)
