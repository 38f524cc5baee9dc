"""What surfaces show of sessions, tickets and costs: one call each, with everything it needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import anyio.to_thread

from coterie.app.costs import Cost, tally
from coterie.app.project import App
from coterie.engine import timeline
from coterie.errors import CoterieError, NotFound
from coterie.model.about import BudgetReached, BudgetScope
from coterie.model.budget import Limit, granted_by
from coterie.model.envelope import Envelope
from coterie.model.interaction import Interaction, Question
from coterie.model.record import (
    Entry,
    MessageRecord,
    QuestionView,
    TaskDetail,
    TaskView,
    TicketRecord,
)
from coterie.model.task import running_task, ticket_id_of, ticket_task
from coterie.model.team import (
    INSTANCE,
    TICKETS,
    Allowance,
    Tally,
    Team,
    base_of,
    is_instance_of,
    member_folder,
)
from coterie.model.ticket import Ticket, TicketKind, TicketState, TicketView, no_ticket
from coterie.model.timeline import TimelineSource
from coterie.model.update import Usage

if TYPE_CHECKING:
    from coterie.model.envelope_fault import EnvelopeFault

WITHDRAWN: tuple[str, ...] = ("dropped", "canceled")
"""What tickets are closed by that no other ticket replaces."""
_KINDS: Mapping[TicketState, TicketKind] = {
    "pending": "ready",
    "discussing": "working",
    "in_progress": "working",
    "blocked": "blocked",
    "awaiting_review": "in review",
    "done": "done",
    "error": "failed",
}


def is_at_work(ticket: Ticket | TicketRecord) -> bool:
    """Whether a worker is busy with a ticket; one that was closed keeps its state."""
    return _KINDS[ticket.state] == "working" and ticket.closed_by is None


def ticket_of(question: Interaction, tickets: Mapping[str, Ticket | TicketRecord]) -> str:
    """Return the ticket that a question is about; empty if it is about none."""
    if ticket := ticket_id_of(question.task_id):
        return ticket
    if question.about is not None and question.about.ticket:
        return question.about.ticket
    for name, ticket in tickets.items():
        if is_at_work(ticket) and ticket.owner == question.author_actor_id:
            return name
    return ""


@dataclass(frozen=True)
class SessionView:
    """A session and the current state of its tickets; any other task has no tickets."""

    detail: TaskDetail
    tickets: Sequence[TicketView]
    branch: str = ""
    """Once completed: the branch of the work that can be accepted; empty if it was done in the
    folder itself."""
    faults: Sequence[EnvelopeFault] = ()
    """Envelopes that were changed; only checked when a single session is shown."""

    @property
    def id(self) -> str:
        """The session's root task."""
        return self.detail.view.id

    @property
    def team(self) -> Team:
        """The team that works on it."""
        return self.detail.state.created.team

    @property
    def asks(self) -> Mapping[str, str]:
        """By ticket: the open question that its work waits for."""
        known = {view.ticket.id: view.ticket for view in self.tickets}
        asks: dict[str, str] = {}
        for question in self.detail.questions:
            if question.state == "open":
                about = ticket_of(question.interaction, known)
                asks.setdefault(about, question.interaction.interaction_id)
        return asks


@dataclass(frozen=True)
class TicketRow:
    """One ticket, with what follows from the other tickets and the inbox."""

    view: TicketView
    kind: TicketKind
    waits_for: tuple[str, ...] = ()
    """Tickets that must be over before it begins."""
    asks: str = ""
    """The question that its work waits for."""


def ticket_rows(views: Iterable[TicketView], asks: Mapping[str, str]) -> list[TicketRow]:
    """Return tickets, each with what it waits for; `asks` holds questions by ticket."""
    listed = list(views)
    behind = {view.ticket.id for view in listed if view.ticket.is_over}
    rows: list[TicketRow] = []
    for view in listed:
        before = view.ticket.dependencies if view.ticket.state == "pending" else ()
        waits = tuple(name for name in before if name not in behind)
        kind = _kind(view.ticket, waits)
        rows.append(TicketRow(view, kind, waits, asks.get(view.ticket.id, "")))
    return rows


def _kind(ticket: Ticket, waits_for: Sequence[str]) -> TicketKind:
    if ticket.closed_by is not None and ticket.state != "done":
        return "dropped" if ticket.closed_by in WITHDRAWN else "replaced"
    return "blocked" if waits_for else _KINDS[ticket.state]


async def read_session(app: App, task_id: str | None = None) -> SessionView:
    """Read a session; None: the newest with tickets."""
    task_id = task_id or await _newest(app)
    detail, tickets = await app.show(task_id), await app.tickets(task_id)
    is_done = bool(tickets) and detail.view.status == "completed"
    return SessionView(detail, tickets, await app.branch(task_id) if is_done else "")


async def read_checked(app: App, task_id: str) -> SessionView:
    """Read a session, with what is wrong with its envelopes."""
    session = await read_session(app, task_id)
    return replace(session, faults=(await app.check_envelopes(task_id)).faults)


async def _newest(app: App) -> str:
    for view in reversed(await app.tasks()):
        if view.workflow == TICKETS:
            return view.id
    raise NotFound("No session with tickets yet.", 'coterie run "what should be achieved"')


@dataclass(frozen=True)
class TicketDetail:
    """One ticket, and all envelopes about it."""

    session: SessionView
    id: str
    envelopes: Sequence[Envelope]
    branch: str
    """The branch of its work; empty if that is in the project's own folder."""
    task: TaskDetail | None = None
    """The ticket as a task; None if it is from a release in which tickets were not tasks."""


async def read_ticket(app: App, task_id: str, ticket_id: str) -> TicketDetail:
    """Read a ticket of a session; raises NotFound."""
    session = await read_checked(app, task_id)
    known = [view.ticket.id for view in session.tickets]
    if ticket_id not in known:
        raise no_ticket(ticket_id, session.id, known)
    envelopes = [one for one in await app.envelopes(session.id) if one.ticket_id == ticket_id]
    branch = await app.branch(session.id, ticket_id)
    own = ticket_task(session.id, ticket_id)
    is_task = any(child.id == own for child in session.detail.children)
    task = await app.show(own) if is_task else None
    return TicketDetail(session, ticket_id, envelopes, branch, task)


@dataclass(frozen=True)
class MemberStderr:
    """What one member's processes wrote to stderr in a session."""

    member: str
    path: str
    """The file that holds it."""
    text: str


async def read_member_stderr(
    app: App, task_id: str, member: str | None = None
) -> list[MemberStderr]:
    """Read what members wrote to stderr, skipping those who wrote nothing; raises NotFound.

    Without a member: all of them or, for a ticket, its worker.
    """
    if member is None and (ticket := ticket_id_of(task_id)):
        tickets = (view.ticket for view in await app.tickets(running_task(task_id)))
        member = next((one.owner for one in tickets if one.id == ticket), None)
    created = (await app.show(task_id)).state.created
    team = created.team
    wanted = [team.member(base_of(member))] if member else team.ai_members

    def read() -> list[MemberStderr]:
        from coterie.workspace.stderr_file import read_stderr, stderr_path

        outputs: list[MemberStderr] = []
        for one in wanted:
            own = member_folder(app.root, team.name, one)
            # Each further instance of a member has a folder of its own beside it.
            others = sorted(own.parent.glob(f"{one.id}{INSTANCE}*"))
            for folder in (own, *others):
                text = read_stderr(folder, created.session_id)
                path = str(stderr_path(folder, created.session_id))
                outputs += [MemberStderr(folder.name, path, text)] if text else []
        return outputs

    errors = await anyio.to_thread.run_sync(read)
    return [one for one in errors if member is None or is_instance_of(member, one.member)]


async def require_task(app: App, task_id: str) -> None:
    """Raise NotFound unless there is a task with exactly this id."""
    if all(row.id != task_id for row in await app.storage.events.tasks()):
        raise NotFound(f'No task "{task_id}".', "coterie tasks", str(app.root))


async def find_question(app: App, name: str) -> QuestionView:
    """Return the question with exactly this id, open or not; raises NotFound."""
    for view in await app.questions(only_open=False):
        if view.interaction.interaction_id == name:
            return view
    raise NotFound(f'No question "{name}".', "coterie inbox", str(app.root))


async def read_tasks(app: App) -> list[tuple[TaskView, Usage | None]]:
    """Return every task that somebody started, oldest first, with its usage so far."""
    used = await app.storage.journal.used()
    return [(view, used.get(view.id)) for view in await app.tasks()]


async def read_page(
    app: App,
    task_id: str,
    *,
    before: int | None = None,
    after: int | None = None,
    limit: int = 100,
    source: TimelineSource | None = None,
) -> list[Entry]:
    """Return part of a timeline: the newest entries, the last before a number, or the first after
    one; `source` limits the first two to what comes from there."""
    assert after is None or source is None
    store = app.storage.timeline
    if after is not None:
        rows = await store.after(after, task_id, limit)
    else:
        rows = await store.before(task_id, before, limit, source)
    return await timeline.entries(app.storage, rows)


async def read_new_entries(app: App, after: int, limit: int = 100) -> list[tuple[str, Entry]]:
    """Return the entries added to any task of the project after a number, in order, each with its
    task."""
    rows = await app.storage.timeline.after(after, None, limit)
    entries = await timeline.entries(app.storage, rows)
    return [(row.task_id, entry) for row, entry in zip(rows, entries, strict=True)]


@dataclass(frozen=True)
class SessionReport:
    """Everything that goes into the report of a whole session."""

    session: SessionView
    envelopes: Sequence[Envelope]
    changed: tuple[int, int, int] | None
    """Files, lines added, lines removed; None if unknown."""
    branch: str
    """The branch of the approved work; empty if that is in the project's own folder."""
    tokens: Mapping[str, int]
    money: float
    words: Sequence[str]
    """What the user told the manager during the session."""


async def read_report(app: App, task_id: str) -> SessionReport:
    """Read the report of a session."""
    session = await read_session(app, task_id)
    tokens: dict[str, int] = {}
    money = 0.0
    for cost in await app.costs(task_id):
        if used := cost.usage:
            name = base_of(cost.member)
            count = (used.input_tokens or 0) + (used.output_tokens or 0)
            tokens[name] = tokens.get(name, 0) + count
            money += used.cost_usd or 0.0
    by_people = [
        entry.record.text
        for entry in await app.timeline(task_id)
        if isinstance(entry.record, MessageRecord) and session.team.is_person(entry.record.member)
    ]
    return SessionReport(
        session,
        await app.envelopes(task_id),
        await _changed(app, task_id),
        await app.branch(task_id),
        tokens,
        money,
        by_people[1:],  # the first is the goal
    )


async def _changed(app: App, task_id: str) -> tuple[int, int, int] | None:
    try:
        files = [file for patch in (await app.diff(task_id)).patches for file in patch.files]
    except CoterieError:  # `coterie diff` will report this
        return None
    added = sum(file.added or 0 for file in files)
    return len(files), added, sum(file.removed or 0 for file in files)


@dataclass(frozen=True)
class CostView:
    """What turns cost; for a single task, also its budgets and what was used of them."""

    costs: Sequence[Cost]
    budgets: Mapping[str, tuple[Allowance, Tally]]
    """By member, and under `all` for the whole task: what may be used, and what has been."""
    rehearsal: str = ""
    """The task's id if it was only a rehearsal, which used nothing."""


async def read_costs(app: App, name: str | None, since: str | None) -> CostView:
    """Read the costs of the task that a name refers to, or of all; `since` is an instant."""
    task_id = await app.find_task(name) if name else None
    costs = await app.costs(task_id, since or "")
    if task_id is None or since is not None:
        return CostView(costs, {})
    detail = await app.show(task_id)
    if detail.state.created.rehearsal:
        return CostView((), {}, task_id)
    team, session = detail.state.created.team, detail.state.created.session_id
    grants = await app.storage.inbox.budget_answers(session_id=session)
    if ticket_id_of(task_id):
        allowance = _with_grants(team.budget.per_ticket, grants, "ticket", task_id, session)
    else:
        allowance = _with_grants(team.budget, grants, "task", session, session)
    budgets: dict[str, tuple[Allowance, Tally]] = {"all": (allowance, tally(costs))}
    for member in team.in_order:
        own = [cost for cost in costs if base_of(cost.member) == member.id]
        raised = _with_grants(member.budget, grants, "member", member.id, session)
        budgets[member.id] = (raised, tally(own))
    return CostView(costs, budgets)


def _with_grants(
    allowance: Allowance, grants: Sequence[Question], scope: BudgetScope, whose: str, session: str
) -> Allowance:
    """Return an allowance raised by everything the user granted at its limits."""
    limits = {
        measure: amount + Limit(scope, measure, amount, whose, session).granted(grants)
        for measure, amount in allowance.limits()
    }
    return allowance.model_copy(update=limits)


def granted_tokens(question: Interaction, answer: str) -> int:
    """Return how many more tokens an answer granted to a task whose budget was used up."""
    match question.about:
        case BudgetReached(scope="task", measure="tokens") if answer:
            return round(granted_by(question, answer))
        case _:
            return 0
