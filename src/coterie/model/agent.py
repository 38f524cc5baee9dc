"""An agent as the registry describes it: technical facts only, never who a member is."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt
from pydantic.alias_generators import to_camel

from coterie.model.conversation import Limits
from coterie.model.instant import Instant
from coterie.model.team import Member

Detection = Literal["jsonl", "idleTimeout", "custom"]
PromptFormat = Literal["text", "jsonl"]
ToolCalls = Literal["auto", "native", "text"]

IDLE_TIMEOUT_MS = 2_000
SILENT_TOTAL_MS = 30_000
"""The limit of a turn whose end is known by silence."""
TOTAL_MS = 30 * 60_000
"""The limit of any other turn."""

GENERIC = "generic"

_Milliseconds = Annotated[StrictInt, Field(ge=1, le=7 * 24 * 3_600_000)]


class _Entry(BaseModel):
    # Refused where a person writes it: a misspelt fact would silently mean something else.
    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
    )


class Capabilities(_Entry):
    """How an agent is spoken to; may be empty where the agent has an adapter of its own."""

    supports_system_prompt: StrictBool | None = Field(
        default=None, description="Left out: true when systemPromptFlag is given."
    )
    system_prompt_flag: str | None = Field(
        default=None,
        description="The flag that takes a member's role, such as --append-system-prompt. "
        "Without one, the role stands in front of the message.",
    )
    completion_detection: Detection | None = Field(
        default=None,
        description="How the end of a reply is known: a JSON line of a named type, silence, "
        "or a detector. Left out: silence.",
    )
    completion_types: tuple[str, ...] = Field(
        default=(), description="jsonl: the values of `type` that end a reply."
    )
    idle_timeout_ms: _Milliseconds = Field(
        default=IDLE_TIMEOUT_MS,
        description="idleTimeout: how long a silence ends a reply, counted from the sending.",
    )
    completion_pattern: str | None = Field(
        default=None, description="custom: a regular expression; a line it finds ends the reply."
    )
    detector: str | None = Field(
        default=None, description="custom: a name in the entry point group coterie.detectors."
    )
    text_field: str | None = Field(
        default=None,
        description="jsonl: the ending line's field that holds the reply. "
        "Left out: the first of result, text, content, message.",
    )
    persistent: StrictBool = Field(
        default=False, description="The process stays and takes one prompt per turn."
    )
    prompt_format: PromptFormat = Field(
        default="text", description="How a prompt is written to the process: plain, or a JSON line."
    )
    timeout_ms: _Milliseconds | None = Field(
        default=None,
        description="The limit of a whole turn. Left out: 30 s for silence, 30 min for others.",
    )
    model_flag: str | None = Field(
        default=None, description="The flag that takes a member's `model`, such as --model."
    )
    model: str | None = Field(
        default=None,
        description="builtin: the model of members that name none, such as anthropic:NAME, "
        "openai:NAME or google:NAME.",
    )
    tool_calls: ToolCalls = Field(
        default="auto",
        description="builtin: whether the model calls tools natively, or writes calls in its text. "
        "Left out: natively, and a call in the text counts too.",
    )
    context_tokens: Annotated[StrictInt, Field(ge=1_000)] | None = Field(
        default=None,
        description="builtin: how long a conversation may grow before its older part is summed "
        "up. Left out: 120000.",
    )

    @property
    def detection(self) -> Detection:
        """The strategy that holds."""
        return self.completion_detection or "idleTimeout"

    @property
    def prompt_flag(self) -> str | None:
        """The flag for the role, or None where it must stand in front of the message."""
        return None if self.supports_system_prompt is False else self.system_prompt_flag


class AgentDefinition(_Entry):
    """One entry of the registry, schema 1.2."""

    name: str = Field(description="The key it stands under; may be left out.")
    display_name: str = Field(default="", description="What people call it.")
    command: str = Field(min_length=1, description="A program on PATH, or its absolute path.")
    base_args: tuple[str, ...] = Field(
        default=(), description="Arguments for every member; never a role's prompt."
    )
    capabilities: Capabilities = Capabilities()
    use_pty: StrictBool = Field(default=False, description="Run it under a pseudo-terminal.")
    version: str | None = Field(default=None, description="What it said when it was found.")
    installed_at: Instant | None = Field(default=None, description="When it was registered.")
    adapter: str | None = Field(
        default=None,
        description="claude, codex, gemini, acp, generic, or a name in the entry point group "
        "coterie.agents. Left out: the built-in one of the same name, else generic.",
    )
    env: Mapping[str, str] = Field(
        default_factory=dict[str, str],
        repr=False,
        description="Environment for every member on this agent.",
    )

    def adapter_in(self, own_adapters: Collection[str]) -> str:
        """The adapter that speaks to it, where these agents have one of their own."""
        if self.adapter is not None:
            return self.adapter
        return self.name if self.name in own_adapters else GENERIC

    def idle_timeout_ms(self, member: Member) -> int:
        """How long a silence ends this member's reply."""
        return member.idle_timeout_ms or self.capabilities.idle_timeout_ms

    def clocks(self, total: float, member: Member, quiet_after: float) -> Limits:
        """The clocks of this member's turns, in seconds; its own patience with silence counts."""
        own = member.quiet_after_ms
        return Limits(total, quiet_after if own is None else own / 1000)

    def total_timeout_ms(self, member: Member, *, silent: bool | None = None) -> int:
        """The limit of this member's turns; an adapter of its own says whether it is `silent`."""
        stated = member.timeout_ms or self.capabilities.timeout_ms
        if stated is not None:
            return stated
        if silent is None:
            silent = self.capabilities.detection == "idleTimeout"
        return SILENT_TOTAL_MS if silent else TOTAL_MS
