"""The agents that are known by name: a table for ours, entry points for those of others.

Each states its facts in its own package, which imports nothing that starts or speaks to it.
"""

from __future__ import annotations

from collections.abc import Mapping

from coterie.agents import acp, builtin, claude, codex, gemini, opencode, qwen
from coterie.model.agent import GENERIC
from coterie.model.agent_facts import AdapterFacts, AgentFacts, KnownAgents

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
