"""What tasks changed: shown, accepted into the user's branch, and taken back."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial

import anyio
import anyio.to_thread

from coterie.app.sessions import Sessions
from coterie.engine.channels import TaskChildren
from coterie.engine.lease import Claimant
from coterie.errors import CoterieError, GitFailed, NotAccepted, TaskBusy, UsageError
from coterie.model import instant
from coterie.model.check import CheckOutcome
from coterie.model.conversation import YOU
from coterie.model.journal import AppendAudit, Fence, Step
from coterie.model.record import ResultRecord
from coterie.model.step_name import parse
from coterie.model.task import ENDED, TaskState, ticket_in
from coterie.model.ticket import FINAL_COMMIT
from coterie.model.tool_call import AuditEntry
from coterie.ports import Checks
from coterie.workspace.acceptance import Acceptance, held_elsewhere
from coterie.workspace.git import FileDiffStat, diff_trees
from coterie.workspace.leftovers import Leftover, SessionLeftovers
from coterie.workspace.snapshots.changes import Patch
from coterie.workspace.snapshots.folder_snapshots import FolderSnapshots, TaskDiff
from coterie.workspace.snapshots.revert import RevertResult
from coterie.workspace.ticket_worktrees import TicketWorktrees

ACCEPT, REVERT = "accept", "revert"
"""What the audit calls the two."""
_SHORT = 7


@dataclass(frozen=True)
class Accepted:
    """A session's work, in the user's branch; hooks of the repository were not run."""

    task: str
    branch: str
    before: str
    commit: str
    files: tuple[FileDiffStat, ...]
    checks: tuple[CheckOutcome, ...] = ()
    """Those that were run again."""
    kept: tuple[Leftover, ...] = ()
    """Worktrees that were not removed, as they hold something more."""


@dataclass(frozen=True)
class Changes:
    """What tasks changed.  A session works on a branch of its own, other tasks in the folder."""

    sessions: Sessions

    async def diff(self, task_id: str) -> TaskDiff:
        """What a task changed so far; of a session, what was approved."""
        work = await self._work_of(task_id)
        if work is None:
            return await anyio.to_thread.run_sync(lambda: self._snapshots().diff(task_id))
        at = await self._reverted_at(task_id)
        return await anyio.to_thread.run_sync(partial(_difference, work, at))

    async def ticket_diff(self, ticket_task: str) -> TaskDiff:
        """What the work on a ticket changed: on its branch, and once that is merged, by merging."""
        worktrees = await self.sessions.worktrees(ticket_task)
        if worktrees is None:
            return TaskDiff(problem="without git it is only known what a whole session changed")
        return await anyio.to_thread.run_sync(_of_ticket, worktrees, ticket_in(ticket_task))

    async def concluded(self, result: ResultRecord) -> ResultRecord:
        """The result of a session's run, with its approved files, its checks and what is next."""
        with suppress(CoterieError):  # the run is over and well; `coterie diff` will say it again
            if await self._work_of(result.task) is not None:
                patches = (await self.diff(result.task)).patches
                files = tuple(str(one) for patch in patches for one in patch.files)
                result = replace(result, changed=files)
        return await self.sessions.concluded(result)

    async def _work_of(self, task_id: str) -> Acceptance | None:
        """A session's work as it can be accepted; None where it has no branch."""
        worktrees = await self.sessions.worktrees(task_id)
        return Acceptance(worktrees) if worktrees else await self.sessions.require_here(task_id)

    def _snapshots(self) -> FolderSnapshots:
        return FolderSnapshots(self.sessions.look.root)

    async def _reverted_at(self, task_id: str) -> str | None:
        """When the work was taken back, unless that was undone."""
        found: str | None = None
        undo: Mapping[str, object] = {}
        for entry in await self.sessions.look.storage.audit.of_task(task_id):
            if entry.tool_name == REVERT and entry.kind == "ToolCallRequested":
                undo = entry.input or {}
            elif entry.tool_name == REVERT and not entry.is_error:
                found = None if undo.get("undo") else entry.timestamp
        return found

    async def accept(
        self, task_id: str, claimant: Claimant, checks: Checks, *, recheck: bool
    ) -> Accepted:
        """Bring the work into the branch that the user has checked out.

        Raises NotAccepted, and then nothing was changed.
        """
        state = await self.sessions.look.state(task_id)
        work = await self._acceptable(state)
        final = str(await self.sessions.step(task_id, FINAL_COMMIT) or "")
        async with self.held(claimant, task_id, is_done=True) as fence:
            head, branch = await anyio.to_thread.run_sync(_place, work)
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
            given = {"branch": branch, "before": head, "commit": commit, "recheck": recheck}
            async with self.recorded(task_id, ACCEPT, given):
                await anyio.to_thread.run_sync(work.take, commit)
            _, files = await anyio.to_thread.run_sync(work.patch, head, commit)
            kept = await anyio.to_thread.run_sync(_without_worktrees, work)
            return Accepted(task_id, branch, head, commit, files, ran, kept)

    async def _acceptable(self, state: TaskState) -> Acceptance:
        task_id = state.id
        if state.status != "completed":
            raise await self._unfinished(state)
        work = await self._work_of(task_id)
        if work is None:
            problem = f"{task_id} has no branch of its own: its work is in the folder already"
            raise NotAccepted(task_id, problem, f"coterie diff {task_id}")
        await anyio.to_thread.run_sync(_check_wanted, work)
        return work

    async def _unfinished(self, state: TaskState) -> NotAccepted:
        """Why a session cannot be accepted yet: as it stands now, whatever it last recorded."""
        task_id, status, hint = state.id, str(state.status), f"coterie resume {state.id}"
        if status in ENDED:
            hint = f"coterie show {task_id}"
        elif await self.sessions.look.runner_of(task_id) is not None:
            hint = f"coterie attach {task_id}"
        elif status == "running":
            status = "parked"
        return NotAccepted(task_id, f"{task_id} is {status}, not completed", hint)

    async def _commands(self, state: TaskState) -> list[str]:
        """The checks that the work has passed: the user's own, and those of its tickets."""
        passed: dict[str, bool] = dict.fromkeys(state.created.scheduler.checks, True)
        for step in await self.sessions.look.storage.journal.steps(state.id):
            outcome = _outcome(step)
            if outcome is not None:
                passed[outcome.command] = outcome.passed
        return [command for command, well in passed.items() if well]

    async def revert(
        self, task_id: str, claimant: Claimant, *, undo: bool, dry_run: bool
    ) -> RevertResult:
        """Take back what a task changed, or its last revert; nobody can run it meanwhile.

        Of a session the commits are taken back out of the user's branch; one that was never
        accepted is only marked as not wanted.
        """
        work = await self._work_of(task_id)
        if work is not None:
            return await self._revert_session(task_id, work, claimant, undo=undo, dry_run=dry_run)
        look = self.sessions.look
        if dry_run:
            runner = await look.runner_of(task_id)
            if runner is not None:
                raise TaskBusy(task_id, runner.pid, runner.host, _stop_first(task_id))
            return await anyio.to_thread.run_sync(self._take_back, task_id, undo, True)
        rows = await look.storage.events.tasks()
        parts = [row.id for row in rows if row.id.startswith(f"{task_id}.")]
        async with AsyncExitStack() as stack:
            for part in (task_id, *parts):
                await stack.enter_async_context(self.held(claimant, part))
            return await anyio.to_thread.run_sync(self._take_back, task_id, undo, False)

    async def _revert_session(
        self, task_id: str, work: Acceptance, claimant: Claimant, *, undo: bool, dry_run: bool
    ) -> RevertResult:
        taken = await anyio.to_thread.run_sync(lambda: work.accepted)
        make = _bring_back if undo else _take_back
        if dry_run:
            return await anyio.to_thread.run_sync(partial(make, work, taken, dry_run=True))
        async with self.held(claimant, task_id), self.recorded(task_id, REVERT, {"undo": undo}):
            return await anyio.to_thread.run_sync(partial(make, work, taken, dry_run=False))

    def _take_back(self, task_id: str, undo: bool, dry_run: bool) -> RevertResult:
        snapshots = self._snapshots()
        if not dry_run:
            snapshots.end_cut_turns(task_id)
        take_back = snapshots.undo if undo else snapshots.revert
        return take_back(task_id, dry_run=dry_run)

    @asynccontextmanager
    async def held(
        self, claimant: Claimant, task_id: str, *, is_done: bool = False
    ) -> AsyncGenerator[Fence]:
        """Own the task, so that nobody can run it, or do the same; one that is done nobody runs."""
        async with AsyncExitStack() as stack:
            try:
                fence = await stack.enter_async_context(claimant.held(task_id))
            except TaskBusy as busy:
                if is_done:
                    raise held_elsewhere(task_id, busy.pid) from None
                raise TaskBusy(busy.task, busy.pid, busy.host, _stop_first(task_id)) from None
            yield fence

    @asynccontextmanager
    async def recorded(
        self, task_id: str, what: str, given: Mapping[str, object]
    ) -> AsyncGenerator[None]:
        """Put on record who did what and when, and what came of it."""
        storage = self.sessions.look.storage
        begun = instant.now()
        call = f"{what}-{begun}"
        asked = AuditEntry("ToolCallRequested", call, what, YOU, task_id, begun, input=given)
        await storage.commit(None, AppendAudit(asked))
        problem = "it was cut"
        try:
            yield
            problem = ""
        except Exception as error:
            problem = str(error)
            raise
        finally:
            output = {"problem": problem} if problem else dict(given)
            ended = ("ToolCallCompleted", call, what, YOU, task_id, instant.now())
            done = AuditEntry(*ended, output=output, is_error=bool(problem))
            with anyio.CancelScope(shield=True):
                await storage.commit(None, AppendAudit(done))


def _without_worktrees(work: Acceptance) -> tuple[Leftover, ...]:
    """Remove the worktrees of work that is accepted; `coterie clean` says what is wrong."""
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


def _place(work: Acceptance) -> tuple[str, str]:
    work.check_place()
    found = work.head(), work.branch()
    _check_wanted(work)  # another terminal may have been first while this one waited
    return found


def _check_wanted(work: Acceptance) -> None:
    task = work.task
    if work.reverted is not None:
        raise NotAccepted(task, f"{task} was reverted", f"coterie revert {task} --undo")
    work.check_not_accepted()
    if work.worktrees.head() == work.worktrees.base:
        raise NotAccepted(task, f"{task} changed nothing", f"coterie show {task}")


def _check_unmoved(work: Acceptance, head: str, branch: str, final: str) -> None:
    """Raise NotAccepted where something moved since it was checked."""
    base, now = work.worktrees.base, work.worktrees.head()
    hint = f"coterie accept {work.task} --recheck"
    if head != base:
        said = f"{branch} moved since the checks ({base[:_SHORT]}, now {head[:_SHORT]})"
        raise NotAccepted(work.task, said, hint)
    if now != final:
        which = work.worktrees.branch
        said = f"{which} moved since the checks ({final[:_SHORT]}, now {now[:_SHORT]})"
        raise NotAccepted(work.task, said, hint)


def _combined(work: Acceptance, head: str, state: TaskState) -> str:
    title = state.created.goal.strip().partition("\n")[0][:60]
    return work.merged_with(head, work.worktrees.head(), f"Take in {work.task}: {title}")


def _outcome(step: Step) -> CheckOutcome | None:
    if step.result is None or not parse(step.name).is_check:
        return None
    return CheckOutcome(**json.loads(step.result))


def _of_ticket(worktrees: TicketWorktrees, ticket: str) -> TaskDiff:
    span = worktrees.span(ticket)
    if span is None:
        return TaskDiff()
    text, files = diff_trees(worktrees.git.run, *span)
    return TaskDiff((Patch(worktrees.git.folder, "", text, files),) if files else ())


def diff_fields(task_id: str, found: TaskDiff, *, stat: bool = False) -> dict[str, object]:
    """A change as an object of JSON; `stat`: only how much was changed."""
    patches: list[dict[str, object]] = []
    for patch in found.patches:
        files = [asdict(one) for one in patch.files]
        text = {} if stat else {"patch": patch.text}
        patches.append({"folder": str(patch.folder), "files": files, **text})
    return {
        "task": task_id,
        "patches": patches,
        "missed": [asdict(one) for one in found.missed],
        "reverted_at": found.reverted_at,
        "accepted": found.accepted,
        "problem": found.problem,
    }


def _difference(work: Acceptance, reverted_at: str | None) -> TaskDiff:
    taken = work.accepted
    text, files = work.patch(*(taken or (work.worktrees.base, work.worktrees.head())))
    patches = (Patch(work.git.folder, "", text, files),) if files else ()
    return TaskDiff(patches, reverted_at=reverted_at, accepted=taken[1] if taken else None)


def _take_back(work: Acceptance, taken: tuple[str, str] | None, *, dry_run: bool) -> RevertResult:
    task = work.task
    if work.reverted is not None:
        raise UsageError(f"{task} was reverted already.", f"coterie revert {task} --undo")
    if taken is None:  # nothing of the user's was touched: it is only not wanted any more
        if not dry_run:
            work.mark_reverted()
        return RevertResult()
    return _undo(work, taken, f"Revert {task}", work.take_back, dry_run=dry_run)


def _bring_back(work: Acceptance, taken: tuple[str, str] | None, *, dry_run: bool) -> RevertResult:
    task, reverted = work.task, work.reverted
    if reverted is None:
        raise UsageError(f"{task} was not reverted.", f"coterie diff {task}")
    if taken is None:
        if not dry_run:
            work.unmark_reverted()
        return RevertResult()
    span = (work.parent_of(reverted), reverted)
    return _undo(work, span, f"Bring {task} back", work.bring_back, dry_run=dry_run)


def _undo(
    work: Acceptance,
    span: tuple[str, str],
    message: str,
    move_to: Callable[[str], None],
    *,
    dry_run: bool,
) -> RevertResult:
    """Take out what came between two commits; all of it, or nothing."""
    work.check_place()
    work.branch()
    head = work.head()
    commit, conflicts = work.undone(*span, message)
    if conflicts:
        said = f"{work.task}: others changed the same lines since, in {', '.join(conflicts)}."
        raise UsageError(f"{said} Nothing was changed.", f"coterie diff {work.task}")
    if not dry_run:
        move_to(commit)
    files = work.differs(head, commit)
    left = set(work.files_of(commit))
    others = set(work.differs(span[1], head))
    return RevertResult(
        restored=tuple(one for one in files if one in left and one not in others),
        merged=tuple(one for one in files if one in left and one in others),
        removed=tuple(one for one in files if one not in left),
    )
