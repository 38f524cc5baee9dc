"""What tasks changed: show it, accept it into the user's branch, and revert it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial

import anyio
import anyio.to_thread

from coterie.app.sessions import Sessions
from coterie.engine.channels import TaskChildren
from coterie.engine.lease import Claimant
from coterie.errors import CoterieError, GitFailed, NotAccepted, TaskBusy
from coterie.model import instant
from coterie.model.check import CheckOutcome
from coterie.model.journal import AppendAudit, Fence, Step
from coterie.model.record import ResultRecord
from coterie.model.step_name import parse
from coterie.model.task import TICKET, TaskState, is_below, ticket_id_of, title_of
from coterie.model.team import YOU
from coterie.model.ticket import FINAL_COMMIT
from coterie.model.tool_call import AuditEntry
from coterie.ports import Checks
from coterie.workspace.acceptance import Acceptance, busy_elsewhere
from coterie.workspace.git import FileDiffStat, diff_trees
from coterie.workspace.leftovers import Leftover, SessionLeftovers
from coterie.workspace.snapshots.changes import Patch
from coterie.workspace.snapshots.folder_snapshots import FolderSnapshots, TaskDiff
from coterie.workspace.snapshots.revert import RevertResult
from coterie.workspace.ticket_worktrees import TicketWorktrees

ACCEPT, REVERT = "accept", "revert"
"""Their tool names in the audit."""
_SHORT = 7


@dataclass(frozen=True)
class Accepted:
    """A session's work, now in the user's branch; the repository's hooks were not run."""

    task: str
    branch: str
    before: str
    commit: str
    files: tuple[FileDiffStat, ...]
    checks: tuple[CheckOutcome, ...] = ()
    """The checks that were run again."""
    kept: tuple[Leftover, ...] = ()
    """Worktrees that were not removed because they hold more than the accepted work."""


@dataclass(frozen=True)
class Changes:
    """What tasks changed.  A session works on its own branch, other tasks in the folder."""

    sessions: Sessions

    async def diff(self, task_id: str) -> TaskDiff:
        """Return what a task has changed so far; for a session, what was approved."""
        work = await self._work_of(task_id)
        if work is None:
            return await anyio.to_thread.run_sync(lambda: self._snapshots().diff(task_id))
        at = await self._reverted_at(task_id)
        return await anyio.to_thread.run_sync(partial(_difference, work, at))

    async def ticket_diff(self, ticket_task: str) -> TaskDiff:
        """Return what the work on a ticket changed: on its branch or, once merged, by the merge."""
        worktrees = await self.sessions.worktrees(ticket_task)
        if worktrees is None:
            return TaskDiff(problem="without git, changes are only known for the whole session")
        return await anyio.to_thread.run_sync(_of_ticket, worktrees, ticket_id_of(ticket_task))

    async def concluded(self, result: ResultRecord) -> ResultRecord:
        """Complete the result of a session's run with approved files, checks and next steps."""
        with suppress(CoterieError):  # the run itself is fine; `coterie diff` will report this
            if await self._work_of(result.task) is not None:
                patches = (await self.diff(result.task)).patches
                files = tuple(str(one) for patch in patches for one in patch.files)
                result = replace(result, changed=files)
        return await self.sessions.concluded(result)

    async def _work_of(self, task_id: str) -> Acceptance | None:
        """Return a session's work ready to be accepted; None if it has no branch."""
        worktrees = await self.sessions.worktrees(task_id)
        return Acceptance(worktrees) if worktrees else await self.sessions.require_here(task_id)

    def _snapshots(self) -> FolderSnapshots:
        return FolderSnapshots(self.sessions.look.root)

    async def _reverted_at(self, task_id: str) -> str | None:
        """Return when the work was reverted; None if it was not, or that was undone."""
        reverted_at: str | None = None
        undo: Mapping[str, object] = {}
        for entry in await self.sessions.look.storage.audit.of_task(task_id):
            if entry.tool_name == REVERT and entry.kind == "ToolCallRequested":
                undo = entry.input or {}
            elif entry.tool_name == REVERT and not entry.is_error:
                reverted_at = None if undo.get("undo") else entry.timestamp
        return reverted_at

    async def accept(
        self, task_id: str, claimant: Claimant, checks: Checks, *, recheck: bool
    ) -> Accepted:
        """Bring the work into the branch that the user has checked out.

        Raises NotAccepted, with nothing changed, if that is not possible.
        """
        state = await self.sessions.look.state(task_id)
        work = await self._acceptable(state)
        final = str(await self.sessions.step(task_id, FINAL_COMMIT) or "")
        async with self.holding(claimant, task_id, is_done=True) as fence:
            head, branch = await anyio.to_thread.run_sync(_head_and_branch, work)
            commands: Sequence[str] = ()
            if recheck:
                commands = await self._commands(state)
            else:
                await anyio.to_thread.run_sync(_check_unmoved, work, head, branch, final)
            commit = await anyio.to_thread.run_sync(_combined, work, head, state)
            children = TaskChildren(
                claimant.leases, fence, claimant.machine, deadline=claimant.owners.deadline
            )
            ran = await _checked(work, commit, commands, checks, children)
            arguments = {"branch": branch, "before": head, "commit": commit, "recheck": recheck}
            async with self.audited(task_id, ACCEPT, arguments):
                await anyio.to_thread.run_sync(work.accept, commit)
            _, files = await anyio.to_thread.run_sync(work.patch, head, commit)
            kept = await anyio.to_thread.run_sync(_remove_worktrees, work)
            return Accepted(task_id, branch, head, commit, files, ran, kept)

    async def _acceptable(self, state: TaskState) -> Acceptance:
        task_id = state.id
        if state.status != "completed":
            raise await self._unfinished(task_id)
        work = await self._work_of(task_id)
        if work is None:
            problem = f"{task_id} has no branch of its own: its work is in the folder already"
            raise NotAccepted(task_id, problem, f"coterie diff {task_id}")
        await anyio.to_thread.run_sync(_check_wanted, work)
        return work

    async def _unfinished(self, task_id: str) -> NotAccepted:
        """Explain by its current state, not the recorded one, why a session is not acceptable."""
        view = (await self.sessions.look.show(task_id)).view
        verb = "resume" if view.resumable else "attach" if view.is_run else "show"
        problem = f"{task_id} is {view.standing}, not completed"
        return NotAccepted(task_id, problem, f"coterie {verb} {task_id}")

    async def _commands(self, state: TaskState) -> list[str]:
        """Return the checks that the work has passed: the user's own, and those of its tickets."""
        passed: dict[str, bool] = dict.fromkeys(state.created.scheduler.checks, True)
        for step in await self.sessions.look.storage.journal.steps(state.id):
            outcome = _outcome(step)
            if outcome is not None:
                passed[outcome.command] = outcome.passed
        return [command for command, well in passed.items() if well]

    async def revert(
        self, task_id: str, claimant: Claimant, *, undo: bool, dry_run: bool
    ) -> RevertResult:
        """Revert what a task changed, or undo its last revert; nobody can run it meanwhile.

        A session's commits are taken out of the user's branch; a session that was never accepted
        is only marked as reverted.
        """
        work = await self._work_of(task_id)
        if work is not None:
            return await self._revert_session(task_id, work, claimant, undo=undo, dry_run=dry_run)
        look = self.sessions.look
        if dry_run:
            runner = await look.runner_of(task_id)
            if runner is not None:
                raise TaskBusy(task_id, runner.pid, runner.host, _stop_first(task_id))
            return await anyio.to_thread.run_sync(self._revert_files, task_id, undo, True)
        rows = await look.storage.events.tasks()
        parts = [row.id for row in rows if row.workflow != TICKET and is_below(row.id, task_id)]
        async with AsyncExitStack() as stack:
            for part in (task_id, *parts):
                await stack.enter_async_context(self.holding(claimant, part))
            return await anyio.to_thread.run_sync(self._revert_files, task_id, undo, False)

    async def _revert_session(
        self, task_id: str, work: Acceptance, claimant: Claimant, *, undo: bool, dry_run: bool
    ) -> RevertResult:
        make = work.undo_revert if undo else work.revert
        if dry_run:
            return await anyio.to_thread.run_sync(partial(make, dry_run=True))
        async with self.holding(claimant, task_id), self.audited(task_id, REVERT, {"undo": undo}):
            return await anyio.to_thread.run_sync(partial(make, dry_run=False))

    def _revert_files(self, task_id: str, undo: bool, dry_run: bool) -> RevertResult:
        snapshots = self._snapshots()
        if not dry_run:
            snapshots.end_cut_turns(task_id)
        take_back = snapshots.undo if undo else snapshots.revert
        return take_back(task_id, dry_run=dry_run)

    @asynccontextmanager
    async def holding(
        self, claimant: Claimant, task_id: str, *, is_done: bool = False
    ) -> AsyncGenerator[Fence]:
        """Hold the task's lease, so that nobody else runs, accepts, reverts or cleans it.

        `is_done`: the task has completed, so any other holder is accepting or reverting it.
        """
        async with AsyncExitStack() as stack:
            try:
                fence = await stack.enter_async_context(claimant.held(task_id))
            except TaskBusy as busy:
                if is_done:
                    raise busy_elsewhere(task_id, busy.pid) from None
                raise TaskBusy(busy.task, busy.pid, busy.host, _stop_first(task_id)) from None
            yield fence

    @asynccontextmanager
    async def audited(
        self, task_id: str, what: str, arguments: Mapping[str, object]
    ) -> AsyncGenerator[None]:
        """Record in the audit who did what and when, and how it ended."""
        storage = self.sessions.look.storage
        begun = instant.now()
        call = f"{what}-{begun}"
        request = AuditEntry("ToolCallRequested", call, what, YOU, task_id, begun, input=arguments)
        await storage.commit(None, AppendAudit(request))
        problem = "it was interrupted"
        try:
            yield
            problem = ""
        except Exception as error:
            problem = str(error)
            raise
        finally:
            output = {"problem": problem} if problem else dict(arguments)
            ended = ("ToolCallCompleted", call, what, YOU, task_id, instant.now())
            done = AuditEntry(*ended, output=output, is_error=bool(problem))
            with anyio.CancelScope(shield=True):
                await storage.commit(None, AppendAudit(done))


def _remove_worktrees(work: Acceptance) -> tuple[Leftover, ...]:
    """Remove the worktrees of accepted work; on failure `coterie clean` reports the problem."""
    with suppress(GitFailed, OSError):
        return SessionLeftovers(work.worktrees).remove_worktrees()
    return ()


def _stop_first(task_id: str) -> str:
    return f"Stop it first: coterie stop {task_id}"


async def _checked(
    work: Acceptance, commit: str, commands: Sequence[str], checks: Checks, children: TaskChildren
) -> tuple[CheckOutcome, ...]:
    """Run the checks on a commit; raises NotAccepted if one fails."""
    if not commands:
        return ()
    folder = await anyio.to_thread.run_sync(work.worktrees.check_out, commit)
    ran = [await checks.run(command, folder, children) for command in commands]
    failed = [outcome for outcome in ran if not outcome.passed]
    if failed:
        codes = "; ".join(f"{outcome.command}: exit {outcome.exit_code}" for outcome in failed)
        tail = failed[0].output[-500:].strip()
        raise NotAccepted(work.task, f"with your branch as it is now, {codes}\n{tail}")
    return tuple(ran)


def _head_and_branch(work: Acceptance) -> tuple[str, str]:
    work.check_no_operation_in_progress()
    head_and_branch = work.head(), work.branch()
    _check_wanted(work)  # another terminal may have got there first while this one waited
    return head_and_branch


def _check_wanted(work: Acceptance) -> None:
    task = work.task
    if work.reverted is not None:
        raise NotAccepted(task, f"{task} was reverted", f"coterie revert {task} --undo")
    work.check_not_accepted()
    if work.worktrees.head() == work.worktrees.base:
        raise NotAccepted(task, f"{task} changed nothing", f"coterie show {task}")


def _check_unmoved(work: Acceptance, head: str, branch: str, final: str) -> None:
    """Raise NotAccepted if a branch has moved since the checks ran."""
    base, now = work.worktrees.base, work.worktrees.head()
    hint = f"coterie accept {work.task} --recheck"
    if head != base:
        problem = f"{branch} moved since the checks ({base[:_SHORT]}, now {head[:_SHORT]})"
        raise NotAccepted(work.task, problem, hint)
    if now != final:
        which = work.worktrees.branch
        problem = f"{which} moved since the checks ({final[:_SHORT]}, now {now[:_SHORT]})"
        raise NotAccepted(work.task, problem, hint)


def _combined(work: Acceptance, head: str, state: TaskState) -> str:
    title = title_of(state.created.goal, 60)
    return work.merged_with(head, work.worktrees.head(), f"Merge {work.task}: {title}")


def _outcome(step: Step) -> CheckOutcome | None:
    if step.result is None or not parse(step.name).is_check:
        return None
    return CheckOutcome(**json.loads(step.result))


def _of_ticket(worktrees: TicketWorktrees, ticket: str) -> TaskDiff:
    span = worktrees.span(ticket)
    if span is None:
        return TaskDiff()
    text, files = diff_trees(worktrees.git.run, *span)
    return TaskDiff((Patch(worktrees.git.folder, text, files),) if files else ())


def diff_fields(task_id: str, diff: TaskDiff, *, stat: bool = False) -> dict[str, object]:
    """Return a change as a JSON object; `stat`: only how much was changed."""
    patches: list[dict[str, object]] = []
    for patch in diff.patches:
        files = [asdict(one) for one in patch.files]
        text = {} if stat else {"patch": patch.text}
        patches.append({"folder": str(patch.folder), "files": files, **text})
    return {
        "task": task_id,
        "patches": patches,
        "missed": [asdict(one) for one in diff.missed],
        "reverted_at": diff.reverted_at,
        "accepted": diff.accepted,
        "problem": diff.problem,
    }


def _difference(work: Acceptance, reverted_at: str | None) -> TaskDiff:
    taken = work.accepted
    text, files = work.patch(*(taken or (work.worktrees.base, work.worktrees.head())))
    patches = (Patch(work.git.folder, text, files),) if files else ()
    return TaskDiff(patches, reverted_at=reverted_at, accepted=taken[1] if taken else None)
