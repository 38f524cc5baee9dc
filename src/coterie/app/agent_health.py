"""Whether an agent can work: one verdict, worded the same wherever it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from coterie.agents.table import KNOWN_AGENTS, has_adapter
from coterie.config.project import search_path
from coterie.config.registry import Registry, is_included
from coterie.config.registry_edit import agent_location, has_key, signed_in
from coterie.model.agent import AgentDefinition, AgentFacts
from coterie.process import launch

AgentState = Literal["ready", "not installed", "not signed in", "no model key", "no adapter"]


@dataclass(frozen=True)
class AgentHealth:
    """A registered or known agent, and whether it can work."""

    name: str
    version: str | None
    state: AgentState
    ready: bool
    hint: str
    """What to do about it; for a ready agent, how certain its readiness is."""


def version_of(command: str) -> str | None:
    """Return the version a program reports; None if it cannot be asked.  Blocks."""
    return launch.version_of(command, search_path())


def health_of(agent: AgentDefinition, *, ask_version: bool = False) -> AgentHealth:
    """Return the health of an agent as it would be started: by its entry, not by its name.  Blocks.

    `ask_version`: ask the program for its version instead of using the one in the entry.
    """
    name, adapter, known = agent.name, KNOWN_AGENTS.adapter_name(agent), KNOWN_AGENTS.of(agent)
    if known is not None and not known.is_program:
        if known.adapter.name == adapter:
            return _own(name, known)
        known = None  # a program that merely shares its name
    where = agent_location(KNOWN_AGENTS, agent)
    if where is None:
        how = known.install if known else agent.command
        return AgentHealth(name, None, "not installed", False, how)
    version = version_of(where) if ask_version else agent.version
    if not has_adapter(adapter):
        return AgentHealth(name, version, "no adapter", False, f"there is no adapter {adapter}")
    signed = signed_in(known, where, launch.succeeds) if known else None
    if known is not None and signed is False:
        return AgentHealth(name, version, "not signed in", False, known.sign_in)
    tested = known.tested if known else None
    sure = "installed" if signed is None else "signed in"
    untested = f"; untested version (tested: {tested})" if tested and version != tested else ""
    return AgentHealth(name, version, "ready", True, f"{sure}{untested}")


def _own(name: str, known: AgentFacts) -> AgentHealth:
    """Return the health of an agent that is part of Coterie: it may need an extra and a key."""
    if known.needs is not None and not is_included(known):
        return AgentHealth(name, None, "not installed", False, known.install)
    if not known.keys:
        return AgentHealth(name, None, "ready", True, "installed")
    if not has_key(known):
        return AgentHealth(name, None, "no model key", False, known.sign_in)
    return AgentHealth(name, None, "ready", True, "model key")


def health_in(registry: Registry) -> list[AgentHealth]:
    """Return the health of every registered agent.  Blocks."""
    return [health_of(agent) for agent in registry.agents.values()]


def to_be_members(agents: list[AgentHealth]) -> list[str]:
    """Return the agents for a first team: the ready ones or, if there are none, those that only
    lack a login, since a rehearsal needs none."""
    ready = [one.name for one in agents if one.ready]
    return ready or [one.name for one in agents if one.state == "not signed in"]
