"""Which agents are installed and signed in, and entering them into the registry."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from coterie.config.files import locked
from coterie.config.project import expanded, passthrough, search_path, user_home
from coterie.config.registry import Registry, as_used, current, define, registry_path, save_registry
from coterie.errors import UsageError
from coterie.model.agent import AgentDefinition, AgentFacts, KnownAgents

VersionOf = Callable[[str], str | None]
"""Runs a program with `--version` and returns what it printed; `config` starts no programs."""
ExitsWith0 = Callable[[Sequence[str]], bool]
"""Runs a command; whether it ended with 0."""


@dataclass(frozen=True)
class InstalledAgent:
    """A known agent that is installed."""

    facts: AgentFacts
    command: str
    version: str | None


@dataclass(frozen=True)
class Scan:
    """What a scan found and what it changed."""

    registry: Registry
    found: tuple[InstalledAgent, ...] = ()
    added: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """Registered agents whose program is no longer there."""


def find_agents(
    known: KnownAgents, version_of: VersionOf, path: str | None = None
) -> tuple[InstalledAgent, ...]:
    """The known agents on PATH, each with the absolute path of its program; and those that are no
    program but the code of another package, which is here."""
    found = [
        InstalledAgent(facts, facts.name, None)
        for facts in known.others.values()
        if not facts.is_program
    ]
    for facts in known.all:
        command = program(facts.name, path) if facts.is_program else None
        if command is not None:
            found.append(InstalledAgent(facts, command, _number(version_of(command))))
    return tuple(found)


def _number(said: str | None) -> str | None:
    """The version in what a program says of itself: `some-cli 0.16.0` or `2.1.3 (Some Agent)`."""
    found = re.search(r"\d+\.\d+[0-9A-Za-z.+-]*", said or "")
    return found.group()[:40] if found else None


def program(command: str, path: str | None = None) -> str | None:
    """The absolute path of a program, or None where there is none that can be run."""
    found = shutil.which(str(expanded(command)), path=path or search_path())
    # Not resolved: a package manager moves the target of its link with every update.
    return str(Path(found).absolute()) if found else None


def place(known: KnownAgents, agent: AgentDefinition, path: str | None = None) -> str | None:
    """Where a registered agent is, or None where it is not there any more."""
    return "in Coterie" if known.is_part_of_coterie(agent) else program(agent.command, path)


def scan(
    known: KnownAgents,
    version_of: VersionOf,
    now: str,
    path: Path | None = None,
    search: str | None = None,
) -> Scan:
    """Enter what is found; an entry that is there keeps all that a person may have changed."""
    path = path or registry_path()
    found = find_agents(known, version_of, search)
    with locked(path):
        registry = current(known, path)
        changed = [_entry(registry.agents.get(one.facts.name), one, now, search) for one in found]
        updates = [entry for entry in changed if entry is not None]
        added = tuple(entry.name for entry in updates if entry.name not in registry.agents)
        updated = tuple(entry.name for entry in updates if entry.name in registry.agents)
        registry = registry.with_agents(*updates)
        if updates or registry.schema_version is None:
            save_registry(registry)
    return Scan(as_used(registry), found, added, updated, missing_agents(registry, search))


def missing_agents(registry: Registry, search: str | None = None) -> tuple[str, ...]:
    """The registered agents whose program cannot be found."""
    agents = registry.agents.values()
    return tuple(agent.name for agent in agents if place(registry.known, agent, search) is None)


def _entry(
    old: AgentDefinition | None, found: InstalledAgent, now: str, search: str | None
) -> AgentDefinition | None:
    """The entry to be written, or None where it stands already."""
    if old is None:
        return found.facts.definition(found.command, found.version, now)
    gone = program(old.command, search) is None
    command = found.command if gone else old.command
    version = found.version if command == found.command and found.version else old.version
    if (command, version) == (old.command, old.version):
        return None
    return old.model_copy(update={"command": command, "version": version})


def by_hand(
    known: KnownAgents,
    name: str,
    command: Sequence[str],
    now: str,
    facts: Mapping[str, object],
    *,
    use_pty: bool = False,
) -> AgentDefinition:
    """An entry for `agents add NAME -- COMMAND ARGS…`; `facts` are capabilities by their names."""
    if not command:
        raise UsageError("An agent needs a command.", f"coterie agents add {name} -- COMMAND ARGS")
    first, *args = command
    entry: dict[str, object] = {
        "command": program(first) or first,
        "baseArgs": args,
        "capabilities": dict(facts),
        "installedAt": now,
    }
    return define(known, name, {**entry, "usePty": True} if use_pty else entry)


# -- signed in ---------------------------------------------------------------------------------


def has_key(facts: AgentFacts) -> bool:
    """Whether the user's environment holds something that opens its model."""
    given = passthrough(facts.keys)
    return any(given.get(key) for key in facts.keys)


def signed_in(facts: AgentFacts, command: str, check: ExitsWith0) -> bool | None:
    """Whether an agent can reach its model; None where nothing tells."""
    if has_key(facts):
        return True
    if not facts.is_program:
        return False
    if facts.sign_in_check is not None:
        return check([command, *facts.sign_in_check])
    home = user_home()
    if facts.credentials is None or home is None:
        return None
    return (home / facts.credentials).is_file()
