"""Requests to a model and its replies, independent of any vendor's wire format.

The wire formats turn a request into a `CompletionRequest` and an `Answer` into bytes; a responder
(a script, the simulation, a test) sees only these values.
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
"""The client program, identified by its User-Agent."""

Stop = Literal["end", "length", "refusal"]
"""Why the model stopped, as a script may specify it."""

# Texts that the CLIs themselves add next to the user's message, under the user's role.
_CONTEXT = re.compile(
    r"\s*(?:<(?:system-reminder|environment_context|session_context|project_context"
    r"|user_instructions|skills_instructions|permissions)\b"
    r"|# AGENTS\.md instructions"
    r"|This is the (?:Qwen Code|Gemini CLI)\. We are setting up the context)"
)


def new_id(kind: str) -> str:
    """Return an id that is unique across servers: a thread may be resumed against another one."""
    return f"{kind}_{uuid4().hex[:24]}"


@dataclass(frozen=True)
class TextMessage:
    """A text message of the conversation."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True)
class ToolCall:
    """A call of one of the client's tools, past or requested."""

    name: str
    input: Mapping[str, object] | str
    """A string for tools that take no JSON (Codex: apply_patch, exec)."""
    id: str = field(default_factory=lambda: new_id("call"))
    namespace: str | None = None
    """Codex only: the MCP server that the tool belongs to, such as `mcp__team`."""

    @property
    def arguments(self) -> str:
        """The input as JSON; a string is used verbatim, so that a script can truncate a call."""
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
    """One request for a reply from the model."""

    dialect: Dialect
    client: Client
    model: str
    system: tuple[str, ...]
    """Every system or developer text, wherever it appeared in the request."""
    conversation: tuple[ConversationItem, ...]
    tools: tuple[str, ...] = ()
    stream: bool = True
    schema: Mapping[str, object] | None = None
    """The JSON Schema that the reply must follow, if one was given."""
    size: int = 0
    """The size of the decoded body, in bytes."""
    workflow: str = ""
    member: str = ""
    """The member whose agent is asking, and its workflow; empty if the URL does not say."""

    @cached_property
    def newest(self) -> str:
        """The newest message of the user, ignoring texts that the CLI added."""
        messages = [
            item.text for item in self.conversation if isinstance(item, TextMessage) and _user(item)
        ]
        return messages[-1].strip() if messages else ""

    @cached_property
    def results(self) -> tuple[ToolResult, ...]:
        """The tool results awaiting an answer; none if the user spoke last."""
        waiting: list[ToolResult] = []
        for item in reversed(self.conversation):
            if isinstance(item, ToolResult):
                waiting.insert(0, item)
            elif isinstance(item, ToolCall) or item.role == "assistant" or _user(item):
                break
        return tuple(waiting)

    @cached_property
    def instructions(self) -> str:
        """The system texts, and the texts that the CLI added to the user's messages (where Codex
        puts its AGENTS.md)."""
        messages = (item for item in self.conversation if isinstance(item, TextMessage))
        added = (item.text for item in messages if _CONTEXT.match(item.text))
        return "\n\n".join([*self.system, *added])


def _user(message: TextMessage) -> bool:
    return message.role == "user" and not _CONTEXT.match(message.text)


@dataclass(frozen=True)
class ReplyUsage:
    """The reported token counts."""

    input: int
    output: int


@dataclass(frozen=True)
class ModelReply:
    """A reply of the model: its text and tool calls."""

    pieces: tuple[str, ...] = ()
    """The text, split into the pieces to stream."""
    calls: tuple[ToolCall, ...] = ()
    thinking: str = ""
    stop: Stop = "end"
    usage: ReplyUsage | None = None
    """None: estimated from the texts, at four characters per token."""
    pause: float = 0.0
    """Seconds to wait before every piece but the first."""
    breaks: Literal["cut", "stall"] | None = None
    """Halfway through, the connection is cut, or stalls while staying open."""

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def stopped(self) -> Literal["tools", "end", "length", "refusal"]:
        """Why the model stopped: "tools" if it ended normally with tool calls."""
        return "tools" if self.calls and self.stop == "end" else self.stop

    def counted(self, request: CompletionRequest) -> ReplyUsage:
        if self.usage is not None:
            return self.usage
        output = [self.text, self.thinking, *(str(call.input) for call in self.calls)]
        return ReplyUsage(tokens(request.size), tokens(sum(map(len, output))))


@dataclass(frozen=True)
class ErrorReply:
    """An HTTP error instead of a reply."""

    status: int
    message: str
    retry_after: float | None = None
    quota: bool = False
    """With 429: the daily quota is used up, so retrying soon is pointless."""
    resets_in: float | None = None
    """With 429: seconds until the account's limit resets, sent in the vendor's own format."""

    @property
    def seconds(self) -> float | None:
        return self.retry_after if self.resets_in is None else self.resets_in


@dataclass(frozen=True)
class NoReply:
    """No answer at all: the connection stays open until the client gives up."""


Answer = ModelReply | ErrorReply | NoReply


class Responder(Protocol):
    """Answers in place of a model.  Several requests may be answered concurrently."""

    async def answer(self, request: CompletionRequest) -> Answer:
        """Return what to send back; may take a while, and may be cancelled."""
        ...


def tokens(characters: int) -> int:
    """Estimate how many tokens a model would count."""
    return max(1, characters // 4)


def in_pieces(text: str) -> tuple[str, ...]:
    """Split a text into words, as models stream it; joined, the pieces give the text again."""
    return tuple(re.findall(r"\S+\s*|\s+", text))


def reply(text: str, calls: Iterable[ToolCall] = ()) -> ModelReply:
    """Build a plain reply."""
    return ModelReply(in_pieces(text), tuple(calls))
