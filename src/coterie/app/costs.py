"""What turns cost, by whom and for what, from the record of turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coterie.engine.limits import usage_of
from coterie.model.journal import Turn
from coterie.model.task import fold
from coterie.model.team import Tally, Team
from coterie.model.update import Usage
from coterie.ports import Storage


@dataclass(frozen=True)
class Cost:
    """One try at a turn, and what it cost."""

    task: str
    title: str
    member: str
    agent: str
    """The agent's name in the registry; empty for a member that is not in the team any more."""
    at: str
    turns: int
    """1 for a turn that was taken, 0 for a try that failed: it may have cost something too."""
    usage: Usage | None
    """None where its agent told nothing."""


async def costs(storage: Storage, task_id: str | None, since: str) -> list[Cost]:
    """Every try at a turn of an agent, of one task or of all, opened at or after an instant."""
    found: list[Cost] = []
    for row in await storage.events.tasks():
        if task_id in (None, row.id):
            turns = [one for one in await storage.journal.turns(row.id) if one.opened_at >= since]
            if turns:
                created = fold(await storage.events.of_task(row.id)).created
                if not created.rehearsal:  # it used nothing, whatever its agents believed
                    found += _of_task(turns, row.title, created.team)
    return sorted(found, key=lambda cost: cost.at)


def _of_task(turns: Sequence[Turn], title: str, team: Team) -> list[Cost]:
    found: list[Cost] = []
    for turn in turns:
        member = team.seated(turn.member)
        if member is None or member.type == "ai":
            taken = turn.outcome in ("completed", "interrupted")
            agent = member.agent or "" if member else ""
            usage = usage_of(turn)
            if taken or usage is not None:
                parts = (turn.task_id, title, turn.member, agent, turn.opened_at)
                found.append(Cost(*parts, int(taken), usage))
    return found


def tally(costs: Sequence[Cost]) -> Tally:
    """All of it together, as budgets count."""
    total = Tally()
    for cost in costs:
        total = total.plus(cost.usage, cost.turns)
    return total
