"""What turns cost, by member and purpose, from the recorded turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from coterie.model.journal import Turn
from coterie.model.task import TICKET, TaskRow, fold, ticket_task_of
from coterie.model.team import Tally, Team, base_of
from coterie.model.update import Usage, sum_of
from coterie.ports import Storage


@dataclass(frozen=True)
class Cost:
    """One attempt at a turn, and what it cost."""

    task: str
    """The root task: its cost includes that of all tasks below it."""
    title: str
    member: str
    agent: str
    """The agent's name in the registry; empty for a member that is no longer in the team."""
    at: str
    turns: int
    """1 for a turn that was taken, 0 for a failed attempt: it may have cost something too."""
    usage: Usage | None
    """None if the agent reported nothing."""
    part: str = ""
    """The task of the turn itself: a ticket, a subtask, or `task`."""


async def costs(storage: Storage, task_id: str | None, since: str) -> list[Cost]:
    """Return every attempt at an agent's turn that was opened at or after an instant, of all tasks
    or of one task and those below it."""
    attempts: list[Cost] = []
    rows = {row.id: row for row in await storage.events.tasks()}
    for row in rows.values():
        if row.workflow == TICKET:  # its turns come with those of its session
            continue
        turns = [one for one in await storage.journal.turns(row.id) if one.opened_at >= since]
        if task_id is not None:
            turns = [turn for turn in turns if task_id in _above(turn.task_id, rows)]
        if turns:
            created = fold(await storage.events.of_task(row.id)).created
            if not created.rehearsal:  # a rehearsal used nothing, whatever its agents reported
                attempts += _of_task(turns, rows[row.session_id], created.team)
    return sorted(attempts, key=lambda cost: cost.at)


def _above(task_id: str, rows: Mapping[str, TaskRow]) -> Iterator[str]:
    """Yield a task and its ancestors."""
    part: str | None = task_id
    while part is not None:
        yield part
        part = rows[part].parent_id


def _of_task(turns: Sequence[Turn], root: TaskRow, team: Team) -> list[Cost]:
    attempts: list[Cost] = []
    for turn in turns:
        member = team.instance(turn.member)
        if member is None or member.type == "ai":
            taken = turn.outcome in ("completed", "interrupted")
            agent = member.agent or "" if member else ""
            usage = turn.used
            if taken or usage is not None:
                whose = (root.id, root.title, turn.member, agent, turn.opened_at)
                part = ticket_task_of(turn.task_id) or turn.task_id
                attempts.append(Cost(*whose, int(taken), usage, part))
    return attempts


CostKey = Literal["task", "ticket", "member", "agent", "day"]
_KEYS: Mapping[CostKey, Callable[[Cost], str]] = {
    "task": lambda cost: cost.task,
    "ticket": lambda cost: cost.part,
    "member": lambda cost: base_of(cost.member),
    "agent": lambda cost: cost.agent or "-",
    "day": lambda cost: cost.at[:10],
}
"""What costs can be grouped by; as in budgets, days are in UTC, and the instances of a member are
one."""


def grouped(costs: Sequence[Cost], by: CostKey) -> dict[str, list[Cost]]:
    """Group costs by the values of a key."""
    groups: dict[str, list[Cost]] = {}
    for cost in costs:
        groups.setdefault(_KEYS[by](cost), []).append(cost)
    return groups


def cost_fields(costs: Sequence[Cost]) -> dict[str, object]:
    """Return the combined cost of several attempts as a JSON object."""
    usage = sum_of(cost.usage for cost in costs if cost.usage is not None)
    return {
        "turns": sum(cost.turns for cost in costs),
        "untold": sum(cost.usage is None for cost in costs),
        "usage": None if usage is None else asdict(usage),
    }


def tally(costs: Sequence[Cost]) -> Tally:
    """Return the combined cost, as budgets count it."""
    total = Tally()
    for cost in costs:
        total = total.plus(cost.usage, cost.turns)
    return total
