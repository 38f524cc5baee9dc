"""The registry and the team file: what is rejected, at which place, and what their schemas say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.cli.command import InProcessCli

EXAMPLE = Path(__file__).parents[2] / "examples" / "multi-role-demo-config.json"
REGISTRY = "~/.coterie/agents/config.json"
ROLE_FLAG, SKIP = "--append-system-prompt", "--dangerously-skip-permissions"
SUB = "../../../sub"
CUSTOM = {"completionDetection": "custom"}
HELD = "baseArgs holds a role's prompt ({}); it belongs to the member."
TELLS: dict[str, Any] = {"command": "/bin/sh", "baseArgs": ["-c", 'echo "$HOME|$(pwd -P)"']}


def schema(cli: InProcessCli, name: str) -> Draft202012Validator:
    """The JSON schema that an editor is given."""
    ran = cli("config", "schema", name)
    assert ran.code == 0, ran.err
    found: dict[str, Any] = json.loads(ran.out)
    Draft202012Validator.check_schema(found)
    return Draft202012Validator(found)


@pytest.mark.parametrize(
    ("entry", "said", "is_in_schema"),
    [
        (
            {"capabilities": CUSTOM},
            'capabilities is "custom"; expected either a completionPattern or a detector.',
            True,
        ),
        (
            {"capabilities": {**CUSTOM, "completionPattern": "x", "detector": "y"}},
            'capabilities is "custom"; expected either a completionPattern or a detector.',
            True,
        ),
        (
            {"capabilities": {**CUSTOM, "completionPattern": "("}},
            "capabilities.completionPattern is not a valid regular expression: "
            "missing ), unterminated subpattern at position 0.",
            False,
        ),
        ({"baseArgs": [ROLE_FLAG, "Be kind."]}, HELD.format(ROLE_FLAG), False),
        ({"baseArgs": ["-c", 'developer_instructions="x"']}, HELD.format("-c"), False),
        (
            {"baseArgs": ["--role=x"], "capabilities": {"systemPromptFlag": "--role"}},
            HELD.format("--role"),
            False,
        ),
    ],
    ids=["neither", "both", "no regex", "claude's flag", "codex's setting", "its own flag"],
)
def test_a_registry_entry_that_cannot_be(
    in_process: InProcessCli, entry: dict[str, Any], said: str, is_in_schema: bool
) -> None:
    path = in_process.registry(it={"command": "cat", **entry})
    in_process.members({"id": "ada", "agent": "it"})
    for words in (("agents", "list"), ("team", "validate"), ("chat", "hello")):
        ran = in_process(*words, "--json")
        (error,) = ran.of("error")
        assert (ran.code, error["message"]) == (
            2,
            f"{REGISTRY}:1 agents.it.{said}",
        )
        is_held = said.startswith("baseArgs")
        assert ("coterie agents migrate" in (error["hint"] or "")) == is_held
    is_refused = not schema(in_process, "registry").is_valid(json.loads(path.read_text()))
    assert is_refused == is_in_schema


def test_an_old_registry_is_read_with_a_warning(in_process: InProcessCli) -> None:
    path = in_process.registry()
    agents = {"it": {"command": "/bin/sh", "args": ["-c", "echo read"]}}
    path.write_text(json.dumps({"schemaVersion": "1.1", "agents": agents}))
    in_process.members({"id": "ada", "agent": "it"})
    ran = in_process("chat", "hello")
    assert ran.code == 0
    assert "read\n" in ran.out
    notice = "The registry has the old format 1.1, which is still read.  coterie agents migrate"
    assert notice in ran.err
    assert json.loads(path.read_text())["schemaVersion"] == "1.1", "it is left as it is"


@pytest.mark.parametrize(
    ("agent", "member", "flag"),
    [
        ("bold", {}, "--full-auto"),
        ("codex", {"additionalArgs": ["--yolo"]}, "--yolo"),
        ("it", {"additionalArgs": [SKIP]}, SKIP),
    ],
)
def test_a_yes_to_everything_is_for_full_members_alone(
    in_process: InProcessCli, agent: str, member: dict[str, Any], flag: str
) -> None:
    bold = {**TELLS, "baseArgs": [*TELLS["baseArgs"], "--full-auto"]}
    in_process.registry(bold=bold, it=TELLS, codex={"command": "/nowhere/codex"})
    ada = {"id": "ada", "agent": agent, **member}
    for mode in ("read", "ask", "accept-edits"):
        in_process.members({**ada, "permissions": mode})
        for words in (("team", "validate"), ("chat", "hello")):
            ran = in_process(*words)
            assert (ran.code, flag in ran.err) == (2, True)
            assert 'needs permissions "full"' in ran.err
    in_process.members({**ada, "permissions": "full"})
    assert in_process("team", "validate").code == 0
    roles = in_process.user.project / "roles.json"
    role = {"role_id": "ada", "type": "manager", "cli_command": ["codex", flag]}
    worker = {"role_id": "wren", "type": "worker", "cli_command": "codex", "capabilities": ["x"]}
    roles.write_text(json.dumps({"roles": [role, worker]}))
    assert flag in in_process("team", "validate", str(roles)).err


# -- members and their folders ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("member", "home", "cwd"),
    [
        ({"agentConfigId": "it"}, "pair/ada/home", ""),
        ({"agentName": "it", "agentConfigId": "it"}, "pair/ada/home", ""),
        ({"agent": "it", "homeDir": "h"}, "pair/h", ""),
        ({"agent": "it", "workingDir": "w"}, "pair/w/home", ""),
        ({"agent": "it", "workDir": SUB}, "pair/ada/home", "sub"),
        ({"agent": "it", "executionDir": SUB}, "pair/ada/home", "sub"),
        ({"agent": "it", "workDir": SUB, "executionDir": SUB}, "pair/ada/home", "sub"),
    ],
)
def test_where_a_member_is_and_the_names_of_it(
    in_process: InProcessCli, member: dict[str, Any], home: str, cwd: str
) -> None:
    in_process.registry(it=TELLS)
    (in_process.user.project / "sub").mkdir()
    path = in_process.members({"id": "ada", **member})
    (said,) = in_process("chat", "--json", "hello").of("message")
    place = f"{path.parents[1] / home}|{in_process.user.project / cwd}"
    assert said["text"] == place
    assert schema(in_process, "team").is_valid(json.loads(path.read_text()))


@pytest.mark.parametrize(
    ("member", "said"),
    [
        ({"agentName": "it", "agentConfigId": "at"}, 'agentConfigId conflicts with "agentName"'),
        (
            {"agent": "it", "workDir": ".", "executionDir": ".."},
            'executionDir conflicts with "workDir"',
        ),
    ],
)
def test_two_names_of_one_thing_that_differ(
    in_process: InProcessCli, member: dict[str, Any], said: str
) -> None:
    in_process.registry(it=TELLS, at=TELLS)
    in_process.members({"id": "ada", **member})
    for words in (("team", "validate"), ("chat", "hello")):
        ran = in_process(*words)
        assert (ran.code, f"team.json:1 members[0].{said}, which means the same" in ran.err) == (
            2,
            True,
        )


def test_the_team_file_has_a_schema(in_process: InProcessCli) -> None:
    in_process.registry(it=TELLS)
    for preset in ("pair", "review", "debate", "tickets"):
        assert in_process("team", "new", preset, "--preset", preset, "--agents", "it,it").code == 0
    teams = schema(in_process, "team")
    for path in (in_process.user.project / ".coterie" / "teams").glob("*/team.json"):
        made = json.loads(path.read_text())
        assert teams.is_valid(made)
        # An editor rejects what the command rejects, at the same place.
        path.write_text(json.dumps({**made, "members": [{**made["members"][0], "order": "1"}]}))
        assert "members[0].order" in in_process("team", "validate", path.parent.name).err
        (mistake,) = teams.iter_errors(json.loads(path.read_text()))
        assert mistake.json_path == "$.members[0].order"
    unknown = in_process("config", "schema", "temas")
    assert (unknown.code, ", registry, review, " in unknown.err) == (2, True)


def test_the_example_is_a_team_that_talks(in_process: InProcessCli) -> None:
    """Alice, Bob and Carol on one CLI that is not installed here: a stand-in replaces it."""
    assert schema(in_process, "team").is_valid(json.loads(EXAMPLE.read_text()))
    in_process.registry(claude={"command": "/nowhere/claude"})
    assert in_process("team", "validate", str(EXAMPLE)).code == 0
    ran = in_process("rehearse", "-t", str(EXAMPLE), "--json", "Review cart.py")
    assert ran.code == 3, "then it is your turn"
    said = {one["member"]: one["text"] for one in ran.of("message")}
    roles = {"alice": "security only", "bob": "speed and memory only", "carol": "reads only"}
    assert list(said) == list(roles)
    assert [name for name in roles if roles[name] in said[name]] == list(roles)
