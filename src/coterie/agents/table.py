"""The agents that are known by name, and the adapter that speaks to each.

Each vendor states its facts in its own package, which imports nothing that starts or speaks to its
program.  Other packages bring agents by entry points.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

from coterie.agents import acp, builtin, claude, codex, gemini, opencode, qwen
from coterie.agents.human import HumanAdapter
from coterie.errors import NotFound
from coterie.model.agent import GENERIC, AdapterFacts, AgentDefinition, AgentFacts, KnownAgents
from coterie.model.team import Member
from coterie.model.workspace import InteractiveStart, Workspace
from coterie.ports import Adapter, ChildLog
from coterie.process.child import KeeperName

GROUP = "coterie.agents"
"""An entry point of this group is the `AgentFacts` of an agent, or a `MakeAdapter` for agents whose
registry entries name it as their adapter."""


def _installed() -> Mapping[str, AgentFacts]:
    """The agents whose facts other packages bring, by name."""
    from importlib.metadata import entry_points

    loaded: tuple[object, ...] = tuple(point.load() for point in entry_points(group=GROUP))
    return {facts.name: facts for facts in loaded if isinstance(facts, AgentFacts)}


_OURS = (claude.FACTS, codex.FACTS, gemini.FACTS, qwen.FACTS, opencode.FACTS, builtin.FACTS)

KNOWN_AGENTS = KnownAgents(
    ours={facts.name: facts for facts in _OURS},
    shared_adapters=(
        AdapterFacts(GENERIC, make="coterie.agents.generic:GenericAdapter"),
        acp.ADAPTER,
    ),
    find_others=_installed,
)


Recall = Callable[[str], Awaitable[list[str]]]


class MakeAdapter(Protocol):
    """What makes an adapter of a registry entry.

    If it has an `interactive(agent, member, workspace)`, that prepares a member's home, and returns
    how its CLI is started for a person; an `environment(member, workspace)` says only in which
    environment.  Both block.
    """

    def __call__(
        self, agent: AgentDefinition, children: ChildLog, keeper: KeeperName, quiet_after: float
    ) -> Adapter:
        """The adapter for one agent; starts nothing."""
        ...


@dataclass(frozen=True)
class Adapters:
    """Finds the adapter for a member, by its agent's entry in the registry."""

    agents: Mapping[str, AgentDefinition]
    keeper: KeeperName
    quiet_after: float
    recall: Recall
    """Reads a thread that we keep ourselves, for an agent of our own."""

    def of(self, member: Member, children: ChildLog) -> Adapter:
        """The adapter for a member."""
        if member.type == "human":
            return HumanAdapter()
        agent = self.agents.get(member.agent or "")
        if agent is None:
            known = ", ".join(self.agents) or "none"
            raise NotFound(
                f'{member.id}: no agent "{member.agent}" in the registry; it has {known}.',
                "coterie agents scan",
            )
        if KNOWN_AGENTS.adapter_name(agent) == builtin.FACTS.name:
            from coterie.agents.builtin.adapter import BuiltinAdapter

            return BuiltinAdapter(agent, children, self.keeper, self.quiet_after, self.recall)
        return _make(agent)(agent, children, self.keeper, self.quiet_after)


def has_adapter(name: str | None) -> bool:
    """Whether there is an adapter of that name: ours, or one that somebody installed."""
    if name is None or name in KNOWN_AGENTS.adapters:
        return True
    from importlib.metadata import entry_points

    named = bool(entry_points(group=GROUP, name=name))
    return named or any(facts.adapter.name == name for facts in KNOWN_AGENTS.others.values())


def interactive_start(
    agent: AgentDefinition, member: Member, workspace: Workspace
) -> InteractiveStart:
    """How a member's CLI is started for a person, its home written as Coterie would.  Blocks."""
    make = _make(agent)
    start = getattr(make, "interactive", None)
    if start is not None:
        return start(agent, member, workspace)
    prepare = getattr(make, "environment", None)
    env = prepare(member, workspace) if prepare else workspace.env
    return InteractiveStart(agent.arguments(member), env, is_told=agent.takes_role)


def _make(agent: AgentDefinition) -> MakeAdapter:
    """What makes an agent's adapter; the agent's own comes before one that it shares."""
    name = KNOWN_AGENTS.adapter_name(agent)
    facts = KNOWN_AGENTS.of(agent)
    own = facts.adapter if facts is not None and facts.adapter.name == name else None
    adapter = own or KNOWN_AGENTS.adapters.get(name)
    if adapter is not None:
        module, _, attribute = adapter.make.partition(":")
        return getattr(import_module(module), attribute)
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP, name=name):
        theirs: MakeAdapter = point.load()
        return theirs
    raise NotFound(
        f'{agent.name}: no adapter "{name}"; there are {", ".join(KNOWN_AGENTS.adapters)} '
        f"and what is installed in the entry points {GROUP}.",
        "coterie agents list",
    )
