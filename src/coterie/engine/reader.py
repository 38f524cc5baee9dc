"""Read tasks from outside, whoever runs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import anyio.to_thread
import psutil

from coterie.errors import NotFound, UsageError
from coterie.model import instant
from coterie.model.about import BudgetReached, FailedTurn
from coterie.model.interaction import Question
from coterie.model.journal import ChildLease, Lease, SetMemberState, Turn
from coterie.model.machine import OwnerFacts
from coterie.model.record import MemberState, QuestionView, RunningMember, TaskDetail, TaskView
from coterie.model.task import (
    ENDED,
    TICKET,
    TaskRow,
    TaskState,
    fold,
    is_part,
    leased_as,
    running_task,
    session_of,
    task_and_parents,
    ticket_id_of,
    ticket_task,
    ticket_task_of,
    title_of,
)
from coterie.model.team import Team, base_of, member_folder
from coterie.model.ticket import no_ticket
from coterie.model.tool_call import AuditEntry, command_of
from coterie.ports import Owners, Storage


async def runner(owners: Owners, lease: Lease | None) -> OwnerFacts | None:
    """The living process that runs a task with this lease; None if there is none."""
    if lease is None or lease.state == "parked":
        return None
    return await owners.living(lease.owner)


@dataclass(frozen=True)
class TaskReader:
    """Reads a project's stores and reports what is going on."""

    storage: Storage
    root: Path
    owners: Owners

    async def tasks(self) -> list[TaskView]:
        """Every task that somebody started, oldest first; `show` includes those below it."""
        rows = await self.storage.events.tasks()
        return await self._views([row for row in rows if row.parent_id is None])

    async def below(self, task_id: str) -> list[str]:
        """A task and all those below it, tickets and subtasks, each after its parent."""
        return [task_id, *(row.id for row in await self.storage.events.below(task_id))]

    async def _views(self, rows: list[TaskRow]) -> list[TaskView]:
        leases = {lease.task_id: lease for lease in await self.storage.leases.all()}
        roots = {row.id for row in rows if row.parent_id is None}
        asked: dict[str, list[str]] = {}
        for question in await self.storage.inbox.questions():
            interaction = question.interaction
            name = interaction.task_id
            parents = () if name in roots else (*task_and_parents(name), session_of(name))
            for one in dict.fromkeys((name, *parents)):
                asked.setdefault(one, []).append(interaction.interaction_id)
        return [
            await self._view(row, leases.get(_run_by(row)), asked.get(row.id, [])) for row in rows
        ]

    async def find(self, name: str, *, tickets: bool = True) -> str:
        """Find the task a person means: its id, a unique prefix of it, or `last`; `last/T1` is a
        ticket of that task."""
        rows = await self.storage.events.tasks()
        session, slash, ticket = name.partition("/")
        session_id = self._find(session, rows)
        if not slash:
            return session_id
        task_id = ticket_task(session_id, ticket.upper())
        if not tickets:
            why = f"{task_id} is a ticket; only the whole session {session_id} can be run."
            raise UsageError(why, f"Use the session: {session_id}")
        if any(row.id == task_id for row in rows):
            return task_id
        raise await self._no_ticket(session_id, task_id)

    def _find(self, name: str, rows: list[TaskRow]) -> str:
        ids = [row.id for row in rows]
        started = [row.id for row in rows if row.parent_id is None]
        if name == "last" and started:
            return started[-1]
        near = [known for known in started if known.startswith(name)] if name else []
        if name in ids or len(near) == 1:
            return name if name in ids else near[0]
        if near:
            raise UsageError(f'"{name}" is ambiguous: {", ".join(near)}.', "Type more of the id.")
        raise NotFound(f'No task "{name}".', "coterie tasks", str(self.root))

    async def _no_ticket(self, session: str, task_id: str) -> NotFound:
        known = [one.id for one in await self.storage.tickets.tickets(session)]
        if ticket_id_of(task_id) in known:
            why = f"{task_id} is from an earlier release: its log is part of {session}."
            return NotFound(why, f"coterie log {session}", str(self.root))
        return no_ticket(ticket_id_of(task_id), session, known)

    async def state(self, task_id: str) -> TaskState:
        """A task's state, from its events; raises NotFound if there is no such task.

        A ticket has the team, team file and root of its session; a turn on a ticket that was
        handed out has its own.
        """
        events = await self.storage.events.of_task(task_id)
        if not events:
            raise NotFound(f'No task "{task_id}".', "coterie tasks", str(self.root))
        state = fold(events)
        if state.created.workflow != TICKET:
            return state
        session = (await self.state(running_task(task_id))).created
        team = {"team": session.team, "team_file": session.team_file, "root": session.root}
        return replace(state, created=state.created.model_copy(update=team))

    async def runner_of(self, task_id: str) -> OwnerFacts | None:
        """Who runs this task now; None if nobody does."""
        return await runner(self.owners, await self.storage.leases.get(leased_as(task_id)))

    async def show(self, task_id: str) -> TaskDetail:
        """Everything about one task."""
        state = await self.state(task_id)
        rows = await self.storage.events.tasks()
        (view,) = await self._views([row for row in rows if row.id == task_id])
        below = await self.storage.journal.spending(task_id=task_id)
        turns = [turn for turn in below if is_part(turn.task_id, task_id)]
        questions = await self.questions(only_open=False)
        return TaskDetail(
            view=view,
            state=state,
            turns=len({(one.task_id, one.step) for one in turns if one.outcome == "completed"}),
            failures=tuple(
                (turn.member, turn.detail or "") for turn in turns if turn.outcome == "failed"
            ),
            questions=tuple(q for q in questions if is_part(q.interaction.task_id, task_id)),
            folder=self.root / ".coterie",
            children=tuple(await self._views([r for r in rows if r.parent_id == task_id])),
        )

    async def _view(self, row: TaskRow, lease: Lease | None, questions: list[str]) -> TaskView:
        by = None if row.status in ENDED else await runner(self.owners, lease)
        pid = by.pid if by else None
        machine = by.host if by and pid is None else None
        view = TaskView(**vars(row), pid=pid, questions=tuple(questions), machine=machine)
        # One of its tickets may be asking, even if the task itself is not.
        return replace(view, status="waiting") if questions and row.status == "running" else view

    async def questions(self, *, only_open: bool = True) -> list[QuestionView]:
        """This project's questions, oldest first."""
        states: dict[str, TaskState] = {}
        views: list[QuestionView] = []
        for question in await self.storage.inbox.questions(only_open=only_open):
            task_id = question.interaction.task_id
            task_id = ticket_task_of(task_id) or task_id
            if task_id not in states:
                states[task_id] = await self.state(task_id)
            views.append(self._question(question, states[task_id]))
        return views

    def _question(self, question: Question, state: TaskState) -> QuestionView:
        response = question.response
        return QuestionView(
            interaction=question.interaction,
            state=question.state,
            project=self.root,
            member=state.created.team.instance(question.interaction.author_actor_id),
            task_title=title_of(state.created.goal),
            asked_at=question.asked_at,
            answer=_answer(question),
            answered_at=question.answered_at,
            answered_by=response.author_actor_id if response else "",
            said=response.words if response else "",
        )

    async def running(self, task_id: str | None = None) -> list[RunningMember]:
        """The members of running tasks whose agent is alive or who have something to do, with what
        each is doing; of one task or of all."""
        members: list[RunningMember] = []
        for lease in await self.storage.leases.all():
            if task_id in (None, lease.task_id) and await runner(self.owners, lease):
                members += await self._of_task(lease)
        return members

    async def parked(self) -> list[RunningMember]:
        """The members waiting for a limit to end in tasks that nobody runs, and until when."""
        now, storage = instant.now(), self.storage
        rows = [row for row in await storage.member_states() if (row.until or "") > now]
        if not rows:
            return []
        leases = {lease.task_id: lease for lease in await storage.leases.all()}
        questions = await storage.inbox.budget_answers(min(row.since for row in rows))
        members: list[RunningMember] = []
        for row in rows:
            state = await self.state(row.task_id)
            is_over = state.status in ENDED or any(_grants(one, row) for one in questions)
            if is_over or row.waits_for not in _LIMITS:
                continue
            if await runner(self.owners, leases.get(row.task_id)) is None:
                facts = _Facts({}, {}, {}, {row.member: row}, {}, {})
                team = state.created.team
                member = await self._member(row.task_id, team, facts, row.member, None)
                members.append(replace(member, parked=True))
        return members

    async def _of_task(self, lease: Lease) -> list[RunningMember]:
        storage, task_id = self.storage, lease.task_id
        children = await anyio.to_thread.run_sync(
            _still_there, await storage.leases.children(task_id)
        )
        turns = await storage.journal.turns(task_id)
        known = {turn.member: turn for turn in turns}
        facts = _Facts(
            processes={child.member: child for child in children},
            turns={
                turn.member: turn
                for turn in turns
                # A turn with an older token was cut off by a crash.
                if turn.outcome is None and turn.token == lease.token
            },
            last_turns=known,
            states={row.member: row for row in await storage.member_states(task_id)},
            asked={
                question.interaction.author_actor_id: question
                for question in await storage.inbox.questions()
                if leased_as(question.interaction.task_id) == task_id
            },
            calls=_open_calls(await storage.audit.with_tickets(task_id)),
        )
        team = (await self.state(task_id)).created.team
        threads = {turn.member: turn.thread for turn in turns if turn.thread}
        return [
            await self._member(task_id, team, facts, instance, threads.get(instance))
            for instance in dict.fromkeys(
                (*facts.processes, *facts.turns, *facts.asked, *facts.states)
            )
            if (member := team.instance(instance)) is not None
            and member.type == "ai"
            and facts.is_at_work(instance)
        ]

    async def _member(
        self, task_id: str, team: Team, facts: _Facts, instance: str, thread: str | None
    ) -> RunningMember:
        member = team.instance(instance)
        assert member is not None
        folder = member_folder(self.root, team.name, member)
        process = facts.processes.get(instance)
        pid = process.pid if process else None
        return replace(
            facts.doing(instance),
            task=task_id,
            agent=member.agent or "",  # its process may be a command run by one of its tools
            pid=pid,
            folder=folder,
            mode=member.permissions.mode,
            home=Path(member.home_dir) if member.home_dir else folder / "home",
            thread=thread,
            memory=await anyio.to_thread.run_sync(_memory, pid),
            project=self.root,
        )


_LIMITS = ("limit", "budget")
"""What a member may wait for that ends at a known time."""


@dataclass(frozen=True)
class _Facts:
    """What is recorded about the members of one task, from which follows what each is doing."""

    processes: Mapping[str, ChildLease]
    turns: Mapping[str, Turn]
    """The turns that are open."""
    last_turns: Mapping[str, Turn]
    states: Mapping[str, SetMemberState]
    asked: Mapping[str, Question]
    calls: Mapping[str, AuditEntry]
    """The tool calls that have begun and not ended."""

    def is_at_work(self, instance: str) -> bool:
        """Whether its agent is alive, or it has something to do or to wait for."""
        busy = instance in self.processes or instance in self.turns or instance in self.asked
        return busy or self._waits_for_limit(instance)

    def _waits_for_limit(self, instance: str) -> bool:
        """Whether it waits for the end of a limit before its next turn."""
        state, last = self.states.get(instance), self.last_turns.get(instance)
        if state is None or state.waits_for not in _LIMITS or instance in self.turns:
            return False
        return last is None or state.since >= last.opened_at

    def doing(self, instance: str) -> RunningMember:
        """What a member is doing."""
        state, turn, process = (
            self.states.get(instance),
            self.turns.get(instance),
            self.processes.get(instance),
        )
        if question := self.asked.get(instance):
            return _asks(instance, question)
        if state and self._waits_for_limit(instance):
            return _from_state(state, None)
        if turn is None:
            began = process.started_at if process else ""
            return _doing(instance, "idle" if process and process.pid else "starting", began)
        call = self.calls.get(instance)
        if call and call.timestamp < turn.opened_at:
            call = None
        if state and state.since >= turn.opened_at:
            return _from_state(state, call)
        if call and (command := command_of(call.input or {})):
            row = _doing(instance, "waiting", call.timestamp, command)
            return replace(row, waits_for="command")
        return _doing(instance, "working", turn.opened_at, call.tool_name if call else "")


def _doing(instance: str, state: MemberState, since: str, reason: str = "") -> RunningMember:
    return RunningMember("", instance, "", None, state, reason, since, Path())


def _from_state(state: SetMemberState, call: AuditEntry | None) -> RunningMember:
    reason = state.reason
    if state.waits_for == "command" and call:
        reason = command_of(call.input or {}) or call.tool_name
    row = _doing(state.member, cast("MemberState", state.state), state.since, reason)
    return replace(row, waits_for=state.waits_for, until=state.until)


def _asks(instance: str, question: Question) -> RunningMember:
    about = question.interaction.about
    is_stuck = isinstance(about, FailedTurn) and about.failure == "timeout"
    row = _doing(instance, "stuck" if is_stuck else "waiting", question.asked_at)
    return replace(row, waits_for="you", question=question.interaction.interaction_id)


def _grants(question: Question, row: SetMemberState) -> bool:
    """Whether an answer raised the daily budget that a member is waiting for."""
    from coterie.model.budget import grant

    about = question.interaction.about
    if row.waits_for != "budget" or not isinstance(about, BudgetReached):
        return False
    is_own = about.scope == "member's day" and about.member == base_of(row.member)
    is_later = (question.answered_at or "") > row.since
    return (about.scope == "day" or is_own) and is_later and grant(question) > 0


def _open_calls(entries: list[AuditEntry]) -> dict[str, AuditEntry]:
    """By member: the newest tool call that has begun and not ended."""
    running: dict[tuple[str, str], AuditEntry] = {}
    for entry in entries:
        key = entry.author_actor_id, entry.tool_call_id
        if entry.kind == "ToolCallRequested":
            running[key] = entry
        else:
            running.pop(key, None)
    return {member: entry for (member, _), entry in running.items()}


def _run_by(row: TaskRow) -> str:
    """The same as `leased_as`, without reading the id: a list of tasks may be long."""
    return (row.parent_id or row.id) if row.workflow == TICKET else row.id


def _still_there(children: list[ChildLease]) -> list[ChildLease]:
    """Those that are starting or running; one that ended by itself stays recorded for a while."""
    return [child for child in children if child.pid is None or psutil.pid_exists(child.pid)]


def _memory(pid: int | None) -> int | None:
    """The memory used by a process and all its descendants."""
    try:
        top = psutil.Process(pid) if pid is not None else None
        tree = [top, *top.children(recursive=True)] if top else []
        return sum(process.memory_info().rss for process in tree) or None
    except psutil.Error:
        return None  # it ended meanwhile


def _answer(question: Question) -> str:
    response = question.response
    return response.choice if response and response.by_person else ""
