"""What the demo promised, and whether it came out so, by what is kept of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio.to_thread

from coterie.model.envelope import ArtifactRef, Envelope, Review
from coterie.model.ticket import Ticket
from coterie.rehearsal.demo_plan import TESTS, TICKETS
from coterie.workspace.git import Git

if TYPE_CHECKING:
    from coterie.app.project import App


@dataclass(frozen=True)
class Promise:
    """One thing that had to happen."""

    what: str
    how: str
    """What did happen."""
    kept: bool


async def kept(app: App, task_id: str) -> tuple[Promise, ...]:
    """Each promise of the demo, with what became of it."""
    views = await app.tickets(task_id)
    done = [view.ticket for view in views if view.ticket.state == "done"]
    said = await app.envelopes(task_id)
    git = Git(app.root)
    name = f"{await app.branch(task_id)}^{{tree}}"
    tree = (await anyio.to_thread.run_sync(git.run, "rev-parse", name)).strip()
    return (
        Promise(
            "done",
            f"{len(done)} of {len(TICKETS)} tickets",
            len(done) == len(views) == len(TICKETS),
        ),
        _some("talked over first", _with_event(done, "discussing")),
        _some("sent back by review", _sent_back(said)),
        _some("met a conflict, settled by its author", _with_words(done, "conflicts with work")),
        _green(said, tree),
    )


def _some(what: str, found: Sequence[str]) -> Promise:
    return Promise(what, ", ".join(found) or "none", bool(found))


def _with_event(tickets: Sequence[Ticket], event: str) -> list[str]:
    return [one.id for one in tickets if any(m.event == event for m in one.history)]


def _with_words(tickets: Sequence[Ticket], words: str) -> list[str]:
    return [one.id for one in tickets if any(words in m.message for m in one.history)]


def _sent_back(said: Sequence[Envelope]) -> list[str]:
    return [
        one.ticket_id or ""
        for one in said
        if isinstance(one.payload, Review) and one.payload.decision == "changes_requested"
    ]


def _green(said: Sequence[Envelope], tree: str) -> Promise:
    """Whether Coterie itself saw all tests pass, on exactly the files that are on the branch."""
    logs = (one.payload for one in said if isinstance(one.payload, ArtifactRef))
    ran = [(log, log.checked) for log in logs if log.checked and log.checked.command == TESTS]
    told, check = (ran[-1][0].description, ran[-1][1]) if ran else ("never run", None)
    is_green = check is not None and check.passed and check.tree[:12] == tree[:12]
    return Promise("tests green, run by Coterie", told, is_green)
