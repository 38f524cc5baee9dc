"""The key `permissions` of teams and members: invalid rules, and whose mode applies."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from coterie.agents.table import KNOWN_AGENTS
from coterie.config.project import Project, make_project
from coterie.config.registry import Registry
from coterie.config.registry_edit import define_agent
from coterie.config.team_edit import full_form
from coterie.config.team_file import LoadedTeam, ReadContext, load_team
from coterie.config.teams import Power, learn_rule, learned_rules, powers, require_trust
from coterie.errors import ConfigError, NotTrusted
from coterie.model.team import Permissions
from tests.conftest import IsolatedUser

CLAUDE = define_agent(KNOWN_AGENTS, "claude", {"command": "claude"})
READING = ReadContext(Registry(Path("/x/config.json"), known=KNOWN_AGENTS).with_agents(CLAUDE))


def load(folder: Path, **team: Any) -> LoadedTeam:
    path = folder / "team.json"
    path.write_text(json.dumps({"members": [{"id": "ada", "agent": "claude"}], **team}))
    return load_team(path, READING)


@pytest.mark.parametrize(
    ("team", "said"),
    [
        (
            {"members": [{"id": "a", "agent": "claude", "permissions": {"allow": ["Bash(ls)"]}}]},
            snapshot(
                'members[0].permissions.allow[0] cannot be used: "Bash(ls)"; expected '
                "run(COMMAND), write(PATH), read(PATH), fetch(HOST), tool(NAME) or a command."
            ),
        ),
        (
            {"defaults": {"permissions": {"deny": ["rm *", "rm x; rm y"]}}},
            snapshot(
                'defaults.permissions.deny[1] cannot be used: "rm x; rm y"; expected one '
                "plain command, with * as a wildcard, such as npm install *."
            ),
        ),
        (
            {"permissions": {"deny": ["wirte(x)"]}},
            snapshot(
                'permissions.deny[0] cannot be used: "wirte(x)"; expected run(COMMAND), '
                "write(PATH), read(PATH), fetch(HOST), tool(NAME) or a command "
                "(did you mean write?)."
            ),
        ),
        (
            {"permissions": {"mode": "fully"}},
            snapshot(
                'permissions.mode is "fully"; expected read, ask, accept-edits or full. '
                "Did you mean full?"
            ),
        ),
        (
            {"permissions": {"alow": ["x"]}},
            snapshot("permissions.alow is not a known key. Did you mean allow?"),
        ),
    ],
)
def test_what_is_no_rule_is_refused_where_it_stands(
    team: dict[str, Any], said: str, user: IsolatedUser
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(user.project, **team)
    assert str(caught.value).removeprefix("team.json:1 ") == said
    assert (caught.value.where or "").startswith(f"{user.project}/team.json:1 ")


def test_the_mode_is_the_member_s_else_the_defaults_else_the_team_s(tmp_path: Path) -> None:
    members = [
        {"id": "own", "agent": "claude", "permissions": "accept-edits"},
        {"id": "rules", "agent": "claude", "permissions": {"allow": ["npm test"]}},
        {"id": "none", "agent": "claude"},
        {"id": "max", "type": "human"},
    ]
    shared = {"mode": "read", "allow": ["make"], "deny": ["rm"]}
    loaded = load(tmp_path, permissions=shared, members=members).team
    assert loaded.permissions == Permissions(mode="read", allow=("make",), deny=("rm",))
    assert [member.permissions for member in loaded.members] == [
        Permissions(mode="accept-edits"),
        Permissions(mode="read", allow=("npm test",)),
        Permissions(mode="read"),
        Permissions(),
    ]
    defaults = {"permissions": {"mode": "full", "deny": ["npm publish"]}}
    loaded = load(tmp_path, permissions="read", members=members, defaults=defaults).team
    assert [member.permissions for member in loaded.members[1:3]] == [
        Permissions(mode="full", allow=("npm test",)),
        Permissions(mode="full", deny=("npm publish",)),
    ]


def test_left_out_is_none_and_a_word_is_a_mode(tmp_path: Path) -> None:
    assert load(tmp_path).team.permissions is None
    assert load(tmp_path, permissions="full").team.permissions == Permissions(mode="full")


def test_the_full_form_reads_back(tmp_path: Path) -> None:
    team = load(tmp_path, name="pair", permissions={"mode": "read", "deny": ["rm"]}).team
    path = tmp_path / "team.json"
    path.write_text(json.dumps(full_form(team)))
    assert load_team(path, READING).team == team


def test_powers_for_everybody_need_a_look_too(user: IsolatedUser) -> None:
    project = Project(user.project)
    make_project(project)
    full = load(user.project, permissions="full")
    assert powers(full) == (Power("ada", "full", "never asks"),)
    allowing = load(user.project, name="pair", permissions={"allow": ["npm *"]})
    assert powers(allowing) == (Power("pair", "allow", 'does not ask about "npm *"'),)
    for loaded in (full, allowing):
        with pytest.raises(NotTrusted):
            require_trust(loaded, project)
    require_trust(load(user.project, permissions={"mode": "read", "deny": ["rm"]}), project)


def test_rules_that_are_learned_at_the_same_time_are_all_kept(user: IsolatedUser) -> None:
    project = Project(user.project)
    make_project(project)
    rules = [f"run(make {number})" for number in range(20)]
    with ThreadPoolExecutor(8) as pool:  # each opens the lock file itself
        list(pool.map(lambda rule: learn_rule(project, "pair", "ada", rule), rules))
    assert sorted(learned_rules(project, "pair")["ada"]) == sorted(rules)
