"""A Codex member's home: what is written there, and what a repository cannot change."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coterie.agents.codex.home import CodexHome, Leftovers, prepare, toml
from coterie.model.team import Member, Mode, Permissions
from coterie.model.workspace import Workspace
from coterie.workspace.folder import open_workspace
from coterie.workspace.worktree import Worktree
from tests.conftest import IsolatedUser

ANN = Member(
    id="ann", name="ann", display_name="Ann", agent="codex", system_instruction="You are Ann."
)


def git(*words: str) -> None:
    subprocess.run(["git", "-c", "user.email=a@b.c", "-c", "user.name=a", *words], check=True)


def workspace(user: IsolatedUser, member: Member = ANN, **more: Any) -> Workspace:
    made = open_workspace(user.project, "pair", member, {"PATH": "/usr/bin:/bin"})
    return replace(made, **more)


def config(home: CodexHome) -> dict[str, Any]:
    return tomllib.loads((home.path / "config.toml").read_text())


def filesystem(home: CodexHome) -> dict[str, Any]:
    return config(home)["permissions"]["coterie"]["filesystem"]


def member(mode: Mode, **more: Any) -> Member:
    return ANN.model_copy(update={"permissions": Permissions(mode=mode), **more})


# -- config.toml -------------------------------------------------------------------------------


def test_a_home(user: IsolatedUser) -> None:
    place = workspace(user, team_instruction="Be kind.\n")
    home = prepare(ANN, place)
    assert (home.path, home.cwd) == (place.home / ".codex", user.project)
    assert home.env == {**place.env, "CODEX_HOME": str(home.path)}
    assert stat.S_IMODE(home.path.stat().st_mode) == 0o700
    assert stat.S_IMODE((home.path / "config.toml").stat().st_mode) == 0o600
    assert (home.path / "AGENTS.md").read_text() == "Be kind.\n"
    written = config(home)
    trust = written.pop("projects")
    assert set(trust) == {str(path) for path in (user.project, *user.project.parents)}
    assert all(each == {"trust_level": "untrusted"} for each in trust.values())
    scratch = str(place.tmp / "commands")
    assert written == {
        "approval_policy": "on-request",
        "default_permissions": "coterie",
        "allow_login_shell": False,
        "check_for_update_on_startup": False,
        "cli_auth_credentials_store": "file",
        "project_doc_max_bytes": 0,
        "web_search": "disabled",
        "agents": {"enabled": False},
        "analytics": {"enabled": False},
        "features": {
            "apps": False,
            "goals": False,
            "hooks": False,
            "multi_agent": False,
            "plugins": False,
            "unbounded_connection_retries": False,
            "unified_exec_tty": False,
        },
        "skills": {"include_instructions": False, "bundled": {"enabled": False}},
        "shell_environment_policy": {
            "inherit": "all",
            "ignore_default_excludes": False,
            "set": {"TMPDIR": scratch},
        },
        "permissions": {
            "coterie": {
                "filesystem": {
                    ":root": "read",
                    ":workspace_roots": {".": "write", ".agents": "read", ".codex": "read"},
                    str(user.project / ".coterie"): "read",
                    str(place.folder): "read",
                    str(place.home): "read",
                    scratch: "write",
                    str(home.path / "kept"): "deny",
                }
            },
            "coterie-read": {
                "filesystem": {":root": "read", str(home.path / "kept"): "deny"},
            },
        },
    }


def test_it_follows_the_team(user: IsolatedUser) -> None:
    first = prepare(member("ask", model="gpt-5.5"), workspace(user, team_instruction="Be kind."))
    assert config(first)["model"] == "gpt-5.5"
    again = prepare(member("read"), workspace(user))
    assert "model" not in config(again)
    assert filesystem(again) == {":root": "read", str(again.path / "kept"): "deny"}
    assert (again.path / "kept").is_dir()
    assert not (again.path / "AGENTS.md").exists()


def test_a_reader_sees_no_more_than_it_has_to(user: IsolatedUser, tmp_path: Path) -> None:
    """If the program's location is known: it must be able to start inside its own sandbox."""
    packages = tmp_path / "node_modules" / "@openai"
    program, real = packages / "codex" / "bin" / "codex.js", "codex-x/vendor/x/bin/codex"
    for path in (program, packages / real):
        path.parent.mkdir(parents=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    place = workspace(user)
    (user.project / ".coterie" / "other").mkdir(parents=True)
    home = prepare(member("read"), place, str(program))
    assert home.confined
    assert filesystem(home) == {
        ":minimal": "read",
        ":workspace_roots": {".": "read"},
        str(user.project / ".coterie" / "other"): "deny",
        str(place.tmp): "deny",
        str(home.path / "kept"): "deny",
        str(packages / "codex-x" / "vendor" / "x"): "read",
        str(home.path / "tmp"): "read",
    }
    assert not prepare(member("ask"), place, str(program)).confined
    assert not prepare(member("read"), place, "not-there").confined


@pytest.mark.parametrize("mode", ["read", "ask", "accept-edits", "full"])
def test_terminals_are_for_those_who_need_not_be_asked(user: IsolatedUser, mode: Mode) -> None:
    home = prepare(member(mode), workspace(user))
    assert config(home)["features"]["unified_exec_tty"] == (mode == "full")
    assert config(home)["approval_policy"] == "on-request"  # in case somebody starts it by hand


def test_a_rehearsal_asks_nobody_else(user: IsolatedUser) -> None:
    user_home = signed_in(user)
    env = {"CODEX_API_KEY": "sk-user", "OPENAI_API_KEY": "sk-user"}
    place = workspace(user, member("ask", env=env), user_home=user_home)
    prepare(ANN, place)
    home = prepare(ANN, replace(place, rehearsal="http://127.0.0.1:7"))
    written = config(home)
    assert (written["model_provider"], written["model"]) == ("rehearsal", "gpt-5.5")
    assert written["model_providers"]["rehearsal"]["base_url"] == "http://127.0.0.1:7/v1"
    assert "sk-user" not in home.env.values()
    assert home.env[written["model_providers"]["rehearsal"]["env_key"]] == "rehearsal"
    assert not (home.path / "auth.json").is_symlink()


def test_a_key_in_place_of_a_login(user: IsolatedUser) -> None:
    home = prepare(ANN, workspace(user, member("ask", env={"CODEX_API_KEY": "sk-user"})))
    provider = config(home)["model_providers"][config(home)["model_provider"]]
    assert provider["env_key"] == "CODEX_API_KEY"
    assert "sk-user" not in (home.path / "config.toml").read_text()


def test_any_text_is_toml() -> None:
    odd = {'a "b".c\\\n\x7f': {"x": 'é\x00"\x7f\t', "y": [1, True]}, "z": {}}
    assert tomllib.loads(toml(odd)) == {'a "b".c\\\n\x7f': {"x": 'é\x00"\x7f\t', "y": [1, True]}}


def test_nothing_is_written_through_a_link(user: IsolatedUser, tmp_path: Path) -> None:
    place = workspace(user)
    (tmp_path / "elsewhere").write_text("kept")
    home = prepare(ANN, place)
    for name in ("config.toml", "AGENTS.md"):
        (home.path / name).unlink(missing_ok=True)
        (home.path / name).symlink_to(tmp_path / "elsewhere")
    prepare(ANN, replace(place, team_instruction="Be kind."))
    assert (tmp_path / "elsewhere").read_text() == "kept"
    assert not (home.path / "config.toml").is_symlink()


def test_a_folder_outside_of_coterie_is_kept_from_commands(user: IsolatedUser) -> None:
    one = member("ask", working_dir=str(user.project / "ann"), execution_dir=str(user.project))
    place = workspace(user, one)
    (user.project / ".coterie").mkdir()
    allowed = filesystem(prepare(one, place))
    for kept in (place.folder, place.home, user.project / ".coterie"):
        assert allowed[str(kept)] == "read"


# -- login -------------------------------------------------------------------------------------


def signed_in(user: IsolatedUser) -> Path:
    (user.home / ".codex").mkdir()
    (user.home / ".codex" / "auth.json").write_text("{}")
    return user.home


def test_the_users_login_is_linked(user: IsolatedUser) -> None:
    place = workspace(user, user_home=signed_in(user))
    home = prepare(ANN, place)
    login = user.home / ".codex" / "auth.json"
    assert (home.path / "auth.json").readlink() == login
    assert filesystem(home)[str(login)] == "deny"
    assert filesystem(home)[str(home.path / "auth.json")] == "deny"
    login.unlink()  # signed out
    prepare(ANN, place)
    assert not (home.path / "auth.json").is_symlink()


def test_who_signed_in_here_stays_so(user: IsolatedUser) -> None:
    place = workspace(user, user_home=user.home)
    home = prepare(ANN, place)
    (home.path / "auth.json").write_text("{}")
    assert filesystem(prepare(ANN, place))[str(home.path / "auth.json")] == "deny"
    assert (home.path / "auth.json").read_text() == "{}"


# -- the project's own instructions ------------------------------------------------------------


def documents(user: IsolatedUser, at: Path, *, trusted: bool) -> str:
    one = member("ask", execution_dir=str(at))
    given = workspace(user, one, team_instruction="Be kind.", trusted=trusted)
    return (prepare(one, given).path / "AGENTS.md").read_text()


def test_instructions_count_once_trusted(user: IsolatedUser, tmp_path: Path) -> None:
    git("init", "-q", str(user.project))
    inner = user.project / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "AGENTS.md").write_text("above the repository")
    (user.project / "AGENTS.md").write_text("outer")
    (inner / "NOTES.md").write_text("inner")
    (inner / "AGENTS.md").symlink_to("NOTES.md")
    (user.project / "a" / "AGENTS.md").write_text("hidden")
    (user.project / "a" / "AGENTS.override.md").write_text("middle")
    assert documents(user, inner, trusted=False) == "Be kind.\n"
    told = "Be kind.\n\n--- project-doc ---\n\nouter\n\nmiddle\n\ninner\n"
    assert documents(user, inner, trusted=True) == told


def test_instructions_that_lead_elsewhere_are_not_followed(user: IsolatedUser) -> None:
    (user.home / "secret").write_text("secret")
    (user.project / "AGENTS.md").symlink_to(user.home / "secret")
    assert documents(user, user.project, trusted=True) == "Be kind.\n"


# -- git ---------------------------------------------------------------------------------------


@pytest.fixture
def tree(user: IsolatedUser, tmp_path: Path) -> Path:
    git("init", "-q", str(user.project))
    git("-C", str(user.project), "commit", "--allow-empty", "-qm", "first")
    git("-C", str(user.project), "worktree", "add", "-q", str(tmp_path / "tree"))
    return tmp_path / "tree"


def test_a_worktree_can_be_committed_in(user: IsolatedUser, tree: Path) -> None:
    one = member("ask", execution_dir=str(tree))
    home = prepare(one, workspace(user, one))
    common = user.project / ".git"
    allowed = filesystem(home)
    assert {path for path in allowed if allowed[path] == "write" and ".git" in path} == {
        str(common / "worktrees" / "tree"),
        *(str(common / name) for name in ("logs/refs/heads", "objects", "refs/heads")),
    }
    assert str(user.project) in config(home)["projects"]


def test_a_plain_checkout_is_no_worktree(user: IsolatedUser, tree: Path) -> None:
    assert Worktree.around(user.project) is None
    assert Worktree.around(tree) is not None
    assert Worktree.around(user.home) is None


@pytest.mark.parametrize("pointer", ["gitdir: {}", "nonsense", "gitdir: /nowhere"])
def test_a_pointer_that_git_does_not_know_of(user: IsolatedUser, tree: Path, pointer: str) -> None:
    """A work folder that points at somebody else's worktree gets no access to it."""
    victim = user.project / ".git" / "worktrees" / "tree"
    forged = user.home / "forged"
    forged.mkdir()
    (forged / ".git").write_text(pointer.format(victim))
    assert Worktree.around(forged) is None


# -- leftovers ---------------------------------------------------------------------------------


def test_leftovers_are_removed(user: IsolatedUser) -> None:
    home = prepare(ANN, workspace(user))
    (user.project / ".codex").mkdir()  # the user's own
    left = Leftovers.before(home)
    for name in (".agents", ".aws", ".git"):
        (user.project / name).mkdir()
    (user.project / ".aws" / "config").write_text("the user's own")
    left.remove()
    assert sorted(path.name for path in user.project.iterdir()) == [".aws", ".codex", ".coterie"]


def test_leftovers_of_a_crash_are_removed_at_the_next_start(user: IsolatedUser) -> None:
    home = prepare(ANN, workspace(user))
    Leftovers.before(home)
    (user.project / ".git").mkdir()
    Leftovers.before(home)
    assert not (user.project / ".git").exists()
    (home.path / "absent.json").write_text("{half")
    (user.project / ".git").mkdir()
    Leftovers.before(home)
    assert (user.project / ".git").exists()
    (home.path / "absent.json").unlink()
    os.mkfifo(home.path / "absent.json")  # the member may write in its home
    Leftovers.before(home)
    assert json.loads((home.path / "absent.json").read_text()) == {
        str(user.project): [".agents", ".aws", ".codex"]
    }
