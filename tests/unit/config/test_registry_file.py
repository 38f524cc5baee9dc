"""The registry file: what it may contain, what is refused, how it is written."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coterie.agents.table import KNOWN_AGENTS
from coterie.config.files import Notice
from coterie.config.registry import Registry, load_registry, registry_path
from coterie.config.registry_edit import add_agent, by_hand, save_registry
from coterie.errors import ConfigError, StorageReadOnly, UsageError
from coterie.model.agent import AgentDefinition, Capabilities
from coterie.model.team import Member
from tests.conftest import IsolatedUser

NOW = "2026-11-15T12:00:00.000Z"
Write = Callable[[Path, str], Path]


def registry_of(agents: object, **more: object) -> str:
    return json.dumps({"schemaVersion": "1.2", "agents": agents, **more}, indent=1)


def test_one_that_does_not_exist_yet_has_the_built_in_agent_alone(user: IsolatedUser) -> None:
    own = AgentDefinition(name="builtin", display_name="Built-in agent", command="builtin")
    path = user.coterie_home / "agents" / "config.json"
    assert load_registry(KNOWN_AGENTS) == Registry(path, {"builtin": own})
    assert load_registry(KNOWN_AGENTS).schema_version is None


def test_every_field_is_read(user: IsolatedUser, write: Write) -> None:
    entry = {
        "name": "bot",
        "displayName": "The Bot",
        "command": "/opt/bot",
        "baseArgs": ["--quiet"],
        "capabilities": {
            "supportsSystemPrompt": True,
            "systemPromptFlag": "--role",
            "completionDetection": "jsonl",
            "completionTypes": ["done"],
            "idleTimeoutMs": 500,
            "textField": "answer",
            "persistent": True,
            "promptFormat": "jsonl",
            "timeoutMs": 9000,
            "modelFlag": "--model",
        },
        "usePty": True,
        "version": "1.0",
        "installedAt": "2026-11-15T14:00:00+02:00",
        "adapter": "generic",
        "env": {"LEVEL": "3"},
    }
    write(registry_path(), registry_of({"bot": entry}))
    assert load_registry(KNOWN_AGENTS).agents["bot"] == AgentDefinition(
        name="bot",
        display_name="The Bot",
        command="/opt/bot",
        base_args=("--quiet",),
        capabilities=Capabilities(
            supports_system_prompt=True,
            system_prompt_flag="--role",
            completion_detection="jsonl",
            completion_types=("done",),
            idle_timeout_ms=500,
            text_field="answer",
            persistent=True,
            prompt_format="jsonl",
            timeout_ms=9000,
            model_flag="--model",
        ),
        use_pty=True,
        version="1.0",
        installed_at=NOW,
        adapter="generic",
        env={"LEVEL": "3"},
    )


def test_a_command_alone_is_an_agent(user: IsolatedUser, write: Write) -> None:
    write(registry_path(), registry_of({"cat": {"command": "cat"}}))
    agent = load_registry(KNOWN_AGENTS).agents["cat"]
    assert (agent.display_name, agent.capabilities.detection, agent.adapter_in(())) == (
        "Cat",
        "idleTimeout",
        "generic",
    )


MISTAKES: list[tuple[Any, str]] = [
    ({"comand": "x"}, 'agents.a has no "command".'),
    (
        {"command": "x", "capabilites": {}},
        "agents.a.capabilites is not a known key. Did you mean capabilities?",
    ),
    ({"command": "x", "args": []}, "agents.a.args is not a known key. Did you mean baseArgs?"),
    ({"command": ""}, 'agents.a.command is ""; expected some text.'),
    (
        {"command": "bin/x"},
        'agents.a.command is "bin/x"; expected a program on PATH or an absolute path.',
    ),
    ({"command": "x", "name": "b"}, 'agents.a.name is "b"; expected "a", its key.'),
    ({"command": "x", "usePty": "yes"}, 'agents.a.usePty is "yes"; expected true or false.'),
    ({"command": "x", "version": None}, "agents.a.version is null; leave it out."),
    ({"command": "x", "baseArgs": "x"}, "agents.a.baseArgs is text; expected a list."),
    (
        {"command": "x", "baseArgs": ["--append-system-prompt", "You are Max."]},
        "agents.a.baseArgs holds a role's prompt (--append-system-prompt); it belongs to the "
        "member.",
    ),
    (
        {"command": "x", "baseArgs": ["--role=x"], "capabilities": {"systemPromptFlag": "--role"}},
        "agents.a.baseArgs holds a role's prompt (--role); it belongs to the member.",
    ),
    (
        {"command": "x", "baseArgs": ["-c", 'developer_instructions="x"']},
        "agents.a.baseArgs holds a role's prompt (-c); it belongs to the member.",
    ),
    (
        {"command": "x", "env": {"HOME": "/"}},
        "agents.a.env.HOME is set by Coterie for each member; leave it out.",
    ),
    (
        {"command": "x", "installedAt": "2026-11-15T12:00:00"},
        "agents.a.installedAt cannot be used: 2026-11-15T12:00:00 has no offset from UTC.",
    ),
    (
        {"command": "x", "capabilities": {"completionDetection": "jsnl"}},
        'agents.a.capabilities.completionDetection is "jsnl"; expected jsonl, idleTimeout or '
        "custom. "
        "Did you mean jsonl?",
    ),
    (
        {"command": "x", "capabilities": {"completionDetection": "jsonl"}},
        'agents.a.capabilities has no "completionTypes"; expected the event types that end a '
        "reply.",
    ),
    (
        {"command": "x", "capabilities": {"completionTypes": ["result"]}},
        'agents.a.capabilities.completionTypes needs "completionDetection": "jsonl".',
    ),
    (
        {"command": "x", "capabilities": {"completionDetection": "custom"}},
        'agents.a.capabilities is "custom"; expected either a completionPattern or a detector.',
    ),
    (
        {
            "command": "x",
            "capabilities": {"completionDetection": "custom", "completionPattern": "("},
        },
        "agents.a.capabilities.completionPattern is not a valid regular expression: "
        "missing ), unterminated subpattern at position 0.",
    ),
    (
        {"command": "x", "capabilities": {"detector": "mine"}},
        'agents.a.capabilities.detector needs "completionDetection": "custom".',
    ),
    (
        {"command": "x", "capabilities": {"idleTimeoutMs": -1}},
        "agents.a.capabilities.idleTimeoutMs is -1; expected at least 1.",
    ),
    (3, "agents.a is 3; expected an object."),
]


@pytest.mark.parametrize(("entry", "said"), MISTAKES, ids=[said for _, said in MISTAKES])
def test_a_mistake_is_named(user: IsolatedUser, write: Write, entry: Any, said: str) -> None:
    path = write(registry_path(), registry_of({"a": entry}))
    with pytest.raises(ConfigError) as caught:
        load_registry(KNOWN_AGENTS)
    first = str(caught.value).splitlines()[0]
    shown, _, words = first.partition(" ")
    assert shown.startswith("~/.coterie/agents/config.json:")
    assert words == said
    assert caught.value.where is not None
    assert caught.value.where.startswith(f"{path}:")


def test_a_prompt_s_hint_is_to_migrate(user: IsolatedUser, write: Write) -> None:
    write(
        registry_path(), registry_of({"a": {"command": "x", "baseArgs": ["--system-prompt", "x"]}})
    )
    with pytest.raises(ConfigError) as caught:
        load_registry(KNOWN_AGENTS)
    assert caught.value.hint == "coterie agents migrate"


FILES = [
    ("[]", "config.json:1 is a list; expected an object."),
    ("{", "config.json:1:2 is not valid JSON: expecting property name enclosed in double quotes."),
    ('{"agents": {}}', 'config.json:1 has no "schemaVersion"; expected "1.2".'),
    (
        '{"agents": {},\n "schemaVersion": "2.0"}',
        'config.json:2 schemaVersion is "2.0"; expected "1.2" (or "1.1").',
    ),
    ('{"schemaVersion": 1.2}', 'config.json:1 schemaVersion is 1.2; expected "1.2" (or "1.1").'),
    (
        '{"schemaVersion": "1.2"}',
        'config.json:1 has no "agents"; expected an object of agents by name.',
    ),
    (
        '{"schemaVersion": "1.2", "agents": []}',
        "config.json:1 agents is a list; expected an object.",
    ),
    (
        '{"schemaVersion": "1.2",\n "agent": {}, "agents": {}}',
        "config.json:2 agent is not a known key. Did you mean agents?",
    ),
    (
        '{"schemaVersion": "1.2", "agents": {"a": {"command": "x"},\n"a": {"command": "y"}}}',
        "config.json:2 agents.a appears twice.",
    ),
    (
        '{"schemaVersion": "1.2", "agents": {"a b": {"command": "x"}}}',
        'config.json:1 agents."a b" is not a valid agent name; expected letters, digits, . _ or -.',
    ),
]


@pytest.mark.parametrize(("text", "said"), FILES, ids=[text for text, _ in FILES])
def test_a_file_that_is_no_registry(user: IsolatedUser, write: Write, text: str, said: str) -> None:
    write(registry_path(), text)
    with pytest.raises(ConfigError) as caught:
        load_registry(KNOWN_AGENTS)
    assert str(caught.value) == f"~/.coterie/agents/{said}"


def test_mode_words_are_dropped_where_an_adapter_chooses(user: IsolatedUser, write: Write) -> None:
    args = ["-p", "--output-format", "stream-json", "--verbose", "--add-dir", "/x"]
    write(registry_path(), registry_of({"claude": {"command": "claude", "baseArgs": args}}))
    found = load_registry(KNOWN_AGENTS)
    assert found.agents["claude"].base_args == ("--add-dir", "/x")
    assert found.notices == (
        Notice(
            "claude: -p --output-format stream-json --verbose in baseArgs is ignored; "
            "the claude adapter decides how the agent is started."
        ),
    )


def test_what_scan_wrote_is_not_complained_of(user: IsolatedUser) -> None:
    add_agent(KNOWN_AGENTS, KNOWN_AGENTS.ours["claude"].definition("/opt/claude", None, NOW))
    found = load_registry(KNOWN_AGENTS)
    assert found.notices == ()
    assert found.agents["claude"].base_args == ("--setting-sources", "user", "--strict-mcp-config")


def test_a_role_with_no_flag_to_go_by(user: IsolatedUser, write: Write) -> None:
    entry = {"command": "~/bin/x", "capabilities": {"supportsSystemPrompt": True}}
    write(registry_path(), registry_of({"a": entry}))
    found = load_registry(KNOWN_AGENTS)
    assert found.notices == (
        Notice("a: it has no systemPromptFlag, so a role is put before the message."),
    )
    assert found.agents["a"].command == str(user.home / "bin" / "x")


def test_the_limits_of_a_turn(user: IsolatedUser) -> None:
    silent = AgentDefinition(name="a", command="x")
    by_event = AgentDefinition(
        name="b",
        command="x",
        capabilities=Capabilities(completion_detection="jsonl", completion_types=("result",)),
    )
    stated = AgentDefinition(
        name="c", command="x", capabilities=Capabilities(timeout_ms=7, idle_timeout_ms=6)
    )
    ann = Member(id="ann", name="ann", display_name="Ann")
    hasty = ann.model_copy(update={"timeout_ms": 5, "idle_timeout_ms": 4})
    assert [silent.idle_timeout_ms(ann), silent.total_timeout_ms(ann)] == [2_000, 30_000]
    assert by_event.total_timeout_ms(ann) == 1_800_000
    assert silent.total_timeout_ms(ann, silent=False) == 1_800_000
    assert [stated.idle_timeout_ms(ann), stated.total_timeout_ms(ann)] == [6, 7]
    assert [stated.idle_timeout_ms(hasty), stated.total_timeout_ms(hasty)] == [4, 5]


# -- writing -----------------------------------------------------------------------------------


def test_what_is_saved_is_read_again_and_private(user: IsolatedUser) -> None:
    agent = AgentDefinition(name="a", display_name="Ä", command="x", env={"KEY": "secret"})
    save_registry(Registry(registry_path(), {"a": agent}))
    assert list(load_registry(KNOWN_AGENTS).agents) == ["a", "builtin"]
    assert load_registry(KNOWN_AGENTS).agents["a"] == agent
    assert stat.S_IMODE(registry_path().stat().st_mode) == 0o600
    assert [path.name for path in registry_path().parent.iterdir()] == ["config.json"]
    assert "secret" not in repr(agent)


def test_a_link_is_written_through(user: IsolatedUser, tmp_path: Path) -> None:
    dotfiles = tmp_path / "dotfiles.json"
    dotfiles.write_text(registry_of({}))
    registry_path().parent.mkdir(parents=True)
    registry_path().symlink_to(dotfiles)
    add_agent(KNOWN_AGENTS, AgentDefinition(name="a", command="x"))
    assert registry_path().is_symlink()
    assert json.loads(dotfiles.read_text())["agents"] == {
        "a": {"name": "a", "command": "x", "displayName": "A"}
    }


def test_adding_by_hand(user: IsolatedUser) -> None:
    facts = {"completionDetection": "custom", "completionPattern": "^OK$", "timeoutMs": 5}
    agent = by_hand(KNOWN_AGENTS, "bot", ["/opt/bot", "--loud"], NOW, facts, use_pty=True)
    assert add_agent(KNOWN_AGENTS, agent).agents == {"bot": agent}
    assert (agent.base_args, agent.use_pty, agent.installed_at) == (("--loud",), True, NOW)
    with pytest.raises(UsageError, match='Agent "bot" already exists'):
        add_agent(KNOWN_AGENTS, agent)
    other = by_hand(KNOWN_AGENTS, "bot", ["sh"], NOW, {})
    assert add_agent(KNOWN_AGENTS, other, replacing=True).agents["bot"].command.endswith("/sh")


@pytest.mark.parametrize(
    ("name", "command", "facts", "said"),
    [
        ("bot", [], {}, "An agent needs a command."),
        ("b t", ["x"], {}, '"b t" is not a valid agent name; expected letters, digits, . _ or -.'),
        (
            "bot",
            ["x"],
            {"completionDetection": "jsonl"},
            'bot.capabilities has no "completionTypes"; expected the event types that end a reply.',
        ),
        (
            "bot",
            ["x", "--system-prompt", "Be kind"],
            {},
            "bot.baseArgs holds a role's prompt (--system-prompt); it belongs to the member.",
        ),
        (
            "bot",
            ["x"],
            {"idleTimeoutMs": "1"},
            'bot.capabilities.idleTimeoutMs is "1"; expected a whole number.',
        ),
    ],
)
def test_adding_what_cannot_be(
    user: IsolatedUser, name: str, command: list[str], facts: dict[str, object], said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        by_hand(KNOWN_AGENTS, name, command, NOW, facts)
    assert str(caught.value) == said


def test_a_home_that_cannot_be_written(user: IsolatedUser) -> None:
    registry = Registry(Path("/sys/coterie/config.json"))
    with pytest.raises(StorageReadOnly) as caught:
        save_registry(registry)
    assert caught.value.path == "/sys/coterie"
    assert caught.value.hint == "Make /sys/coterie writable, or work elsewhere: -C DIR"


def test_old_ones_are_not_written_over(user: IsolatedUser, write: Write) -> None:
    write(registry_path(), json.dumps({"schemaVersion": "1.1", "agents": {}}))
    with pytest.raises(UsageError) as caught:
        add_agent(KNOWN_AGENTS, AgentDefinition(name="a", command="x"))
    assert caught.value.hint == "coterie agents migrate"
