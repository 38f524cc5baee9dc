"""Which adapter speaks to which agent: a table for ours, entry points for those of others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import Protocol

from coterie.agents.human import HumanAdapter
from coterie.errors import NotFound
from coterie.model.agent import GENERIC, AgentDefinition
from coterie.model.team import Member
from coterie.ports import Adapter, ChildLog
from coterie.process.child import KeeperName

GROUP = "coterie.agents"
OURS = "builtin"

Recall = Callable[[str], Awaitable[list[str]]]

BUILT_IN: Mapping[str, str] = {
    GENERIC: "coterie.agents.generic:GenericAdapter",
    "claude": "coterie.agents.claude:ClaudeAdapter",
    "codex": "coterie.agents.codex:CodexAdapter",
    "gemini": "coterie.agents.gemini:GeminiAdapter",
    "acp": "coterie.agents.acp:AcpAdapter",
    OURS: "coterie.agents.builtin:BuiltinAdapter",
}
"""By name: where the adapter is.  Named and not imported, so that a team pays for its own only."""


class MakeAdapter(Protocol):
    """What the table and the entry points hold: a registry entry becomes an adapter."""

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
        if agent.adapter_in(BUILT_IN) == OURS:
            from coterie.agents.builtin import BuiltinAdapter

            return BuiltinAdapter(agent, children, self.keeper, self.quiet_after, self.recall)
        make = _make(agent.adapter_in(BUILT_IN), agent)
        return make(agent, children, self.keeper, self.quiet_after)


def has_adapter(name: str | None) -> bool:
    """Whether there is an adapter of that name: ours, or one that somebody installed."""
    return name is None or name in BUILT_IN or bool(entry_points(group=GROUP, name=name))


def _make(name: str, agent: AgentDefinition) -> MakeAdapter:
    ours = BUILT_IN.get(name)
    if ours is not None:
        module, _, attribute = ours.partition(":")
        adapter: MakeAdapter = getattr(import_module(module), attribute)
        return adapter
    for found in entry_points(group=GROUP, name=name):
        theirs: MakeAdapter = found.load()
        return theirs
    raise NotFound(
        f'{agent.name}: no adapter "{name}"; there are {", ".join(BUILT_IN)} '
        f"and what is installed in the entry points {GROUP}.",
        "coterie agents list",
    )
