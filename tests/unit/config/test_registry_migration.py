"""Migrating a registry from version 1.1 to 1.2."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.agents.table import KNOWN_AGENTS
from coterie.config.files import Notice
from coterie.config.registry import load_registry, registry_path
from coterie.config.registry_edit import Migration, migrate
from coterie.errors import ConfigError, NotFound
from coterie.model.flags import DroppedPrompt, split_words
from tests.conftest import IsolatedUser

Write = Callable[[Path, str], Path]

OLD = {
    "schemaVersion": "1.1",
    "agents": {
        "claude": {
            "name": "claude",
            "command": "claude",
            "args": ["--append-system-prompt", "Always end with [DONE].", "--add-dir", "/x"],
            "endMarker": "[DONE]",
            "installedAt": "2025-11-20T10:00:00Z",
        },
        "codex": {
            "name": "codex",
            "command": "codex",
            "args": ["exec", "--json", "--full-auto"],
            "completion": "jsonl",
            "installedAt": "2025-11-20",
        },
        "mine": {
            "command": "/opt/mine",
            "args": ["--role=x", "-q"],
            "colour": "red",
            "usePty": True,
        },
    },
}


UNUSED = Notice(
    "codex: exec --json --full-auto in baseArgs is ignored; "
    "the codex adapter decides how the agent is started."
)


def test_an_old_registry_is_read_with_a_warning(user: IsolatedUser, write: Write) -> None:
    write(registry_path(), json.dumps(OLD))
    found = load_registry(KNOWN_AGENTS)
    assert found.schema_version == "1.1"
    assert found.agents["claude"].base_args == ("--add-dir", "/x")
    assert found.agents["claude"].capabilities.completion_types == ("result",)
    assert found.agents["codex"].base_args == ("--full-auto",)
    assert found.agents["mine"].capabilities.detection == "idleTimeout"
    assert found.notices == (
        Notice(
            "The registry has the old format 1.1, which is still read.", "coterie agents migrate"
        ),
        Notice(
            "claude: a prompt in its arguments is not used (--append-system-prompt).",
            "coterie agents migrate",
        ),
        Notice('codex: "installedAt" is no longer used.'),
        Notice(
            "codex: --full-auto approves everything; "
            "only members with permissions full may use it.",
            "Remove --full-auto from the baseArgs of codex.",
        ),
        Notice('mine: "colour" is no longer used.'),
        UNUSED,
    )


def test_migrating_reports_what_was_dropped_and_keeps_a_copy(
    user: IsolatedUser, write: Write
) -> None:
    old = json.dumps(OLD)
    path = write(registry_path(), old)
    done = migrate(KNOWN_AGENTS)
    backup = path.with_name("config.json.1.1.bak")
    assert (done.changed, done.backup) == (True, backup)
    assert done.dropped == (
        DroppedPrompt("claude", "--append-system-prompt", "Always end with [DONE]."),
    )
    assert backup.read_text() == old
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert json.loads(path.read_text()) == {
        "schemaVersion": "1.2",
        "agents": {
            "claude": {
                "name": "claude",
                "displayName": "Claude Code",
                "command": "claude",
                "baseArgs": ["--add-dir", "/x"],
                "capabilities": {
                    "supportsSystemPrompt": True,
                    "systemPromptFlag": "--append-system-prompt",
                    "completionDetection": "jsonl",
                    "completionTypes": ["result"],
                    "textField": "result",
                    "modelFlag": "--model",
                },
                "installedAt": "2025-11-20T10:00:00.000Z",
            },
            "codex": {
                "name": "codex",
                "displayName": "OpenAI Codex",
                "command": "codex",
                "baseArgs": ["exec", "--json", "--full-auto"],
                "capabilities": {
                    "supportsSystemPrompt": False,
                    "completionDetection": "jsonl",
                    "completionTypes": ["turn.completed"],
                    "modelFlag": "--model",
                },
            },
            "mine": {
                "name": "mine",
                "displayName": "Mine",
                "command": "/opt/mine",
                "baseArgs": ["--role=x", "-q"],
                "capabilities": {"completionDetection": "idleTimeout"},
                "usePty": True,
            },
        },
    }
    assert load_registry(KNOWN_AGENTS).notices == (UNUSED,)


def test_migrating_again_changes_nothing(user: IsolatedUser, write: Write) -> None:
    path = write(registry_path(), json.dumps(OLD))
    migrate(KNOWN_AGENTS)
    text = path.read_text()
    assert migrate(KNOWN_AGENTS) == Migration(path, changed=False)
    assert path.read_text() == text
    assert sorted(one.name for one in path.parent.glob("config.json*")) == [
        "config.json",
        "config.json.1.1.bak",
    ]


def test_an_older_copy_is_never_overwritten(user: IsolatedUser, write: Write) -> None:
    path = write(registry_path(), json.dumps(OLD))
    write(path.with_name("config.json.1.1.bak"), "an older one")
    assert migrate(KNOWN_AGENTS).backup == path.with_name("config.json.1.1.bak.2")
    assert path.with_name("config.json.1.1.bak").read_text() == "an older one"
    path.write_text(json.dumps(OLD))
    assert migrate(KNOWN_AGENTS).backup == path.with_name("config.json.1.1.bak.2")


def test_prompts_in_a_new_registry_are_taken_out_too(user: IsolatedUser, write: Write) -> None:
    agents = {
        "a": {
            "command": "x",
            "baseArgs": ["-q", "--role", "You are Max.", "--system-prompt=Be kind."],
            "capabilities": {"systemPromptFlag": "--role"},
        },
        "b": {"command": "y"},
    }
    write(registry_path(), json.dumps({"schemaVersion": "1.2", "agents": agents}))
    done = migrate(KNOWN_AGENTS)
    assert done.backup == registry_path().with_name("config.json.1.2.bak")
    assert done.dropped == (
        DroppedPrompt("a", "--role", "You are Max."),
        DroppedPrompt("a", "--system-prompt", "Be kind."),
    )
    assert load_registry(KNOWN_AGENTS).agents["a"].base_args == ("-q",)
    assert not migrate(KNOWN_AGENTS).changed


def test_nothing_is_written_when_something_is_wrong(user: IsolatedUser, write: Write) -> None:
    wrong = json.dumps({"schemaVersion": "1.1", "agents": {"a": {"args": [1]}, "b": 3}})
    path = write(registry_path(), wrong)
    with pytest.raises(ConfigError) as caught:
        migrate(KNOWN_AGENTS)
    assert str(caught.value).splitlines() == [
        '~/.coterie/agents/config.json:1 agents.a has no "command".',
        "~/.coterie/agents/config.json:1 agents.a.baseArgs[0] is a number; expected text.",
        "~/.coterie/agents/config.json:1 agents.b is 3; expected an object.",
    ]
    assert path.read_text() == wrong
    assert not path.with_name("config.json.1.1.bak").exists()


def test_no_registry_to_migrate(user: IsolatedUser) -> None:
    with pytest.raises(NotFound) as caught:
        migrate(KNOWN_AGENTS)
    assert caught.value.hint == "coterie agents scan"


@pytest.mark.parametrize(
    ("adapter", "args", "kept", "dropped"),
    [
        (
            "claude",
            "-p --model opus --output-format=json",
            "--model opus",
            "-p --output-format=json",
        ),
        ("claude", "--print --output-format", "", "--print --output-format"),
        ("codex", "exec --json -m x -", "-m x", "exec --json -"),
        ("gemini", "-p --debug -o stream-json", "--debug", "-p -o stream-json"),
        ("gemini", "--acp -m x", "-m x", "--acp"),
        ("qwen", "--acp exec", "--acp exec", ""),
    ],
)
def test_mode_words(adapter: str, args: str, kept: str, dropped: str) -> None:
    assert split_words(args.split(), KNOWN_AGENTS.ours[adapter].flags.mode) == (
        tuple(kept.split()),
        tuple(dropped.split()),
    )


@pytest.mark.parametrize(
    ("family", "args", "found"),
    [
        ("codex", "exec --full-auto", ["--full-auto"]),
        (
            "codex",
            "--dangerously-bypass-approvals-and-sandbox",
            ["--dangerously-bypass-approvals-and-sandbox"],
        ),
        ("codex", "--sandbox danger-full-access", ["--sandbox danger-full-access"]),
        ("codex", "--sandbox read-only", []),
        ("codex", "-c sandbox_mode=danger-full-access", ["-c sandbox_mode=danger-full-access"]),
        ("claude", "--permission-mode=bypassPermissions", ["--permission-mode bypassPermissions"]),
        ("claude", "--permission-mode plan -y", []),
        ("gemini", "-y", ["-y"]),
        ("gemini", "-dy", ["-dy"]),
        ("gemini", "--approval-mode yolo", ["--approval-mode yolo"]),
        ("gemini", "--approval-mode=auto_edit --yolo=true", ["--yolo"]),
        ("qwen", "-y", ["-y"]),
        ("other", "-y --yolo", ["--yolo"]),
    ],
)
def test_yes_to_all(family: str, args: str, found: list[str]) -> None:
    assert (
        list(KNOWN_AGENTS.flags(KNOWN_AGENTS.ours.get(family)).auto_approving(args.split()))
        == found
    )
