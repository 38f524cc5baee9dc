"""The end of a session with tickets, on one screen.

"checked" is what Coterie ran itself, on a tree that it knows; nothing that an agent said counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from coterie.cli import card
from coterie.cli.text import Paint, cells, clock, counted, ends, one_line, wrap
from coterie.cli.ticket_table import Row, rows, thousands, took
from coterie.errors import CoterieError
from coterie.model.about import FailedTicket, PlanApproval
from coterie.model.check import ended
from coterie.model.envelope import ArtifactRef, Envelope, Instruction
from coterie.model.instant import seconds_between
from coterie.model.interaction import APPROVE, NOBODY
from coterie.model.record import MessageRecord, QuestionView, TaskDetail
from coterie.model.team import Team, base_of

if TYPE_CHECKING:
    from coterie.app.project import App

_NAME = 14
_FEW = 4
"""So many of a kind are named."""
_LONGEST = 60
_TIMES = {1: "once", 2: "twice"}


@dataclass(frozen=True)
class SessionReport:
    """All that the report is made of."""

    detail: TaskDetail
    rows: Sequence[Row]
    said: Sequence[Envelope]
    changed: tuple[int, int, int] | None
    """Files, lines added, lines removed; None where nobody can say."""
    where: str
    tokens: Mapping[str, int]
    money: float
    words: Sequence[str] = ()
    """What the user told the manager on the way."""

    @property
    def task(self) -> str:
        """The session's id."""
        return self.detail.view.id


async def session_report(app: App, task_id: str) -> SessionReport:
    """What there is to report of a session."""
    detail = await app.show(task_id)
    views = await app.tickets(task_id)
    tokens: dict[str, int] = {}
    money = 0.0
    for cost in await app.costs(task_id):
        used = cost.usage
        if used is not None:
            name = base_of(cost.member)
            many = (used.input_tokens or 0) + (used.output_tokens or 0)
            tokens[name] = tokens.get(name, 0) + many
            money += used.cost_usd or 0.0
    branch = await app.branch(task_id)
    return SessionReport(
        detail,
        rows(views, detail.state.created.team),
        await app.envelopes(task_id),
        await _changed(app, task_id),
        f"branch {branch}; your tree untouched" if branch else "in your folder",
        tokens,
        money,
        await _words(app, detail),
    )


async def _words(app: App, detail: TaskDetail) -> list[str]:
    team = detail.state.created.team
    said = [
        entry.record.text
        for entry in await app.timeline(detail.view.id)
        if isinstance(entry.record, MessageRecord) and _is_person(team, entry.record.member)
    ]
    return said[1:]  # the first is the goal


def _is_person(team: Team, name: str) -> bool:
    member = team.seated(name)
    return member is None or member.type == "human"


async def _changed(app: App, task_id: str) -> tuple[int, int, int] | None:
    try:
        files = [one for patch in (await app.diff(task_id)).patches for one in patch.files]
    except CoterieError:  # `coterie diff` will say it again
        return None
    added = sum(one.added or 0 for one in files)
    return len(files), added, sum(one.removed or 0 for one in files)


def lines(ended: SessionReport, width: int, paint: Paint) -> list[str]:
    """The report."""
    view, goal = ended.detail.view, one_line(ended.detail.state.created.goal)
    facts = [took(seconds_between(view.created_at, view.changed_at))]
    facts += [f"{thousands(sum(ended.tokens.values()))} tokens"] if ended.tokens else []
    facts += [f"${ended.money:.2f}"] if ended.money else []
    head = ends(f" DONE  {view.id}  {goal}", " · ".join(facts), width - 1)
    shown = [head.replace(" DONE ", f" {paint('DONE', 'good')} ", 1), f" {_summary(ended)}", ""]
    for name, value in _parts(ended):
        first, *rest = wrap(value, max(width - _NAME - 2, 20))
        shown += [f" {name:<{_NAME}}{first}", *(f"{'':{_NAME + 1}}{line}" for line in rest)]
    nexts = " · ".join(f"coterie {verb} {view.id}" for verb in ("diff", "accept", "revert"))
    return [*shown, "", f" Next   {nexts}"]


def _summary(ended: SessionReport) -> str:
    done = sum(row.kind == "done" for row in ended.rows)
    parts = [f"{done} done"]
    for row in ended.rows:
        if row.kind == "dropped":
            parts.append(f"{row.ticket.id} dropped ({one_line(row.ticket.reason)})")
        elif row.kind == "replaced":
            parts.append(f"{row.ticket.id} became {row.ticket.closed_by}")
    return " · ".join(parts)


def _parts(ended: SessionReport) -> Iterator[tuple[str, str]]:
    if ended.changed is not None:
        files, added, removed = ended.changed
        yield "CHANGED", f"{counted(files, 'file')} +{added} -{removed}   {ended.where}"
    yield "CHECKED", _checked(ended.said) or "nothing: there was no command to run"
    yield from _several("NOT CHECKED", _unchecked(ended), "no command; please look")
    yield from _several("SENT BACK", _sent_back(ended))
    yield from _several("YOU DECIDED", _decided(ended))
    if ended.tokens:
        most = sorted(ended.tokens.items(), key=lambda one: -one[1])
        yield "TOKENS", " · ".join(f"{member} {thousands(count)}" for member, count in most)


def _several(name: str, told: Sequence[str], after: str = "") -> Iterator[tuple[str, str]]:
    if told:
        more = f" · and {len(told) - _FEW} more" if len(told) > _FEW else ""
        yield name, " · ".join(told[:_FEW]) + more + (f": {after}" if after else "")


def _checked(said: Sequence[Envelope]) -> str:
    """The newest outcome of each command, by the tree that it ran on, the newest first."""
    newest: dict[str, tuple[str, str]] = {}
    for one in said:
        if isinstance(one.payload, ArtifactRef) and (check := one.payload.checked):
            command = one_line(check.command)
            newest.pop(command, None)
            newest[command] = (ended(check), check.tree)
    trees = dict.fromkeys(tree for _, tree in reversed(newest.values()))
    parts: list[str] = []
    for tree in trees:
        ran = [f"{command} {how}" for command, (how, at) in newest.items() if at == tree]
        parts.append(", ".join(ran) + (f", at tree {tree[:6]}" if tree else ""))
    more = [f"and {len(parts) - _FEW} more before"] if len(parts) > _FEW else []
    return "; ".join([*parts[:_FEW], *more])


def _unchecked(ended: SessionReport) -> list[str]:
    """Criteria that no command shows, of all that is done."""
    done = {row.ticket.id for row in ended.rows if row.kind == "done"}
    told: dict[str, Instruction] = {}
    for one in ended.said:
        if isinstance(one.payload, Instruction) and one.ticket_id in done:
            told[one.ticket_id] = one.payload
    return [
        f'{name} "{_short(criterion.text)}"'
        for name, instruction in told.items()
        for criterion in instruction.acceptance_criteria
        if criterion.command is None
    ]


def _sent_back(ended: SessionReport) -> list[str]:
    """How often each ticket was, by review or by a merge, and why the last time."""
    told: list[str] = []
    for row in ended.rows:
        moments = pairwise(row.ticket.history)
        back = [now.message for before, now in moments if _is_back(before.event, now.event)]
        if back:
            times = _TIMES.get(len(back), f"{len(back)} times")
            told.append(f"{row.ticket.id} {times}: {_short(back[-1])}")
    return told


def _is_back(before: str, now: str) -> bool:
    return (before, now) == ("awaiting_review", "in_progress")


def _decided(ended: SessionReport) -> list[str]:
    """Every answer of a person, in a word or two."""
    answered = [
        one
        for one in ended.detail.questions
        if one.state == "answered" and one.answered_by != NOBODY
    ]
    words = [f'"{_short(one, 40)}"' for one in ended.words]
    return [*(_decision(view) for view in answered), *words]


def _decision(view: QuestionView) -> str:
    asked = view.interaction
    if isinstance(asked.about, PlanApproval) and view.answer == APPROVE:
        return f"plan {clock(view.answered_at or view.asked_at)[-8:-3]}"
    about = asked.about.ticket if isinstance(asked.about, FailedTicket) else None
    answer = _short(card.answered(asked, view.answer, view.said), 24)
    return f"{about or asked.interaction_id} {answer}"


def _short(text: str, room: int = _LONGEST) -> str:
    line = one_line(text)
    return line if cells(line) <= room else line[: room - 1] + "…"
