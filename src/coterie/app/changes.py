"""What a task does to files: looked after while it runs, shown and taken back afterwards."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import anyio.from_thread
import anyio.to_thread

from coterie.engine.look import Lookout
from coterie.engine.takeover import Claimant
from coterie.errors import CoterieError, TaskBusy
from coterie.model.record import ErrorRecord, ResultRecord
from coterie.ports import Observer
from coterie.workspace.snapshots import FolderSnapshots
from coterie.workspace.snapshots.folder_snapshots import TaskDiff
from coterie.workspace.snapshots.revert import RevertResult


@asynccontextmanager
async def looked_after(
    root: Path, task_id: str, observer: Observer
) -> AsyncGenerator[FolderSnapshots]:
    """Snapshots for a run of a task; what its last turn left is kept even if that was cut."""

    def tell(problem: str) -> None:
        record = ErrorRecord(
            code="not_kept",
            message=f"What is changed can be neither shown nor undone: {problem}.",
            hint="Install git." if "not installed" in problem else None,
            task=task_id,
        )
        anyio.from_thread.run_sync(observer.saw, record)

    snapshots = await anyio.to_thread.run_sync(FolderSnapshots, root, tell)
    try:
        yield snapshots
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(snapshots.settle)


async def with_changes(snapshots: FolderSnapshots, result: ResultRecord) -> ResultRecord:
    """The result of a run, with what the task has changed so far."""

    def figures() -> tuple[str, ...]:
        if not snapshots.has_kept(result.task):
            return ()
        patches = snapshots.diff(result.task).patches
        return tuple(str(one) for patch in patches for one in patch.files)

    with suppress(CoterieError):  # the run is over and well; `coterie diff` will say it again
        return replace(result, changed=await anyio.to_thread.run_sync(figures))
    return result


@dataclass(frozen=True)
class Changes:
    """The changes of tasks that were run."""

    look: Lookout

    async def diff(self, task_id: str) -> TaskDiff:
        """What a task changed so far."""
        return await anyio.to_thread.run_sync(lambda: FolderSnapshots(self.look.root).diff(task_id))

    async def would_take_back(self, task_id: str, *, undo: bool) -> RevertResult:
        """What `take_back` would do now."""
        runner = await self.look.runner_of(task_id)
        if runner is not None:
            raise TaskBusy(task_id, runner.pid, runner.host, _stop_first(task_id))
        return await anyio.to_thread.run_sync(self._take_back, task_id, undo, True)

    async def take_back(self, claimant: Claimant, task_id: str, *, undo: bool) -> RevertResult:
        """Undo what a task changed, or its last revert; nobody can run it meanwhile."""
        rows = await self.look.storage.events.tasks()
        parts = [row.id for row in rows if row.id.startswith(f"{task_id}.")]
        async with AsyncExitStack() as stack:
            for one in (task_id, *parts):
                await stack.enter_async_context(self._held(claimant, one))
            return await anyio.to_thread.run_sync(self._take_back, task_id, undo, False)

    @asynccontextmanager
    async def _held(self, claimant: Claimant, task_id: str) -> AsyncGenerator[None]:
        """Own a task, so that nobody can run it."""
        try:
            fence = await claimant.take(task_id)
        except TaskBusy as busy:
            raise TaskBusy(busy.task, busy.pid, busy.host, _stop_first(task_id)) from None
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await self.look.storage.leases.park(fence)

    def _take_back(self, task_id: str, undo: bool, dry_run: bool) -> RevertResult:
        snapshots = FolderSnapshots(self.look.root)
        if not dry_run:
            snapshots.end_cut_turns(task_id)
        take_back = snapshots.undo if undo else snapshots.revert
        return take_back(task_id, dry_run=dry_run)


def _stop_first(task_id: str) -> str:
    return f"Stop it first: coterie stop {task_id}"
