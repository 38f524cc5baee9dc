"""An open project: the methods that surfaces call."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

import anyio.to_thread

from coterie.app import run
from coterie.app.costs import Cost, costs
from coterie.app.sessions import base_commit, kept_settings, with_session
from coterie.app.work_use_cases import WorkUseCases
from coterie.config.allowed import allow, allowed_team, powers_of, without_secrets
from coterie.config.project import Project, make_project, may_name_store
from coterie.config.teams import Power, learn_rule, learned_rules, with_learned
from coterie.engine import steering, timeline
from coterie.engine.channels import ChannelPool, SurvivorReaper
from coterie.engine.lease import Claimant, FlockOwners
from coterie.engine.reader import TaskReader
from coterie.engine.run import Engine
from coterie.engine.steering import Answered, Said
from coterie.engine.task_run import RunServices
from coterie.errors import CoterieError, NotTrusted
from coterie.model import instant
from coterie.model.conversation import opening_message
from coterie.model.record import (
    Entry,
    QuestionView,
    ResultRecord,
    RunningMember,
    TaskDetail,
    TaskView,
)
from coterie.model.redaction import Redactor
from coterie.model.task import TaskCreated, new_task_id
from coterie.model.team import PIPELINE, TICKETS, YOU, Team, base_of
from coterie.model.ticket import SchedulerConfig
from coterie.ports import Observer, Owners, Storage
from coterie.process.processes import PidScope
from coterie.stores.sqlite import SqliteStorage

if TYPE_CHECKING:
    from coterie.app.store import SharedStore


def unstarted_calls(entries: list[str]) -> list[str]:
    """Return the calls in a thread of the built-in agent that it had not begun."""
    from coterie.agents.builtin.thread import unstarted

    return unstarted(entries) if entries else []


@dataclass
class App(WorkUseCases):
    """One open project.  Methods raise nothing but CoterieError on purpose."""

    project: Project
    storage: Storage
    machine: PidScope
    owners: Owners
    pool: ChannelPool = field(default_factory=ChannelPool, init=False)
    stand_in: str | None = None
    shared: SharedStore | None = None
    """The store that several machines share; None: tasks are kept in the project's own folder."""
    _is_owner: bool = False

    @property
    def root(self) -> Path:
        """The project's folder."""
        return self.project.root

    @property
    def home(self) -> Path | None:
        """The folder used instead of the user's `~/.coterie`."""
        return self.project.home

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        root: Path,
        home: Path | None = None,
        stand_in: str | None = None,
        storage: Storage | None = None,
        machine: str | None = None,
    ) -> AsyncGenerator[Self]:
        """Open the project's store until the block ends: `storage`, the one that several machines
        share, or its own database (made if absent).

        `home` replaces the user's `~/.coterie`, with its registry and settings.
        `stand_in` is the address of a model to rehearse against, instead of Coterie's own.
        `machine` is the name of this machine in a shared store.
        Raises LeaseExpired if a shared store was out of reach for too long.
        """
        project = Project(root, home)

        def prepare() -> tuple[PidScope, bool]:
            make_project(project)
            return PidScope.here(), storage is None and may_name_store(home)

        here, may_be_shared = await anyio.to_thread.run_sync(prepare)
        shared: SharedStore | None = None
        if may_be_shared:
            from coterie.app.store import open_shared

            shared = await open_shared(project, here, machine)
            storage = shared.storage if shared else None
        storage = storage or await SqliteStorage.open(project.database)
        folder = project.folder / "owners"
        owners = shared.owners if shared else FlockOwners(folder, here.host, storage.leases)
        app = cls(project, storage, here, owners, stand_in, shared)
        async with shared.owners.kept() if shared else nullcontext():
            try:
                yield app
            finally:
                with anyio.CancelScope(shield=True):
                    await app._close()

    async def _close(self) -> None:
        clean = False
        if self.shared is not None:
            await self.shared.owners.stop_watching()
        try:
            await self.pool.close_all()
            clean = True
        finally:
            try:
                await self.storage.close()
            finally:
                if self._is_owner:
                    await self.owners.end(clean=clean)
                if self.shared is not None:
                    await self.shared.close()

    async def create(self, start: run.StartRequest) -> str:
        """Create a task that this process owns; returns its id.  Nothing runs yet.

        A session with tickets keeps the project's current `scheduler_config.json`.
        """
        version = (await run.load_workflow(start.workflow)).version
        owner = await self.own()
        rules = await anyio.to_thread.run_sync(learned_rules, self.project, start.team.name)
        team_file = str(start.team_file) if start.team_file else None
        by = await self.redactor(start.team, team_file)
        team = without_secrets(with_learned(start.team, rules), by)
        goal = by.text(start.goal or "")
        scheduler, pipeline = SchedulerConfig(), start.pipeline
        if start.workflow in (TICKETS, PIPELINE):
            arguments = (self.project, team, start)
            scheduler, pipeline = await anyio.to_thread.run_sync(kept_settings, *arguments)
        base = None
        if self.shared is not None:
            base = await anyio.to_thread.run_sync(base_commit, self.root, start.workflow)
        length = 4
        while True:
            created = TaskCreated(
                task_id=(task_id := new_task_id(length)),
                at=instant.now(),
                session_id=task_id,
                workflow=start.workflow,
                workflow_version=version,
                goal=goal,
                author=team.people[0].id,
                member=start.member,
                team=team.sealed(),
                team_file=team_file,
                allowed=await anyio.to_thread.run_sync(allowed_team, task_id, team, self.home),
                caps=start.caps,
                scheduler=scheduler,
                pipeline=pipeline,
                rehearsal=start.rehearsal is not False,
                script=None if isinstance(start.rehearsal, bool) else str(start.rehearsal),
                root=str(self.root) if self.shared else None,
                base=base,
            )
            opening = opening_message(created)
            if await self.storage.create(created, owner, opening) is not None:
                return task_id
            length += 1

    async def run(
        self,
        task_id: str,
        observer: Observer,
        *,
        wait: float | None,
        at_reset: bool = False,
        for_others: bool = False,
        starts_agents: bool = True,
    ) -> ResultRecord:
        """Run a task until it ends or parks; take it over first if its owner is dead.

        `wait` is how many seconds to wait for an answer to a question: None forever (a
        terminal), 0 not at all; `at_reset` also waits for the end of a rate limit;
        `for_others`: nothing is committed to the branch that is checked out here; without
        `starts_agents` no member of its team is started, so this machine need not trust the team.
        Raises TaskBusy if a living process runs it.
        When cancelled (Ctrl-C), children are ended and the task is parked before it returns.
        """
        engine = Engine(self.storage, run.WORKFLOWS, await self.claimant(), self.root)
        created = (await self._look.state(task_id)).created
        await run.load_workflow(created.workflow)
        async with (
            run.rehearsing(created, self.stand_in, self.storage) as rehearsal,
            run.with_snapshots(self.root, task_id, observer) as snapshots,
        ):
            factory = replace(self._members, starts_agents=starts_agents)
            members = await anyio.to_thread.run_sync(factory.of_task, created, rehearsal)
            services = RunServices(
                members.redactor(),
                snapshots,
                at_reset=at_reset,
                waits_for_limits=wait is None or at_reset,
                guarded=members.guarded,
                notifies=members.settings.notify is not None,
                unstarted=unstarted_calls,
            )
            if self.shared is not None:
                from coterie.app.hand_out import with_offers

                services = with_offers(services, self.shared, for_others=for_others)
            if self.shared is not None and created.workflow == TICKETS:
                await self.sessions.bring_key(created)
            if created.workflow not in run.WITHOUT_CHECKS:
                services = with_session(services, self.root, self.storage, created, observer)
            async with run.notifying(created, members, observer) as watched:
                here = factory.for_this_machine if self.shared else None
                engine = replace(engine, services=services, for_this_machine=here)
                result = await engine.run(task_id, members.channels, watched, wait)
        result = await run.with_changes(snapshots, result)
        is_session = created.workflow in (TICKETS, PIPELINE)
        return await self._changes_of(created).concluded(result) if is_session else result

    async def unallowed(self, task_id: str) -> tuple[Power, ...]:
        """Return the powers that members of a task would get and the user has not allowed."""
        created = (await self._look.state(task_id)).created
        try:
            await anyio.to_thread.run_sync(self._members.of_task, created)
        except NotTrusted:
            members = await self._unchecked(created)
            return powers_of(created, members.team)
        return ()

    async def allow(self, task_id: str) -> None:
        """Record that the user allows the powers that the members of a task are started with."""
        created = (await self._look.state(task_id)).created
        members = await self._unchecked(created)
        now = instant.now()
        await anyio.to_thread.run_sync(allow, created, members.team, now, self.home)

    async def _unchecked(self, created: TaskCreated) -> run.Members:
        return await anyio.to_thread.run_sync(self._members.of, created.team, created.team_file)

    async def questions(self, *, only_open: bool = True) -> list[QuestionView]:
        """Return this project's questions, oldest first."""
        return await self._look.questions(only_open=only_open)

    async def answer(
        self,
        interaction_id: str,
        choice: str | None = None,
        text: str | None = None,
        *,
        author: str = YOU,
    ) -> Answered:
        """Answer a question, once.  `choice` is an option's id, number or prefix.

        Raises AnswerRefused.  The answer `rule` is kept for the team's later tasks too.
        """
        question = await self.storage.inbox.question(interaction_id)
        interaction = question.interaction if question else None
        if text is not None and interaction is not None:
            text = await self._without_secrets(interaction.task_id, text)
        answering = partial(steering.answer, self._look, interaction_id, choice, text, author)
        if interaction is not None and self.shared is not None:
            from coterie.app.run_here import answer_shared

            answered = await answer_shared(self, interaction, choice, answering)
        else:
            answered = await answering()
        if answered.rule is not None:
            learn = (self.project, answered.team, base_of(answered.member), answered.rule)
            await anyio.to_thread.run_sync(learn_rule, *learn)
        return answered

    async def say(self, task_id: str, text: str, author: str | None = None) -> Said:
        """Say something to a task: the answer if it is the human's turn, else delivered after the
        running turn.  Returns what became of it."""
        text = await self._without_secrets(task_id, text)
        return await steering.say(self._look, task_id, text, author, run.Chat.name)

    async def tasks(self) -> list[TaskView]:
        """Return every task that somebody started, oldest first."""
        views = await self._look.tasks()
        if self.shared is None:
            return views
        offered = await self.shared.dispatch.offered()
        return [replace(one, offered=one.id in offered) for one in views]

    async def below(self, task_id: str) -> list[str]:
        """Return a task and all tickets and subtasks below it, each after its parent."""
        return await self._look.below(task_id)

    async def find_task(self, name: str, *, tickets: bool = True) -> str:
        """Resolve a task by its id, the start of its id, `last`, or a ticket such as `last/T1`."""
        return await self._look.find(name, tickets=tickets)

    async def show(self, task_id: str) -> TaskDetail:
        """Return the details of one task."""
        detail = await self._look.show(task_id)
        if self.shared is None or not detail.view.resumable:
            return detail
        offer = (await self.shared.dispatch.offered()).get(task_id)
        view = replace(detail.view, offered=offer is not None)
        return replace(detail, view=view, refused=offer.refused if offer else {})

    async def timeline(self, task_id: str) -> list[Entry]:
        """Return what has happened so far, in order."""
        return await timeline.timeline(self.storage, task_id)

    def follow(self, task_id: str) -> AsyncGenerator[Entry]:
        """Yield the timeline, then whatever is added, until the task ends or its owner is gone."""

        async def is_run() -> bool:
            return await self._look.runner_of(task_id) is not None

        return timeline.follow(self.storage, task_id, is_run)

    async def running(self, task_id: str | None = None) -> list[RunningMember]:
        """Return the members of running tasks, and what each is doing."""
        return await self._look.running(task_id)

    async def parked(self) -> list[RunningMember]:
        """Return the members of parked tasks that wait for a limit to end, and until when."""
        return await self._look.parked()

    async def costs(self, task_id: str | None = None, since: str = "") -> list[Cost]:
        """Return what turns cost, of one task or of all, oldest first."""
        return await costs(self.storage, task_id, since)

    async def interrupt(self, task_id: str) -> None:
        """Interrupt the current turn."""
        await steering.interrupt(self._look, task_id)

    async def stop(self, task_id: str) -> bool:
        """Park a task and wait until its owner has released it; False if nobody ran it."""
        if self.shared is not None:  # first: its owner must not find it on offer when releasing it
            await self.shared.dispatch.hold(task_id)
        return await steering.stop(self._look, task_id)

    async def stop_member(self, task_id: str, member: str) -> bool:
        """End one member's agent and wait until it is gone; the task goes on, and asks the user at
        that member's turn.  False if nobody ran the task."""
        return await steering.stop_member(self._look, task_id, member)

    async def cancel(self, task_id: str) -> None:
        """Cancel a task for good; its processes are gone when this returns."""
        await self.sessions.complete_files(task_id)
        await steering.cancel(self._look, await self.claimant(), task_id, unstarted_calls)

    def members(self, team: Team) -> run.Members:
        """Return the members of a team, ready to be prompted.  Blocks."""
        return self._members.of(team)

    async def _without_secrets(self, task_id: str, text: str) -> str:
        """Redact what a person says to a task, so that it may be stored."""
        created = (await self._look.state(task_id)).created
        return (await self.redactor(created.team, created.team_file)).text(text)

    async def redactor(self, team: Team, team_file: str | None) -> Redactor:
        """Return the redactor of a team; works even if the team's file is gone."""
        try:
            members = await anyio.to_thread.run_sync(self._members.of, team, team_file)
        except CoterieError:  # its file is gone; running the task reports that
            members = await anyio.to_thread.run_sync(self._members.of, team)
        return members.redactor()

    @property
    def _look(self) -> TaskReader:
        return TaskReader(self.storage, self.root, self.owners)

    async def own(self) -> str:
        """Return this process's id as an owner, which it becomes when it first runs something."""
        self._is_owner = True
        return await self.owners.begin()

    async def claimant(self) -> Claimant:
        await self.own()
        return Claimant(self.owners, self.storage.leases, SurvivorReaper(), self.machine)

    @property
    def _members(self) -> run.MemberFactory:
        shared = (self.root, self.home, self.storage, self.machine, self.pool)
        return run.MemberFactory(*shared, self.owners, self.shared is not None)
