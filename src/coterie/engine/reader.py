"""What can be seen of tasks from outside, whoever runs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread
import psutil

from coterie.engine.lease import OwnerFacts, living
from coterie.errors import NotFound, UsageError
from coterie.model.interaction import NOBODY, Question
from coterie.model.journal import ChildLease, Lease, SetMemberState, Turn
from coterie.model.record import MemberState, QuestionView, RunningMember, TaskDetail, TaskView
from coterie.model.task import ENDED, TaskRow, TaskState, fold
from coterie.model.team import Member
from coterie.ports import Storage


@dataclass(frozen=True)
class TaskReader:
    """Reads a project's stores and says what is going on."""

    storage: Storage
    root: Path
    owners: Path
    folder_of: Callable[[str, Member], Path]

    async def tasks(self) -> list[TaskView]:
        """Every task, oldest first."""
        leases = {lease.task_id: lease for lease in await self.storage.leases.all()}
        asked: dict[str, list[str]] = {}
        for question in await self.storage.inbox.questions():
            found = question.interaction
            asked.setdefault(found.task_id, []).append(found.interaction_id)
        return [
            await self._view(row, leases.get(row.id), asked.get(row.id, []))
            for row in await self.storage.events.tasks()
        ]

    async def find(self, name: str) -> str:
        """The task a person means: its id, a unique prefix of it, or `last`."""
        ids = [row.id for row in await self.storage.events.tasks()]
        if name == "last" and ids:
            return ids[-1]
        near = [known for known in ids if known.startswith(name)] if name else []
        if name in ids or len(near) == 1:
            return name if name in ids else near[0]
        if near:
            raise UsageError(f'"{name}" is the start of {", ".join(near)}.', "Write more of it.")
        raise NotFound(f'No task "{name}".', "coterie tasks", str(self.root))

    async def state(self, task_id: str) -> TaskState:
        """A task's state, from its events; raises NotFound where there is no such task."""
        events = await self.storage.events.of_task(task_id)
        if not events:
            raise NotFound(f'No task "{task_id}".', "coterie tasks", str(self.root))
        return fold(events)

    async def runner(self, lease: Lease | None) -> OwnerFacts | None:
        """Who runs a task now; None when nobody does."""
        if lease is None or lease.state == "parked":
            return None
        return await anyio.to_thread.run_sync(living, self.owners, lease.owner)

    async def runner_of(self, task_id: str) -> OwnerFacts | None:
        """Who runs this task now; None when nobody does."""
        return await self.runner(await self.storage.leases.get(task_id))

    async def show(self, task_id: str) -> TaskDetail:
        """All about one task."""
        state = await self.state(task_id)
        view = next(view for view in await self.tasks() if view.id == task_id)
        turns = await self.storage.journal.turns(task_id)
        questions = await self.questions(only_open=False)
        return TaskDetail(
            view=view,
            state=state,
            turns=len({turn.step for turn in turns if turn.outcome == "completed"}),
            failures=tuple(
                (turn.member, turn.detail or "") for turn in turns if turn.outcome == "failed"
            ),
            questions=tuple(q for q in questions if q.interaction.task_id == task_id),
            folder=self.root / ".coterie",
        )

    async def _view(self, row: TaskRow, lease: Lease | None, questions: list[str]) -> TaskView:
        runner = None if row.status in ENDED else await self.runner(lease)
        pid = runner.pid if runner else None
        return TaskView(**vars(row), pid=pid, questions=tuple(questions))

    async def questions(self, *, only_open: bool = True) -> list[QuestionView]:
        """This project's questions, oldest first."""
        states: dict[str, TaskState] = {}
        views: list[QuestionView] = []
        for question in await self.storage.inbox.questions(only_open=only_open):
            task_id = question.interaction.task_id
            if task_id not in states:
                states[task_id] = await self.state(task_id)
            views.append(self._question(question, states[task_id]))
        return views

    def _question(self, question: Question, state: TaskState) -> QuestionView:
        given = question.response
        return QuestionView(
            interaction=question.interaction,
            state=question.state,
            project=self.root,
            member=state.created.team.seated(question.interaction.author_actor_id),
            task_title=state.created.goal,
            asked_at=question.asked_at,
            answer=_answer(question),
            answered_at=question.answered_at,
            answered_by=given.author_actor_id if given else "",
            said=given.words if given else "",
        )

    async def running(self, task_id: str | None = None) -> list[RunningMember]:
        """Agents whose process runs now."""
        found: list[RunningMember] = []
        for lease in await self.storage.leases.all():
            if task_id not in (None, lease.task_id) or await self.runner(lease) is None:
                continue
            children = await anyio.to_thread.run_sync(
                _still_there, await self.storage.leases.children(lease.task_id)
            )
            if children:
                found += await self._of_task(lease.task_id, children)
        return found

    async def _of_task(self, task_id: str, children: list[ChildLease]) -> list[RunningMember]:
        team = (await self.state(task_id)).created.team
        kept = {row.member: row for row in await self.storage.member_states(task_id)}
        asking = {
            question.interaction.author_actor_id: question.interaction.interaction_id
            for question in await self.storage.inbox.questions()
            if question.interaction.task_id == task_id
        }
        turns = await self.storage.journal.turns(task_id)
        open_turns = {turn.member: turn for turn in turns if turn.outcome is None}
        threads = {turn.member: turn.thread for turn in turns if turn.thread}
        found: list[RunningMember] = []
        for child in children:
            state, reason, since = _member_state(child, open_turns.get(child.member), kept, asking)
            member = team.seated(child.member)
            folder = self.folder_of(team.name, member) if member else self.root
            found.append(
                RunningMember(
                    task=task_id,
                    member=child.member,
                    agent=child.agent,
                    pid=child.pid,
                    state=state,
                    reason=reason,
                    since=since,
                    folder=folder,
                    mode=member.permissions.mode if member else "ask",
                    home=Path(member.home_dir) if member and member.home_dir else folder / "home",
                    thread=threads.get(child.member),
                    memory=await anyio.to_thread.run_sync(_memory, child.pid),
                )
            )
        return found


def _still_there(children: list[ChildLease]) -> list[ChildLease]:
    """Those that are starting or run; one that ended by itself is dropped a little later."""
    return [child for child in children if child.pid is None or psutil.pid_exists(child.pid)]


def _memory(pid: int | None) -> int | None:
    """What a process and all below it hold in memory."""
    try:
        top = psutil.Process(pid) if pid is not None else None
        tree = [top, *top.children(recursive=True)] if top else []
        return sum(process.memory_info().rss for process in tree) or None
    except psutil.Error:
        return None  # gone while we looked


def _answer(question: Question) -> str:
    given = question.response
    if given is None or given.author_actor_id == NOBODY:
        return ""
    return given.choice


def _member_state(
    child: ChildLease, turn: Turn | None, kept: dict[str, SetMemberState], asking: dict[str, str]
) -> tuple[MemberState, str, str]:
    if turn is None:
        return ("starting" if child.pid is None else "idle"), "", child.started_at
    if child.member in asking:
        return "waiting", f"asks {asking[child.member]}", turn.opened_at
    quiet = kept.get(child.member)
    if quiet is not None and quiet.state == "quiet" and quiet.since >= turn.opened_at:
        return "quiet", quiet.reason, quiet.since
    return "working", "", turn.opened_at
