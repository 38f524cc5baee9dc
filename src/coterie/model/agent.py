"""An agent: its registry entry, and the facts about agents known by name.

An entry holds technical facts only, nothing about the member.  The facts of a known agent are
stated once, in its vendor's package under `agents/`; the composition root passes them to the code
that reads a registry, checks a team, scans a machine or probes a CLI, none of which knows a vendor
by name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePath
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, StrictBool, StrictInt

from coterie.model.about import Wire
from coterie.model.conversation import Limits
from coterie.model.flags import FlagFacts, split_words
from coterie.model.instant import Instant
from coterie.model.team import ISOLATING, Member

Detection = Literal["jsonl", "idleTimeout", "custom"]
PromptFormat = Literal["text", "jsonl"]
ToolCalls = Literal["auto", "native", "text"]

IDLE_TIMEOUT_MS = 2_000
SILENT_TOTAL_MS = 30_000
"""The time limit of a turn whose end is detected by silence."""
TOTAL_MS = 30 * 60_000
"""The time limit of any other turn."""

GENERIC = "generic"
INSTRUCTIONS = "AGENTS.md"
"""The instruction file that most agents read."""

_Milliseconds = Annotated[StrictInt, Field(ge=1, le=7 * 24 * 3_600_000)]


class _Entry(Wire, extra="forbid"):
    # People write these by hand: ignoring a misspelt field would silently change its meaning.
    pass


class Capabilities(_Entry):
    """How to talk to an agent; may be empty if the agent has its own adapter."""

    supports_system_prompt: StrictBool | None = Field(
        default=None, description="Default: true if systemPromptFlag is given."
    )
    system_prompt_flag: str | None = Field(
        default=None,
        description="The flag that takes a member's role, such as --append-system-prompt. "
        "Without one, the role is prepended to the message.",
    )
    completion_detection: Detection | None = Field(
        default=None,
        description="How the end of a reply is detected: a JSON line of a named type, silence, "
        "or a detector. Default: silence.",
    )
    completion_types: tuple[str, ...] = Field(
        default=(), description="jsonl: the values of `type` that end a reply."
    )
    idle_timeout_ms: _Milliseconds = Field(
        default=IDLE_TIMEOUT_MS,
        description="idleTimeout: how long a silence ends a reply, counted from sending the "
        "prompt.",
    )
    completion_pattern: str | None = Field(
        default=None, description="custom: a regular expression; a matching line ends the reply."
    )
    detector: str | None = Field(
        default=None, description="custom: a name in the entry point group coterie.detectors."
    )
    text_field: str | None = Field(
        default=None,
        description="jsonl: the ending line's field that holds the reply. "
        "Default: the first of result, text, content, message.",
    )
    persistent: StrictBool = Field(
        default=False, description="The process keeps running and takes one prompt per turn."
    )
    prompt_format: PromptFormat = Field(
        default="text", description="How a prompt is written to the process: text or JSON lines."
    )
    timeout_ms: _Milliseconds | None = Field(
        default=None,
        description="The time limit of a turn. Default: 30 s for silence, otherwise 30 min.",
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
        "Default: natively, and a call in the text counts too.",
    )
    context_tokens: Annotated[StrictInt, Field(ge=1_000)] | None = Field(
        default=None,
        description="builtin: how long a conversation may grow before its older part is "
        "summarized. Default: 120000.",
    )

    @property
    def detection(self) -> Detection:
        """The strategy in effect."""
        return self.completion_detection or "idleTimeout"

    @property
    def prompt_flag(self) -> str | None:
        """The flag that takes the role, or None if the role must precede the message."""
        return None if self.supports_system_prompt is False else self.system_prompt_flag


class AgentDefinition(_Entry):
    """One entry of the registry, schema 1.2."""

    name: str = Field(description="Its key in the registry; may be omitted.")
    display_name: str = Field(default="", description="The name shown to people.")
    command: str = Field(min_length=1, description="A program on PATH, or its absolute path.")
    base_args: tuple[str, ...] = Field(
        default=(), description="Arguments for every member; never a role's prompt."
    )
    capabilities: Capabilities = Capabilities()
    use_pty: StrictBool = Field(default=False, description="Run it under a pseudo-terminal.")
    version: str | None = Field(default=None, description="The version it reported when detected.")
    installed_at: Instant | None = Field(default=None, description="When it was registered.")
    adapter: str | None = Field(
        default=None,
        description="claude, codex, gemini, acp, generic, or a name in the entry point group "
        "coterie.agents. Default: the built-in one of the same name, else generic.",
    )
    env: Mapping[str, str] = Field(
        default_factory=dict[str, str],
        repr=False,
        description="Environment for every member on this agent.",
    )

    def adapter_in(self, own_adapters: Collection[str]) -> str:
        """The name of its adapter, given the agents that have one of their own."""
        if self.adapter is not None:
            return self.adapter
        return self.name if self.name in own_adapters else GENERIC

    @property
    def takes_role(self) -> bool:
        """Whether a flag takes the member's role."""
        return self.capabilities.prompt_flag is not None

    def arguments(self, member: Member) -> tuple[str, ...]:
        """The command-line arguments for this member: the agent's own, the model and the role
        where flags take them, and the member's."""
        capabilities = self.capabilities
        words = list(self.base_args)
        if capabilities.model_flag and member.model:
            words += [capabilities.model_flag, member.model]
        if capabilities.prompt_flag and member.system_instruction:
            words += [capabilities.prompt_flag, member.system_instruction]
        return (*words, *member.additional_args)

    def idle_timeout_ms(self, member: Member) -> int:
        """How long a silence must last to end this member's reply."""
        return member.idle_timeout_ms or self.capabilities.idle_timeout_ms

    def clocks(self, total: float, member: Member, quiet_after: float) -> Limits:
        """The limits of this member's turns, in seconds; its own `quiet_after_ms` wins."""
        own = member.quiet_after_ms
        return Limits(total, quiet_after if own is None else own / 1000)

    def total_timeout_ms(self, member: Member, *, silent: bool | None = None) -> int:
        """The time limit of this member's turns; an adapter may state whether it is `silent`."""
        stated = member.timeout_ms or self.capabilities.timeout_ms
        if stated is not None:
            return stated
        if silent is None:
            silent = self.capabilities.detection == "idleTimeout"
        return SILENT_TOTAL_MS if silent else TOTAL_MS


@dataclass(frozen=True)
class AdapterFacts:
    """Where to find an agent's adapter; named rather than imported, so that a team loads only the
    code of its own agents."""

    name: str
    """The value of the registry's `adapter` field."""
    make: str
    """`package.module:function` that makes the adapter (see `agents.table.MakeAdapter`)."""
    is_ours: bool = False
    """Whether it ships with Coterie, so that a registry entry of its name need not state it."""

    def is_default_for(self, agent: str) -> bool:
        """Whether a registry entry of this name without an `adapter` field uses this one."""
        return self.is_ours and self.name == agent


@dataclass(frozen=True)
class ShellTool:
    """How a model calls an agent's shell, for probes that use a stand-in model."""

    name: str
    command: str = "command"
    """The argument that takes the command."""
    arguments: Mapping[str, object] = field(default_factory=dict[str, object])
    """Further arguments that the tool requires."""


@dataclass(frozen=True)
class LoginFacts:
    """The login that an agent renews by itself."""

    file: str
    """The file, relative to the user's home."""
    expiry: tuple[str, ...]
    """The path of keys to the expiry time, `*` for any key; a token carries its own."""


@dataclass(frozen=True)
class AgentFacts:
    """Everything known about one agent."""

    name: str
    display_name: str
    adapter: AdapterFacts
    install: str = ""
    """The command that installs it."""
    sign_in: str = ""
    """The command that signs in; empty if none is needed."""
    sign_in_check: tuple[str, ...] | None = None
    """Arguments with which it exits 0 when signed in; None if it offers no such check."""
    credentials: str | None = None
    """The file under the user's home that signing in creates, for a program without a check."""
    login: LoginFacts | None = None
    """The login that it renews, which all members share; None if it has none to renew."""
    keys: tuple[str, ...] = ()
    """Variables of the user's environment that hold its vendor's keys, passed only to it."""
    tested: str | None = None
    """The version that Coterie's own tests run."""
    base_args: tuple[str, ...] = ()
    """With `capabilities`: one turn per process, prompt on stdin, JSON lines out, so that its
    registry entry alone is enough to run it."""
    capabilities: Mapping[str, object] = field(default_factory=dict[str, object])
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    flags: FlagFacts = FlagFacts()
    isolating: tuple[str, ...] = ()
    """Variables that locate its files or restrict it to the configuration that Coterie gives it;
    Coterie sets them, separately for each member.  For all others a member's env wins."""
    instructions: tuple[str, ...] = ()
    """Files in a repository that it would read as instructions; it also reads the first of them in
    a folder where a person starts it."""
    follows_imports: bool = False
    """Whether `@PATH` in such a file imports the contents of that file."""
    settings: tuple[str, ...] = ()
    """Names in a repository from which it loads what it runs by itself: hooks, servers, tools."""
    model_variables: tuple[str, ...] = ()
    """Prefixes of variables that hold model keys and addresses: hidden from every command."""
    shell: ShellTool | None = None
    """Its shell tool; None if a stand-in cannot replace its model, so that it cannot be probed."""
    needs: str | None = None
    """A Python package that it requires; only for agents that are part of Coterie."""
    is_program: bool = True
    """Whether it is a separate program; otherwise it is part of Coterie, or of the package that
    provides these facts."""

    def definition(self, command: str, version: str | None, installed_at: str) -> AgentDefinition:
        """Its entry in the registry."""
        facts = {
            "name": self.name,
            "displayName": self.display_name,
            "command": command,
            "baseArgs": self.base_args,
            "capabilities": self.capabilities,
            "version": version,
            "installedAt": installed_at,
            "adapter": None if self.adapter.is_default_for(self.name) else self.adapter.name,
            "env": self.env,
        }
        return AgentDefinition.model_validate({key: fact for key, fact in facts.items() if fact})


class AdapterPlace(NamedTuple):
    """Where to find an agent's adapter."""

    agent: str
    name: str
    make: str | None
    """`module:attribute`; None if another package provides it."""
    login: LoginFacts | None = None
    """The login that its members share and that it renews."""


class InstructionFile(NamedTuple):
    """The instruction file that an agent reads in a folder where a person starts it."""

    name: str
    follows_imports: bool
    """Whether `@PATH` in it imports the contents of that file."""


@dataclass(frozen=True)
class KnownAgents:
    """Every agent known by name, and the available adapters."""

    ours: Mapping[str, AgentFacts] = field(default_factory=dict[str, AgentFacts])
    """The agents that Coterie ships with, by name."""
    shared_adapters: tuple[AdapterFacts, ...] = ()
    """Built-in adapters that do not belong to one agent."""
    find_others: Callable[[], Mapping[str, AgentFacts]] = dict[str, AgentFacts]
    """Loads the agents that other packages provide.  Called only when needed: it reads the metadata
    of every installed package."""

    @cached_property
    def others(self) -> Mapping[str, AgentFacts]:
        """The agents that other packages provide, by name."""
        return self.find_others()

    @cached_property
    def all(self) -> tuple[AgentFacts, ...]:
        """The built-in agents, then those of other packages."""
        return (*self.ours.values(), *self.others.values())

    @cached_property
    def adapters(self) -> Mapping[str, AdapterFacts]:
        """The built-in adapters, by name."""
        owned = (facts.adapter for facts in self.ours.values() if facts.adapter.name == facts.name)
        return {adapter.name: adapter for adapter in (*self.shared_adapters, *owned)}

    def get(self, name: str) -> AgentFacts | None:
        """The facts of an agent, by its name."""
        return self.ours.get(name) or self.others.get(name)

    def of(self, definition: AgentDefinition) -> AgentFacts | None:
        """The facts of a registered agent: known by its adapter, its name or its program's name."""
        adapter = definition.adapter
        if adapter is not None and adapter not in self.adapters:
            return self.others.get(definition.name) or self.others.get(adapter)
        program = PurePath(definition.command).stem.lower()
        candidates = (self.ours.get(name) for name in (adapter, definition.name, program) if name)
        return next((facts for facts in candidates if facts is not None), None)

    def adapter_name(self, definition: AgentDefinition) -> str:
        """The name of a registered agent's adapter."""
        return definition.adapter_in(self.adapters)

    def adapter_place(self, definition: AgentDefinition) -> AdapterPlace:
        """Where to find a registered agent's adapter: its own wins over a shared one."""
        name, facts = self.adapter_name(definition), self.of(definition)
        own = facts.adapter if facts is not None and facts.adapter.name == name else None
        adapter = own or self.adapters.get(name)
        login = facts.login if facts is not None else None
        return AdapterPlace(definition.name, name, adapter.make if adapter else None, login)

    def flags(self, facts: AgentFacts | None) -> FlagFacts:
        """What the flags of an agent mean.  The flags of every vendor's CLI count for every agent,
        because a program may wrap any of them."""
        own = facts.flags if facts is not None else FlagFacts()
        return own.joined(known.flags for known in self.ours.values())

    def mode_words(self, definition: AgentDefinition) -> Mapping[str, int]:
        """The arguments with which an agent's own adapter selects its calling mode."""
        facts = self.of(definition)
        if facts is None or facts.adapter.name != self.adapter_name(definition):
            return {}
        return facts.flags.mode

    def unused_words(self, definition: AgentDefinition, words: Sequence[str]) -> tuple[str, ...]:
        """The arguments of an agent that its own adapter drops because it chooses them itself."""
        facts = self.of(definition)
        if facts is None or facts.adapter.name != self.adapter_name(definition):
            return ()
        return split_words(words, {**facts.flags.mode, **facts.flags.chosen})[1]

    def is_part_of_coterie(self, definition: AgentDefinition) -> bool:
        """Whether the agent is part of Coterie, so that there is no program to look for."""
        facts = self.ours.get(self.adapter_name(definition))
        return facts is not None and not facts.is_program

    def instruction_file(self, definition: AgentDefinition | None) -> InstructionFile:
        """The instruction file of a member on a registered agent."""
        facts = self.of(definition) if definition else None
        name = facts.instructions[0] if facts and facts.instructions else INSTRUCTIONS
        return InstructionFile(name, facts is not None and facts.follows_imports)

    def isolating(self, facts: AgentFacts | None) -> frozenset[str]:
        """Variables that nobody may set for an agent: the general ones, those of every built-in
        agent, and its own."""
        every = (*self.ours.values(), *((facts,) if facts else ()))
        return ISOLATING.union(*(one.isolating for one in every))
