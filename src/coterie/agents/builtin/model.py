"""A model behind the library: our conversation in its terms, its replies and errors in ours."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, cast

import httpx2
from pydantic_ai import exceptions, messages
from pydantic_ai.models import Model as Library
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from coterie.agents import failures
from coterie.agents.builtin.choice import ModelChoice
from coterie.agents.builtin.conversation import (
    InboundText,
    ModelInput,
    ModelTrouble,
    Reply,
    ReplyEntry,
    ShownResult,
    Stop,
    ToolCallRequest,
    stored_arguments,
)
from coterie.agents.builtin.text_calls import CUT
from coterie.agents.failures import WAIT, FailureCase
from coterie.agents.fields import limit_ends_after, mapping, text
from coterie.model import instant
from coterie.model.update import Activity, TextDelta, TurnFailed, Usage
from coterie.tools.toolbox import ToolSpec

_SHORT_LIMIT = 30.0
"""A limit that ends within this many seconds is waited for; a longer one ends the turn."""
_RESETS = ("anthropic-ratelimit-requests-reset", "anthropic-ratelimit-tokens-reset")
_TOO_LARGE = 413


_KEY = "Check the key in your environment (ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY)."
# The first match counts: some are subclasses of others.
_CASES: Mapping[type[exceptions.ModelAPIError], FailureCase] = {
    exceptions.ModelContextWindowExceededError: failures.TOO_LONG,
    exceptions.ModelAuthenticationError: FailureCase(
        "signed_out", "the API key was rejected", _KEY
    ),
    exceptions.ModelNotFoundError: FailureCase(
        "model",
        "the model is unknown, or not available with this key",
        "Give the member another model in the team file.",
    ),
    exceptions.ModelQuotaExceededError: failures.NO_CREDIT,
    exceptions.ModelRateLimitError: failures.LIMIT,
    exceptions.ModelOverloadedError: FailureCase(
        "model", "the model service is overloaded", WAIT, True
    ),
    exceptions.ModelUnavailableError: failures.FAILING,
    exceptions.ModelServerError: failures.FAILING,
    exceptions.ModelTimeoutError: FailureCase(
        "timeout", "the model service did not respond", WAIT, True
    ),
    exceptions.ModelConnectionError: FailureCase(
        "model",
        "the connection to the model service failed",
        failures.UNREACHABLE.hint,
        True,
    ),
    exceptions.ModelRequestRejectedError: failures.BAD_REQUEST,
}
_FORBIDDEN = failures.FORBIDDEN.with_hint("Give the member another model or another key.")
_UNCLEAR = FailureCase("model", "the model service returned an error", WAIT, True)
_GARBLED = FailureCase("protocol", "the model service sent an invalid response", WAIT, True)
_HALF = FailureCase("model", "the model's reply was cut off", WAIT, True)


def trouble(error: Exception, choice: ModelChoice) -> ModelTrouble:
    """Translate an error of the model library."""
    if not isinstance(error, exceptions.ModelAPIError):
        return ModelTrouble(_failure(_GARBLED, choice, str(error)), passing=True)
    case = _case(error)
    wait = _seconds(error)
    failure = _failure(case, choice, _words(error))
    if case is failures.LIMIT and wait is not None and wait > _SHORT_LIMIT:
        return ModelTrouble(replace(failure, until=limit_ends_after(wait)))
    passing = case.retry and case is not _UNCLEAR
    return ModelTrouble(failure, passing=passing, wait=wait, too_long=case is failures.TOO_LONG)


def _case(error: exceptions.ModelAPIError) -> FailureCase:
    status = error.status_code if isinstance(error, exceptions.ModelHTTPError) else 0
    if status == _TOO_LARGE:
        return failures.TOO_LONG
    if isinstance(error, exceptions.ModelAuthenticationError) and status == 403:
        return _FORBIDDEN
    return next((case for kind, case in _CASES.items() if isinstance(error, kind)), _UNCLEAR)


def _failure(case: FailureCase, choice: ModelChoice, words: str) -> TurnFailed:
    return case.failure("builtin", words, more=f" ({choice.provider}:{choice.name})")


def _words(error: exceptions.ModelAPIError) -> str:
    """Return what the service itself said."""
    body = mapping(error.body)
    inner = mapping(body.get("error")) or body
    message = text(inner.get("message"))
    return message or ("" if isinstance(error, exceptions.ModelHTTPError) else error.message)


def _seconds(error: exceptions.ModelAPIError) -> float | None:
    """Return how many seconds the service asks to wait."""
    if error.retry_after is not None or not isinstance(error, exceptions.ModelHTTPError):
        return error.retry_after
    headers = error.headers or {}
    ends = [headers[name] for name in _RESETS if name in headers]
    waits = [seconds for end in ends if (seconds := _seconds_until(end)) is not None]
    if waits:
        return max(waits)
    return _of_epoch(headers.get("x-ratelimit-reset", ""))


def _seconds_until(end: str) -> float | None:
    try:
        return max(0.0, instant.seconds_until(end))
    except (ValueError, TypeError):
        return None


def _of_epoch(value: str) -> float | None:
    """Return the seconds in an `x-ratelimit-reset`: some give a timestamp, some a duration."""
    try:
        number = float(value)
        if number < 1e9:
            return max(0.0, number)
        seconds = number / 1000 if number > 1e12 else number
        return _seconds_until(datetime.fromtimestamp(seconds, UTC).isoformat())
    except (ValueError, OverflowError, OSError):  # not a number, or further away than any date
        return None


_NO_OBJECT = "The arguments are not a JSON object. Make the call again."


def to_send(model_input: ModelInput) -> list[messages.ModelMessage]:
    """Return the messages to send; results in a row become one request."""
    native = bool(model_input.tools)
    sent: list[messages.ModelMessage] = []
    results: list[messages.ModelRequestPart] = []
    for one in model_input.items:
        if isinstance(one, ShownResult):
            results.append(_result(one, native=native))
            continue
        sent += [messages.ModelRequest(parts=results)] if results else []
        results = []
        sent += _message(one, native=native)
    return [*sent, messages.ModelRequest(parts=results)] if results else sent


def _message(one: InboundText | ReplyEntry, *, native: bool) -> Iterator[messages.ModelMessage]:
    if isinstance(one, InboundText):
        yield messages.ModelRequest(parts=[messages.UserPromptPart(one.text)])
        return
    parts: list[messages.ModelResponsePart] = (
        [messages.TextPart(one.text)] if one.text.strip() else []
    )
    if native and not one.written:
        parts += [
            messages.ToolCallPart(call.name, dict(call.arguments), call.id) for call in one.calls
        ]
    elif not one.written:
        parts += [messages.TextPart(_as_text(call)) for call in one.calls]
    if parts:
        yield messages.ModelResponse(parts=parts)


def _result(result: ShownResult, *, native: bool) -> messages.ModelRequestPart:
    call = result.call
    if native and not result.written:
        outcome = "failed" if result.is_error else "success"
        return messages.ToolReturnPart(call.name, result.text, call.id, outcome=outcome)
    # Nothing inside a result may end its element.
    inside = result.text.replace("</tool_result", "<\\/tool_result")
    failed = ' failed="true"' if result.is_error else ""
    head = f'<tool_result id="{call.id}" tool="{call.name}"{failed}>'
    return messages.UserPromptPart(f"{head}\n{inside}\n</tool_result>")


def _as_text(call: ToolCallRequest) -> str:
    given = json.dumps(dict(call.arguments), ensure_ascii=False)
    return f'<tool name="{call.name}">\n{given}\n</tool>'


def definitions(tools: Sequence[ToolSpec]) -> list[ToolDefinition]:
    """Return the definitions of the tools that the model may call natively."""
    return [
        # Not strict: that would require every argument, and we check them anyway.
        ToolDefinition(
            name=tool.name,
            parameters_json_schema=dict(tool.parameters),
            description=tool.description,
            strict=False,
        )
        for tool in tools
    ]


def calls_in(response: messages.ModelResponse) -> tuple[ToolCallRequest, ...]:
    """Return the native calls of a reply; one with unreadable arguments says so."""
    is_cut = response.finish_reason == "length"
    parts = [part for part in response.parts if isinstance(part, messages.ToolCallPart)]
    return tuple(_request(part, is_cut=is_cut and part is parts[-1]) for part in parts)


def _request(part: messages.ToolCallPart, *, is_cut: bool) -> ToolCallRequest:
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
        return ToolCallRequest(name, stored_arguments(cast("object", given)))
    arguments = stored_arguments({"text": str(part.args)[:2000]})
    return ToolCallRequest(name, arguments, CUT if is_cut else _NO_OBJECT)


_STOPS: dict[str | None, Stop] = {"length": "length", "content_filter": "refused"}
# We retry ourselves, where retries can be interrupted and reported.
_SETTINGS = ModelSettings(max_retries=0, cache=True)


@dataclass(frozen=True)
class LibraryModel:
    """`ChatModel` on any provider of the library; made by `providers.connect`."""

    library: Library[Any]
    http: httpx2.AsyncClient
    choice: ModelChoice

    async def reply(self, model_input: ModelInput) -> AsyncGenerator[TextDelta | Activity | Reply]:
        parameters = ModelRequestParameters(
            function_tools=definitions(model_input.tools),
            instruction_parts=[messages.InstructionPart(content=model_input.system)],
        )
        try:
            async with self.library.request_stream(
                to_send(model_input), _SETTINGS, parameters
            ) as stream:
                async for event in stream:
                    yield _piece(event)
                response = stream.get()
        except (
            exceptions.AgentRunError,
            exceptions.UserError,
            httpx2.HTTPError,
            ValueError,
        ) as error:
            raise trouble(error, self.choice) from error
        if response.state != "complete":
            raise ModelTrouble(_failure(_HALF, self.choice, ""), passing=True)
        texts = [part.content for part in response.parts if isinstance(part, messages.TextPart)]
        yield Reply(
            text("".join(texts)),
            calls_in(response),
            _STOPS.get(response.finish_reason, "end"),
            self._usage(response),
        )

    async def close(self) -> None:
        await self.http.aclose()

    def _usage(self, response: messages.ModelResponse) -> Usage:
        counted = response.usage
        known = counted.has_values()
        return Usage(
            input_tokens=counted.input_tokens if known else None,
            output_tokens=counted.output_tokens if known else None,
            cost_usd=None if self.choice.rehearsed or not known else _price(response),
            source="rehearsal" if self.choice.rehearsed else "model",
        )


def _piece(event: messages.ModelResponseStreamEvent) -> TextDelta | Activity:
    match event:
        case messages.PartStartEvent(part=messages.TextPart(content=text)) if text:
            return TextDelta(text)
        case messages.PartDeltaEvent(delta=messages.TextPartDelta(content_delta=text)) if text:
            return TextDelta(text)
        case _:
            return Activity()


def _price(response: messages.ModelResponse) -> float | None:
    """Return its cost by the vendor's price list; None for a model without a listed price."""
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError):
        return None
