"""A session with tickets in a process of its own, to be killed and started again until it ends.

python -m coterie.testing.ticket_run HOME ROOT
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

from coterie.app import App
from coterie.model.record import Record
from coterie.model.task import Caps
from coterie.model.team import Member, Team
from coterie.testing.ticket_agent import WORKERS

GOAL = "Make twelve parts"
MANAGER = "mira"


class Nobody:
    """An observer that looks away."""

    def saw(self, record: Record) -> None:
        """Nothing is shown."""


def team() -> Team:
    """A manager and three workers, each with an agent of its own name."""
    names = (MANAGER, *WORKERS)
    return Team(
        name="twelve",
        workflow="tickets",
        members=tuple(
            Member(
                id=name,
                name=name,
                display_name=name.capitalize(),
                role="manager" if name == MANAGER else "worker",
                agent=name,
                order=place,
            )
            for place, name in enumerate(names, 1)
        ),
    )


async def run(home: Path, root: Path) -> str:
    """Begin the session, or go on with it; how it stands when that returns."""
    async with App.open(root, home) as app:
        known = await app.tasks()
        if known:
            task = known[-1].id
        else:
            task = await app.start(team(), GOAL, Caps(yes=True), workflow="tickets")
        result = await app.run(task, Nobody(), patience=0.0)
    return f"{result.status} {result.reason}"


if __name__ == "__main__":
    ended = anyio.run(run, Path(sys.argv[1]), Path(sys.argv[2]))
    sys.exit(0 if ended == "completed done" else ended)
