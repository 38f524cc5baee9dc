"""Four kinds of agents, one inbox: every question answered once, every tool call on record."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import Cli, InProcessCli
from tests.cli.test_terminal import Terminal
from tests.conftest import IsolatedUser

ROOT = Path(__file__).parents[2]
BINS = Path(os.environ.get("COTERIE_CLIS", ROOT / ".cache" / "clis")) / "node_modules" / ".bin"
CLIS = ("claude", "codex", "gemini")
TIMEOUT = 90


def patch(name: str) -> str:
    return f"*** Begin Patch\n*** Add File: {name}\n+written\n*** End Patch\n"


def two_calls(client: str) -> list[dict[str, object]]:
    """One command that changes something, and one file, each by the agent's own tool."""
    ran, written = f"{client}-ran", f"{client}-written"
    command = f"touch {ran}"
    calls: dict[str, list[dict[str, object]]] = {
        "claude": [
            {"name": "Bash", "input": {"command": command}},
            {"name": "Write", "input": {"file_path": f"$WORK/{written}", "content": "written\n"}},
        ],
        "codex": [
            {"name": "exec_command", "input": {"cmd": command}},
            {"name": "apply_patch", "input": patch(written)},
        ],
        "gemini": [
            {"name": "run_shell_command", "input": {"command": command, "description": "touch"}},
            {"name": "write_file", "input": {"file_path": written, "content": "written\n"}},
        ],
        "builtin": [
            {"name": "runCommand", "input": {"command": command}},
            {"name": "editFile", "input": {"path": written, "oldStr": "", "newStr": "written\n"}},
        ],
    }
    return calls[client]


def write_script(path: Path, project: Path) -> None:
    rules = [
        {
            "when": {"client": client},
            "replies": [
                *({"tools": [call]} for call in two_calls(client)),
                {"text": f"{client} is done."},
            ],
        }
        for client in (*CLIS, "builtin")
    ]
    text = json.dumps({"rules": rules, "otherwise": "simulate"})
    path.write_text(text.replace("$WORK", str(project)))


@pytest.fixture
def terminal(user: IsolatedUser, tmp_path: Path) -> Iterator[Terminal]:
    missing = [name for name in CLIS if not (BINS / name).exists()]
    if missing:
        pytest.skip(f"{missing} are not installed: scripts/real-clis")
    registry = user.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    agents = {name: {"command": str(BINS / name)} for name in CLIS}
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": agents}))
    script = tmp_path / "script.json"
    write_script(script, user.project)
    who = "cla=claude,cod=codex,gem=gemini,bui=builtin"
    opened = Terminal(
        Cli(user), "chat", "--agents", who, "--script", str(script), "go", columns=100
    )
    yield opened
    opened.close()


ANSWERS = {
    "claude": (("terminal", "once"), ("elsewhere", "once")),
    "codex": (("terminal", "deny"), ("elsewhere", "once")),
    "gemini": (("terminal", "once"), ("elsewhere", "deny")),
    "builtin": (("terminal", "once"), ("elsewhere", "once")),
}


def test_eight_questions_in_one_inbox(user: IsolatedUser, terminal: Terminal) -> None:
    cli = InProcessCli(user)  # this process is a different one from the terminal's
    number = 0
    for client, answers in ANSWERS.items():
        for place, choice in answers:
            number += 1
            terminal.until(f"open q{number}", TIMEOUT)
            [waiting] = cli("inbox", "--json").lines
            assert waiting["purpose"] == "confirm_risky_action"
            assert client in waiting.get("command", "") + str(waiting.get("diff", "")) + str(
                waiting["content"]
            ) + str(waiting["title"])
            if place == "terminal":
                terminal.type("\t")
                terminal.until(f"q{number} · ", TIMEOUT)
                terminal.type("1\r" if choice == "once" else "2 not that\r")
            else:
                assert cli("answer", f"q{number}", choice).code == 0
                assert cli("answer", f"q{number}", "once").code != 0
    terminal.until("builtin is done.", TIMEOUT)
    terminal.until("speak next", TIMEOUT)
    terminal.type("/end\r")
    terminal.until("you ended it", TIMEOUT)
    happened = {path.name for path in user.project.iterdir() if not path.name.startswith(".")}
    assert happened == {
        "claude-ran",
        "claude-written",
        "codex-written",
        "gemini-ran",
        "builtin-ran",
        "builtin-written",
    }
    late = [cli("answer", f"q{one}", "once") for one in range(1, number + 1)]
    assert ["was already answered" in one.err and one.code for one in late] == [2] * 8
    rows = cli("audit", "--export", "-").lines
    kinds = [row["kind"] for row in rows]
    assert (kinds.count("ToolCallRequested"), kinds.count("ToolCallCompleted")) == (8, 8)
    assert cli("audit", "--verify").code == 0
    change_one_byte(user.project / ".coterie" / "coterie.db")
    damaged = cli("audit", "--verify")
    assert damaged.code == 1
    assert "row 3" in damaged.out + damaged.err


def change_one_byte(database: Path) -> None:
    """Tamper with the database: drop the trigger first, as an attacker with access would."""
    connection = sqlite3.connect(database)
    connection.execute("DROP TRIGGER audit_is_not_changed")
    connection.execute("UPDATE audit SET tool_name = substr(tool_name, 2) WHERE sequence = 3")
    connection.commit()
    connection.close()
