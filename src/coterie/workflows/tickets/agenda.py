"""Which tickets can begin, go on or need help; kept up to date ticket by ticket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from coterie.model.ticket import Ticket


class Agenda:
    """Sorts tickets by what is to be done about them; a change costs what hangs on the ticket."""

    def __init__(self) -> None:
        self._known: dict[str, Ticket] = {}
        self._waiting_for: dict[str, dict[str, None]] = {}
        """By ticket: those that wait for it, in the order in which they came."""
        self._open: set[str] = set()
        self._ready: dict[str, None] = {}
        self._going: dict[str, None] = {}
        self._failed: dict[str, None] = {}

    def put(self, tickets: Iterable[Ticket]) -> None:
        """Take tickets in, or what has become of them."""
        changed = list(tickets)
        for ticket in changed:
            before = self._known.get(ticket.id)
            for one in before.dependencies if before else ():
                self._waiting_for[one].pop(ticket.id, None)
            for one in ticket.dependencies:
                self._waiting_for.setdefault(one, {})[ticket.id] = None
            self._known[ticket.id] = ticket
        for ticket in changed:
            self._sort(ticket)
            for one in self._waiting_for.get(ticket.id, ()):
                self._sort(self._known[one])

    def _sort(self, ticket: Ticket) -> None:
        counts = ticket.closed_by is None
        is_pending, is_failed = ticket.state == "pending", ticket.state == "error"
        _keep(self._ready, ticket.id, counts and is_pending and self._can_begin(ticket))
        _keep(self._failed, ticket.id, counts and is_failed)
        going = counts and not (is_pending or is_failed or ticket.state == "done")
        _keep(self._going, ticket.id, going)
        if ticket.is_over:
            self._open.discard(ticket.id)
        else:
            self._open.add(ticket.id)

    def _can_begin(self, ticket: Ticket) -> bool:
        known = (self._known.get(one) for one in ticket.dependencies)
        return all(one is None or one.state == "done" for one in known)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do."""
        return not self._open

    @property
    def to_go_on_with(self) -> Iterator[Ticket]:
        """Those that were begun, then those that can begin."""
        for ticket_id in [*self._going, *self._ready]:
            yield self._known[ticket_id]

    @property
    def failed(self) -> Sequence[Ticket]:
        """Those that failed and still count."""
        return [self._known[one] for one in self._failed]

    @property
    def standing_in_the_way(self) -> Iterator[tuple[Ticket, Ticket]]:
        """Each ticket that was begun and is not done, with each that waits for it."""
        for ticket_id in [*self._going, *self._failed]:
            for one in self._waiting_for.get(ticket_id, ()):
                waiting = self._known[one]
                if waiting.state == "pending" and waiting.closed_by is None:
                    yield self._known[ticket_id], waiting


def _keep(place: dict[str, None], ticket_id: str, wanted: bool) -> None:
    if not wanted:
        place.pop(ticket_id, None)
    elif ticket_id not in place:
        place[ticket_id] = None
