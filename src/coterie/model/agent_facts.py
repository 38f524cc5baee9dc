"""What is known of an agent that has a name: each vendor's package under `agents/` states it once.

The composition root hands these facts to whoever reads a registry, checks a team, scans a machine
or probes a CLI; none of them knows a vendor by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePath

from coterie.model.agent import GENERIC, AgentDefinition
from coterie.model.team import ISOLATING


def split_words(
    words: Sequence[str], flags: Mapping[str, int]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words without these flags and their values, and what was left out.

    `flags` says how many values each takes; `--flag=value` is one word.
    """
    kept: list[str] = []
    dropped: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        flag, equals, _ = word.partition("=")
        if flag not in flags:
            kept.append(word)
            continue
        dropped.append(word)
        if flags[flag] and not equals and rest and not rest[0].startswith("-"):
            dropped.append(rest.pop(0))
    return tuple(kept), tuple(dropped)


@dataclass(frozen=True)
class FlagFacts:
    """Arguments of a CLI that are not the user's to give."""

    mode: Mapping[str, int] = field(default_factory=dict[str, int])
    """Words that choose how it is called, which its adapter does; how many values each takes."""
    chosen: Mapping[str, int] = field(default_factory=dict[str, int])
    """What else its adapter chooses; dropped without a notice."""
    prompt: frozenset[str] = frozenset()
    """Flags that take a role's prompt."""
    setting: frozenset[str] = frozenset()
    """Flags that take `KEY=VALUE`."""
    prompt_keys: frozenset[str] = frozenset()
    """Keys of such settings that take a role's prompt."""
    yes: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """Flags with the values by which it would never ask for a permission."""
    yes_keys: Mapping[str, str] = field(default_factory=dict[str, str])
    """The same for settings."""
    short_yes: bool = False
    """Whether `-y` means yes to everything; elsewhere it means other things."""

    def passed_on(self, words: Sequence[str]) -> tuple[str, ...]:
        """The arguments of a registry entry and a team file, without what the adapter chooses."""
        return split_words(words, {**self.mode, **self.chosen})[0]

    def joined(self, others: Iterable[FlagFacts]) -> FlagFacts:
        """These, and what every other CLI's flags mean where they mean it in any of them."""
        every = (self, *others)
        values: dict[str, frozenset[str]] = {}
        for flag, meant in (pair for one in every for pair in one.yes.items()):
            values[flag] = values.get(flag, frozenset()) | meant
        return FlagFacts(
            mode=self.mode,
            prompt=frozenset[str]().union(*(one.prompt for one in every)),
            setting=frozenset[str]().union(*(one.setting for one in every)),
            prompt_keys=frozenset[str]().union(*(one.prompt_keys for one in every)),
            yes=values,
            yes_keys={key: value for one in every for key, value in one.yes_keys.items()},
            short_yes=self.short_yes,
        )


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
    """Variables by which it finds its files; Coterie sets them, for each member apart."""
    instructions: tuple[str, ...] = ()
    """Files in a repository that it would read as instructions."""
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
        if definition.adapter is not None:
            return definition.adapter
        return definition.name if definition.name in self.adapters else GENERIC

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

    def is_part_of_coterie(self, definition: AgentDefinition) -> bool:
        """Whether there is no program to look for."""
        facts = self.ours.get(self.adapter_name(definition))
        return facts is not None and not facts.is_program

    def isolating(self, facts: AgentFacts | None) -> frozenset[str]:
        """Variables that nobody may set for an agent: any program's, our vendors' and its own."""
        every = (*self.ours.values(), *((facts,) if facts else ()))
        return ISOLATING.union(*(one.isolating for one in every))
