"""The tickets of a session: what can be done next, and every change recorded with its messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import lru_cache
from typing import Literal, get_args

import anyio

from coterie.model import envelope, step_name
from coterie.model.check import check_scores
from coterie.model.envelope import Envelope, Plan, PlanTask
from coterie.model.interaction import COTERIE
from coterie.model.journal import PutTicket, Write
from coterie.model.record import TicketRecord
from coterie.model.task import TaskCreated
from coterie.model.team import base_of
from coterie.model.ticket import CheckScore, Moment, Ticket, TicketNote, TicketState
from coterie.ports import Context
from coterie.workflows.tickets import ticket_task
from coterie.workflows.tickets.messenger import Draft, Messenger
from coterie.workflows.tickets.replies import AnyPayload

_TITLE = 60
DROPPED = "dropped"
Group = Literal["waiting", "stranded", "ready", "begun", "failed", "over"]


class TicketIndex:
    """Which tickets can start, continue or need help; a change only affects its dependents."""

    def __init__(self) -> None:
        self.tickets: dict[str, Ticket] = {}
        """By id, in order of creation."""
        self._dependents: dict[str, dict[str, None]] = {}
        """The tickets that wait for each ticket, in order of arrival."""
        self._groups: dict[Group, dict[str, None]] = {group: {} for group in get_args(Group)}
        self._group: dict[str, Group] = {}

    def put(self, tickets: Iterable[Ticket]) -> None:
        """Add tickets, or replace them with their newest version."""
        changed = list(tickets)
        for ticket in changed:
            before = self.tickets.get(ticket.id)
            for dependency in before.dependencies if before else ():
                self._dependents[dependency].pop(ticket.id, None)
            for dependency in ticket.dependencies:
                self._dependents.setdefault(dependency, {})[ticket.id] = None
            self.tickets[ticket.id] = ticket
        for ticket in changed:
            self._sort(ticket)
            for dependent in self._dependents.get(ticket.id, ()):
                self._sort(self.tickets[dependent])

    def _sort(self, ticket: Ticket) -> None:
        before, after = self._group.get(ticket.id), self._group_of(ticket)
        if before != after:
            if before is not None:
                del self._groups[before][ticket.id]
            self._groups[after][ticket.id] = None
            self._group[ticket.id] = after

    def _group_of(self, ticket: Ticket) -> Group:
        if ticket.is_over:
            return "over"
        if ticket.state == "pending":
            known = (self.tickets.get(dependency) for dependency in ticket.dependencies)
            needed = [other for other in known if other is not None and other.state != "done"]
            if any(other.closed_by is not None for other in needed):
                return "stranded"
            return "waiting" if needed else "ready"
        return "failed" if ticket.state == "error" else "begun"

    def _in(self, *groups: Group) -> Iterator[Ticket]:
        return (self.tickets[ticket_id] for group in groups for ticket_id in self._groups[group])

    @property
    def is_over(self) -> bool:
        return len(self._groups["over"]) == len(self.tickets)

    def is_waiting(self, ticket_id: str) -> bool:
        """Whether a ticket that was not begun depends on others that are not done."""
        return self._group[ticket_id] == "waiting"

    @property
    def runnable(self) -> Iterator[Ticket]:
        """The tickets that were begun, then those that can start."""
        return self._in("begun", "ready")

    @property
    def failed(self) -> Sequence[Ticket]:
        """The tickets that failed and were not closed."""
        return list(self._in("failed"))

    @property
    def stranded(self) -> Sequence[Ticket]:
        """The tickets that can never start: one that they need was closed before it was done."""
        return list(self._in("stranded"))

    @property
    def blocking(self) -> Iterator[tuple[Ticket, Ticket]]:
        """Each ticket that was begun and is not done, paired with each that waits for it."""
        for ticket in self._in("begun", "failed"):
            for dependent in self._dependents.get(ticket.id, ()):
                if self._group[dependent] in ("ready", "waiting"):
                    yield ticket, self.tickets[dependent]


class TicketTracker:
    """Every ticket by its id, and the messages about each."""

    def __init__(self, task: TaskCreated, context: Context, messenger: Messenger) -> None:
        self._task = task
        self._session = task.session_id
        self._context = context
        self._messenger = messenger
        self._messages: dict[str, list[Draft]] = {}
        self._error_codes: dict[tuple[str, str], set[str]] = {}
        """By ticket and instant."""
        self._locks: dict[str, anyio.Lock] = {}
        self._parts: dict[str, PlanTask] = {}
        """Every part of every plan, as it was last planned, by its id."""
        self.index: TicketIndex = TicketIndex()
        self.plans: int = 0
        """How many plans there have been."""
        self.plan: Plan | None = None
        """The last plan."""
        self.planned_at: str = ""
        self.checks: dict[str, CheckScore] = {}
        """How many of each ticket's checks passed, by ticket."""
        self.approval_notes: list[str] = []
        """What the user said when approving a plan."""

    def load(self, tickets: Iterable[Ticket], envelopes: Sequence[Envelope]) -> None:
        """Restore the state from what is stored."""
        self.index.put(tickets)
        self.checks = check_scores(envelopes)
        for stored in envelopes:
            payload, ticket_id = stored.payload, stored.ticket_id
            if ticket_id and not isinstance(payload, envelope.TicketPayload):
                message = Draft(stored.source, stored.target, payload, ticket_id)
                self._keep(ticket_id, stored.timestamp, [message])
            if isinstance(payload, envelope.Review) and not ticket_id:
                self.add_approval_note(payload.notes if payload.decision == "approved" else "")
            # A plan addressed to the user was sent back: it is recorded, but nobody works by it.
            if isinstance(payload, Plan) and stored.target == COTERIE:
                self._planned(payload, stored.timestamp)

    def add_approval_note(self, note: str) -> None:
        """Keep what the user said with an approval, once: a replayed run adds it again."""
        if note and note not in self.approval_notes:
            self.approval_notes.append(note)

    def _planned(self, plan: Plan, at: str) -> None:
        self.plans += 1
        self.plan = plan
        self.planned_at = at
        self._parts |= {task.task_id: task for task in plan.tasks}

    @property
    def tickets(self) -> Sequence[Ticket]:
        """All tickets, in order of creation."""
        return list(self.index.tickets.values())

    def ticket(self, ticket_id: str) -> Ticket:
        return self.index.tickets[ticket_id]

    def part(self, ticket_id: str) -> PlanTask:
        """Return the part of the plan that a ticket tracks, as it was last planned."""
        return self._parts[self.index.tickets[ticket_id].task_id]

    def messages(self, ticket_id: str) -> Sequence[Draft]:
        """Return the messages about a ticket, oldest first."""
        return self._messages.get(ticket_id, [])

    def error_codes(self, ticket_id: str, moment: Moment) -> Set[str]:
        """Return the codes of the errors that were sent with a change of a ticket: all that a
        change writes carries its instant."""
        return self._error_codes.get((ticket_id, moment.at), frozenset())

    def _keep(self, ticket_id: str, at: str, drafts: Sequence[Draft]) -> None:
        self._messages.setdefault(ticket_id, []).extend(drafts)
        codes = {one.payload.code for one in drafts if isinstance(one.payload, envelope.Error)}
        self._error_codes.setdefault((ticket_id, at), set()).update(codes)

    @property
    def assigned(self) -> Iterator[str]:
        """Workers, each once for every ticket it has had."""
        for ticket in self.tickets:
            reports = (envelope.Report, envelope.Error)
            messages = self.messages(ticket.id)
            sources = (one.source for one in messages if isinstance(one.payload, reports))
            yield from {
                base_of(instance) for instance in {ticket.owner or COTERIE, *sources} - {COTERIE}
            }

    def last(self, ticket_id: str, kind: type[AnyPayload]) -> AnyPayload | None:
        payloads = (message.payload for message in reversed(self.messages(ticket_id)))
        return next((payload for payload in payloads if isinstance(payload, kind)), None)

    async def adopt(self, plan: Plan, manager: str) -> None:
        """Bring the tickets in line with the manager's plan, in one transaction with the plan.

        New parts get tickets; tickets whose part is gone are closed, unless they are done.
        """
        async with AsyncExitStack() as stack:
            for ticket in self.tickets:  # some may be about to change by themselves
                await stack.enter_async_context(self._lock(ticket.id))
            await self._adopt(plan, manager)

    async def _adopt(self, plan: Plan, manager: str) -> None:
        by = Draft(manager, COTERIE, plan)
        number = self.plans + 1
        parts = {task.task_id: task for task in plan.tasks}
        standing = [t for t in self.tickets if t.closed_by is None]
        # A failed ticket is replaced by a new one.
        known = {ticket.task_id: ticket.id for ticket in standing if ticket.state != "error"}
        new = [task for task in plan.tasks if task.task_id not in known]
        first = len(self.tickets) + 1
        ids = known | {task.task_id: f"T{n}" for n, task in enumerate(new, first)}

        def changes(at: str) -> list[tuple[Ticket, TicketState | None]]:
            made = [_made(task, ids, at) for task in new]
            kept = [(_adapted(ticket, parts, ids, at, number), ticket) for ticket in standing]
            return [
                *((now, before.state) for now, before in kept if now is not before),
                *((ticket, None) for ticket in made),
            ]

        def writes(at: str) -> list[Write]:
            changed = changes(at)
            drafts = [by, *(announcement(ticket) for ticket, _ in changed)]
            puts = [PutTicket(self._session, ticket, before) for ticket, before in changed]
            tasks = [
                event
                for ticket, _ in changed
                for event in self._of_task(ticket, at, parts.get(ticket.task_id))
            ]
            return [*puts, *tasks, *self._messenger.writes(at, drafts)]

        intent = [sorted(ids.items()), sorted(parts)]
        at = await self._context.record(f"plan/{number}/tickets", intent, writes)
        self._planned(plan, at)
        changed = changes(at)
        self.index.put(ticket for ticket, _ in changed)
        for ticket, before in changed:
            message = "created" if before is None else ticket.reason
            self._tell(ticket, message, is_new=before is None)

    async def move(
        self, ticket_id: str, state: TicketState, why: str, *drafts: Draft, owner: str | None = None
    ) -> None:
        """Move a ticket to its next state, in one transaction with the messages about it."""

        await self._change(
            ticket_id, lambda before, at: before.moved(state, at, why, owner), state, drafts
        )

    async def note(
        self, ticket_id: str, event: TicketNote, why: str, *drafts: Draft, stuck: str | None = None
    ) -> None:
        """Add a line to a ticket's history; `stuck` is the ticket whose stall it announces."""
        await self._change(
            ticket_id, lambda before, at: before.noted(at, event, why, stuck), event, drafts
        )

    async def close(self, ticket_id: str, by: str, reason: str) -> None:
        """Close a ticket without changing its state."""

        await self._change(
            ticket_id, lambda before, at: before.closed(by, at, reason), f"closed by {by}"
        )

    def _lock(self, ticket_id: str) -> anyio.Lock:
        return self._locks.setdefault(ticket_id, anyio.Lock(fast_acquire=True))

    async def _change(
        self,
        ticket_id: str,
        change: Callable[[Ticket, str], Ticket],
        intent: str,
        drafts: Sequence[Draft] = (),
    ) -> None:
        async with self._lock(ticket_id):
            before = self.index.tickets[ticket_id]

            def writes(at: str) -> list[Write]:
                ticket = change(before, at)
                return [
                    PutTicket(self._session, ticket, before.state),
                    *self._of_task(ticket, at),
                    *self._messenger.writes(at, [*drafts, announcement(ticket)]),
                ]

            name = step_name.history(ticket_id, len(before.history))
            # Shielded: a caller canceled here must not leave less in memory than is stored.
            with anyio.CancelScope(shield=True):
                at = await self._context.record(name, [intent], writes)
                ticket = change(before, at)
                self.index.put([ticket])
                self._keep(ticket_id, at, drafts)
                self._tell(ticket, ticket.history[-1].message)

    def _of_task(self, ticket: Ticket, at: str, part: PlanTask | None = None) -> Iterator[Write]:
        """Yield the writes for a ticket's task that a change of the ticket causes."""
        before = self.index.tickets.get(ticket.id)
        if before is None:
            described = part.description if part else ticket.title
            yield ticket_task.made(self._task, ticket, described, at)
            return
        if not self._context.has_child(ticket_task.id_of(self._task, ticket)):
            # The ticket is from a release in which tickets were not tasks.
            yield ticket_task.made(self._task, before, self.part(ticket.id).description, at)
            yield ticket_task.started(self._task, before, at)
        yield from ticket_task.ended(self._task, before, ticket, at)

    def announce(self, ticket_id: str, message: str) -> None:
        """Tell surfaces something about a ticket that does not change it."""
        self._tell(self.index.tickets[ticket_id], message)

    def _tell(self, ticket: Ticket, message: str, *, is_new: bool = False) -> None:
        self._context.tell(
            TicketRecord(
                self._session,
                ticket.id,
                ticket.state,
                ticket.owner,
                ticket.title,
                message,
                ticket.dependencies,
                ticket.closed_by,
                str(self.checks.get(ticket.id, "")),
                is_new,
            )
        )


def announcement(ticket: Ticket) -> Draft:
    """Return the message that announces a ticket's state."""
    payload = envelope.TicketPayload(
        ticket_id=ticket.id,
        task_id=ticket.task_id,
        owner=ticket.owner,
        history=tuple(_entry(line.at, line.event, line.message) for line in ticket.history),
        status=ticket.state,
        dependencies=ticket.dependencies,
        closed_by=ticket.closed_by,
        reason=ticket.reason,
    )
    return Draft(COTERIE, ticket.owner or COTERIE, payload, ticket.id)


@lru_cache(maxsize=1_000)  # every change of a ticket repeats its whole history
def _entry(at: str, event: str, message: str) -> envelope.HistoryEntry:
    return envelope.HistoryEntry(timestamp=at, event=event, message=message)


def _made(task: PlanTask, ids: Mapping[str, str], at: str) -> Ticket:
    return Ticket(
        id=ids[task.task_id],
        task_id=task.task_id,
        title=_title(task.description),
        dependencies=tuple(ids[one] for one in task.dependencies),
        history=(Moment(at, "created"),),
    )


def _adapted(
    ticket: Ticket, parts: Mapping[str, PlanTask], ids: Mapping[str, str], at: str, number: int
) -> Ticket:
    """Return a ticket under a new plan: the same, re-pointed, or closed."""
    task = parts.get(ticket.task_id)
    if ticket.state == "done":
        return ticket
    if task is None:
        return ticket.closed(DROPPED, at, f"plan {number} no longer has it")
    if ticket.state == "error":
        return ticket.closed(ids[ticket.task_id], at, f"plan {number} has a new ticket for it")
    wanted = tuple(ids[one] for one in task.dependencies)
    if wanted == ticket.dependencies or ticket.state != "pending":
        return ticket
    noted = ticket.noted(at, "re-pointed", f"waits for {', '.join(wanted) or 'nothing'}")
    return replace(noted, dependencies=wanted)


def _title(description: str) -> str:
    """Return a ticket's title: the beginning of its description."""
    first = description.strip().partition("\n")[0]
    return first if len(first) <= _TITLE else first[: _TITLE - 1] + "…"
