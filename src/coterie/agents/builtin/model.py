"""A model behind the model library: the one module that speaks through it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import httpx2
from pydantic_ai.exceptions import AgentRunError, UserError
from pydantic_ai.messages import (
    InstructionPart,
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.models import Model as Library
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from coterie.agents.builtin.choice import ModelChoice
from coterie.agents.builtin.failures import half, trouble
from coterie.agents.builtin.messages import calls_in, definitions, messages, said_in
from coterie.agents.builtin.speech import Conversation, Reply, Stop
from coterie.model.update import Activity, TextDelta, Usage

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
