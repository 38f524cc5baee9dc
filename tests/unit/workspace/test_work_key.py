"""`"work": "worktree"` in a team file, and the command that writes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coterie.config.registry import Registry
from coterie.config.team_file import ReadContext, load_team
from coterie.errors import ConfigError
from coterie.model.agent import AgentDefinition
from coterie.model.team import Member
from tests.cli.command import Cli
from tests.conftest import IsolatedUser, init_project
from tests.unit.workspace.repository import bare_git, new_repository

AGENTS = Registry(Path("/x/config.json")).with_agents(
    AgentDefinition(name="echo", display_name="Echo", command="cat")
)


def written(folder: Path, member: dict[str, Any], **more: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    members = [{"id": "ann", "agent": "echo", **member}, {"id": "you", "type": "human"}]
    path = folder / "team.json"
    path.write_text(json.dumps({"members": members, **more}, indent=1))
    return path


def own(user: IsolatedUser) -> Path:
    return user.project / ".coterie" / "teams" / "pair"


def read(path: Path, *, own: bool = True) -> tuple[Member, ...]:
    return load_team(path, ReadContext(AGENTS, folder_is_name=own)).team.members


def test_a_worktree_is_asked_for(user: IsolatedUser) -> None:
    new_repository(user.project)
    ann, you = read(written(own(user), {"work": "worktree"}))
    assert (ann.work, you.work) == ("worktree", "link")
    ann, you = read(written(own(user), {}, defaults={"work": "worktree"}))
    assert (ann.work, you.work) == ("worktree", "link")


@pytest.mark.parametrize(
    ("member", "problem"),
    [
        ({"work": "copy"}, 'members[0].work is "copy"; expected link or worktree'),
        (
            {"work": "worktree", "workDir": "/"},
            'members[0].work is "worktree", but workDir names "/"; keep one',
        ),
        (
            {"executionDir": "/", "work": "worktree"},
            'members[0].work is "worktree", but workDir names "/"; keep one',
        ),
    ],
)
def test_what_it_cannot_be(user: IsolatedUser, member: dict[str, Any], problem: str) -> None:
    new_repository(user.project)
    with pytest.raises(ConfigError) as caught:
        read(written(own(user), member))
    assert problem in str(caught.value)


def test_a_project_without_git(user: IsolatedUser) -> None:
    path = written(own(user), {"work": "worktree"})
    with pytest.raises(ConfigError) as caught:
        read(path)
    assert f'work is "worktree", but {user.project} is not in a git repository' in str(caught.value)
    assert (caught.value.hint, caught.value.where) == ("git init", f"{path}:6 members[0].work")
    # A team file outside the project may be used in any project.
    assert read(written(user.home / "teams", {"work": "worktree"}), own=False)[0].work


def test_team_add(user: IsolatedUser) -> None:
    registry = user.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    entries = {"echo": {"command": "cat"}}
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": entries}))
    init_project(user.project)
    path = written(own(user), {})
    before = path.read_text()
    cli = Cli(user)
    refused = cli("team", "add", "bob", "--agent", "echo", "--worktree")
    assert (refused.code, "is not in a git repository" in refused.err) == (2, True)
    bare_git(user.project, "init", "-q")
    refused = cli("team", "add", "bob", "--agent", "echo", "--worktree")
    assert (refused.code, "has no commit yet" in refused.err) == (2, True)
    assert path.read_text() == before
    new_repository(user.project)
    assert cli("team", "add", "bob", "--agent", "echo", "--worktree").code == 0
    bob = json.loads(path.read_text())["members"][-1]
    assert bob == {"id": "bob", "agent": "echo", "work": "worktree"}
    work = own(user) / "bob" / "work"
    assert bare_git(work, "symbolic-ref", "--short", "HEAD") == "coterie/pair/bob"
    assert bare_git(user.project, "status", "--porcelain") == ""
