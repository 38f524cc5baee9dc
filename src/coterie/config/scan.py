"""Finding the agents that are installed, and entering them into the registry."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from coterie.config.environment import search_path
from coterie.config.files import expanded, locked
from coterie.config.known_agents import KNOWN_AGENTS, KnownAgent, is_built_in
from coterie.config.registry import (
    Registry,
    current,
    define,
    registry_path,
    save_registry,
    with_own,
)
from coterie.errors import UsageError
from coterie.model.agent import AgentDefinition

VersionOf = Callable[[str], str | None]
"""Runs a program with `--version` and gives what it said; starting programs is not ours to do."""


@dataclass(frozen=True)
class Found:
    """A known agent that is installed."""

    known: KnownAgent
    command: str
    version: str | None


@dataclass(frozen=True)
class Scan:
    """What a scan found and what it changed."""

    registry: Registry
    found: tuple[Found, ...] = ()
    added: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """Registered agents whose program is no longer there."""


def find_agents(version_of: VersionOf, path: str | None = None) -> tuple[Found, ...]:
    """The known agents on PATH, each with the absolute path of its program."""
    found: list[Found] = []
    for known in KNOWN_AGENTS:
        command = program(known.name, path) if known.is_program else None
        if command is not None:
            found.append(Found(known, command, _number(version_of(command))))
    return tuple(found)


def _number(said: str | None) -> str | None:
    """The version in `codex-cli 0.166.0` or `2.1.325 (Claude Code)`."""
    found = re.search(r"\d+\.\d+[0-9A-Za-z.+-]*", said or "")
    return found.group()[:40] if found else None


def program(command: str, path: str | None = None) -> str | None:
    """The absolute path of a program, or None where there is none that can be run."""
    found = shutil.which(str(expanded(command)), path=path or search_path())
    # Not resolved: a package manager moves the target of its link with every update.
    return str(Path(found).absolute()) if found else None


def place(agent: AgentDefinition, path: str | None = None) -> str | None:
    """Where a registered agent is, or None where it is not there any more."""
    return "in Coterie" if is_built_in(agent) else program(agent.command, path)


def scan(
    version_of: VersionOf, now: str, path: Path | None = None, search: str | None = None
) -> Scan:
    """Enter what is found; an entry that is there keeps all that a person may have changed."""
    path = path or registry_path()
    found = find_agents(version_of, search)
    with locked(path):
        registry = current(path)
        changed = [_entry(registry.agents.get(one.known.name), one, now, search) for one in found]
        updates = [entry for entry in changed if entry is not None]
        added = tuple(entry.name for entry in updates if entry.name not in registry.agents)
        updated = tuple(entry.name for entry in updates if entry.name in registry.agents)
        registry = registry.with_agents(*updates)
        if updates or registry.schema_version is None:
            save_registry(registry)
    return Scan(with_own(registry), found, added, updated, missing_agents(registry, search))


def missing_agents(registry: Registry, search: str | None = None) -> tuple[str, ...]:
    """The registered agents whose program cannot be found."""
    agents = registry.agents.values()
    return tuple(agent.name for agent in agents if place(agent, search) is None)


def _entry(
    old: AgentDefinition | None, found: Found, now: str, search: str | None
) -> AgentDefinition | None:
    """The entry to be written, or None where it stands already."""
    if old is None:
        return found.known.definition(found.command, found.version, now)
    gone = program(old.command, search) is None
    command = found.command if gone else old.command
    version = found.version if command == found.command and found.version else old.version
    if (command, version) == (old.command, old.version):
        return None
    return old.model_copy(update={"command": command, "version": version})


def by_hand(
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
    return define(name, {**entry, "usePty": True} if use_pty else entry)
