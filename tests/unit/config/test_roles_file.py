"""Roles files, as the ticket design defines them, read as a team."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from coterie.config.project import Project
from coterie.config.registry import Registry
from coterie.config.roles_file import roles_path
from coterie.config.schemas import FOLDER
from coterie.config.team_file import ReadContext, load_team
from coterie.config.team_members import agents_of
from coterie.config.teams import choose_team, powers
from coterie.errors import ConfigError, NotTrusted
from coterie.model.agent import AgentDefinition
from coterie.model.team import Permissions
from tests.conftest import IsolatedUser, init_project

Agents = Registry
Write = Callable[[Path, str], Path]

MANAGER = {"role_id": "mira", "type": "manager", "cli_command": "codex"}
WORKER = {"role_id": "wren", "type": "worker", "cli_command": "claude"}


def roles(*entries: object) -> str:
    return json.dumps({"roles": [*entries]}, indent=1)


def accepted(text: str) -> bool:
    schema: dict[str, Any] = json.loads((FOLDER / "roles.schema.json").read_text())
    return Draft202012Validator(schema).is_valid(json.loads(text))


@pytest.fixture
def read(tmp_path: Path, write: Write, agents: Agents) -> Callable[[str], Any]:
    path = tmp_path / ".coterie" / "roles.json"
    return lambda text: load_team(write(path, text), ReadContext(agents))


def test_a_role_is_a_member(read: Callable[[str], Any]) -> None:
    text = roles(
        {**MANAGER, "display_name": "Mira M."},
        {
            **WORKER,
            "cli_command": "/opt/claude -p --model opus",
            "capabilities": ["python", "sql"],
            "supports_multiple_instances": True,
            "metadata": {
                "rate_limit": {"turns_per_minute": 4},
                "permissions": {"mode": "accept-edits", "allow": ["run(make test)"]},
                "team": "blue",
            },
        },
    )
    assert accepted(text)
    loaded = read(text)
    team = loaded.team
    assert (team.name, team.workflow, loaded.stated_workflow) == ("roles", "tickets", "tickets")
    mira, wren = team.members
    assert (mira.id, mira.display_name, mira.role, mira.agent) == (
        "mira",
        "Mira M.",
        "manager",
        "codex",
    )
    assert (wren.display_name, wren.role, wren.agent) == ("Wren", "worker", "claude")
    assert wren.additional_args == ("--model", "opus")  # the adapter decides how to call it
    assert (wren.capabilities, wren.supports_multiple_instances) == (("python", "sql"), True)
    assert wren.permissions == Permissions(mode="accept-edits", allow=("run(make test)",))
    assert wren.metadata == {"rate_limit": {"turns_per_minute": 4}, "team": "blue"}
    assert wren.turns_per_minute == 4
    assert agents_of(team) == {}


def test_a_command_that_no_registry_knows_is_a_generic_agent(read: Callable[[str], Any]) -> None:
    text = roles(MANAGER, {**WORKER, "cli_command": "/opt/my tools/run.sh --fast 'a b'"})
    wrong = roles(MANAGER, {**WORKER, "cli_command": "'/opt/my tools/run.sh' --fast 'a b'"})
    assert read(text).team.members[1].agent == "my"
    team = read(wrong).team
    assert team.members[1].agent == "run.sh"
    assert team.members[1].additional_args == ()
    again = type(team).model_validate_json(team.model_dump_json())  # as stored in a task
    assert agents_of(again) == {
        "run.sh": AgentDefinition(
            name="run.sh",
            display_name="run.sh",
            command="/opt/my tools/run.sh",
            base_args=("--fast", "a b"),
            adapter="generic",
        )
    }


def test_a_command_may_be_a_list_of_words(read: Callable[[str], Any]) -> None:
    text = roles(
        {**MANAGER, "cli_command": ["codex", "cli", "--model", "o3", "--json"]},
        {**WORKER, "cli_command": ["/opt/my tools/run.sh", "a b"]},
    )
    assert accepted(text)
    loaded = read(text)
    mira, wren = loaded.team.members
    assert (mira.agent, mira.additional_args) == ("codex", ("--model", "o3"))
    assert [notice.message for notice in loaded.notices] == [
        'mira: "cli --json" in its cli_command is ignored: Coterie decides how the CLI is started.'
    ]
    own = agents_of(loaded.team)["run.sh"]
    assert (wren.agent, own.command, own.base_args) == ("run.sh", "/opt/my tools/run.sh", ("a b",))


WRONG: dict[str, tuple[str, str]] = {
    "a number for a command": (
        roles(MANAGER, {**WORKER, "cli_command": 7}),
        "roles[1].cli_command is 7; expected text, or a list of words",
    ),
    "a number among words": (
        roles(MANAGER, {**WORKER, "cli_command": ["claude", 7]}),
        "roles[1].cli_command is a list; expected text, or a list of words",
    ),
    "no words": (
        roles(MANAGER, {**WORKER, "cli_command": []}),
        "roles[1].cli_command is a list; expected an agent or a command",
    ),
    "kept from the network": (
        roles(MANAGER, {**WORKER, "metadata": {"network": "isolated"}}),
        'roles[1].metadata.network is "isolated", but Coterie cannot block an agent',
    ),
    "a login of its own": (
        roles(MANAGER, {**WORKER, "metadata": {"auth_profile": "default_worker"}}),
        'roles[1].metadata.auth_profile is "default_worker", but Coterie has no login profiles',
    ),
    "a limit misspelt": (
        roles(MANAGER, {**WORKER, "metadata": {"rate_limits": {"turns_per_minute": 1}}}),
        "roles[1].metadata.rate_limits is not a known key. Did you mean rate_limit?",
    ),
    "no manager": (roles(WORKER), "roles has no manager; one of them needs type manager"),
    "no worker": (roles(MANAGER), "roles has no worker to carry out tickets"),
    "two managers": (
        roles(MANAGER, {**MANAGER, "role_id": "max"}, WORKER),
        'roles[1].type is "manager", but roles[0] is already the manager',
    ),
    "no such type": (
        roles(MANAGER, {**WORKER, "type": "boss"}),
        'roles[1].type is "boss"; expected manager or worker',
    ),
    "a misspelt key": (
        roles(MANAGER, {**WORKER, "capabilites": []}),
        "roles[1].capabilites is not a known key. Did you mean capabilities?",
    ),
    "no id": (roles(MANAGER, {"type": "worker", "cli_command": "x"}), 'roles[1] has no "role_id"'),
    "an id twice": (
        roles(MANAGER, WORKER, WORKER),
        'roles[2].role_id is "wren", which is also the id of roles[1]',
    ),
    "no command": (
        roles(MANAGER, {**WORKER, "cli_command": "  "}),
        'roles[1].cli_command is "  "; expected an agent or a command',
    ),
    "half a command": (
        roles(MANAGER, {**WORKER, "cli_command": "a 'b"}),
        'roles[1].cli_command is "a \'b", which is not a valid command: no closing quotation',
    ),
    "yes to all": (
        roles(MANAGER, {**WORKER, "cli_command": "claude --dangerously-skip-permissions"}),
        "roles[1].cli_command has --dangerously-skip-permissions, which approves everything",
    ),
    "no limit": (
        roles(MANAGER, {**WORKER, "metadata": {"rate_limit": {"turns_per_minute": 0}}}),
        "roles[1].metadata.rate_limit.turns_per_minute is 0; expected at least 1",
    ),
    "no mode": (
        roles(MANAGER, {**WORKER, "metadata": {"permissions": "all"}}),
        'roles[1].metadata.permissions is "all"; expected read, ask, accept-edits or full',
    ),
    "null": (roles(MANAGER, {**WORKER, "metadata": None}), "roles[1].metadata is null"),
    "no list": ('{"roles": {}}', "roles is an object; expected a list"),
    "empty": ('{"roles": []}', "roles is empty; expected at least 1 entry"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_mistake_is_named_by_file_and_place(read: Callable[[str], Any], what: str) -> None:
    text, problem = WRONG[what]
    with pytest.raises(ConfigError) as raised:
        read(text)
    assert problem in str(raised.value)
    assert str(raised.value).count("roles.json:") == 1  # one mistake, one message


def test_the_projects_own_file_is_what_a_run_begins_with(
    user: IsolatedUser, write: Write, agents: Agents
) -> None:
    project = Project(user.project)
    assert roles_path(project) is None
    path = write(init_project(user.project) / "roles.json", roles(MANAGER, WORKER))
    assert roles_path(project) == path
    loaded = choose_team(project, str(roles_path(project)), agents)
    assert [member.id for member in loaded.team.members] == ["mira", "wren"]


def test_commands_from_elsewhere_are_looked_at_first(
    user: IsolatedUser, write: Write, agents: Agents
) -> None:
    """A repository could ship a roles file that runs arbitrary commands."""
    path = write(user.project / "roles.json", roles(MANAGER, {**WORKER, "cli_command": "./evil"}))
    project = Project(user.project)
    with pytest.raises(NotTrusted, match="wren: cli_command"):
        choose_team(project, str(path), agents)
    (power,) = powers(load_team(path, ReadContext(agents)), project)
    assert power.what == 'runs "./evil"'


def test_a_team_file_has_the_same_for_its_members(
    user: IsolatedUser, write: Write, agents: Agents
) -> None:
    member = {
        "id": "a",
        "agent": "claude",
        "capabilities": ["x"],
        "supportsMultipleInstances": True,
    }
    text = json.dumps(
        {"members": [{**member, "metadata": {"rate_limit": {"turns_per_minute": 2}}}]}
    )
    (made,) = load_team(write(user.project / "team.json", text), ReadContext(agents)).team.members
    assert (made.capabilities, made.supports_multiple_instances) == (("x",), True)
    assert made.turns_per_minute == 2
    text = json.dumps({"members": [{**member, "metadata": {"network": "isolated"}}]})
    with pytest.raises(ConfigError, match=r"members\[0\]\.metadata\.network is \"isolated\", but"):
        load_team(write(user.project / "team.json", text), ReadContext(agents))
    text = json.dumps({"members": [{**member, "metadata": {"cli_command": "x"}}]})
    with pytest.raises(ConfigError, match=r"metadata\.cli_command is only for roles files"):
        load_team(write(user.project / "team.json", text), ReadContext(agents))
