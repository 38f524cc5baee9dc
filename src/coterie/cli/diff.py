"""`diff` and `revert`: show what a task changed, and take it back."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple

import click

from coterie.cli.main import Call, command, run_on_task
from coterie.cli.text import clock, counted, diff_meaning, one_line, table
from coterie.model.task import ticket_id_of
from coterie.model.team import PIPELINE
from coterie.model.visible import printable, visible_line
from coterie.model.workspace import shown

if TYPE_CHECKING:
    from coterie.app.changes import FileDiffStat, Patch, RevertResult, TaskDiff
    from coterie.app.project import App
    from coterie.model.record import TaskView

_BINARY = "GIT binary patch"
_REVERT_VERBS = {
    (False, False): "Reverted",
    (False, True): "Would revert",
    (True, False): "Undid",
    (True, True): "Would undo",
}
"""By whether it is an undo, and whether it is a dry run."""


@command("diff", "coterie diff last | git apply")
@click.argument("id_", metavar="[ID]", default="last")
@click.option("--stat", is_flag=True, help="Only the number of changed lines.")
def diff(call: Call, id_: str, *, stat: bool) -> None:
    """What a task changed in your files: a patch for `git apply`.

    Without ID: the last task that you started; for one ticket: k3f9/T2. The exit code is 1 if not
    all of it can be shown.
    """

    async def body(app: App, task_id: str) -> tuple[str, TaskDiff]:
        if ticket_id_of(task_id):
            return task_id, await app.changes.ticket_diff(task_id)
        return task_id, await app.diff(task_id)

    task_id, changes = run_on_task(call, id_, body, tickets=True)
    from coterie.app.changes import diff_fields

    call.record("diff", diff_fields(task_id, changes, stat=stat))
    if not call.json:
        _show_diff(call, task_id, changes, stat=stat)
    if changes.problem:  # a script must not apply part of a diff as if it were all
        raise click.exceptions.Exit(1)


def _show_diff(call: Call, task_id: str, changes: TaskDiff, *, stat: bool) -> None:
    if stat:
        call.lines(_figures(changes, call.width))
    elif sys.stdout.isatty():
        call.lines([line for patch in changes.patches for line in _coloured(call, patch)])
    else:
        _write_raw(changes)
    for note in _notes(task_id, changes):
        call.note(note)


@command("revert", "coterie revert last")
@click.argument("id_", metavar="ID")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--undo", is_flag=True, help="Undo the last revert of this task.")
def revert(call: Call, id_: str, *, dry_run: bool, undo: bool) -> None:
    """Undo what a task changed in your files, and nothing that anybody else did.

    If the same lines have been changed since, the file is left alone and reported.
    """

    async def body(app: App, task_id: str) -> _Reverted:
        done = await app.revert(task_id, undo=undo, dry_run=dry_run)
        view, dropped = (await app.show(task_id)).view, None
        if view.workflow == PIPELINE and not done.did_something:
            dropped = (await app.pipelines.view(task_id)).dropped
        return _Reverted(view, done, bool(await app.branch(task_id)), dropped)

    reverted = run_on_task(call, id_, body)
    task_id, done = reverted.view.id, reverted.done
    call.record("revert", {"task": task_id, "undo": undo, "dry_run": dry_run, **asdict(done)})
    if reverted.dropped is not None:
        call.lines(_dropped(reverted.view, reverted.dropped, dry_run=dry_run))
    elif reverted.on_own_branch and not done.did_something:
        call.lines(_only_marked(task_id, undo=undo, dry_run=dry_run))
    else:
        call.lines(_revert_lines(task_id, done, undo=undo, dry_run=dry_run))
    raise click.exceptions.Exit(1 if done.kept else 0)


class _Reverted(NamedTuple):
    view: TaskView
    done: RevertResult
    on_own_branch: bool
    """Whether its work is on a branch of its own."""
    dropped: str | None
    """For a build that was never accepted: the ref under which its work is kept."""


def _dropped(view: TaskView, ref: str, *, dry_run: bool) -> list[str]:
    """Say what happens to a change that was never accepted."""
    if dry_run:
        return [f"{view.id} was not accepted: its worktree would be dropped, your files stay."]
    lines = [
        f"Reverted {view.id}: it was not accepted, so none of your files changed.",
        f"  kept      {ref}",
    ]
    return [*lines, f"  next      coterie resume {view.id}"] if view.resumable else lines


def _figures(changes: TaskDiff, width: int) -> list[str]:
    files = [one for patch in changes.patches for one in patch.files]
    rows = [(f"  {one_line(one.path)}", *_counts(one)) for one in files]
    added, removed = sum(one.added or 0 for one in files), sum(one.removed or 0 for one in files)
    total = (counted(len(files), "file"), f"+{added}", f"-{removed}")
    return table([*rows, total], width) if files else []


def _counts(one: FileDiffStat) -> tuple[str, str]:
    return ("binary", "") if one.added is None else (f"+{one.added}", f"-{one.removed}")


def _head(patch: Patch) -> str:
    """Name the patch's folder unless it is the project's; git ignores such a line."""
    foreign = any(one.path.startswith((".coterie/", "/")) for one in patch.files)
    return f"In {shown(patch.folder)}:" if foreign else ""


def _coloured(call: Call, patch: Patch) -> Iterator[str]:
    if head := _head(patch):
        yield call.paint(printable(head), "name")
    hidden = False
    for line in patch.text.removesuffix("\n").split("\n"):
        hidden = hidden and not line.startswith("diff --git ")
        if not hidden:
            shown_line = "binary" if line == _BINARY else line
            yield call.paint(printable(shown_line), diff_meaning(shown_line))
        hidden = hidden or line == _BINARY


def _write_raw(changes: TaskDiff) -> None:
    """Write the patches byte for byte."""
    for patch in changes.patches:
        head = _head(patch)
        text = f"{head}\n{patch.text}" if head else patch.text
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
    sys.stdout.buffer.flush()


def _notes(task_id: str, changes: TaskDiff) -> Iterator[str]:
    if changes.reverted_at is not None:
        when = clock(changes.reverted_at)
        yield f"{task_id} was reverted at {when}.   Undo: coterie revert {task_id} --undo"
    elif not changes.patches and not changes.problem and not changes.missed:
        yield f"{task_id} changed no files."
    for one in changes.missed:
        yield f"not shown: {visible_line(one.path)}: {one.why}"
    if changes.problem:
        what = "Not all of it can be shown" if changes.patches else "It cannot be shown"
        yield f"! {what}: {printable(changes.problem)}."


def _only_marked(task_id: str, *, undo: bool, dry_run: bool) -> list[str]:
    """For a session whose files are as they should be: only what is known of it changed."""
    would = "would be" if dry_run else "is"
    if undo:
        return [f"{task_id} {would} no longer marked as reverted.   coterie show {task_id}"]
    apart = f"{task_id} was not accepted, so none of your files changed."
    lines = [f"{apart} It {would} marked as reverted."]
    return lines if dry_run else [*lines, f"  undo      coterie revert {task_id} --undo"]


def _revert_lines(task_id: str, done: RevertResult, *, undo: bool, dry_run: bool) -> list[str]:
    what = f"the revert of {task_id}" if undo else task_id
    did = _REVERT_VERBS[undo, dry_run]
    lines = (
        [f"{did} {what}"]
        if done.did_something
        else [f"Nothing to {'undo' if undo else 'revert'} in {task_id}."]
    )
    listed = (
        ("restored", list(map(visible_line, done.restored))),
        ("merged", [f"{visible_line(path)}: others' changes are kept" for path in done.merged]),
        ("removed", list(map(visible_line, done.removed))),
        ("kept", [f"{visible_line(one.path)}: {one.why}" for one in done.kept]),
    )
    lines += [f"  {word:<10}{entry}" for word, entries in listed for entry in entries]
    if done.did_something and not dry_run:
        again = "" if undo else " --undo"
        lines.append(f"  undo      coterie revert {task_id}{again}")
    return lines
