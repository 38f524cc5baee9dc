"""`coterie accept`: the work of a session, taken into the user's branch on their word."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from coterie.cli.call import Call, command, pass_call
from coterie.cli.project import named
from coterie.cli.text import counted, one_line

if TYPE_CHECKING:
    from coterie.app.changes import Accepted
    from coterie.app.project import App

_SHORT = 7


@command("accept", "coterie accept last")
@click.argument("id_", metavar="ID")
@click.option("--recheck", is_flag=True, help="Your branch has moved: run the checks on both.")
@pass_call
def accept(call: Call, id_: str, *, recheck: bool) -> None:
    """Take the approved work of a session into the branch that you have checked out.

    It is refused where your branch moved since the checks; --recheck then merges both and runs
    the checks again. Nothing is changed unless they pass. coterie revert takes it back out.
    """

    async def body(app: App) -> Accepted:
        return await app.accept(await app.find_task(id_), recheck=recheck)

    call.lines(_lines(call, named(call, id_, body)))


def _lines(call: Call, done: Accepted) -> list[str]:
    call.record("accept", {**asdict(done), "checks": [asdict(one) for one in done.checks]})
    added = sum(one.added or 0 for one in done.files)
    removed = sum(one.removed or 0 for one in done.files)
    many = f"{counted(len(done.files), 'file')} +{added} -{removed}"
    head = f"{call.paint('Accepted', 'good')}  {done.task} into {done.branch}"
    lines = [f"{head} at {done.commit[:_SHORT]}   {many}"]
    if done.checks:
        ran = ", ".join(f"{one_line(one.command)} exit {one.exit_code}" for one in done.checks)
        lines.append(f"  checked  {ran}, on your branch as it is now")
    return [*lines, f"  undo     coterie revert {done.task}"]
