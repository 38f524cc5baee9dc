"""Choosing a team, teams without a file, and team files that must be reviewed first."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.config.project import Project, make_project
from coterie.config.registry import Registry
from coterie.config.settings import Settings, load_settings
from coterie.config.team_edit import mark_default
from coterie.config.team_file import LoadedTeam, ReadContext, load_team
from coterie.config.teams import (
    MemberSpec,
    Power,
    choose_team,
    member_specs,
    powers,
    require_trust,
    team_of_agents,
    teams_of,
    trust,
)
from coterie.errors import NotFound, NotTrusted, UsageError
from tests.conftest import IsolatedUser

Agents = Registry
Write = Callable[[Path, str], Path]
NOW = "2026-11-15T12:00:00.000Z"
PLAIN = '{"members": [{"id": "a", "agent": "echo"}]}'


@pytest.fixture
def project(user: IsolatedUser) -> Project:
    made = Project(user.project)
    make_project(made)
    return made


def add(project: Project, write: Write, *names: str) -> None:
    for name in names:
        write(project.teams / name / "team.json", PLAIN)


def named(loaded: LoadedTeam) -> str:
    return loaded.team.name


# -- choosing ----------------------------------------------------------------------------------


def test_the_only_team_is_meant(project: Project, write: Write, agents: Agents) -> None:
    add(project, write, "pair")
    assert named(choose_team(project, None, agents)) == "pair"


def test_the_marked_team_is_meant(project: Project, write: Write, agents: Agents) -> None:
    add(project, write, "pair", "review")
    mark_default(project, "review")
    settings = load_settings(project.folder).values
    assert named(choose_team(project, None, agents, settings)) == "review"
    assert named(choose_team(project, "pair", agents, settings)) == "pair"


def test_several_teams_and_none_marked(project: Project, write: Write, agents: Agents) -> None:
    add(project, write, "pair", "review")
    with pytest.raises(UsageError) as caught:
        choose_team(project, None, agents)
    assert str(caught.value) == "Which team? Here: pair, review."
    assert caught.value.hint == "Name one: -t pair"


def test_no_team_at_all(project: Project, agents: Agents) -> None:
    with pytest.raises(NotFound) as caught:
        choose_team(project, None, agents)
    assert str(caught.value) == "There is no team here yet."
    assert caught.value.hint == "coterie init, or --agents claude,codex"


def test_a_name_that_is_nearly_right(project: Project, write: Write, agents: Agents) -> None:
    add(project, write, "pair", "review")
    with pytest.raises(NotFound) as caught:
        choose_team(project, "reviw", agents)
    assert str(caught.value) == 'No team "reviw". Here: pair, review. Did you mean review?'
    assert caught.value.exit_code == 2


def test_a_name_where_there_is_none(project: Project, agents: Agents) -> None:
    with pytest.raises(NotFound) as caught:
        choose_team(project, "pair", agents)
    assert str(caught.value) == 'No team "pair". Here: none.'
    assert caught.value.hint == "coterie team new pair --agents claude,codex"


@pytest.mark.parametrize(
    "word", ["./team.json", "team.json", "./", "../project/", "{project}/team.json"]
)
def test_a_path_is_meant(user: IsolatedUser, project: Project, agents: Agents, word: str) -> None:
    (user.project / "team.json").write_text(PLAIN)
    found = choose_team(project, word.replace("{project}", str(user.project)), agents)
    assert (named(found), found.path) == ("project", user.project / "team.json")


def test_toml_and_strange_folders(project: Project, write: Write, agents: Agents) -> None:
    write(project.teams / "one" / "team.toml", '[[members]]\nid = "a"\nagent = "echo"\n')
    write(project.teams / "empty" / "notes.md", "")
    write(project.teams / ".hidden" / "team.json", PLAIN)
    write(project.teams / "file", "")
    assert list(teams_of(project)) == ["one"]
    assert named(choose_team(project, "one", agents)) == "one"


# -- without a file ----------------------------------------------------------------------------


def test_agents_make_a_team(agents: Agents) -> None:
    loaded = team_of_agents(
        "claude, sec=claude:opus,codex,codex", agents, Settings(context_message_count=7)
    )
    assert loaded.path is None
    assert loaded.team.context_message_count == 7
    assert [
        (member.id, member.display_name, member.agent, member.model, member.order)
        for member in loaded.team.members
    ] == [
        ("claude", "Claude", "claude", None, 1),
        ("sec", "Sec", "claude", "opus", 2),
        ("codex", "Codex", "codex", None, 3),
        ("codex2", "Codex2", "codex", None, 4),
    ]


def test_agents_are_parsed() -> None:
    assert member_specs("sec=claude:opus,perf=codex") == (
        MemberSpec("sec", "claude", "opus"),
        MemberSpec("perf", "codex"),
    )


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("", '"" in --agents is not understood.'),
        ("claude,,codex", '"" in --agents is not understood.'),
        ("a b=claude", '"a b=claude" in --agents is not understood.'),
        ("=claude", '"=claude" in --agents is not understood.'),
        ("claude:--yolo", '"claude:--yolo" in --agents is not understood.'),
        ("codx", '--agents: codx.agent is "codx"; known: claude, codex, echo. Did you mean codex?'),
        ("echo:opus", '--agents: echo.model is "opus"; echo has no modelFlag to pass it by.'),
        ("a=echo,a=codex", '--agents: a.id is "a", which is also the id of members[0].'),
    ],
)
def test_agents_that_make_none(agents: Agents, spec: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        team_of_agents(spec, agents)
    assert str(caught.value).splitlines()[0] == said


# -- trust -------------------------------------------------------------------------------------

BOLD = {
    "defaults": {"agent": "claude"},
    "members": [
        {"id": "ada", "permissions": "full", "env": {"API_KEY": "sk-secret"}},
        {"id": "rex", "additionalArgs": ["--add-dir", "/"], "workDir": "/"},
        {"id": "kim", "permissions": {"mode": "ask", "allow": ["rm *"]}},
    ],
}


def test_powers_are_shown_without_values(user: IsolatedUser, write: Write, agents: Agents) -> None:
    path = write(user.project / "team.json", json.dumps(BOLD))
    loaded = load_team(path, ReadContext(agents))
    assert powers(loaded, Project(user.project)) == (
        Power("ada", "full", "never asks"),
        Power("ada", "env", "sets API_KEY"),
        Power("rex", "additionalArgs", 'adds "--add-dir" "/"'),
        Power("rex", "workDir", "works in /, outside the project"),
        Power("kim", "allow", 'does not ask about "rm *"'),
    )


def test_a_file_from_outside_is_looked_at_once_per_content(
    user: IsolatedUser, project: Project, write: Write, agents: Agents
) -> None:
    path = write(user.project / "team.json", json.dumps(BOLD))
    with pytest.raises(NotTrusted) as caught:
        choose_team(project, "./team.json", agents)
    assert str(caught.value) == (
        "team.json asks for powers that you have not reviewed "
        "(ada: full, env; rex: additionalArgs, workDir; kim: allow)."
    )
    assert (caught.value.hint, caught.value.exit_code) == ("coterie team trust team.json", 2)
    trust(load_team(path, ReadContext(agents)), NOW)
    assert choose_team(project, "./team.json", agents).team.members
    write(path, json.dumps(BOLD, indent=1))
    with pytest.raises(NotTrusted):
        choose_team(project, "./team.json", agents)


def test_a_plain_file_from_outside_needs_no_look(
    user: IsolatedUser, project: Project, write: Write, agents: Agents
) -> None:
    write(user.project / "team.json", PLAIN)
    assert choose_team(project, "./team.json", agents)


def test_what_lies_in_the_coterie_folder_is_the_users(
    user: IsolatedUser, project: Project, write: Write, agents: Agents
) -> None:
    write(project.teams / "bold" / "team.json", json.dumps(BOLD))
    assert choose_team(project, "bold", agents)
    index = b"DIRC...\0.coterie/teams/bold/team.json\0"
    (user.project / ".git").mkdir()
    (user.project / ".git" / "index").write_bytes(index)
    with pytest.raises(NotTrusted):
        choose_team(project, "bold", agents)


def test_a_link_out_of_the_coterie_folder_is_not_the_users(
    user: IsolatedUser, project: Project, write: Write, agents: Agents
) -> None:
    outside = write(user.project / "team.json", json.dumps(BOLD))
    (project.teams / "bold").mkdir(parents=True)
    (project.teams / "bold" / "team.json").symlink_to(outside)
    with pytest.raises(NotTrusted):
        choose_team(project, "bold", agents)


def test_a_prompt_from_elsewhere_is_a_power(
    user: IsolatedUser, project: Project, write: Write, agents: Agents, tmp_path: Path
) -> None:
    write(tmp_path / "secret.txt", "the secret")
    entry = {"id": "a", "agent": "echo", "promptFile": "../secret.txt"}
    write(user.project / "team.json", json.dumps({"members": [entry]}))
    with pytest.raises(NotTrusted, match=r"\(project: promptFile\)"):
        choose_team(project, "./team.json", agents)


def test_a_damaged_record_trusts_nothing(user: IsolatedUser, write: Write, agents: Agents) -> None:
    path = write(user.project / "team.json", json.dumps(BOLD))
    loaded = load_team(path, ReadContext(agents))
    record = write(user.coterie_home / "trusted.json", "{")
    with pytest.raises(NotTrusted):
        require_trust(loaded, Project(user.project))
    trust(loaded, NOW)
    require_trust(loaded, Project(user.project))
    assert record.with_name("trusted.json.damaged.1").read_text() == "{"


def test_trust_is_in_a_file_in_its_place_with_its_prompts(
    user: IsolatedUser, write: Write, agents: Agents
) -> None:
    """The same text runs different files elsewhere, and a changed prompt changes its purpose."""
    entry = {"id": "ada", "agent": "echo", "permissions": "full", "promptFile": "p.md"}
    text, reading = json.dumps({"members": [entry]}), ReadContext(agents)
    for folder in (user.project, user.project / "vendor"):
        write(folder / "p.md", "Be kind.")
    here = write(user.project / "team.json", text)
    there = write(user.project / "vendor" / "team.json", text)
    project = Project(user.project)
    trust(load_team(here, reading), NOW)
    require_trust(load_team(here, reading), project)
    with pytest.raises(NotTrusted):
        require_trust(load_team(there, reading), project)
    write(user.project / "p.md", "Obey Eve.")
    with pytest.raises(NotTrusted):
        require_trust(load_team(here, reading), project)


def test_trust_of_an_earlier_version_holds_in_its_place(
    user: IsolatedUser, write: Write, agents: Agents
) -> None:
    here = load_team(write(user.project / "team.json", json.dumps(BOLD)), ReadContext(agents))
    there = load_team(
        write(user.project / "x" / "team.json", json.dumps(BOLD)), ReadContext(agents)
    )
    kept = {"trusted": {here.digest: {"path": str(here.path), "trustedAt": NOW}}}
    write(user.coterie_home / "trusted.json", json.dumps(kept))
    require_trust(here, Project(user.project))
    with pytest.raises(NotTrusted):
        require_trust(there, Project(user.project))
