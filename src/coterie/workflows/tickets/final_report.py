"""The end of a session: what was done, checked and decided, for programs and for people."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio.to_thread

from coterie.model.envelope import ArtifactRef, Envelope, Instruction, Payload, Report, Review
from coterie.model.task import Ended, TaskCreated
from coterie.model.ticket import FINAL_COMMIT, Ticket
from coterie.model.ticket_view import check_results
from coterie.model.update import Usage
from coterie.ports import Context
from coterie.workspace.ticket_worktrees import TicketFolders


@dataclass(frozen=True)
class TicketSummary:
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
    checks: dict[str, bool]
    """By command: whether it passed when Coterie last ran it."""
    unchecked: tuple[str, ...]
    """Criteria that no command has shown: a person has to look."""


@dataclass(frozen=True)
class MemberUsage:
    """What a member used, as far as its agent told."""

    member: str
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None


@dataclass(frozen=True)
class FinalReport:
    """What `final_report.json` says."""

    session_id: str
    goal: str
    summary: str
    tickets: tuple[TicketSummary, ...]
    artifacts: tuple[dict[str, object], ...]
    usage: tuple[MemberUsage, ...]
    branch: str
    """Where the work is; empty where it was done in the folder itself."""
    commit: str
    next_steps: tuple[str, ...]


async def conclude(
    task: TaskCreated, context: Context, tickets: Sequence[Ticket], folders: TicketFolders
) -> Ended:
    """Write the report, with the commit that all of it is about on record."""

    async def head() -> object:
        return await anyio.to_thread.run_sync(folders.head)

    commit = str(await context.step(FINAL_COMMIT, [], head))
    _, envelopes = await context.tickets()
    spent = await context.spent()
    report = final_report(task, tickets, envelopes, spent, (folders.branch, commit))
    await anyio.to_thread.run_sync(write_report, context.root, report)
    return Ended("done", report.summary)


def final_report(
    task: TaskCreated,
    tickets: Sequence[Ticket],
    envelopes: Sequence[Envelope],
    spent: Mapping[str, Usage],
    where: tuple[str, str],
) -> FinalReport:
    """The report, from what is stored; `where` is the branch and the commit of the work."""
    results = check_results(envelopes)
    by_ticket: dict[str, list[Payload]] = {}
    for envelope in envelopes:
        if envelope.ticket_id:
            by_ticket.setdefault(envelope.ticket_id, []).append(envelope.payload)
    lines = tuple(
        _summary(ticket, by_ticket.get(ticket.id, []), results.get(ticket.id, {}))
        for ticket in tickets
    )
    branch, commit = where
    done = sum(line.state == "done" for line in lines)
    gone = [line for line in lines if line.closed_by is not None and line.state != "done"]
    summary = f"{done} done" + (f", {len(gone)} dropped or replaced" if gone else "")
    return FinalReport(
        session_id=task.session_id,
        goal=task.goal,
        summary=summary,
        tickets=lines,
        artifacts=tuple(
            one.model_dump(mode="json", exclude_none=True) for one in _newest_artifacts(envelopes)
        ),
        usage=tuple(
            MemberUsage(member, one.input_tokens, one.output_tokens, one.cost_usd)
            for member, one in sorted(spent.items())
        ),
        branch=branch,
        commit=commit,
        next_steps=_next_steps(task.task_id, branch, lines),
    )


def _newest_artifacts(envelopes: Iterable[Envelope]) -> Iterable[ArtifactRef]:
    """Of what a ticket registered by one name, the last: a check is run on the merged tree too."""
    newest: dict[tuple[str | None, str], ArtifactRef] = {}
    for envelope in envelopes:
        if isinstance(envelope.payload, ArtifactRef):
            newest[envelope.ticket_id, envelope.payload.label] = envelope.payload
    return newest.values()


def _summary(ticket: Ticket, mine: Sequence[Payload], results: Mapping[str, bool]) -> TicketSummary:
    reports = [one for one in mine if isinstance(one, Report)]
    orders = [one for one in mine if isinstance(one, Instruction)]
    sent_back = [one for one in mine if isinstance(one, Review) and one.decision != "approved"]
    criteria = orders[-1].acceptance_criteria if orders else ()
    return TicketSummary(
        id=ticket.id,
        task_id=ticket.task_id,
        title=ticket.title,
        state=ticket.state,
        owner=ticket.owner,
        closed_by=ticket.closed_by,
        reason=ticket.reason,
        sent_back=len(sent_back),
        outputs=reports[-1].outputs if reports else (),
        checks={**results},
        unchecked=tuple(one.text for one in criteria if one.command not in results),
    )


def _next_steps(task_id: str, branch: str, lines: Sequence[TicketSummary]) -> tuple[str, ...]:
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
    checks = [one for one in report.artifacts if "check" in one]
    if checks:
        lines += ["", "## Checked by Coterie", ""]
        lines += [f"- {one['label']}: {one.get('description', '')}" for one in checks]
    made = [one for one in report.artifacts if one not in checks]
    if made:
        lines += ["", "## Artifacts", ""]
        lines += [f"- {one['label']}: artifacts/{one['uri']}" for one in made]
    if report.usage:
        lines += ["", "## Used", ""]
        lines += [_used(one) for one in report.usage]
    unchecked = [f"- {one.id}: {text}" for one in report.tickets for text in one.unchecked]
    if unchecked:
        lines += ["", "## Not checked: please look", "", *unchecked]
    if report.branch:
        lines += ["", f"The work is on branch `{report.branch}` at {report.commit[:12]}."]
    if report.next_steps:
        lines += ["", "## Next", "", *(f"- {step}" for step in report.next_steps)]
    return "\n".join(lines) + "\n"


def _used(usage: MemberUsage) -> str:
    tokens = [one for one in (usage.input_tokens, usage.output_tokens) if one is not None]
    cost = "" if usage.cost_usd is None else f", ${usage.cost_usd:.2f}"
    return f"- {usage.member}: {sum(tokens):,} tokens{cost}"


def _put(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)
