"""What turns cost, by whom and for what, from the record of turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from coterie.model.journal import Turn
from coterie.model.task import TICKET, TaskRow, fold
from coterie.model.team import Tally, Team
from coterie.model.update import Usage
from coterie.ports import Storage


@dataclass(frozen=True)
class Cost:
    """One try at a turn, and what it cost."""

    task: str
    """The task that somebody started: what those below it cost is its cost too."""
    title: str
    member: str
    agent: str
    """The agent's name in the registry; empty for a member that is not in the team any more."""
    at: str
    turns: int
    """1 for a turn that was taken, 0 for a try that failed: it may have cost something too."""
    usage: Usage | None
    """None where its agent told nothing."""
    part: str = ""
    """The very task: a ticket, a subtask, or the same."""


async def costs(storage: Storage, task_id: str | None, since: str) -> list[Cost]:
    """Every try at a turn of an agent, of one task with all below it or of all, opened at or after
    an instant."""
    found: list[Cost] = []
    rows = {row.id: row for row in await storage.events.tasks()}
    for row in rows.values():
        if row.workflow == TICKET:  # its turns come with those of its session
            continue
        turns = [one for one in await storage.journal.turns(row.id) if one.opened_at >= since]
        if task_id is not None:
            turns = [turn for turn in turns if task_id in _above(turn.task_id, rows)]
        if turns:
            created = fold(await storage.events.of_task(row.id)).created
            if not created.rehearsal:  # it used nothing, whatever its agents believed
                found += _of_task(turns, rows[row.session_id], created.team)
    return sorted(found, key=lambda cost: cost.at)


def _above(task_id: str, rows: Mapping[str, TaskRow]) -> Iterator[str]:
    """A task and those that it is a part of."""
    part: str | None = task_id
    while part is not None:
        yield part
        part = rows[part].parent_id


def _of_task(turns: Sequence[Turn], root: TaskRow, team: Team) -> list[Cost]:
    found: list[Cost] = []
    for turn in turns:
        member = team.seated(turn.member)
        if member is None or member.type == "ai":
            taken = turn.outcome in ("completed", "interrupted")
            agent = member.agent or "" if member else ""
            usage = turn.used
            if taken or usage is not None:
                whose = (root.id, root.title, turn.member, agent, turn.opened_at)
                found.append(Cost(*whose, int(taken), usage, turn.task_id))
    return found


def tally(costs: Sequence[Cost]) -> Tally:
    """All of it together, as budgets count."""
    total = Tally()
    for cost in costs:
        total = total.plus(cost.usage, cost.turns)
    return total
