"""An agent: its entry in the registry, and what is known of it where it has a name.

An entry holds technical facts only, never who a member is.  The facts of a known agent are stated
once, in its vendor's package under `agents/`; the composition root hands them to whoever reads a
registry, checks a team, scans a machine or probes a CLI, and none of these knows a vendor by name.
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
"""The limit of a turn whose end is known by silence."""
TOTAL_MS = 30 * 60_000
"""The limit of any other turn."""

GENERIC = "generic"
INSTRUCTIONS = "AGENTS.md"
"""The file that most agents read."""

_Milliseconds = Annotated[StrictInt, Field(ge=1, le=7 * 24 * 3_600_000)]


class _Entry(Wire, extra="forbid"):
    # Refused where a person writes it: a misspelt fact would silently mean something else.
    pass


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

    @property
    def takes_role(self) -> bool:
        """Whether a flag tells it who a member is."""
        return self.capabilities.prompt_flag is not None

    def arguments(self, member: Member) -> tuple[str, ...]:
        """What follows its program for this member: its own words, the model and the role where
        flags take them, and the member's."""
        told = self.capabilities
        words = list(self.base_args)
        if told.model_flag and member.model:
            words += [told.model_flag, member.model]
        if told.prompt_flag and member.system_instruction:
            words += [told.prompt_flag, member.system_instruction]
        return (*words, *member.additional_args)

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


@dataclass(frozen=True)
class AdapterFacts:
    """Where the code is that speaks to an agent; named and not imported, so that a team pays for
    its own agents only."""

    name: str
    """As the registry's `adapter` has it."""
    make: str
    """`package.module:function`, which makes the adapter (see `agents.table.MakeAdapter`)."""
    is_ours: bool = False
    """Whether it ships with Coterie, so that a registry entry of its name need not state it."""

    def is_default_for(self, agent: str) -> bool:
        """Whether an entry of this name that states no adapter means this one."""
        return self.is_ours and self.name == agent


@dataclass(frozen=True)
class ShellTool:
    """How a model calls an agent's shell, for a probe that has a stand-in model do so."""

    name: str
    command: str = "command"
    """The argument that takes the command."""
    arguments: Mapping[str, object] = field(default_factory=dict[str, object])
    """What else the tool wants."""


@dataclass(frozen=True)
class LoginFacts:
    """The login that an agent renews by itself."""

    file: str
    """Below the user's home."""
    expiry: tuple[str, ...]
    """The names below which it says when it expires, `*` for any; a token says it itself."""


@dataclass(frozen=True)
class AgentFacts:
    """All that is known of one agent."""

    name: str
    display_name: str
    adapter: AdapterFacts
    install: str = ""
    """The command that installs it."""
    sign_in: str = ""
    """The command that signs in; empty where nobody has to."""
    sign_in_check: tuple[str, ...] | None = None
    """Arguments with which it exits 0 when signed in; None where it cannot be asked."""
    credentials: str | None = None
    """The file below the user's home that signing in leaves, where its program cannot be asked."""
    login: LoginFacts | None = None
    """The login that it renews, which all members share; None where there is none to be renewed."""
    keys: tuple[str, ...] = ()
    """Variables of the user's environment that hold its vendor's keys, passed to it alone."""
    tested: str | None = None
    """The version that our own tests run."""
    base_args: tuple[str, ...] = ()
    """With `capabilities`: one turn per process, prompt on stdin, JSON lines out, so that it can
    be run by its registry entry alone."""
    capabilities: Mapping[str, object] = field(default_factory=dict[str, object])
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    flags: FlagFacts = FlagFacts()
    isolating: tuple[str, ...] = ()
    """Variables by which it finds its files, or that keep it to what Coterie tells it; Coterie sets
    them, for each member apart.  In all others a member's env wins."""
    instructions: tuple[str, ...] = ()
    """Files in a repository that it would read as instructions; the first also in a folder that it
    is started in by hand."""
    follows_imports: bool = False
    """Whether `@PATH` in such a file stands for what is in that file."""
    settings: tuple[str, ...] = ()
    """Names in a repository under which it finds what it runs by itself: hooks, servers, tools."""
    model_variables: tuple[str, ...] = ()
    """How variables begin that hold keys and addresses of models: no command is to see them."""
    shell: ShellTool | None = None
    """None: a stand-in cannot take the place of its model, so that it cannot be probed."""
    needs: str | None = None
    """A Python package without which it cannot run; only for one that is a part of Coterie."""
    is_program: bool = True
    """Whether it is a program of its own; else it is a part of Coterie, or of the package whose
    facts these are."""

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
    """Where an agent's adapter is found."""

    agent: str
    name: str
    make: str | None
    """`module:attribute`; None where another package brings it."""
    login: LoginFacts | None = None
    """What its members share and it renews."""


class InstructionFile(NamedTuple):
    """What an agent reads in the folder that it is started in by hand."""

    name: str
    follows_imports: bool
    """Whether `@PATH` in it stands for what is in that file."""


@dataclass(frozen=True)
class KnownAgents:
    """Every agent that is known by name, and the adapters there are."""

    ours: Mapping[str, AgentFacts] = field(default_factory=dict[str, AgentFacts])
    """By name."""
    shared_adapters: tuple[AdapterFacts, ...] = ()
    """Adapters of ours that are not one agent's own."""
    find_others: Callable[[], Mapping[str, AgentFacts]] = dict[str, AgentFacts]
    """Loads those that other packages bring.  Called when needed: it reads every package's
    metadata."""

    @cached_property
    def others(self) -> Mapping[str, AgentFacts]:
        """Those that other packages bring, by name."""
        return self.find_others()

    @cached_property
    def all(self) -> tuple[AgentFacts, ...]:
        """Ours, then the others."""
        return (*self.ours.values(), *self.others.values())

    @cached_property
    def adapters(self) -> Mapping[str, AdapterFacts]:
        """Our adapters, by name."""
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
        found = (self.ours.get(name) for name in (adapter, definition.name, program) if name)
        return next((facts for facts in found if facts is not None), None)

    def adapter_name(self, definition: AgentDefinition) -> str:
        """The adapter that speaks to a registered agent."""
        return definition.adapter_in(self.adapters)

    def adapter_place(self, definition: AgentDefinition) -> AdapterPlace:
        """Where the adapter of a registered agent is: its own comes before one that it shares."""
        name, facts = self.adapter_name(definition), self.of(definition)
        own = facts.adapter if facts is not None and facts.adapter.name == name else None
        found = own or self.adapters.get(name)
        login = facts.login if facts is not None else None
        return AdapterPlace(definition.name, name, found.make if found else None, login)

    def flags(self, facts: AgentFacts | None) -> FlagFacts:
        """What the flags of an agent mean.  What only one vendor's CLI has counts for every agent:
        a program may be a wrapper of any of them."""
        own = facts.flags if facts is not None else FlagFacts()
        return own.joined(known.flags for known in self.ours.values())

    def mode_words(self, definition: AgentDefinition) -> Mapping[str, int]:
        """The words by which an agent's own adapter chooses how it is called."""
        facts = self.of(definition)
        if facts is None or facts.adapter.name != self.adapter_name(definition):
            return {}
        return facts.flags.mode

    def unused_words(self, definition: AgentDefinition, words: Sequence[str]) -> tuple[str, ...]:
        """Those of an agent's arguments that its own adapter does not pass on: it chooses them."""
        facts = self.of(definition)
        if facts is None or facts.adapter.name != self.adapter_name(definition):
            return ()
        return split_words(words, {**facts.flags.mode, **facts.flags.chosen})[1]

    def is_part_of_coterie(self, definition: AgentDefinition) -> bool:
        """Whether there is no program to look for."""
        facts = self.ours.get(self.adapter_name(definition))
        return facts is not None and not facts.is_program

    def instruction_file(self, definition: AgentDefinition | None) -> InstructionFile:
        """The instruction file of a member on a registered agent."""
        facts = self.of(definition) if definition else None
        name = facts.instructions[0] if facts and facts.instructions else INSTRUCTIONS
        return InstructionFile(name, facts is not None and facts.follows_imports)

    def isolating(self, facts: AgentFacts | None) -> frozenset[str]:
        """Variables that nobody may set for an agent: any program's, our vendors' and its own."""
        every = (*self.ours.values(), *((facts,) if facts else ()))
        return ISOLATING.union(*(one.isolating for one in every))
