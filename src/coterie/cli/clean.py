"""`clean`: list what ended tasks left behind, then remove it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from coterie.app.cleaning import KINDS, Cleaning, Leftover
from coterie.cli.main import Call, command, run_in_project, run_on_task
from coterie.cli.text import counted, one_line, table
from coterie.errors import UsageError

if TYPE_CHECKING:
    from coterie.app.project import App


@command("clean", "coterie clean --dry-run")
@click.argument("id_", metavar="[ID]", required=False)
@click.option("--only", type=click.Choice(KINDS), multiple=True, help="Only this kind; repeatable.")
@click.option("--dry-run", is_flag=True, help="List what would be removed; remove nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def clean(call: Call, id_: str | None, only: tuple[str, ...], *, dry_run: bool, yes: bool) -> None:
    """Remove what ended tasks left behind: worktrees, branches, homes, snapshots, drafts.

    All of it is listed first. A worktree with uncommitted changes is kept, and so is a branch that
    is not merged into the one you have checked out, here or on a remote. Without its snapshots,
    what a task changed can be neither shown nor reverted.
    """

    async def listed(app: App, task_id: str | None = None) -> list[Leftover]:
        return await Cleaning(app).leftovers(task_id, only or KINDS)

    leftovers = run_in_project(call, listed) if id_ is None else run_on_task(call, id_, listed)
    if leftovers is None:
        return
    going = [one for one in leftovers if not one.kept]
    call.records("leftover", map(asdict, leftovers))
    call.lines(table(list(map(_row, leftovers)), call.row_width))
    if not going:
        call.record("clean", {"removed": 0, "bytes": 0})
        call.line("Nothing to remove.")
        return
    if dry_run:
        call.record("clean", {"removed": 0, "bytes": 0})
        call.line(f"{_sum(going)} would be removed.   coterie clean{_again(id_, only)} --yes")
        return
    _agreed(call, going, f"coterie clean{_again(id_, only)} --yes", yes=yes)

    async def removed(app: App) -> list[Leftover]:
        return await Cleaning(app).remove(leftovers)

    gone = run_in_project(call, removed) or []
    call.record("clean", {"removed": len(gone), "bytes": sum(one.bytes for one in gone)})
    call.line(f"Removed {_sum(gone)}.")


def _agreed(call: Call, going: Sequence[Leftover], command: str, *, yes: bool) -> None:
    if yes:
        return
    if not call.attended:
        problem = "Nothing was removed: there is no terminal to ask on."
        raise UsageError(problem, f"{command}, or --dry-run to only list it")
    click.confirm(f"Remove {_sum(going)}?", default=False, abort=True)


def _again(id_: str | None, only: Sequence[str]) -> str:
    words = [*([id_] if id_ else []), *(f"--only {kind}" for kind in only)]
    return "".join(f" {word}" for word in words)


def _bytes(size: int) -> str:
    return f"{size / 1_000_000:.1f} MB" if size >= 100_000 else f"{size / 1000:.1f} kB"


def _sum(leftovers: Sequence[Leftover]) -> str:
    size = sum(one.bytes for one in leftovers)
    return counted(len(leftovers), "item") + (f" ({_bytes(size)})" if size else "")


def _row(one: Leftover) -> tuple[str, ...]:
    size = _bytes(one.bytes) if one.bytes else ""
    return (
        f"  {one.kind}",
        one.task,
        f"kept: {one.kept}" if one.kept else size,
        one_line(one.name),
    )
