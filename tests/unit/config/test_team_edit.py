"""New teams and new members are written in a form that reads back."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.config.project import Project, make_project
from coterie.config.registry import Registry
from coterie.config.team_edit import add_member, entry_of, full_form, new_team, render
from coterie.config.team_file import ReadContext, load_team
from coterie.config.teams import choose_team, member_specs, reading_for
from coterie.errors import ConfigError, NotFound, UsageError
from tests.conftest import IsolatedUser

Agents = Registry
Write = Callable[[Path, str], Path]


@pytest.fixture
def project(user: IsolatedUser) -> Project:
    made = Project(user.project)
    make_project(made)
    return made


def test_a_new_team_of_agents(project: Project, agents: Agents) -> None:
    entries = [entry_of(member) for member in member_specs("ada=claude:opus,codex")]
    loaded = new_team(project, "pair", entries, agents, "tickets")
    path = project.teams / "pair" / "team.json"
    assert loaded.path == path
    assert json.loads(path.read_text()) == {
        "workflow": "tickets",
        "members": [
            {"id": "ada", "agent": "claude", "model": "opus"},
            {"id": "codex", "agent": "codex"},
        ],
    }
    assert choose_team(project, "pair", agents) == loaded
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_team_is_never_written_over(project: Project, write: Write, agents: Agents) -> None:
    write(project.teams / "pair" / "team.toml", "")
    with pytest.raises(UsageError, match='Team "pair" already exists'):
        new_team(project, "pair", [{"id": "a", "agent": "echo"}], agents)


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "a b", "x" * 65])
def test_a_name_that_is_none(project: Project, agents: Agents, name: str) -> None:
    with pytest.raises(UsageError, match="is not a valid team name"):
        new_team(project, name, [{"id": "a", "agent": "echo"}], agents)


def test_a_team_that_would_not_be_read_is_not_written(project: Project, agents: Agents) -> None:
    with pytest.raises(ConfigError, match="Did you mean codex"):
        new_team(project, "pair", [{"id": "a", "agent": "codx"}], agents)
    assert not (project.teams / "pair").exists()


def test_a_member_is_added_and_all_else_kept(
    user: IsolatedUser, project: Project, write: Write, agents: Agents
) -> None:
    text = (
        '{"$schema": "x", "contextMessageCount": 3,\n "members": [{"id": "ada", "agent": "echo"}]}'
    )
    path = write(user.project / "team.json", text)
    path.chmod(0o644)
    rex = {"id": "rex", "agent": "codex", "prompt": "Prüfe."}
    loaded = add_member(path, rex, reading_for(path, project, agents))
    assert [member.id for member in loaded.team.members] == ["ada", "rex"]
    assert path.read_text() == render(
        {
            "$schema": "x",
            "contextMessageCount": 3,
            "members": [
                {"id": "ada", "agent": "echo"},
                {"id": "rex", "agent": "codex", "prompt": "Prüfe."},
            ],
        }
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert sorted(one.name for one in user.project.iterdir()) == [".coterie", "team.json"]


def test_a_member_like_another(project: Project, write: Write, agents: Agents) -> None:
    entry = {
        "id": "rex",
        "name": "rex",
        "agentConfigId": "codex",
        "prompt": "You review.",
        "permissions": "read",
    }
    path = write(project.teams / "pair" / "team.json", json.dumps({"members": [entry]}))
    reading = reading_for(path, project, agents)
    loaded = add_member(path, {"id": "rex2", "agent": "claude"}, reading, like="Rex")
    rex2 = loaded.team.members[1]
    assert (rex2.id, rex2.name, rex2.agent, rex2.system_instruction, rex2.permissions.mode) == (
        "rex2",
        "rex2",
        "claude",
        "You review.",
        "read",
    )
    with pytest.raises(NotFound, match=r'No member "max" in .*team\.json\. Here: rex, rex2\.'):
        add_member(path, {"id": "max2"}, reading, like="max")


def test_a_member_that_is_there_already(project: Project, write: Write, agents: Agents) -> None:
    text = '{"members": [{"id": "ada", "agent": "echo"}]}'
    path = write(project.teams / "pair" / "team.json", text)
    with pytest.raises(ConfigError, match=r'members\[1\]\.id is "ADA", which is also the id of'):
        add_member(path, {"id": "ADA", "agent": "echo"}, reading_for(path, project, agents))
    assert path.read_text() == text


def test_comments_in_toml_are_kept(user: IsolatedUser, write: Write, agents: Agents) -> None:
    text = '# mine\n[[members]] # first\nid = "ada"\nagent = "echo"\n'
    path = write(user.project / "team.toml", text)
    entry = {
        "id": "rex",
        "agent": "claude",
        "prompt": 'Say "hi",\n\x7fthen stop.',
        "env": {"A": "1"},
        "additionalArgs": ["-v", "é"],
        "order": 7,
    }
    loaded = add_member(path, entry, ReadContext(agents))
    assert path.read_text().startswith(text)
    rex = loaded.team.members[1]
    assert (rex.system_instruction, dict(rex.env), rex.additional_args, rex.order) == (
        'Say "hi",\n\x7fthen stop.',
        {"A": "1"},
        ("-v", "é"),
        7,
    )
    assert load_team(path, ReadContext(agents)) == loaded


def test_toml_with_its_members_in_one_value(
    user: IsolatedUser, write: Write, agents: Agents
) -> None:
    text = 'members = [{id = "ada", agent = "echo"}]\n'
    path = write(user.project / "team.toml", text)
    with pytest.raises(UsageError, match="lists its members in one value"):
        add_member(path, {"id": "rex", "agent": "echo"}, ReadContext(agents))
    assert path.read_text() == text


def test_the_full_form_has_the_long_names(user: IsolatedUser, write: Write, agents: Agents) -> None:
    path = write(user.project / "team.json", '{"members": [{"id": "a", "agent": "echo"}]}')
    assert full_form(load_team(path, ReadContext(agents)).team) == {
        "name": "project",
        "workflow": "chat",
        "routing": "round_robin",
        "members": [
            {
                "id": "a",
                "name": "a",
                "displayName": "A",
                "role": "",
                "type": "ai",
                "order": 1,
                "agentConfigId": "echo",
                "systemInstruction": "",
                "work": "link",
                "additionalArgs": [],
                "env": {},
                "capabilities": [],
                "supportsMultipleInstances": False,
                "metadata": {},
                "permissions": {"mode": "ask", "allow": [], "deny": []},
            }
        ],
        "contextMessageCount": 20,
        "contextCharacters": 40_000,
        "roles": {},
    }
