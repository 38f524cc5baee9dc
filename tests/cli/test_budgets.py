"""Budgets per task, ticket, member and day; one question per limit, across all processes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from coterie.model import instant
from coterie.rehearsal.script import ScriptedResponder, parse_script
from coterie.rehearsal.server import RehearsalServer
from coterie.rehearsal.simulation import Simulation
from tests.cli.command import Cli, ForkedCommand, InProcessCli
from tests.cli.ticket_project import TicketProject, register_agents
from tests.conftest import init_project

AGENT = Path(__file__).with_name("priced_agent.py")


def write_team(cli: Cli, budget: Mapping[str, Any], **of_members: Mapping[str, Any]) -> None:
    """Write a team of two, each of whose turns costs 100 tokens and ten cents."""
    registry = cli.user.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    agent = {"command": sys.executable, "baseArgs": [str(AGENT)], "adapter": "acp"}
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": {"priced": agent}}))
    team = init_project(cli.user.project) / "teams" / "pair"
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
    """The titles of the open questions, without the task's id."""
    asked = cli("inbox", "--json").of("interaction")
    return [str(one["title"]).replace(str(one["task"]), "k3f9") for one in asked]


@pytest.mark.parametrize(
    ("budget", "ada", "said", "more", "left"),
    [
        ({"tokens": 100}, {}, "k3f9 used 100 of 100 tokens", "+1k", "400 of 1.1k tokens"),
        ({"usd": 0.1}, {}, "k3f9 used $0.10 of $0.10", "+$1", "$0.40 of $1.10"),
        ({"perDay": {"usd": 0.05}}, {}, "$0.10 of $0.05 used today", "+1", ""),
        ({}, {"usd": 0.1}, "ada used $0.10 of $0.10", "+1", "ada  $0.20 of $1.10"),
        ({}, {"perDay": {"turns": 1}}, "ada used 1 of 1 turns today", "+5", ""),
    ],
)
def test_at_a_limit_the_next_turn_is_not_taken(
    in_process: InProcessCli,
    budget: Mapping[str, Any],
    ada: Mapping[str, Any],
    said: str,
    more: str,
    left: str,
) -> None:
    write_team(in_process, budget, ada=ada)
    ran = in_process("chat", "--json", "--max-rounds", "2", "hello")
    assert (ran.code, ran.lines[-1]["reason"]) == (3, "question")
    before = 2 if ada else 1
    assert len(ran.of("message")) == before
    again = in_process("resume", "--json")
    assert (again.code, again.of("message")) == (3, [])
    assert titles(in_process) == [said], "asked once"
    waiting = in_process("ps", "--json").of("member")
    ends = [str(one["until"])[10:] for one in waiting if one["parked"]]
    assert ends == (["T00:00:00.000Z"] if "perDay" in {*budget, *ada} else [])
    assert in_process("answer", "q1", more).code == 0
    assert in_process("ps", "--json").of("member") == []
    done = in_process("resume", "--json")
    assert (done.code, len(done.of("message"))) == (0, 4 - before)
    assert left in in_process("cost", "last").out, "what was given counts"


def test_a_limit_that_an_agent_does_not_report_against_is_reported_not_to_apply(cli: Cli) -> None:
    path = cli.team("ada")
    team = json.loads(path.read_text())
    path.write_text(json.dumps({**team, "budget": {"usd": 1, "tokens": "1k", "turns": 2}}))
    ran = cli("chat", "--json", "--max-rounds", "3", "hello")
    assert (ran.code, titles(cli)) == (3, ["k3f9 used 2 of 2 turns"])
    said = {str(one["message"]) for one in ran.of("error")}
    assert said == {
        "ada's agent does not report what its turns cost: the limit of $1.00 does not apply to it.",
        "ada's agent does not report how many tokens it uses: "
        "the limit of 1k tokens does not apply to it.",
    }
    assert len(ran.of("error")) == 2, "once each"


def started(cli: Cli, *words: str) -> ForkedCommand:
    return cli.start("do", "--json", "--wait", "60s", *words)


def test_two_processes_at_one_limit_wait_for_each_other_and_ask_once(
    bare: Cli, tmp_path: Path
) -> None:
    write_team(bare, {"perDay": {"tokens": 100}})
    end = tmp_path / "end"
    with started(bare, f"hold {end}") as first:
        first.until('"state":"working"')
        with started(bare, "second") as second:
            second.until('"waits_for":"budget"')  # the rest is reserved for the first
            assert titles(bare) == []
            end.touch()
            assert first.wait(30) == 0
            second.until('"type":"interaction"')
            with started(bare, "third") as third:
                third.until('"type":"interaction"')
                assert titles(bare) == ["100 of 100 tokens used today"]
                assert bare("answer", "q1", "+1k").code == 0
                assert (second.wait(30), third.wait(30)) == (0, 0)
    (total,) = bare("cost", "--by", "agent", "--json").of("cost")
    assert total["turns"] == 3


def test_what_a_killed_process_had_reserved_is_free(bare: Cli, tmp_path: Path) -> None:
    write_team(bare, {"perDay": {"tokens": 150}})
    with started(bare, f"hold {tmp_path / 'never'}") as first:
        first.until('"state":"working"')
        with started(bare, "second") as second:
            second.until('"waits_for":"budget"')
            first.kill()
            first.wait()
            assert second.wait(30) == 0, second.err.read()


def test_stop_is_the_answer_for_all_who_wait(bare: Cli) -> None:
    write_team(bare, {"perDay": {"turns": 1}})
    assert bare("do", "first").code == 0
    with started(bare, "second") as second, started(bare, "third") as third:
        for each in (second, third):
            each.until('"type":"interaction"')
        assert bare("answer", "q1", "stop").code == 0
        for each in (second, third):
            last = json.loads(each.out.readlines()[-1])
            assert (last["status"], last["reason"]) == ("waiting", "budget")
    assert bare("resume", "last").code == 3
    assert titles(bare) == ["1 of 1 turns used today"], "asked anew by a later run"


def test_a_day_ends_and_with_it_its_limit(
    in_process: InProcessCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One day's usage, questions and grants do not carry over to the next."""
    write_team(in_process, {"perDay": {"turns": 1}})
    assert in_process("chat", "hello").code == 3
    assert titles(in_process) == ["1 of 1 turns used today"]
    monkeypatch.setattr(instant, "now", lambda: "2199-01-31T12:00:00.000Z")
    ran = in_process("resume", "--json")
    assert (ran.code, len(ran.of("message"))) == (0, 1)
    assert titles(in_process) == []
    assert in_process("do", "again").code == 3
    assert titles(in_process) == ["1 of 1 turns used today"]


def test_a_ticket_at_its_limit_holds_up_no_other(bare: Cli) -> None:
    project = TicketProject(register_agents(bare)).set_up(concurrency=2)
    path = project.root / ".coterie" / "teams" / "crew" / "team.json"
    team = json.loads(path.read_text())
    path.write_text(json.dumps({**team, "budget": {"perTicket": {"turns": 2}}}))
    with bare.start("run", "--yes", "--json", "--wait", "60s", "Add coupons") as child:
        # The instruction and the work use up the limit: the manager's reviews exceed it.
        asked = {one["about"]["ticket"]: one["id"] for one in (_asked(child), _asked(child))}
        assert sorted(asked) == ["T1", "T2"], "the manager was free for the second"
        assert bare("answer", asked["T1"], "+5").code == 0
        # The manager reviews one ticket while the other waits for its own answer.
        done = next(one for one in map(json.loads, child.out) if one.get("state") == "done")
        assert (done["type"], done["id"]) == ("ticket", "T1")
        child.terminate()


RULES = [
    {"when": {"system": "You are ada."}, "replies": [{"text": "Twelve callers."}]},
    {"when": {"message": "Twelve"}, "replies": [{"text": "So twelve."}]},
    {
        "replies": [
            {"text": "<assignSubtask><goal>Count.</goal><member>ada</member></assignSubtask>"}
        ],
        "then": "last",
    },
]


@pytest.fixture
def model() -> Iterator[str]:
    """The URL of a model that assigns a part of its work as a subtask."""
    script = parse_script({"rules": RULES}, "rules")
    server = RehearsalServer(ScriptedResponder(script, Simulation()))
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(server):
        yield server.url


def test_what_a_subtask_uses_is_its_tasks_use(bare: Cli, model: str) -> None:
    cli = Cli(bare.user, {**bare.env, "OPENAI_BASE_URL": f"{model}/v1", "OPENAI_API_KEY": "x"})
    registry = cli.user.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    how = {"model": "openai:small", "toolCalls": "text"}
    agent = {"command": "builtin", "adapter": "builtin", "capabilities": how}
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": {"local": agent}}))
    team = init_project(cli.user.project) / "teams" / "pair"
    team.mkdir(parents=True)
    members = [
        {"id": name, "agent": "local", "prompt": f"You are {name}."} for name in ("ada", "rex")
    ]
    (team / "team.json").write_text(json.dumps({"budget": {"turns": 1}, "members": members}))
    with cli.start("do", "--json", "--wait", "60s", "--as", "rex", "how many callers?") as child:
        assert _asked(child)["purpose"] == "assign_subtask"
        assert cli("answer", "q1", "ada").code == 0
        # The subtask is not held up by the turn that waits for it, and its usage counts there.
        asked = _asked(child)
        assert asked["about"]["kind"] == "budget", asked
        task = asked["task"]
        assert asked["title"] == f"{task} used 1 of 1 turns"
        assert cli("answer", "q2", "+5").code == 0
        assert child.wait(30) == 0
    turns = {one["key"]: one["turns"] for one in cli("cost", "--by", "task", "--json").of("cost")}
    assert turns == {task: 2}


def _asked(child: ForkedCommand) -> dict[str, Any]:
    """The next question that is asked."""
    records = map(json.loads, child.out)
    return next(one for one in records if one["type"] == "interaction" and one["state"] == "open")
