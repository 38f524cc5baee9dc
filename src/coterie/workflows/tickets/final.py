"""The end of a session: what was done, checked and decided, for programs and for people."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from coterie.model.envelope import ArtifactRef, Envelope, Instruction, Report, Review
from coterie.model.task import TaskCreated
from coterie.model.ticket import Ticket
from coterie.workspace.ticket_ground import Ground


@dataclass(frozen=True)
class TicketLine:
    """One ticket at the end."""

    id: str
    task_id: str
    title: str
    state: str
    owner: str | None
    closed_by: str | None
    reason: str
    sent_back: int
    """How often review sent it back."""
    outputs: tuple[str, ...]
    unchecked: tuple[str, ...]
    """Criteria that no command shows: a person has to look."""


@dataclass(frozen=True)
class FinalReport:
    """What `final_report.json` says."""

    session_id: str
    goal: str
    summary: str
    tickets: tuple[TicketLine, ...]
    artifacts: tuple[dict[str, object], ...]
    branch: str
    """Where the work is; empty where it was done in the folder itself."""
    commit: str
    next_steps: tuple[str, ...]


def final_report(
    task: TaskCreated, tickets: Sequence[Ticket], said: Iterable[Envelope], ground: Ground
) -> FinalReport:
    """The report, from what is kept.  Blocks."""
    letters = list(said)
    lines = tuple(_line(ticket, letters) for ticket in tickets)
    done = sum(line.state == "done" for line in lines)
    gone = [line for line in lines if line.closed_by is not None and line.state != "done"]
    summary = f"{done} done" + (f", {len(gone)} dropped or replaced" if gone else "")
    branch = ground.branch
    return FinalReport(
        session_id=task.session_id,
        goal=task.goal,
        summary=summary,
        tickets=lines,
        artifacts=tuple(
            one.payload.model_dump(mode="json", exclude_none=True)
            for one in letters
            if isinstance(one.payload, ArtifactRef)
        ),
        branch=branch,
        commit=ground.head() if branch else "",
        next_steps=_next_steps(task.task_id, branch, lines),
    )


def _line(ticket: Ticket, letters: Sequence[Envelope]) -> TicketLine:
    mine = [one.payload for one in letters if one.ticket_id == ticket.id]
    reports = [one for one in mine if isinstance(one, Report)]
    orders = [one for one in mine if isinstance(one, Instruction)]
    sent_back = [one for one in mine if isinstance(one, Review) and one.decision != "approved"]
    criteria = orders[-1].acceptance_criteria if orders else ()
    return TicketLine(
        id=ticket.id,
        task_id=ticket.task_id,
        title=ticket.title,
        state=ticket.state,
        owner=ticket.owner,
        closed_by=ticket.closed_by,
        reason=ticket.reason,
        sent_back=len(sent_back),
        outputs=reports[-1].outputs if reports else (),
        unchecked=tuple(one.text for one in criteria if one.command is None),
    )


def _next_steps(task_id: str, branch: str, lines: Sequence[TicketLine]) -> tuple[str, ...]:
    look = [f"Look at {line.id}: {text}" for line in lines for text in line.unchecked]
    take = [f"coterie accept {task_id}", f"coterie diff {task_id}"] if branch else []
    return (*take, *look)


def write_report(root: Path, report: FinalReport) -> None:
    """`final_report.json` and the same as Markdown, in the session's folder.  Blocks."""
    folder = root / ".coterie" / "sessions" / report.session_id
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(asdict(report), indent=2, ensure_ascii=False) + "\n"
    _put(folder / "final_report.json", text)
    _put(folder / "final_report.md", markdown(report))


def markdown(report: FinalReport) -> str:
    """The report as people read it."""
    lines = [f"# {report.goal.strip().splitlines()[0]}", "", report.summary, "", "## Tickets", ""]
    lines += ["| ticket | state | owner | what |", "| --- | --- | --- | --- |"]
    for one in report.tickets:
        state = f"{one.state} ({one.closed_by})" if one.closed_by else one.state
        lines.append(f"| {one.id} | {state} | {one.owner or '-'} | {one.title} |")
    if report.artifacts:
        lines += ["", "## Checked by Coterie", ""]
        lines += [f"- {one['label']}: {one.get('description', '')}" for one in report.artifacts]
    unchecked = [f"- {one.id}: {text}" for one in report.tickets for text in one.unchecked]
    if unchecked:
        lines += ["", "## Not checked: please look", "", *unchecked]
    if report.branch:
        lines += ["", f"The work is on branch `{report.branch}` at {report.commit[:12]}."]
    if report.next_steps:
        lines += ["", "## Next", "", *(f"- {step}" for step in report.next_steps)]
    return "\n".join(lines) + "\n"


def _put(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)
