"""`coterie cost`: what was used, and usage that nobody reported."""

from __future__ import annotations

import json

import pytest
from inline_snapshot import snapshot

from coterie.model.journal import CloseTurn, OpenTurn, TurnOutcome, Write
from coterie.model.team import Allowance, Budget, Team
from tests.cli.command import Cli
from tests.cli.recorded import TEAM, at, record


def turn(
    number: int,
    member: str,
    usage: dict[str, object] | None,
    *,
    outcome: TurnOutcome = "completed",
    task: str = "k3f9",
    day: str = "2026-01-31",
) -> list[Write]:
    """A turn, and the usage that its agent reported."""
    step = f"turn/{number}"
    told = json.dumps(usage) if usage else None
    return [
        OpenTurn(task, step, 1, member, 1, at(number, day)),
        CloseTurn(task, step, 1, at(number + 1, day), outcome, None, None, told),
    ]


def tokens(
    given: int, output: int, usd: float | None = None, source: str = "claude"
) -> dict[str, object]:
    return {"input_tokens": given, "output_tokens": output, "cost_usd": usd, "source": source}


@pytest.fixture
def spent(in_process: Cli) -> Cli:
    """Two tasks on two days; one of rex's turns has no usage, and a failed attempt has a cost."""
    record(
        in_process,
        *turn(1, "ada", tokens(8_000, 200, 0.03)),
        *turn(2, "rex", None),
        *turn(3, "ada", tokens(500, 20, 0.01), outcome="failed"),
        *turn(4, "ada", {"output_tokens": 50, "source": "claude"}),
        goal="Add coupons to checkout",
    )
    record(
        in_process,
        *turn(1, "rex", tokens(1_200_000, 900, source="codex"), task="m2xy", day="2026-02-01"),
        task="m2xy",
        goal="Mend it",
    )
    return in_process


def test_by_task(spent: Cli) -> None:
    assert spent("cost").out == snapshot("""\
TASK  TURNS  INPUT  OUTPUT  USD   SOURCE
k3f9  3      8.5k   270     0.04  claude; 1 not reported         Add coupons to checkout
m2xy  1      1.2M   900     -     codex                          Mend it
all   4      1.21M  1.2k    0.04  claude, codex; 1 not reported
""")


def test_by_member_day_and_agent(spent: Cli) -> None:
    assert spent("cost", "--by", "member").out == snapshot("""\
MEMBER  TURNS  INPUT  OUTPUT  USD   SOURCE
ada     2      8.5k   270     0.04  claude
rex     2      1.2M   900     -     codex; 1 not reported
all     4      1.21M  1.2k    0.04  claude, codex; 1 not reported
""")
    assert spent("cost", "--by", "day").out == snapshot("""\
DAY         TURNS  INPUT  OUTPUT  USD   SOURCE
2026-01-31  3      8.5k   270     0.04  claude; 1 not reported
2026-02-01  1      1.2M   900     -     codex
all         4      1.21M  1.2k    0.04  claude, codex; 1 not reported
""")
    assert spent("cost", "--by", "agent").out == snapshot("""\
AGENT   TURNS  INPUT  OUTPUT  USD   SOURCE
claude  2      8.5k   270     0.04  claude
codex   2      1.2M   900     -     codex; 1 not reported
all     4      1.21M  1.2k    0.04  claude, codex; 1 not reported
""")


def test_the_instances_of_a_member_cost_together(in_process: Cli) -> None:
    one, two = turn(1, "rex", tokens(1_000, 0)), turn(2, "rex#2", tokens(500, 0))
    record(in_process, *one, *two)
    (row,) = in_process("cost", "--by", "member", "--json").of("cost")
    assert (row["key"], row["turns"], row["usage"]["input_tokens"]) == ("rex", 2, 1_500)


def test_of_one_task_and_since(spent: Cli) -> None:
    assert spent("cost", "k3").out == snapshot("""\
MEMBER  TURNS  INPUT  OUTPUT  USD   SOURCE
ada     2      8.5k   270     0.04  claude
rex     1      -      -       -     not reported
all     3      8.5k   270     0.04  claude; 1 not reported
""")
    assert spent("cost", "--since", "2026-02-01T00:00:00Z").out == snapshot("""\
TASK  TURNS  INPUT  OUTPUT  USD  SOURCE
m2xy  1      1.2M   900     -    codex   Mend it
""")
    assert spent("cost", "--since", "1h").out == "No turns to count; rehearsals are left out.\n"


def test_as_objects(spent: Cli) -> None:
    lines = spent("cost", "k3f9", "--json").of("cost")
    assert [
        {key: line[key] for key in ("by", "key", "turns", "untold", "usage")} for line in lines
    ] == (
        snapshot(
            [
                {
                    "by": "member",
                    "key": "ada",
                    "turns": 2,
                    "untold": 0,
                    "usage": {
                        "input_tokens": 8500,
                        "output_tokens": 270,
                        "cost_usd": 0.04,
                        "source": "claude",
                    },
                },
                {"by": "member", "key": "rex", "turns": 1, "untold": 1, "usage": None},
            ]
        )
    )


def test_a_task_with_a_budget(in_process: Cli) -> None:
    mine = TEAM.members[0].model_copy(update={"budget": Budget(turns=5)})
    team = Team(
        name="pair",
        members=(mine, TEAM.members[1]),
        budget=Budget(tokens=500_000, usd=2.5, per_day=Allowance(tokens=2_000_000)),
    )
    record(in_process, *turn(1, "ada", tokens(213_000, 1000, 1.9)), team=team)
    assert in_process("cost", "last").out == snapshot("""\
MEMBER  TURNS  INPUT  OUTPUT  USD   SOURCE
ada     1      213k   1k      1.90  claude
Task budget
  all  214k of 500k tokens · $1.90 of $2.50
  ada  1 of 5 turns
""")


@pytest.mark.parametrize("since", ["soon", "7x", "2026-13-01"])
def test_what_is_no_time(spent: Cli, since: str) -> None:
    ran = spent("cost", "--since", since)
    assert ran.code == 2
    assert "write it like 7d, 2h or 2026-01-31" in ran.err


def test_nothing_yet(in_process: Cli) -> None:
    assert in_process("cost").out.startswith("Nothing has been done")
