"""The shipped JSON Schemas match the models and agree with the reader."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from coterie.agents.table import KNOWN_AGENTS
from coterie.app.schemas import differing
from coterie.config import registry, team_file
from coterie.config.files import parse_json
from coterie.config.registry import Registry
from coterie.config.schemas import FOLDER, schemas
from coterie.config.team_file import ReadContext
from coterie.errors import ConfigError

Agents = Registry
ROOT = Path(__file__).parents[3]


def accepts(name: str, data: Any) -> bool:
    schema: dict[str, Any] = json.loads((FOLDER / f"{name}.schema.json").read_text())
    return Draft202012Validator(schema).is_valid(data)


def read_as_team(data: object, agents: Agents) -> bool:
    document = parse_json(ROOT / "team.json", json.dumps(data))
    try:
        team_file.interpret(document, ReadContext(agents))
    except ConfigError:
        return False
    return True


def read_as_registry(data: object) -> bool:
    try:
        registry.interpret(KNOWN_AGENTS, parse_json(Path("/x/config.json"), json.dumps(data)))
    except ConfigError:
        return False
    return True


def test_they_are_what_the_models_say() -> None:
    assert differing() == {}
    check = [sys.executable, "-m", "coterie.app.schemas", "--check"]
    assert subprocess.run(check, check=False).returncode == 0
    assert subprocess.run([*check, "--loud"], check=False, capture_output=True).returncode == 2


@pytest.mark.parametrize("name", schemas([]))
def test_they_are_valid_and_describe_every_key(name: str) -> None:
    schema: dict[str, Any] = json.loads((FOLDER / f"{name}.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    objects = [schema, *schema.get("$defs", {}).values()]
    mute = [
        key
        for part in objects
        for key, told in part.get("properties", {}).items()
        if "description" not in told and "$ref" not in told and "const" not in told
    ]
    assert mute == []


def member(**more: object) -> dict[str, object]:
    return {"members": [{"id": "a", "agent": "claude", **more}]}


TEAMS: list[tuple[object, bool]] = [
    (member(), True),
    ({"$schema": "./team.schema.json", **member()}, True),
    (member(permissions="read"), True),
    (member(permissions={"mode": "full", "allow": ["npm test"], "deny": ["rm *"]}), True),
    (member(env={"LEVEL": "3"}, additionalArgs=["-v"], timeoutMs=5, order=-1), True),
    ({"members": [{"id": "you"}]}, True),
    ({"defaults": {"agent": "codex", "permissions": "ask"}, "members": [{"id": "a"}]}, True),
    ({"members": [{"id": "a", "agentConfigId": "codex", "agentName": "codex"}]}, True),
    ({}, False),
    ([], False),
    ({"members": []}, False),
    ({"members": [{"agent": "claude"}]}, False),
    ({"memberz": [], **member()}, False),
    ({"name": "my team", **member()}, False),
    ({"workflow": "solo", **member()}, True),
    ({"workflow": "talk to me", **member()}, False),
    ({"roles": {"second_opinion": "a"}, **member()}, True),
    ({"roles": {"cook": "a"}, **member()}, False),
    ({"roles": {"review": 3}, **member()}, False),
    ({"contextMessageCount": -1, **member()}, False),
    ({"defaults": {"id": "x"}, **member()}, False),
    (member(id="../x"), False),
    (member(promt="x"), False),
    (member(agentConfigId="claude"), False),
    (member(prompt="x", systemInstruction="x"), False),
    (member(prompt="x", promptFile="team.json"), False),
    (member(permissions="all"), False),
    (member(permissions={"mod": "ask"}), False),
    (member(env={"HOME": "x"}), False),
    (member(env={"COTERIE_MARK": "x"}), False),
    (member(env={"A B": "x"}), False),
    (member(env={"A": 3}), False),
    (member(additionalArgs="-v"), False),
    (member(additionalArgs=["\0"]), False),
    (member(model="--yolo"), False),
    (member(model=None), False),
    (member(order="1"), False),
    (member(order=True), False),
    (member(timeoutMs=0), False),
    (member(name="[x]"), False),
    (member(type="robot"), False),
]


@pytest.mark.parametrize(("data", "accepted"), TEAMS, ids=[json.dumps(data) for data, _ in TEAMS])
def test_schema_and_reader_agree_about_teams(data: object, accepted: bool, agents: Agents) -> None:
    assert (accepts("team", data), read_as_team(data, agents)) == (accepted, accepted)


def agent(**more: object) -> dict[str, object]:
    return {"schemaVersion": "1.2", "agents": {"a": {"command": "x", **more}}}


KNOWN = {
    one.name: one.definition("/x", "1", "2026-01-01T00:00:00Z").model_dump(
        mode="json", exclude_none=True
    )
    for one in KNOWN_AGENTS.all
}
REGISTRIES: list[tuple[object, bool]] = [
    (agent(), True),
    ({"schemaVersion": "1.2", "agents": KNOWN}, True),
    ({"$schema": "x", "schemaVersion": "1.2", "agents": {}}, True),
    (agent(capabilities={"completionDetection": "custom", "detector": "mine"}), True),
    (agent(capabilities={"completionDetection": "idleTimeout", "completionTypes": []}), True),
    ({"agents": {}}, False),
    ({"schemaVersion": "2.0", "agents": {}}, False),
    ({"schemaVersion": "1.2"}, False),
    ({"schemaVersion": "1.2", "agents": {"a b": {"command": "x"}}}, False),
    (agent(args=[]), False),
    (agent(command=""), False),
    (agent(command=None), False),
    (agent(version=None), False),
    (agent(baseArgs="x"), False),
    (agent(env={"CODEX_HOME": "x"}), False),
    (agent(usePty=1), False),
    (agent(capabilities={"completionDetection": "jsonl"}), False),
    (agent(capabilities={"completionDetection": "jsonl", "completionTypes": []}), False),
    (agent(capabilities={"completionDetection": "custom"}), False),
    (agent(capabilities={"completionDetection": "wait"}), False),
    (agent(capabilities={"idleTimeoutMs": 0}), False),
    (agent(capabilities={"idletimeoutMs": 5}), False),
]


@pytest.mark.parametrize(
    ("data", "accepted"), REGISTRIES, ids=[json.dumps(data)[:80] for data, _ in REGISTRIES]
)
def test_schema_and_reader_agree_about_registries(data: object, accepted: bool) -> None:
    assert (accepts("registry", data), read_as_registry(data)) == (accepted, accepted)


@pytest.mark.parametrize(
    ("data", "accepted"),
    [
        ({}, True),
        ({"keeper": "bubblewrap", "quietAfter": "90s", "defaultTeam": "pair"}, True),
        ({"keper": "auto"}, False),
        ({"quietAfter": 90}, False),
        ({"defaultTeam": None}, False),
    ],
)
def test_settings(data: object, accepted: bool) -> None:
    assert accepts("settings", data) == accepted
