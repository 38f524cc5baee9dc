"""The tickets of a session, as they stand; every change is recorded with what is said of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import anyio

from coterie.model.envelope import (
    Envelope,
    Error,
    HistoryEntry,
    Payload,
    Plan,
    PlanTask,
    Report,
    TicketPayload,
)
from coterie.model.journal import PutTicket, Write
from coterie.model.record import TicketRecord
from coterie.model.team import base_of
from coterie.model.ticket import Moment, Ticket, TicketNote, TicketState
from coterie.model.ticket_view import check_scores
from coterie.ports import Context
from coterie.workflows.tickets.agenda import Agenda
from coterie.workflows.tickets.correspondence import COTERIE, Correspondence, Said

_TITLE = 60
DROPPED = "dropped"

Changed = Callable[[str], Ticket]
"""A ticket after something happened at an instant."""


class Board:
    """Every ticket by its id, and what was last said of each."""

    def __init__(self, session: str, context: Context, letters: Correspondence) -> None:
        self._session = session
        self._context = context
        self._letters = letters
        self._tickets: dict[str, Ticket] = {}
        self._said: dict[str, list[Said]] = {}
        self._locks: dict[str, anyio.Lock] = {}
        self._parts: dict[str, PlanTask] = {}
        """Every part of every plan, as it was last planned."""
        self.agenda: Agenda = Agenda()
        self.plans: int = 0
        """How many plans there were."""
        self.plan: Plan | None = None
        """The last of them."""
        self.planned_at: str = ""
        self.checks: dict[str, str] = {}
        """By ticket: how many of its checks passed."""

    def load(self, tickets: Iterable[Ticket], said: Iterable[Envelope]) -> None:
        """Go on from what is kept."""
        self._tickets = {ticket.id: ticket for ticket in tickets}
        self.agenda.put(self._tickets.values())
        letters = list(said)
        self.checks = check_scores(letters)
        for one in letters:
            if one.ticket_id and not isinstance(one.payload, TicketPayload):
                kept = Said(one.source, one.target, one.payload, one.ticket_id)
                self._said.setdefault(one.ticket_id, []).append(kept)
            if isinstance(one.payload, Plan):
                self._planned(one.payload, one.timestamp)

    def _planned(self, plan: Plan, at: str) -> None:
        self.plans += 1
        self.plan = plan
        self.planned_at = at
        self._parts |= {task.task_id: task for task in plan.tasks}

    # -- looking -------------------------------------------------------------------------------

    @property
    def tickets(self) -> Sequence[Ticket]:
        """All of them, in the order in which they were made."""
        return list(self._tickets.values())

    def ticket(self, ticket_id: str) -> Ticket:
        """One of them."""
        return self._tickets[ticket_id]

    def part(self, ticket_id: str) -> PlanTask:
        """The part of the plan that a ticket tracks, as it was last planned."""
        return self._parts[self._tickets[ticket_id].task_id]

    def said(self, ticket_id: str) -> Sequence[Said]:
        """All that was said of a ticket."""
        return self._said.get(ticket_id, [])

    @property
    def given(self) -> Iterator[str]:
        """Workers, each as often as it was ever given a ticket."""
        for ticket in self._tickets.values():
            told = (one for one in self.said(ticket.id) if isinstance(one.payload, Report | Error))
            seats = {ticket.owner or COTERIE, *(one.source for one in told)}
            yield from {base_of(seat) for seat in seats - {COTERIE}}

    def last(self, ticket_id: str, kind: type[Payload]) -> Payload | None:
        """What was last said of a ticket in this form."""
        found = (one.payload for one in reversed(self.said(ticket_id)))
        return next((payload for payload in found if isinstance(payload, kind)), None)

    # -- plans ---------------------------------------------------------------------------------

    async def adopt(self, plan: Plan, by: Said) -> None:
        """Make the board what a plan says, in one transaction with the plan.

        New parts get tickets; tickets whose part is gone are closed, unless they are done.
        """
        number = self.plans + 1
        parts = {task.task_id: task for task in plan.tasks}
        standing = [t for t in self._tickets.values() if t.closed_by is None]
        # One that failed is done anew, by another ticket.
        known = {ticket.task_id: ticket.id for ticket in standing if ticket.state != "error"}
        new = [task for task in plan.tasks if task.task_id not in known]
        first = len(self._tickets) + 1
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
            said = [by, *(self._mirrored(ticket) for ticket, _ in changed)]
            puts = [PutTicket(self._session, ticket, before) for ticket, before in changed]
            return [*puts, *self._letters.writes(at, said)]

        intent = [sorted(ids.items()), sorted(parts)]
        at = await self._context.record(f"plan/{number}/tickets", intent, writes)
        self._planned(plan, at)
        changed = changes(at)
        self._tickets |= {ticket.id: ticket for ticket, _ in changed}
        self.agenda.put(ticket for ticket, _ in changed)
        for ticket, before in changed:
            self._tell(ticket, "created" if before is None else ticket.reason)

    # -- changes -------------------------------------------------------------------------------

    async def move(
        self,
        ticket_id: str,
        state: TicketState,
        message: str,
        *said: Said,
        owner: str | None = None,
    ) -> None:
        """A ticket's next state, in one transaction with what is said of it."""

        def moved(before: Ticket) -> Changed:
            return lambda at: replace(before.moved(state, at, message), owner=owner or before.owner)

        await self._change(ticket_id, moved, state, said)

    async def note(self, ticket_id: str, event: TicketNote, message: str, *said: Said) -> None:
        """A line more in a ticket's history."""

        def noted(before: Ticket) -> Changed:
            return lambda at: before.noted(at, event, message)

        await self._change(ticket_id, noted, event, said)

    async def announce_stall(self, ticket_id: str, stuck: str, message: str, said: Said) -> None:
        """Note that a ticket waits for one that stands still."""

        def noted(before: Ticket) -> Changed:
            return lambda at: replace(
                before.noted(at, "stalled", message), stalls={**before.stalls, stuck: at}
            )

        await self._change(ticket_id, noted, "stalled", [said])

    def announce(self, ticket_id: str, message: str) -> None:
        """Let surfaces know something of a ticket that changes nothing of it."""
        self._tell(self._tickets[ticket_id], message)

    async def close(self, ticket_id: str, by: str, reason: str) -> None:
        """Take a ticket out of the run; its state stays."""

        def closed(before: Ticket) -> Changed:
            return lambda at: before.closed(by, at, reason)

        await self._change(ticket_id, closed, f"closed by {by}", ())

    async def _change(
        self,
        ticket_id: str,
        change: Callable[[Ticket], Changed],
        intent: str,
        said: Sequence[Said],
    ) -> None:
        async with self._locks.setdefault(ticket_id, anyio.Lock()):
            before = self._tickets[ticket_id]
            after = change(before)

            def writes(at: str) -> list[Write]:
                ticket = after(at)
                mirrored = self._mirrored(ticket)
                return [
                    PutTicket(self._session, ticket, before.state),
                    *self._letters.writes(at, [*said, mirrored]),
                ]

            name = f"ticket/{ticket_id}/history/{len(before.history)}"
            # Whoever is called off here must not leave us with less than is kept.
            with anyio.CancelScope(shield=True):
                at = await self._context.record(name, [intent], writes)
                self._tickets[ticket_id] = ticket = after(at)
                self.agenda.put([ticket])
                self._said.setdefault(ticket_id, []).extend(said)
                self._tell(ticket, ticket.history[-1].message)

    def _mirrored(self, ticket: Ticket) -> Said:
        """A ticket as everybody is told of it."""
        payload = TicketPayload(
            ticket_id=ticket.id,
            task_id=ticket.task_id,
            owner=ticket.owner,
            status=ticket.state,
            dependencies=ticket.dependencies,
            # The newest line alone: all others are in the envelopes before this one.
            history=tuple(
                HistoryEntry(timestamp=one.at, event=one.event, message=one.message)
                for one in ticket.history[-1:]
            ),
            closed_by=ticket.closed_by,
            reason=ticket.reason,
        )
        return Said(COTERIE, ticket.owner or COTERIE, payload, ticket.id)

    def _tell(self, ticket: Ticket, message: str) -> None:
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
                self.checks.get(ticket.id, ""),
            )
        )


def _made(task: PlanTask, ids: Mapping[str, str], at: str) -> Ticket:
    return Ticket(
        id=ids[task.task_id],
        task_id=task.task_id,
        title=title_of(task.description),
        dependencies=tuple(ids[one] for one in task.dependencies),
        history=(Moment(at, "created"),),
    )


def _adapted(
    ticket: Ticket, parts: Mapping[str, PlanTask], ids: Mapping[str, str], at: str, number: int
) -> Ticket:
    """A ticket under a new plan: the same, pointed elsewhere, or closed."""
    task = parts.get(ticket.task_id)
    if ticket.state == "done":
        return ticket
    if task is None:
        return ticket.closed(DROPPED, at, f"plan {number} no longer has it")
    if ticket.state == "error":
        return ticket.closed(ids[ticket.task_id], at, f"plan {number} does it anew")
    wanted = tuple(ids[one] for one in task.dependencies)
    if wanted == ticket.dependencies or ticket.state != "pending":
        return ticket
    noted = ticket.noted(at, "re-pointed", f"waits for {', '.join(wanted) or 'nothing'}")
    return replace(noted, dependencies=wanted)


def title_of(description: str) -> str:
    """A ticket in a few words: the beginning of what is to be done."""
    first = description.strip().partition("\n")[0]
    return first if len(first) <= _TITLE else first[: _TITLE - 1] + "…"
