"""Run a task: its workflow from the top, replaying what was recorded, doing the rest for real."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.lowlevel
import anyio.to_thread

from coterie.engine.context import TaskContext
from coterie.engine.ending import cancel_below, cancel_children, end_held, end_parked
from coterie.engine.lease import Claimant
from coterie.engine.questions import Questions
from coterie.engine.resuming import CANCELED, calls_not_run, close_superseded, settle_change
from coterie.engine.task_run import RedactingObserver, RunServices, TaskRun
from coterie.engine.turns import TurnRunner
from coterie.errors import CoterieError, UsageError
from coterie.model import instant, step_name
from coterie.model.conversation import Message
from coterie.model.journal import (
    AppendAudit,
    AppendEvent,
    Fence,
    Journal,
    ParkLease,
    Request,
    RequestKind,
    SupersedeSteps,
    TakeRequest,
    TaskHistory,
    WorkflowChanged,
)
from coterie.model.record import Record, ResultRecord, TaskRecord
from coterie.model.task import (
    BY_PERSON,
    ENDED,
    TICKET_TURN,
    Ended,
    RateLimited,
    Stop,
    Stopped,
    TaskCanceled,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    TaskStarted,
    TaskState,
    after,
    fold,
)
from coterie.model.update import Usage, sum_of
from coterie.ports import Channels, Observer, Parked, RunChild, Storage, Workflow
from coterie.workspace.session_files import remove_drafts

_OF_ONE_RUN: tuple[RequestKind, ...] = ("stop", "interrupt")
"""Requests that are meaningless to a later run."""


@dataclass(frozen=True)
class Engine:
    """Runs tasks of one project, one at a time or concurrently."""

    storage: Storage
    workflows: Mapping[str, Workflow]
    claimant: Claimant
    root: Path = Path()
    services: RunServices = RunServices()
    for_this_machine: Callable[[TaskCreated], TaskCreated] | None = None
    """Adapts a task that may come from another machine to this one.  Reads files."""

    async def run(
        self,
        task_id: str,
        channels_for: Callable[[Fence, TaskCreated], Channels],
        observer: Observer,
        wait: float | None,
    ) -> ResultRecord:
        """Run a task until it ends or parks.  When cancelled, it parks.

        Raises TaskBusy if a living process, including this one, already runs it.
        """
        with self.claimant.owners.holding(task_id):
            history = await self.storage.history(task_id)
            fence = await self.claimant.take(task_id, history.lease)
            async with self.claimant.parking_on_failure(fence):
                if history.lease != self.claimant.running_lease(fence):
                    history = await self._since_taken(history, fence)
                state = fold(history.events)
                taken = sum(message.turn > 0 for message in history.messages)
                if state.status in ENDED:
                    await self.storage.leases.park(fence)
                    return ResultRecord.of(state, taken)
                if _is_to_end(history.requests):
                    return ResultRecord.of(await self._end_held(fence), taken)
                if self.for_this_machine is not None:
                    here = await anyio.to_thread.run_sync(self.for_this_machine, state.created)
                    state = replace(state, created=here)
                run = TaskRun(
                    state.created,
                    fence,
                    self.storage,
                    channels_for(fence, state.created),
                    RedactingObserver(observer, self.services.redactor),
                    wait,
                    Journal(task_id, ()),
                    [],
                    self.services,
                    owners=self.claimant.owners,
                )

            async def run_child(created: TaskCreated) -> ResultRecord:
                run.used_elsewhere = True
                await self._make(created)
                return await self.run(created.task_id, channels_for, _ChildObserver(observer), wait)

            return await self._run(_Run(self, state, run, run_child), run, history)

    async def _since_taken(self, before: TaskHistory, fence: Fence) -> TaskHistory:
        """Read the history again, as the last owner may have written, and drop what was requested
        of that owner's run and the files that it left unfinished; later requests are for ours."""
        await anyio.to_thread.run_sync(remove_drafts, self.root, fence.task_id)
        if stale := [TakeRequest(one.id) for one in before.requests if one.kind in _OF_ONE_RUN]:
            await self.storage.commit(fence, *stale)
        return await self.storage.history(fence.task_id)

    async def _run(self, running: _Run, run: TaskRun, history: TaskHistory) -> ResultRecord:
        """Run a task whose lease is held, and release the lease."""
        ended: TaskState | None = None
        try:
            result = await running.to_its_end(history)
        finally:
            with anyio.CancelScope(shield=True):
                # Release the lease last: whoever takes the task next must find no child of ours,
                # except for one that could not be ended: that is recorded, and they try again.
                try:
                    await run.channels.close_all()
                    await self.services.session_files.flush()
                finally:
                    if not running.is_over:
                        ended = await self._release(run.fence)
        if ended is None:
            return result
        run.observer.saw(TaskRecord(ended.id, ended.created.workflow, ended.status))
        return replace(ResultRecord.of(ended, result.turns), usage=result.usage)

    async def _release(self, fence: Fence) -> TaskState | None:
        """Park the task; if its end was requested meanwhile, end it and return its state.

        Whoever requested the end relied on this run to do it.
        """
        parked = await self.claimant.park(fence)
        if not parked or not _is_to_end(await self.storage.inbox.requests(fence.task_id)):
            return None
        await end_parked(self.storage, self.claimant, fence.task_id, self.services.unstarted)
        state = fold(await self.storage.events.of_task(fence.task_id))
        return state if state.status in ENDED else None

    async def _end_held(self, fence: Fence) -> TaskState:
        """End a task whose end was requested before its last run died."""
        state = await end_held(self.storage, self.claimant, fence, self.services.unstarted)
        await self.storage.leases.park(fence)
        return state

    async def _make(self, created: TaskCreated) -> None:
        """Create a child task with its first message, unless it exists already."""
        if await self.storage.events.of_task(created.task_id):
            return
        opening = Message(created.task_id, 1, created.author, created.goal, created.at)
        await self.storage.create(created, self.claimant.owners.me, opening)

    def workflow(self, name: str) -> Workflow:
        """Return the workflow of that name."""
        try:
            return self.workflows[name]
        except KeyError:
            known = ", ".join(self.workflows)
            raise UsageError(f'No workflow "{name}"; this version has {known}.') from None


@dataclass(frozen=True)
class _ChildObserver:
    """Shows everything about a child task except its own start and end."""

    observer: Observer

    def saw(self, record: Record) -> None:
        if not isinstance(record, TaskRecord):
            self.observer.saw(record)


class _Run:
    def __init__(self, engine: Engine, state: TaskState, run: TaskRun, run_child: RunChild) -> None:
        self._engine = engine
        self._storage = engine.storage
        self._state = state
        self._run = run
        self._run_child = run_child
        self._turns: TurnRunner | None = None
        self._taken = 0
        self._ended: Ended | None = None
        self._stop: Stop | None = None
        self._is_canceled = False
        self.is_over = False
        """Whether the end of the task is recorded, and its lease parked with it."""

    async def to_its_end(self, history: TaskHistory) -> ResultRecord:
        """Run the workflow, meanwhile acting on requests from other processes."""
        task_id, workflow = self._state.id, self._state.created.workflow
        if self._state.status == "created":
            started = TaskStarted(task_id=task_id, at=instant.now())
            self._state = after(self._state, started)
            await self._run.commit(AppendEvent(started))
        self._run.observer.saw(TaskRecord(task_id, workflow, "running"))
        with plain_errors():
            async with anyio.create_task_group() as group:
                await self._act_on_new(history.requests, group.cancel_scope)
                await anyio.lowlevel.checkpoint_if_cancelled()  # before the first turn
                group.start_soon(self._listen, history.seen, group.cancel_scope)
                group.start_soon(self._run.services.session_files.follow)
                await self._workflow(history)
                group.cancel_scope.cancel()
        # Before the end is recorded: nobody would run an ended task again to complete its files.
        await self._run.services.session_files.flush()
        state, usage = await self._conclude(), await self._usage()
        result = ResultRecord.of(
            state, self._taken, self._stop, usage, asks=await self._waits_for_answer(state)
        )
        self._run.observer.saw(TaskRecord(task_id, workflow, result.status))
        return result

    async def _usage(self) -> Usage | None:
        """What all turns cost together, as far as their agents reported it."""
        if not self._run.used_elsewhere:
            return sum_of(self._run.usages)
        turns = await self._storage.journal.spending(task_id=self._state.id)
        return sum_of(usage for turn in turns if (usage := turn.used) is not None)

    async def _waits_for_answer(self, state: TaskState) -> bool:
        """Whether the task, or a ticket that is part of it, waits for an answer, possibly to a
        question that another task asked for both."""
        if state.open_questions or self._stop == Stopped("question"):
            return True
        children = self._run.children.keys()
        questions = await self._storage.inbox.questions() if children else ()
        return not children.isdisjoint(one.interaction.task_id for one in questions)

    @property
    def _notifies_user(self) -> bool:
        """Whether the user gets notifications about the task; a child relies on its parent's."""
        return self._run.services.notifies and self._state.created.parent_id is None

    async def _conclude(self) -> TaskState:
        """Record the end of the task if it has ended; returns its state."""
        ended, task_id, now = self._ended, self._state.id, instant.now()
        event: TaskCanceled | TaskFailed | TaskCompleted
        if self._is_canceled:
            event = TaskCanceled(task_id=task_id, at=now)
        elif ended is None:
            if isinstance(self._stop, RateLimited) and self._notifies_user:
                from coterie.model.incident import limit_incident  # few tasks hit a limit

                incident = limit_incident(task_id, self._stop.until)
                await self._storage.notifications.add(incident, task_id, now)
            return fold(await self._storage.events.of_task(task_id))
        elif ended.failed:
            event = TaskFailed(task_id=task_id, at=now, reason=ended.reason, message=ended.summary)
        else:
            reason, summary = ended.reason, ended.summary
            event = TaskCompleted(task_id=task_id, at=now, reason=reason, summary=summary)
        await self._run.channels.close_all()
        audit: list[AppendAudit] = []
        unstarted = self._run.services.unstarted
        if self._run.used_elsewhere:
            await cancel_below(self._storage, self._engine.claimant, task_id, unstarted)
        if self._is_canceled:
            audit = await calls_not_run(self._storage, task_id, unstarted, CANCELED)
        below = cancel_children(self._run.children, now)
        by_person = self._is_canceled or (ended is not None and ended.reason == BY_PERSON)
        notifies = self._notifies_user and not by_person
        appended = AppendEvent(event, incident=task_id if notifies else None)
        await self._run.commit(*audit, *below, appended, ParkLease(task_id, self._run.fence.token))
        self.is_over = True
        return after(self._state, event)

    async def _workflow(self, history: TaskHistory) -> None:
        task = self._state.created
        try:
            workflow = self._engine.workflow(task.workflow)
            while self._ended is None:
                context, questions = await self._prepare(history)
                try:
                    ended = _checked(task.workflow, await workflow.run(task, context))
                    self._run.journal.check_all_used()
                    self._ended = ended
                # Groups: a workflow may take several turns at once.
                except* WorkflowChanged as changes:
                    await settle_change(_first(changes), questions)
                    history = await self._storage.history(self._state.id)
                finally:
                    self._taken = len(self._run.answered_turns)
        except* Parked as parked:
            self._stop = _first(parked).stop

    async def _prepare(self, history: TaskHistory) -> tuple[TaskContext, Questions]:
        task_id = self._state.id
        journal = Journal(task_id, history.steps)
        if journal.superseded:
            await close_superseded(self._storage, history.steps, journal.superseded)
            prefix = step_name.superseded(len(history.steps))
            await self._run.commit(SupersedeSteps(task_id, prefix, journal.superseded))
            history = await self._storage.history(task_id)
        self._run.journal = journal
        self._run.load(history)
        questions = Questions(self._run)
        past = history.turns
        if self._state.created.workflow == TICKET_TURN:
            from coterie.engine.handing_out import earlier_turns  # few tasks are ticket turns

            past = [*await earlier_turns(self._storage, self._state.created), *past]
        self._turns = TurnRunner(self._run, questions, past, self._run_child)
        context = TaskContext(self._run, questions, self._turns, self._engine.root, self._run_child)
        return context, questions

    async def _listen(self, seen: int, scope: anyio.CancelScope) -> None:
        """Act on requests from other processes to this task."""
        while True:
            seen = await self._storage.changed(seen)
            await self._act_on_new(await self._storage.inbox.requests(self._state.id), scope)

    async def _act_on_new(self, requests: Sequence[Request], scope: anyio.CancelScope) -> None:
        for request in requests:
            if self._run.is_new(request.id):
                await self._act_on(request, scope)

    async def _act_on(self, request: Request, scope: anyio.CancelScope) -> None:
        match request.kind:
            case "say" | "end":
                self._run.queue_message(request)
            case "interrupt":
                await self._storage.inbox.discard_requests(self._state.id, ["interrupt"])
                if self._turns is not None:
                    await self._turns.interrupt()
            case "stop_member":
                self._run.stops.stop(request.id, request.text)
                if self._turns is not None:
                    await self._turns.stop_member(request.text)
            case "stop" | "cancel":
                self._is_canceled |= request.kind == "cancel"
                self._stop = Stopped("stopped")
                scope.cancel()


def _checked(workflow: str, returned: object) -> Ended:
    if not isinstance(returned, Ended):
        raise UsageError(f"The workflow {workflow} returned {returned!r} instead of an Ended.")
    return returned


def _is_to_end(requests: Sequence[Request]) -> bool:
    return any(request.kind == "end" for request in requests)


@contextmanager
def plain_errors() -> Generator[None]:
    """Raise the first error of a task group as it is: surfaces do not handle exception groups."""
    try:
        yield
    except BaseExceptionGroup as group:
        raise _first(group.subgroup(CoterieError) or group) from None


def _first(error: BaseException) -> Any:
    if isinstance(error, BaseExceptionGroup):
        return _first(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    return error
