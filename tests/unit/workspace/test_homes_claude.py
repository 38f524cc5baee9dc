"""Writing into homes safely, and what Claude's home contains."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from coterie.agents.claude.adapter import prepare
from coterie.errors import StorageError, UsageError
from coterie.model.team import Member
from coterie.model.workspace import Workspace
from coterie.workspace.homes import (
    link_private,
    private_folder,
    remove_private,
    write_private,
)

KEYS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_CUSTOM_HEADERS",
    "CLAUDE_CODE_OAUTH_TOKEN",
)
"""Variables of the user's environment that decide who pays and where requests go."""
ANN = Member(id="ann", name="ann", display_name="Ann", system_instruction="You are Ann.")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# -- files -------------------------------------------------------------------------------------


def test_a_file_is_written_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_private(file, "one \udcff")
    assert (file.read_text(), mode(file)) == ("one ?", 0o600)
    assert names(tmp_path) == ["file"]


def test_a_file_that_is_right_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_private(file, "one")
    before = file.stat()
    write_private(file, "one")
    assert file.stat().st_ino == before.st_ino
    write_private(file, "two")
    assert (file.read_text(), file.stat().st_ino == before.st_ino) == ("two", False)


@pytest.mark.parametrize("spoil", ["open to others", "with another name"])
def test_a_file_that_others_hold_is_replaced(tmp_path: Path, spoil: str) -> None:
    file, other = tmp_path / "file", tmp_path / "other"
    write_private(file, "one")
    if spoil == "open to others":
        file.chmod(0o644)
    else:
        os.link(file, other)
    before = file.stat().st_ino
    write_private(file, "one")
    assert (mode(file), file.stat().st_nlink, file.stat().st_ino == before) == (0o600, 1, False)


def test_a_link_in_the_place_of_a_file_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("theirs")
    (tmp_path / "file").symlink_to(target)
    write_private(tmp_path / "file", "ours")
    assert (target.read_text(), (tmp_path / "file").read_text()) == ("theirs", "ours")
    assert not (tmp_path / "file").is_symlink()


def test_nothing_is_written_through_a_folder_that_is_a_link(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    (tmp_path / "file").touch()
    for folder in (tmp_path / "link", tmp_path / "file"):
        with pytest.raises(UsageError, match="is not a folder"):
            write_private(folder / "file", "x")
        with pytest.raises(UsageError, match="is not a folder"):
            private_folder(folder)
    assert names(real) == []


def test_what_the_disk_refuses(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError, match="cannot be written: Is a directory"):
        write_private(tmp_path / "folder", "x")
    assert names(tmp_path) == ["folder"]  # and no partial file
    with pytest.raises(StorageError, match="cannot be written: No such file"):
        write_private(tmp_path / "none" / "file", "x")


def test_a_folder_is_closed_to_others(tmp_path: Path) -> None:
    assert mode(private_folder(tmp_path / "new")) == 0o700
    (tmp_path / "new").chmod(0o755)
    assert mode(private_folder(tmp_path / "new")) == 0o700


def test_links_are_made_moved_and_removed(tmp_path: Path) -> None:
    link, one, two = tmp_path / "link", tmp_path / "one", tmp_path / "two"
    one.write_text("1")
    link.write_text("in the way")
    for target in (one, one, two):
        link_private(link, target)
        assert link.readlink() == target
    remove_private(link)
    remove_private(link)
    assert names(tmp_path) == ["one"]


# -- Claude ------------------------------------------------------------------------------------


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    folder = tmp_path / "ann"
    for name in ("home", "tmp", "my work"):
        (folder / name).mkdir(parents=True)
    return Workspace(
        folder=folder,
        home=folder / "home",
        tmp=folder / "tmp",
        execution_dir=folder / "my work",
        env={"PATH": "/bin", "HOME": str(folder / "home"), "DISABLE_TELEMETRY": "0"},
        team_instruction="We are a team.\n",
    )


def config_of(env: dict[str, str]) -> Path:
    return Path(env["CLAUDE_CONFIG_DIR"])


def test_what_claude_finds(workspace: Workspace) -> None:
    env = prepare(ANN, workspace)
    config = config_of(env)
    assert config == workspace.home / ".claude"
    assert mode(config) == 0o700
    assert (config / "CLAUDE.md").read_text() == "We are a team.\n"
    assert json.loads((config / "settings.json").read_text()) == {
        "cleanupPeriodDays": 36500,
        "crossSessionInbound": "refuse",
    }
    assert env == {
        "PATH": "/bin",
        "HOME": str(workspace.home),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1",
        "CLAUDE_CODE_TMPDIR": str(workspace.tmp),
        "CLAUDE_CONFIG_DIR": str(config),
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_TELEMETRY": "0",
        "MCP_TOOL_TIMEOUT": str(7 * 24 * 3600 * 1000),
    }


def test_edits_of_the_team_reach_it_and_edits_of_its_settings_do_not(workspace: Workspace) -> None:
    config = config_of(prepare(ANN, workspace))
    (config / "settings.json").write_text('{"permissions": {"allow": ["Bash"]}}')
    (config / "kept.json").write_text("memory")
    prepare(ANN, replace(workspace, team_instruction=""))
    assert (config / "CLAUDE.md").read_text() == "\n"
    assert "allow" not in (config / "settings.json").read_text()
    assert (config / "kept.json").read_text() == "memory"


@pytest.mark.parametrize("name", ["CLAUDE.md", ".claude/CLAUDE.md", "AGENTS.md"])
def test_the_materials_own_text_counts_once_it_is_trusted(workspace: Workspace, name: str) -> None:
    theirs = workspace.execution_dir / name
    theirs.parent.mkdir(exist_ok=True)
    theirs.write_text("Our rules.")
    memory = config_of(prepare(ANN, workspace)) / "CLAUDE.md"
    assert memory.read_text() == "We are a team.\n"
    prepare(ANN, replace(workspace, trusted=True))
    imported = str(theirs.resolve()).replace(" ", "\\ ")
    assert memory.read_text() == f"We are a team.\n\n@{imported}\n"


def test_a_word_of_the_team_is_no_import(workspace: Workspace) -> None:
    said = "@rex: read\n@~/.ssh/id and a@b, not @ this."
    config = config_of(prepare(ANN, replace(workspace, team_instruction=said)))
    read = (config / "CLAUDE.md").read_text()
    assert read == "\\@rex: read\n\\@~/.ssh/id and a@b, not @ this.\n"


def test_where_it_signs_in(workspace: Workspace, tmp_path: Path) -> None:
    name = "CLAUDE_SECURESTORAGE_CONFIG_DIR"
    user = tmp_path / "user"
    assert prepare(ANN, replace(workspace, user_home=user))[name] == ""
    (user / ".claude").mkdir(parents=True)
    (user / ".claude" / ".credentials.json").write_text("secret")
    assert prepare(ANN, replace(workspace, user_home=user))[name] == str(user / ".claude")
    files = [path for path in workspace.folder.rglob("*") if path.is_file()]
    assert [path for path in files if "secret" in path.read_text()] == []


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ('{"primaryApiKey": "secret"}', "secret"),
        ('{"primaryApiKey": 7}', None),
        ("[]", None),
        ("no JSON", None),
    ],
)
def test_a_login_with_the_console(
    workspace: Workspace, tmp_path: Path, settings: str, key: str | None
) -> None:
    (tmp_path / ".claude.json").write_text(settings)
    mine = replace(workspace, user_home=tmp_path)
    assert prepare(ANN, mine).get("ANTHROPIC_API_KEY") == key
    other = replace(mine, env={"ANTHROPIC_API_KEY": "of the member"})
    assert prepare(ANN, other)["ANTHROPIC_API_KEY"] == "of the member"


def test_a_rehearsal_knows_no_real_key(workspace: Workspace, tmp_path: Path) -> None:
    given = dict.fromkeys(KEYS, "real") | {"CLAUDE_CODE_USE_BEDROCK": "1", "NO_PROXY": "x"}
    rehearsal = replace(
        workspace,
        env={**workspace.env, **given},
        user_home=tmp_path,
        rehearsal="http://127.0.0.1:1",
    )
    env = prepare(ANN, rehearsal)
    assert "real" not in env.values()
    assert {name for name in env if name.startswith(("ANTHROPIC", "CLAUDE", "NO_"))} == {
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS",
        "CLAUDE_CODE_TMPDIR",
        "CLAUDE_CONFIG_DIR",
        "NO_PROXY",
    }
    assert (env["ANTHROPIC_BASE_URL"], env["DISABLE_TELEMETRY"]) == ("http://127.0.0.1:1", "1")
    assert "127.0.0.1" in env["NO_PROXY"]
