"""A model behind the library: our conversation in its terms, and its replies in ours."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import httpx2
from pydantic_ai.exceptions import AgentRunError, UserError
from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model as Library
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from coterie.agents.builtin.choice import ModelChoice
from coterie.agents.builtin.conversation import (
    Conversation,
    Got,
    Heard,
    Reply,
    Spoke,
    Stop,
    ToolCallRequest,
    exactly,
)
from coterie.agents.builtin.failures import half, trouble
from coterie.agents.builtin.text_calls import CUT
from coterie.agents.fields import text
from coterie.model.update import Activity, TextDelta, Usage
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


# -- a model behind the model library ----------------------------------------------------------


_STOPS: dict[str | None, Stop] = {"length": "length", "content_filter": "refused"}
# Further tries are ours to make, where they can be broken off and told of.
_SETTINGS = ModelSettings(max_retries=0, cache=True)


@dataclass(frozen=True)
class LibraryModel:
    """`speech.Model` on any provider of the library; made by `providers.connect`."""

    library: Library[Any]
    http: httpx2.AsyncClient
    choice: ModelChoice

    async def reply(
        self, conversation: Conversation
    ) -> AsyncGenerator[TextDelta | Activity | Reply]:
        """The reply as it comes, and whole at the end."""
        parameters = ModelRequestParameters(
            function_tools=definitions(conversation.tools),
            instruction_parts=[InstructionPart(content=conversation.system)],
        )
        try:
            async with self.library.request_stream(
                messages(conversation), _SETTINGS, parameters
            ) as stream:
                async for event in stream:
                    yield _piece(event)
                response = stream.get()
        except (AgentRunError, UserError, httpx2.HTTPError, ValueError) as error:
            raise trouble(error, self.choice) from error
        if response.state != "complete":
            raise half(self.choice)
        yield Reply(
            said_in(response),
            calls_in(response),
            _STOPS.get(response.finish_reason, "end"),
            self._usage(response),
        )

    async def close(self) -> None:
        """Let go of its connections."""
        await self.http.aclose()

    def _usage(self, response: ModelResponse) -> Usage:
        counted = response.usage
        known = counted.has_values()
        return Usage(
            input_tokens=counted.input_tokens if known else None,
            output_tokens=counted.output_tokens if known else None,
            cost_usd=None if self.choice.rehearsed or not known else _price(response),
            source="rehearsal" if self.choice.rehearsed else "model",
        )


def _piece(event: ModelResponseStreamEvent) -> TextDelta | Activity:
    match event:
        case PartStartEvent(part=TextPart(content=text)) if text:
            return TextDelta(text)
        case PartDeltaEvent(delta=TextPartDelta(content_delta=text)) if text:
            return TextDelta(text)
        case _:
            return Activity()


def _price(response: ModelResponse) -> float | None:
    """What the vendor's list says that it costs; None for a model that is on no list."""
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError):
        return None
