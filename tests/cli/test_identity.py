"""An existing member's identity is fixed: an edited prompt is asked about, never slipped in."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.command import Cli


def edited(cli: Cli, prompt: str) -> Path:
    path = cli.user.project / ".coterie" / "teams" / "duo" / "team.json"
    data = json.loads(path.read_text())
    data["members"][0]["prompt"] = prompt
    path.write_text(json.dumps(data))
    return path


def prompt_of(cli: Cli, task: str) -> str:
    """The prompt that a task's first member was started with, as stored in the database."""
    import sqlite3

    database = cli.user.project / ".coterie" / "coterie.db"
    with sqlite3.connect(database) as connection:
        row = connection.execute(
            "SELECT data FROM events WHERE task_id = ? AND type = 'TaskCreated'", (task,)
        ).fetchone()
    connection.close()
    return str(json.loads(row[0])["team"]["members"][0].get("systemInstruction", ""))


def test_an_edited_prompt_is_refused_without_a_terminal_and_each_way_out_is_named(cli: Cli) -> None:
    assert cli("team", "new", "duo", "--agents", "ada,rex").code == 0
    assert cli("chat", "hello there").code == 0
    edited(cli, "You are somebody else.")
    ran = cli("chat", "hello there")
    assert ran.code == 2
    assert "ada's prompt changed" in ran.err
    for way in ("team update ada", "team keep ada", "team rename ada ada2"):
        assert way in ran.err


def test_update_takes_the_new_one(cli: Cli) -> None:
    cli("team", "new", "duo", "--agents", "ada,rex")
    edited(cli, "You are somebody else.")
    assert cli("team", "update", "ada").code == 0
    assert prompt_of(cli, cli.task("hello there")) == "You are somebody else."


def test_keep_stays_with_the_old_one_and_asks_no_more(cli: Cli) -> None:
    cli("team", "new", "duo", "--agents", "ada,rex")
    edited(cli, "You are somebody else.")
    assert cli("team", "keep", "ada").code == 0
    assert prompt_of(cli, cli.task("hello there")) == ""
    edited(cli, "You are a third one.")
    assert cli("chat", "hello there").code == 2


def test_rename_makes_a_new_member_with_a_folder_of_its_own(cli: Cli) -> None:
    cli("team", "new", "duo", "--agents", "ada,rex")
    path = edited(cli, "You are somebody else.")
    assert cli("team", "rename", "ada", "ada2").code == 0
    assert [member["id"] for member in json.loads(path.read_text())["members"]] == ["ada2", "rex"]
    assert (path.parent / "ada").is_dir()
    assert (path.parent / "ada2" / "home").is_dir()
    assert prompt_of(cli, cli.task("hello there")) == "You are somebody else."
