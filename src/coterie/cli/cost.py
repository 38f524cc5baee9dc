"""`coterie cost`: what was used, as far as the agents told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from coterie.cli import budgets
from coterie.cli.call import Call, command, pass_call
from coterie.cli.project import look
from coterie.cli.text import Since, counted, one_line, table, token_count
from coterie.model.update import Usage, sum_of

if TYPE_CHECKING:
    from coterie.app.costs import Cost
    from coterie.app.project import App
    from coterie.model.record import TaskDetail

UNKNOWN = "-"

_KEYS: Mapping[str, Callable[[Cost], str]] = {
    "task": lambda cost: cost.task,
    "member": lambda cost: cost.member,
    "agent": lambda cost: cost.agent or UNKNOWN,
    "day": lambda cost: cost.at[:10],
}
"""What costs can be grouped by; days are those of UTC, as budgets count them."""


@command("cost", "coterie cost --by day --since 7d")
@click.argument("id_", metavar="[ID]", required=False)
@click.option("--by", type=click.Choice(list(_KEYS)), help="A row for each (task; of one: member).")
@click.option("--since", type=Since(), metavar="7d", help="Only from then on: 7d, 2h, 2026-01-31.")
@pass_call
def cost(call: Call, id_: str | None, by: str | None, since: str | None) -> None:
    """Tokens and money, by task, member, agent or day.

    A figure that no agent told is shown as -, never as 0.
    """

    async def body(app: App) -> tuple[list[Cost], TaskDetail | None]:
        task_id = await app.find_task(id_) if id_ else None
        detail = await app.show(task_id) if task_id else None
        return await app.costs(task_id, since or ""), detail

    found = look(call, body)
    if found is None:
        return
    costs, detail = found
    by = by or ("task" if id_ is None else "member")
    groups = _grouped(costs, _KEYS[by])
    for name, group in groups.items():
        call.record("cost", {"by": by, "key": name, **_fields(group)})
    if not costs:
        call.line("No agent has taken a turn yet.")
        return
    titles = {one.task: one.title for one in costs} if by == "task" else {}
    rows = [_row(name, group, titles.get(name, "")) for name, group in groups.items()]
    total = [_row("all", costs, "")] if len(rows) > 1 else []
    head = (by.upper(), "TURNS", "INPUT", "OUTPUT", "USD", "TOLD BY", "")
    call.lines(table([head, *rows, *total], call.width))
    if detail is not None and since is None:
        call.lines(_budgets(detail, costs))


def _grouped(costs: Sequence[Cost], key: Callable[[Cost], str]) -> dict[str, list[Cost]]:
    groups: dict[str, list[Cost]] = {}
    for one in costs:
        groups.setdefault(key(one), []).append(one)
    return groups


def _known(costs: Sequence[Cost]) -> Usage | None:
    return sum_of(one.usage for one in costs if one.usage is not None)


def _row(name: str, costs: Sequence[Cost], title: str) -> tuple[str, ...]:
    usage = _known(costs) or Usage()
    return (
        name,
        str(sum(one.turns for one in costs)),
        _tokens(usage.input_tokens),
        _tokens(usage.output_tokens),
        UNKNOWN if usage.cost_usd is None else f"{usage.cost_usd:.2f}",
        _told_by(usage, costs),
        one_line(title),
    )


def _tokens(count: int | None) -> str:
    return UNKNOWN if count is None else token_count(count)


def _told_by(usage: Usage, costs: Sequence[Cost]) -> str:
    """Where the figures come from, and how many turns they leave out."""
    silent = sum(one.usage is None for one in costs)
    if silent == len(costs):
        return "nobody"
    return usage.source + (f"; {counted(silent, 'turn')} untold" if silent else "")


def _fields(costs: Sequence[Cost]) -> dict[str, object]:
    usage = _known(costs)
    return {
        "turns": sum(one.turns for one in costs),
        "untold": sum(one.usage is None for one in costs),
        "usage": None if usage is None else asdict(usage),
    }


def _budgets(detail: TaskDetail, costs: Sequence[Cost]) -> list[str]:
    """What is left of a task's budgets."""
    from coterie.app.costs import tally

    team = detail.state.created.team
    more = sum(budgets.granted_tokens(one.interaction, one.answer) for one in detail.questions)
    whole = team.budget
    if whole.tokens is not None:
        whole = whole.model_copy(update={"tokens": whole.tokens + more})
    lines = [("all", budgets.used(whole, tally(costs)))]
    for member in team.in_order:
        mine = [one for one in costs if one.member == member.id]
        lines.append((member.id, budgets.used(member.budget, tally(mine))))
    size = max(len(name) for name, _ in lines)
    told = [f"  {name:<{size}}  {used}" for name, used in lines if used]
    return ["Budget of the task", *told] if told else []
