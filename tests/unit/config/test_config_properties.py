"""Any file content yields a value or a ConfigError; what Coterie writes reads back."""

from __future__ import annotations

import contextlib
import json
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from coterie.agents.table import KNOWN_AGENTS
from coterie.config import registry, registry_edit, team_file
from coterie.config.files import Document, parse, parse_json
from coterie.config.mistakes import lines_of
from coterie.config.project import Project, known_projects
from coterie.config.registry import Registry
from coterie.config.schemas import FOLDER
from coterie.config.settings import load_settings
from coterie.config.team_edit import full_form, render, toml_member
from coterie.config.team_entry import MEMBER_KEYS, TEAM_KEYS
from coterie.config.team_file import ReadContext
from coterie.config.trust_record import is_trusted
from coterie.errors import ConfigError
from coterie.model.agent import AgentDefinition, Capabilities
from coterie.model.team import Member, Permissions, Team
from tests.conftest import IsolatedUser

Agents = Registry
PATH = Path("/nowhere/team.json")
TOML = PATH.with_suffix(".toml")

TEAM_SCHEMA, REGISTRY_SCHEMA = (
    Draft202012Validator(json.loads((FOLDER / f"{name}.schema.json").read_text()))
    for name in ("team", "registry")
)

SAME_FILES = settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])

texts = st.text(st.characters(codec="utf-8"), max_size=12)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
jsons: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def some_of(keys: tuple[str, ...], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Objects with mostly known keys."""
    return st.dictionaries(st.sampled_from(keys) | texts, values, max_size=6)


likely = jsons | st.sampled_from(["claude", "ask", "ai", ".", "a", 3, ["--yolo"], {"HOME": "x"}])
members = some_of(MEMBER_KEYS, likely)
near_teams = some_of(TEAM_KEYS, jsons | st.lists(members | jsons, max_size=4) | members)


def keys_of(model: type[BaseModel]) -> tuple[str, ...]:
    return tuple(field.alias or name for name, field in model.model_fields.items())


capabilities = some_of(keys_of(Capabilities), likely)
entries = some_of(
    (*keys_of(AgentDefinition), "args", "completion"),
    likely | capabilities | st.lists(st.sampled_from(["-p", "--system-prompt", "x"])),
)
near_registries = st.fixed_dictionaries(
    {"schemaVersion": st.sampled_from(["1.1", "1.2"]) | jsons},
    optional={"agents": st.dictionaries(texts, entries | jsons, max_size=3) | jsons},
)


@SAME_FILES
@given(data=jsons | near_teams)
def test_any_json_is_a_team_or_refused(agents: Agents, data: Any) -> None:
    document = parse_json(PATH, json.dumps(data))
    try:
        loaded = team_file.interpret(document, ReadContext(agents))
    except ConfigError:
        return
    assert TEAM_SCHEMA.is_valid(data)
    assert Team.model_validate_json(loaded.team.model_dump_json()) == loaded.team


@SAME_FILES
@given(text=st.text(max_size=60) | st.text('{}[]":,\\ud8001tfn\n ', max_size=60))
def test_any_text_is_refused_politely(agents: Agents, text: str) -> None:
    for path in (PATH, TOML):
        try:
            team_file.interpret(parse(path, text), ReadContext(agents))
        except ConfigError:
            continue
        raise AssertionError("no such text is a team")


@SAME_FILES
@given(data=jsons | near_registries)
def test_any_json_is_a_registry_or_refused(data: object) -> None:
    try:
        found = registry.interpret(KNOWN_AGENTS, parse_json(PATH, json.dumps(data)))
    except ConfigError:
        return
    text = registry_edit.render(found.agents)
    assert REGISTRY_SCHEMA.is_valid(json.loads(text))
    assert registry.interpret(KNOWN_AGENTS, parse_json(PATH, text)).agents == found.agents


@SAME_FILES
@given(data=jsons)
def test_any_json_as_settings_projects_or_trust(
    user: IsolatedUser, write: Callable[[Path, str], Path], data: object
) -> None:
    text = json.dumps(data)
    for name in ("settings.json", "projects.json", "trusted.json"):
        write(user.coterie_home / name, text)
    assert not is_trusted("sha256:0")
    assert known_projects().projects == ()
    with contextlib.suppress(ConfigError):
        load_settings(Project(user.project).folder)


# -- round trips -------------------------------------------------------------------------------

names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,8}", fullmatch=True)
words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
variables = st.from_regex(r"MY_[A-Z0-9_]{0,6}", fullmatch=True)
limits = st.none() | st.integers(1, 10_000)
rules = st.sampled_from(["npm test *", "run(make)", "write(src/**)", "read(漢/ä b/**)", "tool(ß*)"])


@st.composite
def teams(draw: st.DrawFn) -> Team:
    ids = draw(st.lists(names, min_size=1, max_size=4, unique_by=str.casefold))
    made: list[Member] = []
    for place, member_id in enumerate(ids):
        human = draw(st.booleans())
        # Distinct regardless of case, as the names of a loaded team are.
        label = f"{string.ascii_lowercase[place]}-{member_id}"
        made.append(
            Member(
                id=label,
                name=label,
                display_name=f"{label} {draw(st.sampled_from('äß漢🙂'))}",
                role=draw(st.sampled_from(["", "reviewer", "prüft 漢字"])),
                type="human" if human else "ai",
                order=draw(st.integers(-5, 5)),
                agent=None if human else draw(st.sampled_from(["claude", "codex", "echo"])),
                system_instruction=draw(words),
                execution_dir=draw(st.sampled_from([None, "/"])),
                home_dir=draw(st.sampled_from([None, f"/nowhere/{label}"])),
                additional_args=tuple(draw(st.lists(words.map("x".__add__), max_size=2))),
                env=draw(st.dictionaries(variables, words, max_size=2)),
                permissions=Permissions(
                    mode=draw(st.sampled_from(["read", "ask", "accept-edits", "full"])),
                    allow=tuple(draw(st.lists(rules, max_size=2))),
                ),
                timeout_ms=draw(limits),
                quiet_after_ms=draw(limits),
            )
        )
    return Team(
        name=draw(names),
        workflow=draw(st.sampled_from(["chat", "tickets", "pipeline", "solo"])),
        members=tuple(made),
        team_instruction=draw(st.none() | words),
        context_message_count=draw(st.integers(0, 50)),
    )


@SAME_FILES
@given(team=teams())
def test_a_written_team_reads_back_equal(agents: Agents, team: Team) -> None:
    text = render(full_form(team))
    assert TEAM_SCHEMA.is_valid(json.loads(text))
    assert team_file.interpret(parse_json(PATH, text), ReadContext(agents)).team == team


@SAME_FILES
@given(team=teams())
def test_a_member_written_as_toml_reads_back_equal(agents: Agents, team: Team) -> None:
    data: dict[str, Any] = full_form(team)
    text = f"name = {json.dumps(data['name'])}\n" + "".join(map(toml_member, data["members"]))
    loaded = team_file.interpret(parse(TOML, text), ReadContext(agents))
    assert loaded.team.members == team.members


@given(team=teams())
def test_a_task_keeps_its_team_without_secrets(team: Team) -> None:
    kept = Team.model_validate_json(team.sealed().model_dump_json())
    assert all(value == "" for member in kept.members for value in member.env.values())
    assert kept.unsealed(team) == team


@given(data=jsons)
def test_every_value_of_a_document_has_a_line(data: object) -> None:
    text = json.dumps(data, indent=1)
    lines = lines_of(Document(PATH, text, data))
    rows = text.splitlines()

    def check(value: object, place: tuple[str | int, ...]) -> None:
        row = rows[lines.of(place) - 1]
        if 0 < len(place) <= 8 and isinstance(place[-1], str):
            assert json.dumps(place[-1]) in row
        items: list[tuple[str | int, object]] = []
        if isinstance(value, dict):
            items = list(value.items())
        elif isinstance(value, list):
            items = list(enumerate(value))
        for key, part in items:
            check(part, (*place, key))

    check(data, ())
    assert lines.duplicates == ()


@pytest.mark.parametrize(
    "text", ['{"a": 1, "b": {"a": 2, "a": 3}}', '[{"a": 1},\n {"a": 1, "a": []}]']
)
def test_doubled_keys_are_seen_in_their_own_object_only(text: str) -> None:
    document = parse_json(PATH, text)
    assert document.has_duplicates
    assert len(lines_of(document).duplicates) == 1
