"""Change the registry: add what a scan finds, add an agent by hand, migrate an old file."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from coterie.config import files
from coterie.config.mistakes import duplicate_keys, refusal, sentence
from coterie.config.project import expanded, passthrough, search_path, user_home
from coterie.config.registry import (
    MIGRATE,
    OLD_VERSION,
    VERSION,
    ModernEntry,
    Registry,
    as_used,
    definition_of,
    interpret,
    modern_entry,
    notices_of,
    read_registry,
    registry_path,
    texts,
)
from coterie.errors import NotFound, UsageError
from coterie.model.agent import AgentDefinition, AgentFacts, KnownAgents
from coterie.model.flags import DroppedPrompt

VersionOf = Callable[[str], str | None]
"""Runs a program with `--version` and returns its output; `config` itself starts no programs."""
ExitsWith0 = Callable[[Sequence[str]], bool]
"""Runs a command and returns whether it exited with 0."""


@dataclass(frozen=True)
class Scan:
    """What a scan found and what it changed."""

    registry: Registry
    installed: tuple[AgentDefinition, ...]
    """Entries for everything that is installed, as if newly added."""
    added: tuple[str, ...]
    updated: tuple[str, ...]
    missing: tuple[str, ...]
    """Registered agents whose program is no longer there."""


def find_agents(
    known: KnownAgents, version_of: VersionOf, now: str, path: str | None = None
) -> tuple[AgentDefinition, ...]:
    """The known agents on PATH, each with the absolute path of its program, and those that are
    code in an installed package instead of a program."""
    agents = [
        facts.definition(facts.name, None, now)
        for facts in known.others.values()
        if not facts.is_program
    ]
    for facts in known.all:
        command = find_program(facts.name, path) if facts.is_program else None
        if command is not None:
            agents.append(facts.definition(command, _number(version_of(command)), now))
    return tuple(agents)


def _number(output: str | None) -> str | None:
    """The version in a program's output, such as `some-cli 0.16.0` or `2.1.3 (Some Agent)`."""
    match = re.search(r"\d+\.\d+[0-9A-Za-z.+-]*", output or "")
    return match.group()[:40] if match else None


def find_program(command: str, path: str | None = None) -> str | None:
    """The absolute path of a program, or None if there is no such executable."""
    program = shutil.which(str(expanded(command)), path=path or search_path())
    # Symlinks are not resolved: a package manager changes their target with every update.
    return str(Path(program).absolute()) if program else None


def agent_location(
    known: KnownAgents, agent: AgentDefinition, path: str | None = None
) -> str | None:
    """Where a registered agent is, or None if it is gone."""
    return "in Coterie" if known.is_part_of_coterie(agent) else program_of(agent, path)


def program_of(agent: AgentDefinition, path: str | None = None) -> str | None:
    """The path of the program that would be started for an agent; its entry may set a PATH."""
    return find_program(agent.command, agent.env.get("PATH") or path)


def scan(
    known: KnownAgents,
    version_of: VersionOf,
    now: str,
    path: Path | None = None,
    search: str | None = None,
) -> Scan:
    """Add what is found; an existing entry keeps everything that a person may have changed."""
    path = path or registry_path()
    installed = find_agents(known, version_of, now, search)
    with files.locked(path):
        registry = registry_for_update(known, path)
        changed = [_entry(registry.agents.get(one.name), one, search) for one in installed]
        updates = [entry for entry in changed if entry is not None]
        added = tuple(entry.name for entry in updates if entry.name not in registry.agents)
        updated = tuple(entry.name for entry in updates if entry.name in registry.agents)
        registry = registry.with_agents(*updates)
        if updates or registry.schema_version is None:
            save_registry(registry)
    return Scan(as_used(registry), installed, added, updated, missing_agents(registry, search))


def missing_agents(registry: Registry, search: str | None = None) -> tuple[str, ...]:
    """The registered agents whose program cannot be found."""
    agents = registry.agents.values()
    return tuple(
        agent.name for agent in agents if agent_location(registry.known, agent, search) is None
    )


def _entry(
    old: AgentDefinition | None, new: AgentDefinition, search: str | None
) -> AgentDefinition | None:
    """The entry to write, or None if the existing one is up to date."""
    if old is None:
        return new
    gone = program_of(old, search) is None
    command = new.command if gone else old.command
    version = new.version if command == new.command and new.version else old.version
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
        "command": find_program(first) or first,
        "baseArgs": args,
        "capabilities": dict(facts),
        "installedAt": now,
    }
    return define_agent(known, name, {**entry, "usePty": True} if use_pty else entry)


def save_registry(registry: Registry) -> None:
    """Write the whole registry, readable only by its user."""
    files.write_atomically(registry.path, render(registry.agents))


def render(agents: Mapping[str, AgentDefinition]) -> str:
    """The text of the registry file, schema 1.2."""
    data = {
        "schemaVersion": VERSION,
        "agents": {name: _dumped(agent) for name, agent in agents.items()},
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _dumped(agent: AgentDefinition) -> dict[str, object]:
    return agent.model_dump(mode="json", exclude_none=True, exclude_unset=True)


def add_agent(
    known: KnownAgents, agent: AgentDefinition, path: Path | None = None, *, replacing: bool = False
) -> Registry:
    """Add one agent by hand; an existing one of that name is replaced only if `replacing`."""
    path = path or registry_path()
    agent = define_agent(known, agent.name, _dumped(agent))
    with files.locked(path):
        registry = registry_for_update(known, path)
        if agent.name in registry.agents and not replacing:
            raise UsageError(f'Agent "{agent.name}" already exists.', "coterie agents list")
        registry = registry.with_agents(agent)
        save_registry(registry)
    return registry


def define_agent(known: KnownAgents, name: str, entry: Mapping[str, object]) -> AgentDefinition:
    """An agent from facts given on the command line, checked like an entry in the file."""
    made = definition_of(known, name, dict(entry))
    if isinstance(made, AgentDefinition):
        return made
    sentences = [
        sentence("", replace(mistake, place=(name, *mistake.place[2:]))).strip() for mistake in made
    ]
    raise UsageError("\n".join(sentences), made[0].hint)


def registry_for_update(known: KnownAgents, path: Path) -> Registry:
    """Read the registry for rewriting; an old one must be migrated first, so nothing is lost."""
    registry = read_registry(known, path)
    if registry.schema_version == OLD_VERSION:
        raise UsageError(f"The registry is of version {OLD_VERSION}.", MIGRATE, str(path))
    return registry


def has_key(facts: AgentFacts) -> bool:
    """Whether the user's environment holds an API key for the agent."""
    given = passthrough(facts.keys)
    return any(given.get(key) for key in facts.keys)


def signed_in(facts: AgentFacts, command: str, check: ExitsWith0) -> bool | None:
    """Whether an agent can reach its model; None if there is no way to tell."""
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


@dataclass(frozen=True)
class Migration:
    """What a migration did; nothing if the registry was up to date."""

    path: Path
    changed: bool
    backup: Path | None = None
    dropped: tuple[DroppedPrompt, ...] = ()
    notices: tuple[files.Notice, ...] = ()


def migrate(known: KnownAgents, path: Path | None = None) -> Migration:
    """Rewrite the registry as 1.2 without roles' prompts; idempotent."""
    path = path or registry_path()
    if not path.exists():
        raise NotFound("There is no registry yet.", "coterie agents scan", str(path))
    with files.locked(path):
        document = files.read_document(path)
        if document.has_duplicates:
            raise refusal(document, duplicate_keys(document))
        cleaned, dropped, notices = _cleaned(known, document.data)
        if cleaned is None:
            interpret(known, document)  # refuses anything but 1.1 and 1.2
            return Migration(path, changed=False)
        # Everything is checked before anything is written.
        registry = interpret(known, replace(document, data=cleaned))
        version = cast("Mapping[str, object]", document.data)["schemaVersion"]
        backup = files.keep_copy(path, f"{path.name}.{version}.bak")
        save_registry(registry)
    return Migration(path, True, backup, dropped, notices)


def _cleaned(
    known: KnownAgents, data: object
) -> tuple[dict[str, object] | None, tuple[DroppedPrompt, ...], tuple[files.Notice, ...]]:
    """The content to write, or None if there is nothing to do; dropped prompts and notices."""
    entries = cast("dict[str, object]", data) if isinstance(data, dict) else {}
    agents = entries.get("agents")
    version = entries.get("schemaVersion")
    if version not in (OLD_VERSION, VERSION) or not isinstance(agents, dict):
        return None, (), ()
    is_old = version == OLD_VERSION
    renewed = modern_entry if is_old else _without_prompts
    given = cast("dict[str, object]", agents).items()
    modern = {name: renewed(known, name, entry) for name, entry in given}
    dropped = tuple(prompt for one in modern.values() for prompt in one.dropped)
    if not is_old and not dropped:
        return None, (), ()
    notices = tuple(notice for name, one in modern.items() for notice in notices_of(name, one))
    cleaned = {name: one.entry for name, one in modern.items()}
    return {"schemaVersion": VERSION, "agents": cleaned}, dropped, notices


def _without_prompts(known: KnownAgents, name: str, entry: object) -> ModernEntry:
    if not isinstance(entry, dict):
        return ModernEntry(entry)
    given = cast("dict[str, object]", entry)
    words = texts(given.get("baseArgs"))
    if words is None:
        return ModernEntry(given)
    spec = given.get("capabilities")
    flag = (
        cast("dict[str, object]", spec).get("systemPromptFlag") if isinstance(spec, dict) else None
    )
    kept, dropped = known.flags(known.ours.get(name)).without_prompts(name, words, flag)
    return ModernEntry({**given, "baseArgs": list(kept)}, dropped=dropped)
