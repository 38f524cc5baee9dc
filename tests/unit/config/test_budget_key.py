"""The key `budget` of teams and members."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from coterie.agents.table import KNOWN_AGENTS
from coterie.config.registry import Registry
from coterie.config.registry_edit import define_agent
from coterie.config.team_edit import full_form
from coterie.config.team_file import LoadedTeam, ReadContext, load_team
from coterie.errors import ConfigError
from coterie.model.amount import amount, format_amounts, parse_increase
from coterie.model.team import Allowance, Budget

CLAUDE = define_agent(KNOWN_AGENTS, "claude", {"command": "claude"})
READING = ReadContext(Registry(Path("/x/config.json"), known=KNOWN_AGENTS).with_agents(CLAUDE))


def load(folder: Path, **team: Any) -> LoadedTeam:
    path = folder / "team.json"
    path.write_text(json.dumps({"members": [{"id": "ada", "agent": "claude"}], **team}))
    return load_team(path, READING)


def test_of_the_team_its_members_and_a_day(tmp_path: Path) -> None:
    team = load(
        tmp_path,
        budget={"tokens": "500k", "perDay": {"usd": 5, "tokens": "1.5M"}},
        defaults={"budget": {"turns": 9}},
        members=[
            {"id": "ada", "agent": "claude", "budget": {"tokens": 1000, "usd": 0.5}},
            {"id": "rex", "agent": "claude"},
            {"id": "max", "type": "human"},
        ],
    ).team
    day = Allowance(usd=5, tokens=1_500_000)
    assert team.budget == Budget(tokens=500_000, per_day=day)
    assert [member.budget for member in team.members] == [
        Budget(tokens=1000, usd=0.5),
        Budget(turns=9),
        Budget(),
    ]


def test_left_out_means_no_limit_and_is_left_out_again(tmp_path: Path) -> None:
    team = load(tmp_path).team
    assert (team.budget, team.budget.is_set) == (Budget(), False)
    full = full_form(team)
    assert "budget" not in full
    assert "budget" not in full["members"][0]  # type: ignore[index]


def test_the_full_form_reads_back(tmp_path: Path) -> None:
    team = load(tmp_path, name="pair", budget={"tokens": "500k", "perDay": {"usd": 1}}).team
    path = tmp_path / "team.json"
    path.write_text(json.dumps(full_form(team)))
    assert load_team(path, READING).team == team


TOKENS = 'expected a number of tokens such as 500000 or "500k".'


@pytest.mark.parametrize(
    ("budget", "told"),
    [
        ({"tokens": "lots"}, f"budget.tokens cannot be used: {TOKENS}"),
        ({"tokens": "9" * 400}, f"budget.tokens cannot be used: {TOKENS}"),
        ({"tokens": 0}, snapshot("budget.tokens is 0; expected at least 1.")),
        ({"tokens": 1.5}, snapshot("budget.tokens is 1.5; expected a whole number.")),
        ({"turns": "3"}, snapshot('budget.turns is "3"; expected a whole number.')),
        ({"usd": -1}, snapshot("budget.usd is -1; expected at least 0.0.")),
        ({"usd": True}, snapshot("budget.usd cannot be used: Input should be a valid number.")),
        ({"token": 5}, snapshot("budget.token is not a known key. Did you mean tokens?")),
        ({"perDay": {"perDay": {}}}, snapshot("budget.perDay.perDay is not a known key.")),
        ({"perDay": 5}, snapshot("budget.perDay is 5; expected an object.")),
        (5, snapshot("budget is 5; expected an object.")),
    ],
)
def test_mistakes_are_named(tmp_path: Path, budget: object, told: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(tmp_path, budget=budget)
    assert str(error.value).partition("team.json:1 ")[2] == told
    with pytest.raises(ConfigError, match=r"members\[0\]\.budget"):
        load(tmp_path, members=[{"id": "ada", "agent": "claude", "budget": budget}])


@pytest.mark.parametrize(
    ("text", "number"), [("500k", 500_000), ("1.5M", 1_500_000), ("12", 12), ("0.5K", 500)]
)
def test_amounts(text: str, number: int) -> None:
    assert amount(text) == number
    assert parse_increase(f"+{text}") == number


@pytest.mark.parametrize("answer", ["9" * 400, f"+{'9' * 300}m", f"${'9' * 400}.50"])
def test_no_answer_grants_an_infinite_amount(answer: str) -> None:
    granted = parse_increase(answer)
    assert granted is not None
    assert round(granted) == 10**15


def test_amounts_as_people_read_them() -> None:
    assert [
        format_amounts("tokens", 214_000, 500_000),
        format_amounts("tokens", 12_345_678, 12_500_000.0),
        format_amounts("usd", 1.9, 5),
        format_amounts("turns", 3),
    ] == [
        "214k of 500k tokens",
        "12.3M of 12.5M tokens",
        "$1.90 of $5.00",
        "3 turns",
    ]
    assert format_amounts("tokens", 999) == "999 tokens"
