"""Faulty disks and files: a clear error, nothing half-written."""

from __future__ import annotations

import json
import os
import resource
import shlex
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import Cli, CommandResult, InProcessCli


@pytest.fixture
def local(cli: Cli, in_process: InProcessCli) -> InProcessCli:
    """The same in this process, for tests that are not about the process."""
    return in_process


def database(cli: Cli) -> Path:
    return cli.user.project / ".coterie" / "coterie.db"


def refused(ran: CommandResult, *words: str) -> None:
    assert ran.code in (1, 2), ran
    assert "Traceback" not in ran.err
    for word in words:
        assert word in ran.err, ran.err


def opens_again(cli: Cli) -> None:
    """Check that the database is intact and a new chat works in it."""
    with sqlite3.connect(database(cli)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    assert cli("chat", "hello again").code == 0


def test_a_damaged_registry_is_named_with_its_place(local: InProcessCli) -> None:
    registry = local.user.coterie_home / "agents" / "config.json"
    registry.write_text('{"schemaVersion": "1.2",\n "agents": {"x": {"comand": "x"}}}')
    refused(local("chat", "--agents", "x", "hello there"), "config.json:2", "comand", "command")
    registry.write_text('{"schemaVersion": "1.2",\n "agents": ')
    refused(local("chat", "--agents", "x", "hello there"), "config.json:2")


def test_a_time_in_a_file_has_a_zone(local: InProcessCli) -> None:
    registry = local.user.coterie_home / "agents" / "config.json"
    entry = '{"schemaVersion": "1.2",\n "agents": {"x": {"command": "cat", "installedAt": "%s"}}}'
    registry.write_text(entry % "2026-01-31T14:00:00")
    refused(local("agents", "list"), "config.json:2", "installedAt", "has no offset from UTC")
    registry.write_text(entry % "2026-01-31T14:00:00+02:00")
    shown = local("agents", "list", "--json").of("agent")[0]
    assert shown["installedAt"] == "2026-01-31T12:00:00.000Z"


def test_two_members_with_one_id(local: InProcessCli) -> None:
    path = local.team("ada", "rex")
    path.write_text('{"members": [\n {"id": "ada", "agent": "ada"},\n {"id": "ada"}]}')
    ran = local("chat", "hello there")
    refused(ran, "team.json:3", "ada")
    assert ran.code == 2
    assert not database(local).exists()


def test_a_program_that_is_not_there(local: InProcessCli) -> None:
    local("agents", "add", "ghost", "--ends-with", "result", "--", "/nowhere/ghost")
    local.team("ada")
    ran = local("chat", "--json", "--agents", "g=ghost", "hello there")
    assert ran.code == 3
    [error] = ran.of("error")
    assert "/nowhere/ghost" in error["message"]
    assert error["member"] == "g"
    assert error["where"].endswith("g")
    [question] = ran.of("interaction")
    assert [option["id"] for option in question["options"]] == ["retry", "skip", "stop"]


def test_a_database_that_another_process_holds(cli: Cli, local: InProcessCli) -> None:
    cli.team("ada")
    local.task("hello there")
    holder = sqlite3.connect(database(cli), isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        refused(cli("chat", "hello there"), "coterie.db", "Another process has locked")
    finally:
        holder.execute("ROLLBACK")
        holder.close()
    opens_again(local)


def test_a_database_with_a_page_overwritten(local: InProcessCli) -> None:
    local.team("ada")
    for _ in range(3):
        local.task("hello there")
    whole = database(local).read_bytes()
    middle = len(whole) // 2 // 4096 * 4096
    database(local).write_bytes(whole[:middle] + b"\xa5" * 4096 + whole[middle + 4096 :])
    refused(local("chat", "hello there"), "coterie.db")
    refused(local("tasks"), "coterie.db")
    database(local).write_bytes(whole)
    opens_again(local)


def test_an_emptied_database_is_no_fresh_start(local: InProcessCli) -> None:
    local.team("ada")
    local.task("hello there")
    whole = database(local).read_bytes()
    database(local).write_bytes(b"")
    refused(local("chat", "hello there"), "coterie.db")
    assert database(local).read_bytes() == b""
    database(local).write_bytes(whole)
    opens_again(local)


@pytest.mark.parametrize(("row", "tasks"), [("", 1), ("WHEN NEW.seq = 2", 2)])
def test_what_belongs_together_is_kept_together_or_not_at_all(
    local: InProcessCli, row: str, tasks: int
) -> None:
    """A task is stored with its first message, and the end of a turn with its reply."""
    local.team("ada", "rex")
    local.task("hello there")
    connection = sqlite3.connect(database(local), isolation_level=None)
    fails = f"BEFORE INSERT ON messages {row} BEGIN SELECT RAISE(ABORT, 'no'); END"
    connection.execute(f"CREATE TRIGGER fails {fails}")
    assert local("chat", "hello again").code == 1
    left = local("tasks", "--json").of("task")
    assert [one["status"] for one in left] == ["completed", "running"][:tasks]
    connection.execute("DROP TRIGGER fails")
    connection.close()
    for one in left[1:]:  # without its reply stored, the turn has not ended
        assert local("resume", one["id"]).code == 0
        said = local("log", one["id"], "--json").of("message")
        assert [line["member"] for line in said] == ["you", "ada", "rex"]
    opens_again(local)


def limited(cli: Cli, size: int, *arguments: str) -> CommandResult:
    """Run a command that can write no file beyond a size: to that command, the disk is full."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    done = subprocess.run(
        [sys.executable, "-m", "coterie", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=cli.user.project,
        env={**os.environ, **cli.env},
        timeout=60,
        check=False,
        preexec_fn=limit,
    )
    return CommandResult(done.stdout, done.stderr, done.returncode)


LINES = 500
"""How many lines an agent says in a turn, so that a few turns fill the disk."""


def test_a_disk_that_fills_up_while_we_write(local: InProcessCli) -> None:
    says = json.dumps({"type": "result", "text": "steady\n" * LINES})
    run = ("sh", "-c", f"cat > /dev/null; printf '%s\\n' {shlex.quote(says)}")
    local("agents", "add", "steady", "--ends-with", "result", "--", *run)
    local.team("ada")
    local.task("hello there")
    size = database(local).stat().st_size
    words = ("chat", "--agents", "a=steady,b=steady", "--max-turns", "30", "hello there")
    went_on: list[str] = []
    for more in (0, 20_000, 40_000):
        ran = limited(local, size // 2 + more, *words)
        refused(ran, "coterie.db")
        assert ran.code == 1
        opens_again(local)
        # What was said before the disk was full is stored, and the task can be resumed.
        tasks = local("tasks", "--json").of("task")
        for one in [task for task in tasks if task["status"] == "running"]:
            assert local("resume", one["id"]).code == 0
            went_on.append(one["id"])
    assert went_on


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_small_disk_that_is_full(cli: Cli, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    assert mount is not None
    subprocess.run([mount, "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(disk)], check=True)
    try:
        ran = cli("-C", str(disk), "chat", "--agents", "ada", "--max-turns", "3", "hello there")
        assert ran.code == 0, ran
        filler = disk / "filler"
        with pytest.raises(OSError, match="No space left"):
            filler.write_bytes(b"x" * 600_000)
        ran = cli("-C", str(disk), "chat", "--agents", "ada", "--max-turns", "90", "hello there")
        refused(ran, str(disk))
        filler.unlink()
        ran = cli("-C", str(disk), "chat", "--agents", "ada", "--max-turns", "3", "hello there")
        assert ran.code == 0, ran
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_read_only_mount(cli: Cli, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(disk)], check=True)
    try:
        assert cli("-C", str(disk), "chat", "--agents", "ada", "hello there").code == 0
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        refused(cli("-C", str(disk), "chat", "--agents", "ada", "hello there"), str(disk))
        empty = tmp_path / "empty"
        empty.mkdir()
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_json_errors_are_objects(local: InProcessCli) -> None:
    local.team("ada")
    local.task("hello there")
    database(local).write_bytes(b"not a database at all, " * 400)
    ran = local("tasks", "--json")
    [error] = ran.of("error")
    assert error["code"] == "storage_damaged"
    assert json.dumps(error)
    assert error["hint"]
