"""The end of a session: what was done, checked and decided, for programs and for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import anyio.to_thread

from coterie.model.about import ReportConfirmation
from coterie.model.check import check_results
from coterie.model.envelope import ArtifactRef, Envelope, Instruction, Payload, Report, Review
from coterie.model.interaction import APPROVE, COTERIE, Ask, Option
from coterie.model.task import Ended, TaskCreated, title_of
from coterie.model.ticket import FINAL_COMMIT, Ticket, after_session
from coterie.model.update import Usage
from coterie.workflows.chat import STOP, answer_or_stop
from coterie.workflows.tickets.messenger import Draft
from coterie.workflows.tickets.ticket_run import SessionServices
from coterie.workspace.beneath import write_file

_READABLE = "final_report.md"
_NO_WORDS = "It is not what I want yet."
"""The notes of a user who sends the report back without comment."""
_CHOICES = 12
"""How many tickets are offered as the one that is not done."""
_TICKET_FACTS = ("id", "task_id", "title", "state", "owner", "closed_by", "reason")
_USAGE_FACTS = ("input_tokens", "output_tokens", "cost_usd")


@dataclass(frozen=True)
class TicketSummary:
    """One ticket at the end of its session."""

    ticket: Ticket
    sent_back: int
    """How often review sent it back."""
    outputs: tuple[str, ...]
    checks: Mapping[str, bool]
    """Whether each command passed when Coterie last ran it."""
    unchecked: tuple[str, ...]
    """Criteria that no command has verified: a person has to look."""

    @property
    def json(self) -> dict[str, object]:
        """The summary as it appears in `final_report.json`."""
        own = {key: value for key, value in vars(self).items() if key != "ticket"}
        return {name: getattr(self.ticket, name) for name in _TICKET_FACTS} | own


@dataclass(frozen=True)
class FinalReport:
    """What a session did, checked and decided, and where its work is."""

    task: TaskCreated
    tickets: Sequence[TicketSummary]
    artifacts: Sequence[ArtifactRef]
    usage: Mapping[str, Usage]
    """The usage by member, as far as its agent reported it."""
    branch: str
    """The branch of the work; empty if it was done in the project's folder itself."""
    commit: str

    @property
    def summary(self) -> str:
        """How many tickets were done, in one line."""
        states = [(one.ticket.state == "done", one.ticket.closed_by) for one in self.tickets]
        done = sum(is_done for is_done, _ in states)
        gone = sum(not is_done and closed_by is not None for is_done, closed_by in states)
        unchecked = sum(one.ticket.state == "done" and not one.checks for one in self.tickets)
        text = f"{done} done" + (f", {gone} dropped or replaced" if gone else "")
        if not unchecked:
            return text
        return f"{text}; " + (
            "no check was run" if unchecked == done else f"{unchecked} without any check"
        )

    @property
    def next_steps(self) -> Sequence[str]:
        """What the user should do now."""
        task = self.task.task_id
        unchecked = [(one.ticket.id, text) for one in self.tickets for text in one.unchecked]
        onward = after_session(task, has_branch=bool(self.branch))
        return [*onward, *(f"Check {ticket}: {text}" for ticket, text in unchecked)]

    @property
    def json(self) -> dict[str, object]:
        """The report as it appears in `final_report.json`."""
        artifacts = [one.model_dump(mode="json", exclude_none=True) for one in self.artifacts]
        return {
            "session_id": self.task.session_id,
            "goal": self.task.goal,
            "summary": self.summary,
            "tickets": [one.json for one in self.tickets],
            "artifacts": artifacts,
            "usage": [
                {"member": member, **{name: getattr(spent, name) for name in _USAGE_FACTS}}
                for member, spent in sorted(self.usage.items())
            ],
            "branch": self.branch,
            "commit": self.commit,
            "next_steps": self.next_steps,
        }


async def confirmed_report(services: SessionServices) -> FinalReport | str:
    """Write the report and have the user confirm it; a returned text is what they still want."""
    context, worktrees = services.context, services.worktrees
    name = f"final/{services.tracker.plans}"

    async def head() -> object:
        return await anyio.to_thread.run_sync(worktrees.head) if worktrees else ""

    commit = str(await context.step(f"{name}/head", [], head))
    report = await _report(services, commit)
    await anyio.to_thread.run_sync(_write, context.root, report)
    return await _missing(services, f"{name}/confirm", report) or report


async def conclude(services: SessionServices, report: FinalReport) -> Ended:
    """End the session, recording the confirmed commit: only that one can be accepted."""

    async def confirmed() -> object:
        return report.commit

    await services.context.step(FINAL_COMMIT, [], confirmed)
    return Ended("done", report.summary)


async def _missing(services: SessionServices, name: str, report: FinalReport) -> str | None:
    """Ask the user to confirm the report; return what they still want, else None."""
    task = services.task
    if task.caps.yes:
        return None
    place = f".coterie/sessions/{task.session_id}/{_READABLE}"
    question = Ask(
        COTERIE,
        "Composite",
        ReportConfirmation(summary=report.summary, commit=report.commit, report=place),
        options=(
            Option(id=APPROVE, label="it is done", style="primary"),
            Option(id="change", label="not yet", detail="(the manager replans with your comment)"),
            STOP,
            *(
                Option(id=one.ticket.id, label="this one is not done", detail="(say why)")
                for one in [one for one in report.tickets if one.ticket.closed_by is None][
                    :_CHOICES
                ]
            ),
        ),
        content=_table(report),
        content_kind="Table",
        intent=["report", report.commit],
    )
    for tries in count(1):
        step = name if tries == 1 else f"{name}/{tries}"
        response = (await answer_or_stop(services.context, step, question)).response
        if response.selected_option_id == STOP.id:
            continue  # an earlier run was stopped here: ask again
        approves = response.selected_option_id == APPROVE
        wanted = response.words
        chosen = next((one for one in report.tickets if one.ticket.id == response.choice), None)
        if chosen is not None:
            wanted = f"{chosen.ticket.id} ({chosen.ticket.title}) is not done. {wanted}".strip()
        review = Review(
            decision="approved" if approves else "changes_requested",
            notes=wanted if approves else wanted or _NO_WORDS,
        )
        drafts = Draft(response.author_actor_id, services.manager.id, review)
        await services.messenger.post(f"{step}/answered", drafts)
        return None if approves else review.notes
    raise AssertionError("unreachable")


def _table(report: FinalReport) -> str:
    """Return a JSON table with a row for each ticket."""
    rows = [
        {
            "ticket": one.ticket.id,
            "state": one.ticket.closed_by or one.ticket.state,
            "who": one.ticket.owner or "",
            "what": one.ticket.title,
            "checks": f"{sum(one.checks.values())} of {len(one.checks)} passed"
            if one.checks
            else "none",
        }
        for one in report.tickets
    ]
    return json.dumps(rows, ensure_ascii=False)


async def _report(services: SessionServices, commit: str) -> FinalReport:
    context, worktrees = services.context, services.worktrees
    _, envelopes = await context.tickets()
    return FinalReport(
        services.task,
        summaries(services.tracker.tickets, envelopes),
        _newest_artifacts(envelopes),
        await context.spent(),
        worktrees.branch if worktrees else "",
        commit,
    )


def summaries(tickets: Sequence[Ticket], envelopes: Sequence[Envelope]) -> list[TicketSummary]:
    """Return what became of each ticket, from the messages about it."""
    results = check_results(envelopes)
    by_ticket: dict[str | None, list[Payload]] = {}
    for envelope in envelopes:
        by_ticket.setdefault(envelope.ticket_id, []).append(envelope.payload)
    return [
        _summary(ticket, by_ticket.get(ticket.id, []), results.get(ticket.id, {}))
        for ticket in tickets
    ]


def _summary(
    ticket: Ticket, payloads: Sequence[Payload], results: Mapping[str, bool]
) -> TicketSummary:
    reports = [one for one in payloads if isinstance(one, Report)]
    orders = [one for one in payloads if isinstance(one, Instruction)]
    reviews = [one for one in payloads if isinstance(one, Review)]
    criteria = orders[-1].acceptance_criteria if orders and ticket.closed_by is None else ()
    return TicketSummary(
        ticket,
        sent_back=sum(review.decision != "approved" for review in reviews),
        outputs=reports[-1].outputs if reports else (),
        checks=results,
        unchecked=tuple(one.text for one in criteria if one.command not in results),
    )


def _newest_artifacts(envelopes: Sequence[Envelope]) -> list[ArtifactRef]:
    """Return each ticket's last artifact of each name: checks are run on the merged tree, too."""
    newest: dict[tuple[str | None, str], ArtifactRef] = {}
    for envelope in envelopes:
        if isinstance(envelope.payload, ArtifactRef):
            newest[envelope.ticket_id, envelope.payload.label] = envelope.payload
    return list(newest.values())


def _write(root: Path, report: FinalReport) -> None:
    """Write `final_report.json` and the same as Markdown to the session's folder.  Blocks."""
    place = ("sessions", report.task.session_id)
    text = json.dumps(report.json, indent=2, ensure_ascii=False) + "\n"
    for name, content in (("final_report.json", text), (_READABLE, markdown(report))):
        write_file(root / ".coterie", (*place, name), content.encode())


def markdown(report: FinalReport) -> str:
    """Return the report as it appears in `final_report.md`."""
    lines = [f"# {title_of(report.task.goal) or report.task.session_id}", "", report.summary]
    logs = [(one, one.checked) for one in report.artifacts]
    sections = {
        "Tickets": [
            "| ticket | state | owner | what |",
            "| --- | --- | --- | --- |",
            *(_row(one.ticket) for one in report.tickets),
        ],
        "Checked by Coterie": [f"- {one.label}: {one.description}" for one, run in logs if run]
        or ["Nothing: no check was run."],
        "Artifacts": [f"- {one.label}: artifacts/{one.uri}" for one, run in logs if not run],
        "Used": [_used(member, spent) for member, spent in sorted(report.usage.items())],
        "Not checked by any command": [
            f"- {one.ticket.id}: {text}" for one in report.tickets for text in one.unchecked
        ],
        "": [f"The work is on branch `{report.branch}` at {report.commit[:12]}."]
        if report.branch
        else [],
        "Next": [f"- {step}" for step in report.next_steps],
    }
    for title, content in sections.items():
        if content:
            lines += ["", *([f"## {title}", ""] if title else []), *content]
    return "\n".join(lines) + "\n"


def _row(ticket: Ticket) -> str:
    state = f"{ticket.state} ({ticket.closed_by})" if ticket.closed_by else ticket.state
    title = " ".join(ticket.title.split()).replace("|", r"\|")
    return f"| {ticket.id} | {state} | {ticket.owner or '-'} | {title} |"


def _used(member: str, spent: Usage) -> str:
    tokens = [count for count in (spent.input_tokens, spent.output_tokens) if count is not None]
    cost = "" if spent.cost_usd is None else f", ${spent.cost_usd:.2f}"
    return f"- {member}: {sum(tokens):,} tokens{cost}"
