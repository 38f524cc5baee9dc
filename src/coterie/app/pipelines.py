"""Pipelines: their state, and accepting and reverting their changes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import anyio
import anyio.to_thread

from coterie.app.changes import REVERT, Accepted, Changes
from coterie.engine import steering
from coterie.engine.lease import Claimant
from coterie.engine.questions import close_question
from coterie.errors import AnswerRefused, CoterieError, NotAccepted, TaskBusy, UsageError
from coterie.model.about import ChangeAcceptance, GateFailed
from coterie.model.interaction import Interaction
from coterie.model.phase_graph import DONE, PhaseGraph
from coterie.model.pipeline_state import PipelineSettings, PipelineState, StatePatch, folded
from coterie.model.record import Record, ResultRecord
from coterie.model.task import Stopped, TaskCreated, is_part
from coterie.model.team import YOU
from coterie.model.ticket import BASE_COMMIT
from coterie.model.workspace import dropped_ref
from coterie.ports import Checks, Observer
from coterie.workflows.pipeline.accept import RECHECK
from coterie.workspace.acceptance import busy_elsewhere
from coterie.workspace.artifact_folder import ArtifactFolder
from coterie.workspace.pipeline_work import PipelineWork, open_work, reverts_of
from coterie.workspace.snapshots.folder_snapshots import TaskDiff
from coterie.workspace.snapshots.revert import RevertResult

_BETWEEN = 0.25
"""How many seconds apart to check whether another process committed the change."""
_NOTHING = "nothing was accepted"
PASSED, FAILED = "gates_passed", "gate_failed"
"""The reasons for which a pipeline that was told to ask nobody waits."""


@dataclass(frozen=True)
class PipelineView:
    """The current state of a pipeline."""

    task: str
    graph: PhaseGraph
    state: PipelineState

    @property
    def dropped(self) -> str:
        """The ref under which the work is kept that was last reverted before it was accepted."""
        return dropped_ref(self.task, self.state.meta.reverts)


@dataclass(frozen=True)
class Pipelines(Changes):
    """The pipelines of a project: their state, and what can be done with their changes."""

    async def view(self, task_id: str) -> PipelineView:
        """Return the state of a pipeline from its journal.  Raises UsageError for other tasks."""
        look = self.sessions.look
        task = await look.state(task_id)
        settings = _settings_of(task.created)
        steps = await look.storage.journal.steps(task_id)
        recorded = [(step.name, step.result) for step in steps]
        root, start = look.root, settings.graph.start
        reverts = await anyio.to_thread.run_sync(reverts_of, root, task_id)
        state = folded(task_id, start, recorded, reverts)
        work = await self._work(task_id)
        taken = await _taken(work)
        if taken is not None and not state.meta.commit:
            # The branch has the commit although a kill kept its run from recording that.
            state = state.after("accept", StatePatch(commit=taken[1]))
        if state.meta.commit and work is not None:
            gone = await anyio.to_thread.run_sync(lambda: work.acceptance.reverted)
            if gone:
                state = state.reverted(reverts + 1)
            elif task.status == "completed":
                state = state.model_copy(update={"phase": DONE})
        return PipelineView(task_id, settings.graph, state)

    async def diff(self, task_id: str) -> TaskDiff:
        """Return what a build has changed so far; it no longer counts as reverted once it is done
        again."""
        done = await super().diff(task_id)
        work = await self._work(task_id)
        if done.patches and work is not None:
            reverted = await anyio.to_thread.run_sync(lambda: work.acceptance.reverted)
            done = done if reverted else replace(done, reverted_at=None)
        return done

    async def concluded(self, result: ResultRecord) -> ResultRecord:
        """Complete the result of a run with the changed files, the gates and the next steps."""
        task_id = result.task
        view = await self.view(task_id)
        with suppress(CoterieError):  # the run itself is fine; `coterie diff` will report this
            patches = (await self.diff(task_id)).patches
            files = tuple(str(one) for patch in patches for one in patch.files)
            result = replace(result, changed=files)
        gates = tuple(
            {"gate": name, "passed": gate.passed, "overridden": name in view.state.meta.overrides}
            for name, gate in view.state.meta.gates.items()
        )
        result = replace(result, checks=gates)
        created = (await self.sessions.look.state(task_id)).created
        if result.status != "waiting" or not created.caps.yes:
            return result
        return await self._unattended(result)

    async def _unattended(self, result: ResultRecord) -> ResultRecord:
        """Return the result of a pipeline that asks nobody: its gates are why it waits."""
        question = await self.open_question(result.task)
        about = question.about if question else None
        if isinstance(about, GateFailed) or (isinstance(about, ChangeAcceptance) and about.failed):
            return replace(result, reason=FAILED, stop=Stopped(FAILED))
        if isinstance(about, ChangeAcceptance) and not about.problem:
            task = result.task
            onward = (f"coterie diff {task}", f'coterie accept {task} -m "…"')
            return replace(result, reason=PASSED, next=onward, stop=Stopped(PASSED))
        return result

    async def open_question(self, task_id: str) -> Interaction | None:
        """Return the question that a pipeline waits for."""
        look = self.sessions.look
        interactions = [one.interaction for one in await look.storage.inbox.questions()]
        return next((one for one in interactions if is_part(one.task_id, task_id)), None)

    async def approve(
        self, task_id: str, message: str | None, *, override: bool, recheck: bool = False
    ) -> None:
        """Answer the question whether to accept the change; whoever runs the task then commits it.

        Raises NotAccepted if the question is not open, if gates failed without an `override`, or
        if the branch has moved without a `recheck`.
        """
        question = await self.open_question(task_id)
        about = question.about if question else None
        if question is None or not isinstance(about, ChangeAcceptance):
            raise await self._not_there_yet(task_id, question)
        choice = "override" if about.failed else "accept"
        if recheck and _offers(question, RECHECK) and not (override and _offers(question, choice)):
            choice = RECHECK
        elif _is_behind(question):
            raise _behind(task_id, about.problem)
        elif about.failed and not override:
            raise _gates_failed(task_id, question, about)
        await self._answer(task_id, question, choice, message)

    async def _answer(
        self, task_id: str, question: Interaction, choice: str, message: str | None
    ) -> None:
        try:
            look = self.sessions.look
            await steering.answer(look, question.interaction_id, choice, message, YOU)
        except AnswerRefused:  # another terminal answered first
            raise await self._not_there_yet(task_id, None) from None

    async def is_behind(self, task_id: str) -> bool:
        """Whether the change waits because the user's branch has moved."""
        question = await self.open_question(task_id)
        return question is not None and _is_behind(question)

    async def _not_there_yet(self, task_id: str, question: Interaction | None) -> NotAccepted:
        view = await self.view(task_id)
        if view.state.meta.commit and view.state.meta.status == "done":
            problem = f"{task_id} was already accepted, as {view.state.meta.commit[:7]}"
            return NotAccepted(task_id, problem, f"coterie diff {task_id}")
        if question is None and view.state.meta.status == "redo":
            onward = f"revert {task_id} --undo" if view.state.meta.commit else f"resume {task_id}"
            return NotAccepted(task_id, f"{task_id} was reverted", f"coterie {onward}")
        if question is None and "accept" in view.graph.phases[view.state.phase].steps:
            runner = await self.sessions.look.runner_of(task_id)
            if runner is not None:
                return busy_elsewhere(task_id, runner.pid)
            problem = f"{task_id} is already approved: it will be committed by its next run"
            return NotAccepted(task_id, problem, f"coterie resume {task_id}")
        problem = f"{task_id} is in the phase {view.state.phase}"
        hint = (
            f"coterie show {question.interaction_id}" if question else f"coterie resume {task_id}"
        )
        return NotAccepted(task_id, problem, hint)

    async def accept(
        self, task_id: str, claimant: Claimant, checks: Checks, *, recheck: bool
    ) -> Accepted:
        """Refuse: a change is committed by its own run, after the user has approved it."""
        problem = "a build is committed by its own run, after your approval"
        raise NotAccepted(task_id, problem, f'coterie accept {task_id} -m "…"')

    async def accepted(self, task_id: str) -> Accepted:
        """Return what was accepted into the user's branch.  Raises NotAccepted if nothing was."""
        work = await self._work(task_id)
        span = await _taken(work)
        if work is None or span is None:
            question = await self.open_question(task_id)
            about = question.about if question else None
            problem = about.problem if isinstance(about, ChangeAcceptance) else _NOTHING
            if question is not None and _is_behind(question):
                raise _behind(task_id, problem)
            if question and isinstance(about, ChangeAcceptance) and about.failed and not problem:
                raise _gates_failed(task_id, question, about)
            raise NotAccepted(task_id, problem or _NOTHING, f"coterie resume {task_id}")
        branch = await anyio.to_thread.run_sync(work.acceptance.branch)
        _, files = await anyio.to_thread.run_sync(work.acceptance.patch, *span)
        return Accepted(task_id, branch, *span, files)

    async def revert(
        self, task_id: str, claimant: Claimant, *, undo: bool, dry_run: bool
    ) -> RevertResult:
        """Revert the change: by a commit if it was accepted; otherwise drop the worktree and keep
        its work under a ref."""
        view = await self.view(task_id)
        if view.state.meta.commit:
            done = await super().revert(task_id, claimant, undo=undo, dry_run=dry_run)
        else:
            done = await self._drop(task_id, claimant, undo=undo, dry_run=dry_run)
        if not dry_run:
            await self.write_state(task_id)
        return done

    async def _drop(
        self, task_id: str, claimant: Claimant, *, undo: bool, dry_run: bool
    ) -> RevertResult:
        if undo:
            problem = f"The reverted work of {task_id} is kept under {dropped_ref(task_id)}."
            raise UsageError(problem, f"git log --all --oneline, or coterie resume {task_id}")
        work = await self._work(task_id)
        if work is None:
            raise UsageError(f"{task_id} has changed nothing yet.", f"coterie show {task_id}")
        if dry_run:
            return RevertResult()
        look = self.sessions.look
        async with self.holding(claimant, task_id):
            # A run that has just ended may have committed it.
            await anyio.to_thread.run_sync(work.acceptance.check_not_accepted)
            async with self.audited(task_id, REVERT, {"undo": False}):
                number = await anyio.to_thread.run_sync(reverts_of, look.root, task_id) + 1
                await anyio.to_thread.run_sync(work.drop, number)
            for one in await look.storage.inbox.questions():
                if is_part(one.interaction.task_id, task_id):
                    why = "the work was reverted"
                    await close_question(look.storage.inbox, one.interaction, why)
        return RevertResult()

    async def write_state(self, task_id: str) -> None:
        """Write `state.json` from the journal."""
        state = (await self.view(task_id)).state
        folder = ArtifactFolder(self.sessions.look.root, task_id)
        text = state.model_dump_json(indent=2) + "\n"
        await anyio.to_thread.run_sync(folder.write_state, text)

    async def _work(self, task_id: str) -> PipelineWork | None:
        """Return the work of a pipeline; None if it has not begun."""
        base = await self.sessions.step(task_id, BASE_COMMIT)
        if not base:
            return None
        root = self.sessions.look.root
        return await anyio.to_thread.run_sync(open_work, root, task_id, str(base))


async def _taken(work: PipelineWork | None) -> tuple[str, str] | None:
    """Return the user's branch before and after accepting the work; None if it was not accepted."""
    return await anyio.to_thread.run_sync(lambda: work.acceptance.accepted) if work else None


Block = Callable[[], AbstractAsyncContextManager[None]]


class RunsTasks(Protocol):
    """What accepting needs from an open project: running the task, and looking at its pipeline."""

    async def run(
        self,
        task_id: str,
        observer: Observer,
        *,
        wait: float | None,
        starts_agents: bool = True,
    ) -> ResultRecord: ...

    @property
    def pipelines(self) -> Pipelines: ...


class NoObserver:
    """`ports.Observer` for runs that nobody watches."""

    def saw(self, record: Record) -> None:
        """Ignore the record."""


async def accept_change(
    app: RunsTasks,
    task_id: str,
    message: str | None,
    *,
    override: bool,
    recheck: bool,
    approving: Block | None = None,
) -> Accepted:
    """Approve the change of a pipeline, and run the task until it is committed.

    `recheck`: if the branch has moved, accept the change all the same if the tests pass there.
    `approving` makes the context in which to approve; with it, no agent is started here.
    """
    pipelines, block = app.pipelines, approving or nullcontext
    run = partial(app.run, task_id, NoObserver(), wait=0.0, starts_agents=approving is None)
    async with block():
        await pipelines.approve(task_id, message, override=override, recheck=recheck)
    with suppress(TaskBusy):  # then its runner gets the answer
        await run()
        if recheck and await pipelines.is_behind(task_id):  # only this run noticed
            async with block():
                await pipelines.approve(task_id, message, override=override, recheck=True)
            await run()
        return await pipelines.accepted(task_id)
    # Its runner may have tests to run again first.
    while await pipelines.sessions.look.runner_of(task_id) is not None:
        with suppress(NotAccepted):
            return await pipelines.accepted(task_id)
        if recheck and await pipelines.is_behind(task_id):
            await pipelines.approve(task_id, message, override=override, recheck=True)
        elif await pipelines.open_question(task_id):  # refused; the question says why
            break
        await anyio.sleep(_BETWEEN)
    return await pipelines.accepted(task_id)


def _offers(question: Interaction, choice: str) -> bool:
    return any(option.id == choice for option in question.options)


def _is_behind(question: Interaction) -> bool:
    return isinstance(question.about, ChangeAcceptance) and question.about.behind


def _behind(task_id: str, problem: str) -> NotAccepted:
    reason = problem or "your branch has moved since the work began"
    return NotAccepted(task_id, reason, f"coterie accept {task_id} --recheck")


def _gates_failed(task_id: str, question: Interaction, about: ChangeAcceptance) -> NotAccepted:
    problem = f"these gates failed: {', '.join(about.failed)}"
    hint = f"coterie accept {task_id} --override"
    if _offers(question, RECHECK):
        hint = f"Test it again: coterie accept {task_id} --recheck\nAccept anyway:  {hint}"
    return NotAccepted(task_id, problem, hint)


def _settings_of(created: TaskCreated) -> PipelineSettings:
    if created.pipeline is None:
        problem = f"{created.task_id} is not a build: its workflow is {created.workflow}."
        raise UsageError(problem, 'coterie build "what should be built"')
    return PipelineSettings.model_validate(created.pipeline)
