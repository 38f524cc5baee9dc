"""The agents known by name, and the adapter that speaks to each.

Each vendor states its facts in its own package, which imports nothing that starts or speaks to its
program.  Other packages provide agents through entry points.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Protocol

from coterie.agents import acp, builtin, claude, codex, gemini, opencode, qwen
from coterie.errors import NotFound, UsageError
from coterie.model.agent import (
    GENERIC,
    AdapterFacts,
    AdapterPlace,
    AgentDefinition,
    AgentFacts,
    KnownAgents,
    LoginFacts,
)
from coterie.model.team import Member
from coterie.model.workspace import InteractiveStart, Workspace
from coterie.ports import Adapter, ChildLog
from coterie.process.child import KeeperName

GROUP = "coterie.agents"
"""An entry point of this group is the `AgentFacts` of an agent, or a `MakeAdapter` for agents whose
registry entries name it as their adapter."""


def _installed() -> Mapping[str, AgentFacts]:
    """Return the facts that other packages provide, by agent; a broken package is left out."""
    loaded = (facts for facts in _loaded() if isinstance(facts, AgentFacts))
    return {facts.name: facts for facts in loaded}


def broken_packages() -> list[UsageError]:
    """Return the errors of packages that should provide agents but cannot be loaded."""
    return [error for error in _loaded() if isinstance(error, UsageError)]


def _loaded() -> Iterator[object]:
    from importlib.metadata import entry_points

    from coterie.ports.entry_points import load_entry_point

    for point in entry_points(group=GROUP):
        try:
            yield load_entry_point(point, "agent")
        except UsageError as problem:
            yield problem


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
    """Makes an adapter from a registry entry.

    An optional `interactive(agent, member, workspace)` prepares a member's home and returns how to
    start its CLI for a person; an optional `environment(member, workspace)` returns just the
    environment for that.  Both block.
    """

    def __call__(
        self, agent: AgentDefinition, children: ChildLog, keeper: KeeperName, quiet_after: float
    ) -> Adapter:
        """Return the adapter for one agent; starts nothing."""
        ...


def has_adapter(name: str | None) -> bool:
    """Whether there is an adapter of that name: ours, or one from an installed package."""
    if name is None or name in KNOWN_AGENTS.adapters:
        return True
    if any(facts.adapter.name == name for facts in KNOWN_AGENTS.others.values()):
        return True
    try:
        adapter_maker(AdapterPlace(name, name, None))
    except UsageError:
        return False
    return True


def load_installed(agents: Iterable[AgentDefinition]) -> None:
    """Load other packages' adapters ahead of time: this blocks, which a turn must not.  An adapter
    that cannot be loaded is reported where it is needed."""
    for place in map(KNOWN_AGENTS.adapter_place, agents):
        if place.name not in KNOWN_AGENTS.adapters:
            with suppress(UsageError):
                adapter_maker(place)


def with_login(adapter: Adapter, login: LoginFacts) -> Adapter:
    """Wrap the adapter of an agent whose members share a login that it renews."""
    from coterie.agents.login import LoginAdapter

    return LoginAdapter(adapter, login)


def interactive_start(
    agent: AgentDefinition, member: Member, workspace: Workspace
) -> InteractiveStart:
    """Return how to start a member's CLI for a person, with the home Coterie writes.  Blocks."""
    make = adapter_maker(KNOWN_AGENTS.adapter_place(agent))
    start = getattr(make, "interactive", None)
    if start is not None:
        return start(agent, member, workspace)
    prepare = getattr(make, "environment", None)
    env = prepare(member, workspace) if prepare else workspace.env
    return InteractiveStart(agent.arguments(member), env, has_role=agent.takes_role)


@cache
def adapter_maker(place: AdapterPlace) -> MakeAdapter:
    """Return what makes an agent's adapter; raises UsageError if there is none, or a broken one."""
    if place.make is not None and place.name in KNOWN_AGENTS.adapters:
        module, _, attribute = place.make.partition(":")
        return getattr(import_module(module), attribute)
    from importlib.metadata import EntryPoint, entry_points

    from coterie.ports.entry_points import load_entry_point

    named = [EntryPoint(place.name, place.make, GROUP)] if place.make else None
    for point in named or entry_points(group=GROUP, name=place.name):
        maker: MakeAdapter = load_entry_point(point, "agent")
        return maker
    raise NotFound(
        f'{place.agent}: no adapter "{place.name}"; there are {", ".join(KNOWN_AGENTS.adapters)} '
        f"and those installed as entry points of {GROUP}.",
        "coterie agents list",
    )
