"""Finding installed agents and registering them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coterie.agents.table import KNOWN_AGENTS
from coterie.app.agent_health import health_of
from coterie.config import registry
from coterie.config.registry import load_registry, registry_path
from coterie.config.registry_edit import (
    add_agent,
    agent_location,
    find_agents,
    missing_agents,
    scan,
)
from coterie.model.agent import AgentDefinition, AgentFacts
from coterie.model.flags import split_words
from tests.conftest import IsolatedUser

NOW = "2026-11-15T12:00:00.000Z"
LATER = "2026-11-16T12:00:00.000Z"


def install(folder: Path, *names: str) -> str:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return str(folder)


def version_of(command: str) -> str | None:
    return None if command.endswith("gemini") else f"{Path(command).name}-cli 1.0 (new)\n"


def test_a_registry_is_made_by_scan(user: IsolatedUser, tmp_path: Path) -> None:
    search = install(tmp_path / "bin", "codex", "gemini", "unrelated")
    done = scan(KNOWN_AGENTS, version_of, NOW, search=search)
    assert (done.added, done.updated, done.missing) == (("codex", "gemini"), (), ())
    assert [(one.command, one.version) for one in done.installed] == [
        (f"{search}/codex", "1.0"),
        (f"{search}/gemini", None),
    ]
    assert load_registry(KNOWN_AGENTS).agents == done.registry.agents
    codex = json.loads(registry_path().read_text())["agents"]["codex"]
    assert codex == {
        "name": "codex",
        "displayName": "OpenAI Codex",
        "command": f"{search}/codex",
        "baseArgs": ["exec", "--json", "--skip-git-repo-check"],
        "capabilities": {
            "supportsSystemPrompt": False,
            "completionDetection": "jsonl",
            "completionTypes": ["turn.completed"],
            "modelFlag": "--model",
        },
        "version": "1.0",
        "installedAt": NOW,
    }


def test_nothing_found_makes_an_empty_registry(user: IsolatedUser, tmp_path: Path) -> None:
    assert scan(KNOWN_AGENTS, version_of, NOW, search=install(tmp_path / "bin")).installed == ()
    assert json.loads(registry_path().read_text()) == {"schemaVersion": "1.2", "agents": {}}


def test_a_scan_keeps_what_a_person_changed(user: IsolatedUser, tmp_path: Path) -> None:
    search = install(tmp_path / "bin", "claude")
    mine = AgentDefinition(
        name="claude", command=f"{search}/claude", base_args=("--mine",), installed_at=NOW
    )
    add_agent(KNOWN_AGENTS, mine)
    done = scan(KNOWN_AGENTS, version_of, LATER, search=search)
    assert (done.added, done.updated) == ((), ("claude",))
    found = load_registry(KNOWN_AGENTS).agents["claude"]
    assert (found.base_args, found.version, found.installed_at) == (("--mine",), "1.0", NOW)
    assert scan(KNOWN_AGENTS, version_of, LATER, search=search).updated == ()


def test_a_program_that_moved_is_followed(user: IsolatedUser, tmp_path: Path) -> None:
    old = install(tmp_path / "old", "claude")
    scan(KNOWN_AGENTS, version_of, NOW, search=old)
    (tmp_path / "old" / "claude").unlink()
    new = install(tmp_path / "new", "claude")
    assert missing_agents(load_registry(KNOWN_AGENTS), new) == ("claude",)
    done = scan(KNOWN_AGENTS, version_of, NOW, search=new)
    assert (done.updated, done.missing) == (("claude",), ())
    assert load_registry(KNOWN_AGENTS).agents["claude"].command == f"{new}/claude"


def test_a_file_that_cannot_be_run_is_not_found(user: IsolatedUser, tmp_path: Path) -> None:
    (tmp_path / "claude").touch()
    assert find_agents(KNOWN_AGENTS, version_of, NOW, str(tmp_path)) == ()


@pytest.mark.parametrize("facts", KNOWN_AGENTS.ours.values(), ids=list(KNOWN_AGENTS.ours))
def test_what_we_know_of_an_agent_is_a_valid_entry(user: IsolatedUser, facts: AgentFacts) -> None:
    made = facts.definition("/opt/x", "1", NOW)
    add_agent(KNOWN_AGENTS, made)
    read = load_registry(KNOWN_AGENTS)
    kept, _ = split_words(made.base_args, facts.flags.mode)
    assert read.agents[facts.name] == made.model_copy(update={"base_args": kept})
    assert read.notices == ()
    assert facts.install.startswith("npm i -g " if facts.is_program else "pip install ")
    assert KNOWN_AGENTS.of(made) == facts


def test_the_built_in_agent_needs_no_program(
    user: IsolatedUser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "builtin").touch(0o755)
    assert find_agents(KNOWN_AGENTS, version_of, NOW, str(tmp_path)) == ()
    done = scan(KNOWN_AGENTS, version_of, NOW, search=str(tmp_path))
    assert (list(done.registry.agents), done.missing) == (["builtin"], ())
    assert '"agents": {}' in registry_path().read_text()
    own = done.registry.agents["builtin"]
    assert agent_location(KNOWN_AGENTS, own) == "in Coterie"
    assert health_of(own).state == "no model key"
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert health_of(own).state == "ready"
    other = AgentDefinition(name="builtin", command="/opt/x", adapter="generic")
    assert [KNOWN_AGENTS.is_part_of_coterie(one) for one in (own, other)] == [True, False]
    add_agent(KNOWN_AGENTS, other)
    assert load_registry(KNOWN_AGENTS).agents["builtin"].adapter == "generic"


def test_without_its_extra_there_is_no_built_in_agent(
    user: IsolatedUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda name: None)
    assert load_registry(KNOWN_AGENTS).agents == {}
