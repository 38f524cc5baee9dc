"""Budgets: per task, ticket, member and day; one question for one limit, in every process."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Cli, Started
from tests.conftest import ours

AGENT = Path(__file__).with_name("priced_agent.py")


def furnish(cli: Cli, budget: Mapping[str, Any], **of_members: Mapping[str, Any]) -> None:
    """A team of two, of whom every turn costs 100 tokens and ten cents."""
    registry = cli.house.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    agent = {"command": sys.executable, "baseArgs": [str(AGENT)], "adapter": "acp"}
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": {"priced": agent}}))
    team = ours(cli.house.project) / "teams" / "pair"
    team.mkdir(parents=True)
    members = [
        {
            "id": name,
            "agent": "priced",
            **({"budget": own} if (own := of_members.get(name)) else {}),
        }
        for name in ("ada", "rex")
    ]
    (team / "team.json").write_text(json.dumps({"budget": budget, "members": members}))


def titles(cli: Cli) -> list[str]:
    """What is asked now, without the task's id."""
    asked = cli("inbox", "--json").of("interaction")
    return [str(one["title"]).replace(str(one["task"]), "k3f9") for one in asked]


@pytest.mark.parametrize(
    ("budget", "ada", "said", "more"),
    [
        ({"tokens": 100}, {}, "k3f9 used 100 of 100 tokens", "+1k"),
        ({"usd": 0.1}, {}, "k3f9 used $0.10 of $0.10", "+$1"),
        ({"perDay": {"usd": 0.05}}, {}, "Today used $0.10 of $0.05", "+1"),
        ({}, {"usd": 0.1}, "ada used $0.10 of $0.10", "+1"),
        ({}, {"perDay": {"turns": 1}}, "ada used 1 of 1 turns today", "+5"),
    ],
)
def test_at_a_limit_the_next_turn_is_not_taken(
    bare: Cli, budget: Mapping[str, Any], ada: Mapping[str, Any], said: str, more: str
) -> None:
    furnish(bare, budget, ada=ada)
    ran = bare("chat", "--json", "--max-rounds", "2", "hello")
    assert (ran.code, ran.lines[-1]["reason"]) == (3, "question")
    before = 2 if ada else 1
    assert len(ran.of("message")) == before
    again = bare("resume", "--json")
    assert (again.code, again.of("message")) == (3, [])
    assert titles(bare) == [said], "asked once"
    assert bare("answer", "q1", more).code == 0
    done = bare("resume", "--json")
    assert (done.code, len(done.of("message"))) == (0, 4 - before)


def started(cli: Cli, *words: str) -> Started:
    return cli.start("do", "--json", "--wait", "60s", *words)


def test_two_processes_at_one_limit_wait_for_each_other_and_ask_once(
    bare: Cli, tmp_path: Path
) -> None:
    furnish(bare, {"perDay": {"tokens": 100}})
    end = tmp_path / "end"
    with started(bare, f"hold {end}") as first:
        first.until('"state":"working"')
        with started(bare, "second") as second:
            second.until('"waits_for":"budget"')  # what is left is reserved for the first
            assert titles(bare) == []
            end.touch()
            assert first.wait(30) == 0
            second.until('"type":"interaction"')
            with started(bare, "third") as third:
                third.until('"type":"interaction"')
                assert titles(bare) == ["Today used 100 of 100 tokens"]
                assert bare("answer", "q1", "+1k").code == 0
                assert (second.wait(30), third.wait(30)) == (0, 0)
    (total,) = bare("cost", "--by", "agent", "--json").of("cost")
    assert total["turns"] == 3


def test_what_a_killed_process_had_reserved_is_free(bare: Cli, tmp_path: Path) -> None:
    furnish(bare, {"perDay": {"tokens": 150}})
    with started(bare, f"hold {tmp_path / 'never'}") as first:
        first.until('"state":"working"')
        with started(bare, "second") as second:
            second.until('"waits_for":"budget"')
            first.kill()
            first.wait()
            assert second.wait(30) == 0, second.err.read()


def test_stop_is_the_answer_for_all_who_wait(bare: Cli) -> None:
    furnish(bare, {"perDay": {"turns": 1}})
    assert bare("do", "first").code == 0
    with started(bare, "second") as second, started(bare, "third") as third:
        for each in (second, third):
            each.until('"type":"interaction"')
        assert bare("answer", "q1", "stop").code == 0
        for each in (second, third):
            last = json.loads(each.out.readlines()[-1])
            assert (last["status"], last["reason"]) == ("waiting", "budget")
    assert bare("resume", "last").code == 3
    assert titles(bare) == ["Today used 1 of 1 turns"], "asked anew by a later run"
