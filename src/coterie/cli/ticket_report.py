"""One ticket on a page, and the final report of a session on one screen.

"checked" is what Coterie ran itself, on a tree that it knows; nothing that an agent said counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from coterie.app.views import SessionReport, TicketDetail
from coterie.cli import card
from coterie.cli.text import Paint, cells, clock, counted, ends, field, hanging, one_line, packed
from coterie.cli.ticket_table import Row, rows, thousands, took
from coterie.model import envelope
from coterie.model.about import FailedTicket, PlanApproval, ReportConfirmation
from coterie.model.check import ended
from coterie.model.envelope import Envelope, Instruction, Payload
from coterie.model.instant import seconds_between
from coterie.model.interaction import APPROVE
from coterie.model.record import QuestionView
from coterie.model.ticket import TicketView, after_session

_RECENT = 12
"""How many history lines the live screen shows; `show` has all of them."""


def page_lines(
    detail: TicketDetail, row: Row, width: int, paint: Paint, *, whole: bool = True
) -> list[str]:
    """Return all about one ticket; with `whole`, its whole history, else the end of it."""
    ticket, full_name = row.ticket, f"{detail.session.id}/{row.ticket.id}"
    name, state = paint(full_name, "name"), paint(row.state, row.meaning)
    owner = f"   {one_line(row.owner)}" if row.owner else ""
    shown = [f"{name}  {one_line(ticket.title)}   {state}{owner}"]
    for name, value in _facts(detail, row):
        shown += field(name, value, width)
    kept = ticket.history if whole else ticket.history[-_RECENT:]
    history = [
        f"{clock(event.at)}  {event.event}"
        + (f": {one_line(event.message)}" if event.message else "")
        for event in kept
    ]
    if before := len(ticket.history) - len(kept):
        history.insert(0, f"… {before} earlier: coterie show {full_name}")
    for place, line in enumerate(history):
        shown += field("" if place else "history", line, width)
    return shown


def _facts(detail: TicketDetail, row: Row) -> list[tuple[str, str]]:
    ticket = row.ticket
    stands_still = ticket.closed_by is not None or ticket.state in ("blocked", "error")
    facts = [
        ("after", " ".join(ticket.dependencies)),
        ("why", ticket.reason if stands_still else ""),
        ("asks", f"{row.asks}   coterie show {row.asks}" if row.asks else ""),
    ]
    for kind, name in _NAMES.items():  # what manager and worker last said to each other
        messages = [sent for sent in detail.envelopes if isinstance(sent.payload, kind)]
        facts += [(name, f"{last.source}: {_payload_text(last.payload)}") for last in messages[-1:]]
    checks = _newest_checks(detail.envelopes)
    for command, artifact in checks.items():
        facts.append(("checked", f"{command}: {artifact.description}"))
    if ticket.state == "done" and not checks:
        facts.append(("checked", "nothing: no check was run"))
    facts += [("artifact", text) for text in _artifacts(detail)]
    facts += [("cost", _cost(row.view)), ("branch", detail.branch)]
    facts.append(("log", f"coterie log {detail.task.view.id}" if detail.task else ""))
    return [fact for fact in facts if fact[1]]


_NAMES: Mapping[type[Payload], str] = {
    envelope.InstructionProposal: "proposal",
    Instruction: "told",
    envelope.Report: "report",
    envelope.Review: "review",
    envelope.Error: "error",
}


def _artifacts(detail: TicketDetail) -> list[str]:
    """Describe the stored artifacts except check logs, the newest version of each."""
    kept: dict[str, str] = {}
    for message in detail.envelopes:
        artifact = message.payload
        if isinstance(artifact, envelope.ArtifactRef) and not artifact.checked:
            facts = [artifact.content_type or "", f"{artifact.size_bytes or 0} bytes"]
            place = f".coterie/sessions/{detail.session.id}/artifacts/{artifact.uri}"
            kept[artifact.label] = f"{artifact.label}: {' · '.join(filter(None, facts))}\n  {place}"
    return list(kept.values())


def _cost(view: TicketView) -> str:
    parts = [counted(view.turns, "turn")] if view.turns else []
    parts += [took(view.seconds)] if view.seconds else []
    parts += [f"{thousands(view.tokens)} tokens"] if view.tokens is not None else []
    return " · ".join(parts)


def _payload_text(payload: Payload) -> str:
    match payload:
        case envelope.InstructionProposal():
            return _listed(payload.summary, [f"risk: {risk}" for risk in payload.risks])
        case Instruction():
            criteria = [
                f"- {rule.text}   {f'checked by {rule.command}' if rule.command else 'please look'}"
                for rule in payload.acceptance_criteria
            ]
            return _listed(payload.summary, payload.steps, criteria)
        case envelope.Report():
            # Only the agent's claim: what it says that it ran is not a check.
            made = [f"made {output}" for output in payload.outputs]
            says = [f"says {evidence}" for evidence in payload.evidence]
            return _listed(payload.status, made, says, payload.issues, payload.next_actions)
        case envelope.Review():
            decision = payload.decision.replace("_", " ")
            return _listed(decision, payload.requested_changes, [payload.notes])
        case envelope.Error():
            return f"{payload.code}: {payload.message}"
        case _:
            return ""


def _listed(first: str, *rest: Sequence[str]) -> str:
    return "\n".join([first, *(f"  {line}" for part in rest for line in part if line.strip())])


def _newest_checks(messages: Iterable[Envelope]) -> dict[str, envelope.ArtifactRef]:
    """Return the newest outcome of every command that Coterie ran, oldest first."""
    newest: dict[str, envelope.ArtifactRef] = {}
    for message in messages:
        artifact = message.payload
        if isinstance(artifact, envelope.ArtifactRef) and artifact.checked:
            newest.pop(artifact.checked.command, None)
            newest[artifact.checked.command] = artifact
    return newest


_NAME = 14
_FEW = 4
"""How many of a kind are named."""
_LONGEST = 60
_TIMES = {1: "once", 2: "twice"}


def report_lines(ended: SessionReport, width: int, paint: Paint) -> list[str]:
    """Return the final report of a session."""
    detail = ended.session.detail
    view, goal = detail.view, one_line(detail.state.created.goal)
    listed = rows(ended.session)
    facts = [took(seconds_between(view.created_at, view.changed_at))]
    facts += [f"{thousands(sum(ended.tokens.values()))} tokens"] if ended.tokens else []
    facts += [f"${ended.money:.2f}"] if ended.money else []
    head = ends(f" DONE  {view.id}  {goal}", " · ".join(facts), width - 1)
    shown = [head.replace(" DONE ", f" {paint('DONE', 'good')} ", 1), f" {_summary(listed)}", ""]
    for name, value in _sections(ended, listed):
        shown += hanging(f" {name:<{_NAME}}", value, width - 1, _NAME + 1)
    nexts = after_session(view.id, has_branch=bool(ended.branch))
    return [*shown, "", *packed(nexts, " · ", width, " Next   ")]


def _summary(listed: Sequence[Row]) -> str:
    done = sum(row.kind == "done" for row in listed)
    parts = [f"{done} done"]
    for row in listed:
        if row.kind == "dropped":
            parts.append(f"{row.ticket.id} dropped ({one_line(row.ticket.reason)})")
        elif row.kind == "replaced":
            parts.append(f"{row.ticket.id} became {row.ticket.closed_by}")
    return " · ".join(parts)


def _sections(ended: SessionReport, listed: Sequence[Row]) -> Iterator[tuple[str, str]]:
    if ended.changed is not None:
        files, added, removed = ended.changed
        branch = ended.branch
        where = f"branch {branch}; your tree untouched" if branch else "in your folder"
        yield "CHANGED", f"{counted(files, 'file')} +{added} -{removed}   {where}"
    without = [row.ticket.id for row in listed if row.kind == "done" and not row.view.checks]
    rest = f"; for {' '.join(without)} no check was run" if without else ""
    checked = _checked(ended.envelopes)
    yield "CHECKED", f"{checked}{rest}" if checked else "nothing: no check was run"
    yield from _joined_section(
        "NOT CHECKED", _unchecked(ended.envelopes, listed), "no command; please look"
    )
    yield from _joined_section("SENT BACK", _sent_back(listed))
    yield from _joined_section("YOU DECIDED", _user_decisions(ended))
    if ended.tokens:
        most = sorted(ended.tokens.items(), key=lambda used: -used[1])
        yield "TOKENS", " · ".join(f"{member} {thousands(count)}" for member, count in most)


def _joined_section(name: str, texts: Sequence[str], after: str = "") -> Iterator[tuple[str, str]]:
    if texts:
        more = f" · and {len(texts) - _FEW} more" if len(texts) > _FEW else ""
        yield name, " · ".join(texts[:_FEW]) + more + (f": {after}" if after else "")


def _checked(messages: Sequence[Envelope]) -> str:
    """List the newest outcome of each command by the tree that it ran on, the newest first."""
    by_tree: dict[str, list[str]] = {}
    checks = [ref.checked for ref in _newest_checks(messages).values() if ref.checked]
    for check in checks:
        outcomes = by_tree.pop(check.tree, [])
        by_tree[check.tree] = [*outcomes, f"{one_line(check.command)} {ended(check)}"]
    parts = [
        ", ".join(ran) + (f", at tree {tree[:6]}" if tree else "")
        for tree, ran in reversed(by_tree.items())
    ]
    more = [f"and {len(parts) - _FEW} more earlier"] if len(parts) > _FEW else []
    return "; ".join([*parts[:_FEW], *more])


def _unchecked(messages: Sequence[Envelope], listed: Sequence[Row]) -> list[str]:
    """Return the criteria of done tickets that no command checks."""
    done = {row.ticket.id for row in listed if row.kind == "done"}
    instructions = {
        message.ticket_id: message.payload
        for message in messages
        if isinstance(message.payload, Instruction) and message.ticket_id in done
    }
    return [
        f'{name} "{_short(criterion.text)}"'
        for name, instruction in instructions.items()
        for criterion in instruction.acceptance_criteria
        if criterion.command is None
    ]


def _sent_back(listed: Sequence[Row]) -> list[str]:
    """Say how often each ticket was sent back, by a review or a merge, and why the last time."""
    lines: list[str] = []
    for row in listed:
        returns = [
            after.message
            for before, after in pairwise(row.ticket.history)
            if (before.event, after.event) == ("awaiting_review", "in_progress")
        ]
        if returns:
            times = _TIMES.get(len(returns), f"{len(returns)} times")
            lines.append(f"{row.ticket.id} {times}: {_short(returns[-1])}")
    return lines


def _user_decisions(ended: SessionReport) -> list[str]:
    """Return every answer of the user in a word or two, then what they said."""
    decisions = [_decision(view) for view in ended.session.detail.questions if view.by_person]
    return [*decisions, *(f'"{_short(text, 40)}"' for text in ended.words)]


_APPROVED: Mapping[type[object], str] = {PlanApproval: "plan", ReportConfirmation: "report"}
"""What a user approves, in a word."""


def _decision(view: QuestionView) -> str:
    question = view.interaction
    approved = _APPROVED.get(type(question.about)) if view.answer == APPROVE else None
    if approved is not None:
        return f"{approved} {clock(view.answered_at or view.asked_at)[-8:-3]}"
    about = question.about.ticket if isinstance(question.about, FailedTicket) else None
    answer = _short(card.answered(question, view.answer, view.said), 24)
    return f"{about or question.interaction_id} {answer}"


def _short(text: str, room: int = _LONGEST) -> str:
    line = one_line(text)
    return line if cells(line) <= room else line[: room - 1] + "…"
