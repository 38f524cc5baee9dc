"""Running a task: its workflow from the top, what was recorded at once, the rest for real."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import cast

import anyio

from coterie.engine.budget import usage_of
from coterie.engine.context import TaskContext
from coterie.engine.journal import ASIDE, Journal, WorkflowChanged
from coterie.engine.lease import Claimant
from coterie.engine.questions import Asking
from coterie.engine.subtask import RunChild
from coterie.engine.task_run import RunServices, TaskRun
from coterie.engine.turns import TurnRunner
from coterie.errors import CoterieError, UsageError
from coterie.model import instant
from coterie.model.about import WorkflowChange
from coterie.model.interaction import Ask, Option
from coterie.model.journal import AppendEvent, Fence, SetAside, Turn
from coterie.model.message import Message
from coterie.model.record import Record, ResultRecord, TaskRecord
from coterie.model.task import (
    ENDED,
    Ended,
    Event,
    TaskCanceled,
    TaskCompleted,
    TaskCreated,
    TaskStarted,
    TaskState,
    fold,
)
from coterie.model.update import Usage, sum_of
from coterie.ports import Channels, Observer, Parked, Storage, Workflow

_PARKED = {"stop": "stopped"}
"""Why a run parked, in the words of the result, where a request's kind is not that word."""


@dataclass(frozen=True)
class Engine:
    """Runs tasks of one project, one at a time or side by side."""

    storage: Storage
    workflows: Mapping[str, Workflow]
    claimant: Claimant
    root: Path = Path()
    services: RunServices = RunServices()

    async def run(
        self,
        task_id: str,
        channels_for: Callable[[Fence, TaskCreated], Channels],
        observer: Observer,
        patience: float | None,
    ) -> ResultRecord:
        """Run a task until it ends or parks.  When cancelled, it parks."""
        fence = await self.claimant.take(task_id)
        state = fold(await self.storage.events.of_task(task_id))
        if state.status in ENDED:
            await self.storage.leases.park(fence)
            return _result(state, 0)
        channels = channels_for(fence, state.created)
        run = TaskRun(
            state.created, fence, self.storage, channels, observer, patience, [], self.services
        )

        async def run_child(created: TaskCreated) -> ResultRecord:
            await self._make(created)
            return await self.run(created.task_id, channels_for, _Aside(observer), patience)

        try:
            return await _Run(self, state, run, run_child).to_its_end()
        finally:
            with anyio.CancelScope(shield=True):
                # The lease goes last: whoever takes the task next finds no child of ours.
                await channels.close_all()
                try:
                    await self.services.ledger.flush()
                finally:
                    await self.storage.leases.park(fence)

    async def _make(self, created: TaskCreated) -> None:
        """A child task with its first message, unless there is one already."""
        if await self.storage.events.of_task(created.task_id):
            return
        opening = Message(created.task_id, 1, created.author, created.goal, created.at)
        await self.storage.create(created, self.claimant.owner.id, opening)

    def workflow(self, name: str) -> Workflow:
        """The workflow of that name."""
        try:
            return self.workflows[name]
        except KeyError:
            known = ", ".join(self.workflows)
            raise UsageError(f'No workflow "{name}"; this version has {known}.') from None


@dataclass(frozen=True)
class _Aside:
    """Tells of a child task all but its own begin and end."""

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
        self._stop: str | None = None
        self._taken = 0

    async def to_its_end(self) -> ResultRecord:
        """The workflow, with one ear open for words from other processes."""
        task_id = self._state.id
        if self._state.status == "created":
            await self._emit(TaskStarted(task_id=task_id, at=instant.now()))
        self._run.observer.saw(TaskRecord(task_id, self._state.created.workflow, "running"))
        parked = await self._workflow_and_ear()
        state = fold(await self._storage.events.of_task(task_id))
        usage = _total(await self._storage.journal.turns(task_id))
        result = _result(state, self._taken, parked, usage)
        self._run.observer.saw(TaskRecord(task_id, state.created.workflow, result.status))
        return result

    async def _workflow_and_ear(self) -> str:
        """Run to the end; why it parked, or an empty word."""
        task_id = self._state.id
        await self._storage.inbox.discard_requests(task_id, ["stop", "interrupt"])
        parked, ended = "", None
        with _plain_errors():
            async with anyio.create_task_group() as group:
                group.start_soon(self._listen, group.cancel_scope)
                group.start_soon(self._run.services.ledger.follow)
                try:
                    ended = await self._whole_workflow()
                except Parked as stop:
                    parked = stop.reason
                group.cancel_scope.cancel()
        # Before the end is on record: nobody runs a task that has ended, to complete its files.
        await self._run.services.ledger.flush()
        if self._stop == "cancel":
            await self._run.channels.close_all()
            await self._emit(TaskCanceled(task_id=task_id, at=instant.now()))
        elif ended is not None:
            reason, summary = ended.reason, ended.summary
            await self._emit(
                TaskCompleted(task_id=task_id, at=instant.now(), reason=reason, summary=summary)
            )
        return parked or self._stop or ""

    async def _whole_workflow(self) -> Ended:
        task = self._state.created
        workflow = self._engine.workflow(task.workflow)
        while True:
            context, journal, asking = await self._prepare()
            try:
                ended = await workflow.run(task, context)
                journal.check_all_asked()
                return ended
            except WorkflowChanged as change:
                await _settle(change, asking)
            finally:
                self._taken = context.turns

    async def _prepare(self) -> tuple[TaskContext, Journal, Asking]:
        task_id = self._state.id
        self._run.conversation = await self._storage.conversation.messages(task_id)
        steps = await self._storage.journal.steps(task_id)
        journal = Journal(task_id, steps)
        if journal.superseded:
            prefix = f"{ASIDE}{len(steps)}/"
            await self._run.commit(SetAside(task_id, prefix, journal.superseded))
        asking = Asking(self._run, journal)
        past = await self._storage.journal.turns(task_id)
        turns = TurnRunner(self._run, asking, journal, past, self._run_child)
        self._turns = turns
        context = TaskContext(self._run, journal, asking, turns, self._engine.root)
        return context, journal, asking

    async def _listen(self, scope: anyio.CancelScope) -> None:
        """Act on what other processes ask of this task."""
        seen = 0
        while True:
            for request in await self._storage.inbox.requests(self._state.id):
                if not self._run.is_new(request.id):
                    continue
                if request.kind == "say":
                    self._run.hear(request)
                elif request.kind == "interrupt":
                    await self._storage.inbox.discard_requests(self._state.id, ["interrupt"])
                    if self._turns is not None:
                        await self._turns.interrupt()
                else:
                    self._stop = request.kind
                    scope.cancel()
            seen = await self._storage.changed(seen)

    async def _emit(self, event: Event) -> None:
        await self._run.commit(AppendEvent(event))


@contextmanager
def _plain_errors() -> Generator[None]:
    """Let the first error out of a task group as it is: a surface knows nothing of groups."""
    try:
        yield
    except BaseExceptionGroup as group:
        leaves = list(_leaves(group))
        known = [error for error in leaves if isinstance(error, CoterieError)]
        raise (known or leaves)[0] from None


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _leaves(inner)
    else:
        yield error


async def _settle(change: WorkflowChanged, asking: Asking) -> None:
    """Ask what to do about a workflow that changed under a task; the journal keeps the answer."""
    question = Ask(
        author="coterie",
        kind="Select",
        about=WorkflowChange(step=change.step, difference=change.difference),
        options=(
            Option(id="keep", label="keep the recorded result and go on", style="primary"),
            Option(id="fork", label="set aside what was recorded from here and do it anew"),
            Option(id="stop", label="stop, keep everything as it is", default=True),
        ),
    )
    for number in count(1):
        name = change.question if number == 1 else f"{change.question}/{number}"
        answer = await asking.ask(name, question)
        if answer.response.selected_option_id != "stop":
            return
        if answer.fresh:
            raise Parked("workflow_changed")


def _total(turns: list[Turn]) -> Usage | None:
    """What all turns cost together, as far as their agents told."""
    return sum_of(usage for turn in turns if (usage := usage_of(turn)) is not None)


def _result(
    state: TaskState, turns: int, stopped: str = "", usage: Usage | None = None
) -> ResultRecord:
    ended = state.status in ENDED
    task = state.id
    at_reset = " --at-reset" if stopped == "rate_limit" else ""
    onward = ("coterie inbox", f"coterie resume {task}{at_reset}")
    return ResultRecord(
        task=task,
        status=state.status if ended else "waiting",
        reason=state.reason if ended else _PARKED.get(stopped, stopped),
        summary=state.summary,
        turns=turns,
        usage=usage,
        next=(f"coterie log {task}",) if ended else onward[0 if state.open_questions else 1 :],
    )
