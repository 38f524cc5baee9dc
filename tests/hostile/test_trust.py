"""A task continues with what its user allowed when it started, and with nothing else."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Cli

Change = Callable[[Path, Path, dict[str, Any]], None]
"""Changes the team file, another file, or the task's data in the database."""

SPY = {"command": "sh", "baseArgs": ["-c", 'echo "$VALUE $*" >> "$FIRED"; echo seen', "spy"]}


class ParkedChat:
    """A chat that its user allowed and that is waiting for a message."""

    def __init__(self, cli: Cli, where: str) -> None:
        self.cli, project = cli, cli.user.project
        registry = cli.user.coterie_home / "agents" / "config.json"
        registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": {"spy": SPY}}))
        cli("init")
        self.fired = project / "fired"
        self.team = project / where / "team.json"
        self.team.parent.mkdir(parents=True, exist_ok=True)
        env = {"VALUE": "good", "FIRED": str(self.fired)}
        members = [{"id": "spy", "agent": "spy", "env": env}, {"id": "you", "type": "human"}]
        self.team.write_text(json.dumps({"name": "pair", "members": members}))
        cli("team", "trust", str(self.team), "--yes")
        ran = cli("chat", "--json", "-t", str(self.team), "begin")
        assert ran.code == 3, ran
        self.id = str(ran.lines[-1]["task"])
        [question] = [line["id"] for line in cli("inbox", "--json").of("interaction")]
        assert cli("answer", question, "--say", "go on").code == 0
        assert self.fired.read_text().split() == ["good"]

    def change(self, change: Change) -> None:
        """Do what anybody who can write to the project could do."""
        database = sqlite3.connect(self.cli.user.project / ".coterie" / "coterie.db")
        with database:
            [(body,)] = database.execute(
                "SELECT data FROM events WHERE type = 'TaskCreated' AND task_id = ?", (self.id,)
            ).fetchall()
            created = json.loads(body)
            change(self.team, self.team.with_name("other.json"), created)
            database.execute("DROP TRIGGER events_are_not_changed")
            database.execute(
                "UPDATE events SET data = ? WHERE type = 'TaskCreated' AND task_id = ?",
                (json.dumps(created), self.id),
            )
        database.close()


def edited(**env: str) -> Change:
    def change(team: Path, _: Path, __: dict[str, Any]) -> None:
        written = json.loads(team.read_text())
        written["members"][0]["env"].update(env)
        team.write_text(json.dumps(written))

    return change


def stored(**fields: Any) -> Change:
    def change(_: Path, __: Path, created: dict[str, Any]) -> None:
        created["team"]["members"][0].update(fields)

    return change


def another_file(team: Path, other: Path, created: dict[str, Any]) -> None:
    edited(VALUE="bad")(team, other, created)
    team.rename(other)
    created["team_file"] = str(other)


def forgotten(team: Path, other: Path, created: dict[str, Any]) -> None:
    edited(VALUE="bad")(team, other, created)
    del created["allowed"]


def forgotten_arguments(_: Path, __: Path, created: dict[str, Any]) -> None:
    created["team"]["members"][0]["additionalArgs"] = ["bad"]
    del created["allowed"]


def forged(team: Path, other: Path, created: dict[str, Any]) -> None:
    edited(VALUE="bad")(team, other, created)
    created["allowed"]["env"]["spy"] = created["allowed"]["team"]


OUTSIDE, INSIDE = "given", ".coterie/teams/pair"
COMMAND = """sh -c 'echo bad >> "$FIRED"; echo seen'"""
ATTACKS: dict[str, tuple[str, Change]] = {
    "a value": (OUTSIDE, edited(VALUE="bad")),
    "a value of a team of the project's own": (INSIDE, edited(VALUE="bad")),
    "a value in another file": (OUTSIDE, another_file),
    "a value, and no record of the one before": (OUTSIDE, forgotten),
    "arguments, and no record": (INSIDE, forgotten_arguments),
    "a value, and a forged record": (OUTSIDE, forged),
    "arguments": (OUTSIDE, stored(additionalArgs=["bad"])),
    "arguments of a team of the project's own": (INSIDE, stored(additionalArgs=["bad"])),
    "a command": (OUTSIDE, stored(metadata={"cli_command": COMMAND})),
    "a mode": (OUTSIDE, stored(permissions={"mode": "full"}, additionalArgs=["bad"])),
    "a folder": (OUTSIDE, stored(executionDir="/", additionalArgs=["bad"])),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_something_else_is_asked_about(cli: Cli, attack: str) -> None:
    where, change = ATTACKS[attack]
    parked = ParkedChat(cli, where)
    parked.change(change)
    ran = cli("resume", parked.id)
    assert ran.code == 2, ran
    assert f"coterie resume {parked.id} --trust" in ran.err
    assert "bad" not in parked.fired.read_text()
    cli("resume", parked.id, "--trust")  # the control: once allowed, it takes effect
    assert "bad" in parked.fired.read_text()


PLACES = {
    "a home of its own": {"homeDir": "planted"},
    "a folder of its own": {"workingDir": "planted"},
    "what git obeys": {"workDir": ".git"},
    "what is Coterie's": {"workDir": ".coterie"},
    "a link to what git obeys": {"workDir": "linked"},
    "edits unasked": {"permissions": "accept-edits"},
}


@pytest.mark.parametrize("name", PLACES)
def test_a_team_of_the_repository_chooses_no_such_thing_unseen(cli: Cli, name: str) -> None:
    """Programs load files from their home, and inside `.git` no name shows what a file is."""
    project, fired = cli.user.project, cli.user.home / "fired"
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    cli("init")
    (project / "linked").symlink_to(".git")
    for home in (project / "planted", project / "planted" / "home"):
        home.mkdir()
        (home / "plugin").write_text(f"touch {fired}\n")
    elsewhere = f"case $PWD in */project) echo here;; *) touch {fired}; esac"
    command = f"[ ! -e ~/plugin ] || . ~/plugin; {elsewhere}"
    cli.registry(spy={"command": "sh", "baseArgs": ["-c", command]})
    team = project / "team.json"
    member = {"id": "ann", "agent": "spy", **PLACES[name]}
    team.write_text(json.dumps({"name": "one", "members": [member]}))
    words = ("chat", "-t", str(team), "--max-turns", "1", "look around")
    ran = cli(*words)
    assert (ran.code, fired.exists()) == (2, False)
    assert f"coterie team trust {team.name}" in ran.err
    assert cli("team", "trust", str(team)).code == 0
    assert cli(*words).code == 0  # the control: once reviewed, it is used
    assert fired.exists() == (name != "edits unasked")


def test_what_a_team_asks_for_is_shown_to_the_last_character(cli: Cli) -> None:
    folder = cli.user.project / "new\n  ann: asks for nothing"
    folder.mkdir()
    cli.registry(spy={"command": "sh"})
    arguments, rule = ["-c", f"true {'a' * 300}\u3164; evil"], f"npm test {'a' * 300} *"
    member = {"id": "ann", "agent": "spy", "workingDir": str(folder), "additionalArgs": arguments}
    member["permissions"] = {"allow": [rule]}
    team = cli.user.project / "team.json"
    team.write_text(json.dumps({"name": "one", "members": [member]}))
    shown = cli("team", "trust", str(team)).out
    assert rule in shown
    assert f"{'a' * 300}<U+3164>; evil" in shown
    assert "new<U+000A>  ann: asks" in shown


def test_trust_does_not_go_to_another_repository(cli: Cli, tmp_path: Path) -> None:
    """An identical team file, which anybody may have read, would run another folder's file."""
    rules = {"mode": "ask", "allow": ["run(sh check.sh)"]}
    team = json.dumps({"name": "one", "members": [{"id": "ann", "agent": "builtin"}]})
    team = json.dumps({**json.loads(team), "permissions": rules})
    call = {"name": "runCommand", "input": {"command": "sh check.sh"}}
    script = cli.user.home / "script.json"
    script.write_text(json.dumps({"rules": [{"replies": [{"tools": [call]}, {"text": "x"}]}]}))
    ran: list[tuple[int, bool]] = []
    for project in (cli.user.project, tmp_path / "other"):
        project.mkdir(exist_ok=True)
        (project / "team.json").write_text(team)
        (project / "check.sh").write_text("touch fired\n")
        if project == cli.user.project:
            assert cli("team", "trust", "team.json", cwd=project).code == 0
        words = ("chat", "-t", "team.json", "--script", str(script), "--max-turns", "1", "go")
        ran.append((cli(*words, cwd=project).code, (project / "fired").exists()))
    assert ran == [(0, True), (2, False)]


@pytest.mark.parametrize("where", [OUTSIDE, INSIDE])
def test_what_was_allowed_is_not_asked_about_again(cli: Cli, where: str) -> None:
    parked = ParkedChat(cli, where)
    assert cli("resume", parked.id).code in (0, 3)
    assert parked.fired.read_text().split() == ["good", "good"]
