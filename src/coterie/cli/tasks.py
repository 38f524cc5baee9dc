"""`tasks`, `log`, `resume`, `cancel` and `accept`; and how long lists are shortened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from coterie.cli.main import Call, command, run_in_project, run_on_task
from coterie.cli.text import Span, ago, counted, one_line, state_of, table
from coterie.cli.timeline import Timeline
from coterie.errors import NotFound, TaskBusy, UsageError
from coterie.model import as_json
from coterie.model.record import TaskView
from coterie.model.task import ENDED

if TYPE_CHECKING:
    from coterie.app.changes import Accepted
    from coterie.app.project import App


T = TypeVar("T")

FEW = 20
"""How many rows are shown to a reader who did not say how many."""


@dataclass(frozen=True)
class ListLimit:
    """How much of a list to show."""

    limit: int | None = None
    show_all: bool = False

    def apply(self, call: Call, rows: Sequence[T]) -> Sequence[T]:
        """Return the newest rows, which come last; with `--json` all, unless limited."""
        if self.limit is None and (self.show_all or call.json):
            return rows
        return rows[-(self.limit or FEW) :]

    def print_rest(self, call: Call, older: int) -> None:
        """Say how many are not shown, and how to show them."""
        if older > 0:
            call.line(f"{older:,} older ones: use --all or --limit {5 * (self.limit or FEW)}")


def limit_options(body: Callable[..., None]) -> Callable[..., None]:
    """Add `--limit` and `--all` to a command that shows a list, as its argument `listed`."""

    @click.option(
        "--limit", type=click.IntRange(1), metavar="N", help=f"Only the newest N ({FEW})."
    )
    @click.option("--all", "show_all", is_flag=True, help="All of them.")
    @wraps(body)
    def limited(*given: Any, limit: int | None, show_all: bool, **more: Any) -> None:
        if limit is not None and show_all:
            raise UsageError("--limit and --all cannot be combined.", "Give one of them.")
        body(*given, listed=ListLimit(limit, show_all), **more)

    return limited


@command("tasks", "coterie tasks --json")
@limit_options
def tasks(call: Call, listed: ListLimit) -> None:
    """The tasks of this project, the newest last."""

    views = run_in_project(call, lambda app: app.tasks())
    if views is None:
        return
    kept = listed.apply(call, views)
    call.records("task", map(as_json.task, kept))
    rows = [task_row(view) for view in kept]
    call.lines(table(rows, call.row_width) or ['No task yet.   coterie "what the team should do"'])
    listed.print_rest(call, len(views) - len(kept))
    waiting = [view.id for view in views if view.resumable]
    if waiting:
        call.line(f"Resume: coterie resume {waiting[-1]}")


def task_row(view: TaskView) -> tuple[str, str, str, str]:
    """A task as a row of a table."""
    return (f"  {view.id}", state_of(view), ago(view.changed_at), one_line(view.title))


@command("log", "coterie log last --follow")
@click.argument("id_", metavar="[ID]", default="last")
@click.option("-f", "--follow", is_flag=True, help="Keep printing until the task ends.")
def log(call: Call, id_: str, *, follow: bool) -> None:
    """What happened in a task or a ticket (k3f9/T2), in order; every line names the member.

    Without ID: the last task that you started.
    """

    async def body(app: App, task_id: str) -> None:
        detail = await app.show(task_id)
        timeline = Timeline(call, app.root, detail.state.created.team)
        timeline.head(detail)
        if not follow:
            running = detail.view.is_run
            timeline.show_all(await app.timeline(task_id), running=running)
            return
        async for entry in app.follow(task_id):
            timeline.show(entry)
        timeline.end((await app.show(task_id)).view)

    run_on_task(call, id_, body, tickets=True)


_SHORT = 7


@command("cancel", "coterie cancel k3f9")
@click.argument("id_", metavar="ID")
@click.option("--yes", is_flag=True, help="Do not ask.")
def cancel(call: Call, id_: str, *, yes: bool) -> None:
    """Cancel a task for good; to be able to resume it, stop it instead."""

    async def body(app: App, task_id: str) -> TaskView:
        await app.cancel(task_id)
        return await _view(app, task_id)

    view = run_on_task(call, id_, _view)
    if view.status in ENDED:
        raise UsageError(f"{view.id} has ended ({view.status}).", f"coterie show {view.id}")
    if not yes:
        if not call.attended:
            hint = f"coterie cancel {view.id} --yes, or coterie stop {view.id} to keep it"
            raise UsageError("cancel is final, and there is no terminal to ask on.", hint)
        click.confirm(f"Cancel {view.id} for good? (stop would keep it)", default=False, abort=True)
    view = run_on_task(call, view.id, body)
    call.record("task", as_json.task(view))
    call.line(f"Canceled {view.id}.")


@command("resume", "coterie resume last")
@click.argument("id_", metavar="[ID]", required=False)
@click.option("--wait", type=Span(), metavar="30m", help="How long to wait for an answer.")
@click.option("--at-reset", is_flag=True, help="Wait for the end of a rate limit, then continue.")
@click.option("--trust", is_flag=True, help="Trust what its members are started with now.")
@click.option("--dry-run", is_flag=True, help="Show exactly what would be started; start nothing.")
def resume(
    call: Call, id_: str | None, wait: float | None, *, at_reset: bool, trust: bool, dry_run: bool
) -> None:
    """Resume a task that was parked or killed; without ID: the only unfinished one."""

    async def body(app: App, task_id: str | None = None) -> int:
        from coterie.cli.running import WaitOptions, resume_task

        options = WaitOptions.of(call, wait, at_reset=at_reset)
        task_id = task_id or await _only(app)
        if dry_run:
            return await _dry_resume(call, app, task_id)
        if (powers := await app.unallowed(task_id)) and (trust or call.attended):
            from coterie.cli.work import show_asked

            call.line(f"{task_id} needs permissions that you have not granted:")
            show_asked(call, powers)
            if trust or click.confirm("Resume it as it is now?", default=False):
                await app.allow(task_id)
        try:
            return await resume_task(call, app, task_id, options)
        except TaskBusy as busy:
            call.note(f"{busy} Following it; Ctrl-C leaves it running.")
            from coterie.cli.attach import follow_log

            return await follow_log(call, app, await app.show(task_id))

    code = run_in_project(call, body) if id_ is None else run_on_task(call, id_, body)
    raise click.exceptions.Exit(code or 0)


async def _dry_resume(call: Call, app: App, task_id: str) -> int:
    """Show what would be started, and stop there."""
    from coterie.app.dry_run import dry_resume
    from coterie.cli import dry_run

    view = await _view(app, task_id)
    if view.status in ENDED:
        raise UsageError(f"{task_id} has ended ({view.status}).", f"coterie show {task_id}")
    if view.is_run:
        raise TaskBusy(task_id, view.pid, view.machine)
    plan = await dry_resume(app, task_id)
    dry_run.show(call, plan)
    if plan.refused is not None:
        raise plan.refused
    return 0


async def _only(app: App) -> str:
    """Return the only task that is unfinished."""
    unfinished = [view for view in await app.tasks() if view.status not in ENDED]
    if not unfinished:
        raise NotFound("No unfinished tasks.", "coterie tasks")
    if len(unfinished) > 1:
        rows = table([task_row(view) for view in unfinished[-FEW:]], 80)
        older = len(unfinished) - len(rows)
        rest = [f"and {older:,} older ones: coterie tasks --all"] if older else []
        listed = "\n".join(["Which one? Unfinished tasks:", *rows, *rest])
        raise UsageError(listed, f"coterie resume {unfinished[-1].id}")
    return unfinished[0].id


async def _view(app: App, task_id: str) -> TaskView:
    return (await app.show(task_id)).view


@command("accept", "coterie accept last")
@click.argument("id_", metavar="ID")
@click.option("--recheck", is_flag=True, help="Your branch has moved: merge both and check again.")
@click.option("-m", "message", metavar="TEXT", help="For a build: its commit message.")
@click.option("--override", is_flag=True, help="For a build: commit despite a failed gate.")
def accept(call: Call, id_: str, message: str | None, *, recheck: bool, override: bool) -> None:
    """Merge the approved work of a session into the branch that you have checked out.

    This is refused if your branch has moved since the checks; --recheck then merges both and runs
    the checks again. Nothing is changed unless they pass. coterie revert undoes it. A build
    becomes one commit, with -m as its message.
    """

    async def body(app: App, task_id: str) -> Accepted:
        from coterie.app.accept import accept_work

        return await accept_work(app, task_id, message, recheck=recheck, override=override)

    done = run_on_task(call, id_, body)
    call.lines(_lines(call, done))


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
    lines += [f"  kept     {one_line(one.name)}: {one.kept}" for one in done.kept]
    return [*lines, f"  undo     coterie revert {done.task}"]
