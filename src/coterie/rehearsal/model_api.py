"""Requests to a model and its replies, independent of any vendor's wire format.

The wire formats turn a request into a `CompletionRequest` and an `Answer` into bytes; a responder
(a script, the simulation, a test) sees nothing but these values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Protocol
from uuid import uuid4

from coterie.rehearsal.lenient_json import compact

Dialect = Literal["anthropic", "responses", "chat", "gemini"]
"""The wire format a request came in."""

Client = Literal["claude", "codex", "gemini", "qwen", "opencode", "builtin", "stand-in", "other"]
"""The program that asks, by its User-Agent."""

Stop = Literal["end", "length", "refusal"]
"""Why the model stopped, as far as a script says."""

# Texts that the CLIs themselves put beside the user's message, in the user's name.
_CONTEXT = re.compile(
    r"\s*(?:<(?:system-reminder|environment_context|session_context|project_context"
    r"|user_instructions|skills_instructions|permissions)\b"
    r"|# AGENTS\.md instructions"
    r"|This is the (?:Qwen Code|Gemini CLI)\. We are setting up the context)"
)


def new_id(kind: str) -> str:
    """An id that is unique across servers: a thread may be resumed against another one."""
    return f"{kind}_{uuid4().hex[:24]}"


@dataclass(frozen=True)
class TextMessage:
    """A text of the conversation."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True)
class ToolCall:
    """A call of one of the client's tools, made or to be made."""

    name: str
    input: Mapping[str, object] | str
    """Text for tools that take no JSON (Codex: apply_patch, exec)."""
    id: str = field(default_factory=lambda: new_id("call"))
    namespace: str | None = None
    """Codex alone: the MCP server that the tool belongs to, such as `mcp__team`."""

    @property
    def arguments(self) -> str:
        """The input as JSON; a text as it is, so that a script can cut a call in half."""
        return self.input if isinstance(self.input, str) else compact(self.input)


@dataclass(frozen=True)
class ToolResult:
    """The output of a tool."""

    call_id: str
    text: str
    failed: bool = False


ConversationItem = TextMessage | ToolCall | ToolResult


@dataclass(frozen=True)
class CompletionRequest:
    """One request for a reply of the model."""

    dialect: Dialect
    client: Client
    model: str
    system: tuple[str, ...]
    """Every system or developer text, wherever in the request it stood."""
    conversation: tuple[ConversationItem, ...]
    tools: tuple[str, ...] = ()
    stream: bool = True
    schema: Mapping[str, object] | None = None
    """The JSON Schema that the reply must follow, where one was given."""
    size: int = 0
    """How many bytes the request had."""
    workflow: str = ""
    member: str = ""
    """For whom its agent asks, and in which workflow; empty where the address does not say."""

    @cached_property
    def newest(self) -> str:
        """The newest message of the user, without what the CLI added beside it."""
        said = [
            item.text for item in self.conversation if isinstance(item, TextMessage) and _user(item)
        ]
        return said[-1].strip() if said else ""

    @cached_property
    def results(self) -> tuple[ToolResult, ...]:
        """The tool results that wait for an answer; none when the user spoke last."""
        waiting: list[ToolResult] = []
        for item in reversed(self.conversation):
            if isinstance(item, ToolResult):
                waiting.insert(0, item)
            elif isinstance(item, ToolCall) or item.role == "assistant" or _user(item):
                break
        return tuple(waiting)

    @cached_property
    def instructions(self) -> str:
        """The system texts, and what the CLI added beside the user's messages (where Codex puts
        its AGENTS.md)."""
        said = (item for item in self.conversation if isinstance(item, TextMessage))
        beside = (item.text for item in said if _CONTEXT.match(item.text))
        return "\n\n".join([*self.system, *beside])


def _user(said: TextMessage) -> bool:
    return said.role == "user" and not _CONTEXT.match(said.text)


@dataclass(frozen=True)
class ReplyUsage:
    """The token counts that are reported."""

    input: int
    output: int


@dataclass(frozen=True)
class ModelReply:
    """What the model says and calls."""

    pieces: tuple[str, ...] = ()
    """The text, in the pieces in which it is streamed."""
    calls: tuple[ToolCall, ...] = ()
    thinking: str = ""
    stop: Stop = "end"
    usage: ReplyUsage | None = None
    """None: counted from the texts, four characters a token."""
    pause: float = 0.0
    """Seconds before every piece but the first."""
    breaks: Literal["cut", "stall"] | None = None
    """Half-way through, the connection is cut, or stalls while open."""

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def stopped(self) -> Literal["tools", "end", "length", "refusal"]:
        """Why the model stopped; it stops at its end to have tools called."""
        return "tools" if self.calls and self.stop == "end" else self.stop

    def counted(self, asked: CompletionRequest) -> ReplyUsage:
        if self.usage is not None:
            return self.usage
        said = [self.text, self.thinking, *(str(call.input) for call in self.calls)]
        return ReplyUsage(tokens(asked.size), tokens(sum(map(len, said))))


@dataclass(frozen=True)
class ErrorReply:
    """An HTTP error in place of a reply."""

    status: int
    message: str
    retry_after: float | None = None
    quota: bool = False
    """With 429: the daily quota is used up, so a retry soon is of no use."""
    resets_in: float | None = None
    """With 429: seconds until the account's limit resets, sent in the vendor's own way."""

    @property
    def seconds(self) -> float | None:
        return self.retry_after if self.resets_in is None else self.resets_in


@dataclass(frozen=True)
class NoReply:
    """No answer at all: the connection stays open until the client gives up."""


Answer = ModelReply | ErrorReply | NoReply


class Responder(Protocol):
    """Whatever answers in place of a model.  Several requests may be answered at once."""

    async def answer(self, asked: CompletionRequest) -> Answer:
        """What to send back; may take its time, and may be cancelled."""
        ...


def tokens(characters: int) -> int:
    """Roughly as many tokens as a model would count."""
    return max(1, characters // 4)


def in_pieces(text: str) -> tuple[str, ...]:
    """A text word by word, as models stream it; together the pieces are the text again."""
    return tuple(re.findall(r"\S+\s*|\s+", text))


def reply(text: str, calls: Iterable[ToolCall] = ()) -> ModelReply:
    """A plain reply."""
    return ModelReply(in_pieces(text), tuple(calls))
