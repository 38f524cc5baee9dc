"""A project, open: what surfaces call."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
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
from coterie.engine.steering import Answered
from coterie.engine.task_run import RunServices
from coterie.errors import CoterieError, NotTrusted
from coterie.model import instant
from coterie.model.conversation import YOU, opening_message
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
from coterie.model.team import Team, base_of, member_folder
from coterie.model.ticket import SchedulerConfig
from coterie.ports import Observer, Owners, Storage
from coterie.process.processes import Machine
from coterie.stores.sqlite import SqliteStorage

if TYPE_CHECKING:
    from coterie.app.store import SharedStore


def unbegun_calls(entries: list[str]) -> list[str]:
    """The calls in a thread of the built-in agent that it had yet to make."""
    from coterie.agents.builtin.thread import unbegun

    return unbegun(entries) if entries else []


@dataclass
class App(WorkUseCases):
    """One project, open.  Every method may raise a CoterieError, and nothing else on purpose."""

    root: Path
    storage: Storage
    machine: Machine
    pool: ChannelPool
    owners: Owners
    home: Path | None = None
    stand_in: str | None = None
    shared: SharedStore | None = None
    """The store that several machines share; None: the project's own folder keeps its tasks."""
    _is_owner: bool = False

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

        `home` takes the place of the user's `~/.coterie`: its registry and settings count.
        `stand_in` is the address of a model to rehearse against, instead of one of our own.
        `machine` is what this machine is called in a shared store.
        Raises LeaseExpired where a shared store was out of reach for too long.
        """
        project = Project(root, home)

        def prepare() -> tuple[Machine, bool]:
            make_project(project)
            return Machine.here(), storage is None and may_name_store(home)

        here, may_be_shared = await anyio.to_thread.run_sync(prepare)
        shared: SharedStore | None = None
        if may_be_shared:
            from coterie.app.store import open_shared

            shared = await open_shared(project, here, machine)
            storage = shared.storage if shared else None
        storage = storage or await SqliteStorage.open(project.database)
        folder = project.folder / "owners"
        owners = shared.owners if shared else FlockOwners(folder, here.host, storage.leases)
        app = cls(root, storage, here, ChannelPool(), owners, home, stand_in, shared)
        async with shared.owners.kept() if shared else nullcontext():
            try:
                yield app
            finally:
                with anyio.CancelScope(shield=True):
                    await app._close()

    async def _close(self) -> None:
        clean = False
        if self.shared is not None:
            await self.shared.owners.stop_looking()
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
        """Make a task that this process owns; returns its id.  Nothing runs yet.

        A session with tickets keeps the project's `scheduler_config.json` as it is now.
        """
        version = (await run.load_workflow(start.workflow)).version
        owner = await self.own()
        rules = await anyio.to_thread.run_sync(learned_rules, self._project, start.team.name)
        team_file = str(start.team_file) if start.team_file else None
        by = await self._redactor(start.team, team_file)
        team = without_secrets(with_learned(start.team, rules), by)
        goal = by.text(start.goal or "")
        scheduler, pipeline = SchedulerConfig(), start.pipeline
        if start.workflow in (run.TICKETS, run.PIPELINE):
            kept = (self._project, team, start)
            scheduler, pipeline = await anyio.to_thread.run_sync(kept_settings, *kept)
        author = next((member.id for member in team.in_order if member.type == "human"), YOU)
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
                author=author,
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
        patience: float | None,
        at_reset: bool = False,
        for_others: bool = False,
        starts_agents: bool = True,
    ) -> ResultRecord:
        """Run a task until it ends or parks; takes a dead owner's task over first.

        `patience` is how many seconds an open question is waited for: None for ever (a
        terminal), 0 not at all; `at_reset` waits for the end of a rate limit besides;
        `for_others`: nothing is committed to the branch that is checked out here; without
        `starts_agents` nobody of its team is started, whom this machine then need not trust.
        Raises TaskBusy where a living process runs it.
        When cancelled (Ctrl-C), children are ended and the task is parked before it returns.
        """
        engine = Engine(self.storage, run.WORKFLOWS, await self.claimant(), self.root)
        created = (await self._look.state(task_id)).created
        await run.load_workflow(created.workflow)
        async with (
            run.rehearsing(created, self.stand_in, self.storage) as rehearsal,
            run.looked_after(self.root, task_id, observer) as snapshots,
        ):
            factory = replace(self._members, starts_agents=starts_agents)
            members = await anyio.to_thread.run_sync(factory.of_task, created, rehearsal)
            services = RunServices(
                members.redactor(),
                snapshots,
                at_reset=at_reset,
                waits_for_limits=patience is None or at_reset,
                guarded=members.guarded,
                notifies=members.settings.notify is not None,
                unbegun=unbegun_calls,
            )
            if self.shared is not None:
                from coterie.app.hand_out import with_offers

                services = with_offers(services, self.shared, for_others=for_others)
            if self.shared is not None and created.workflow == run.TICKETS:
                await self.sessions.bring_key(created)
            if created.workflow not in run.WITHOUT_CHECKS:
                services = with_session(services, self.root, self.storage, created, observer)
            async with run.notifying(created, members, observer) as watched:
                here = factory.as_run_here if self.shared else None
                engine = replace(engine, services=services, as_run_here=here)
                result = await engine.run(task_id, members.channels, watched, patience)
        result = await run.with_changes(snapshots, result)
        is_session = created.workflow in (run.TICKETS, run.PIPELINE)
        return await self._changes_of(created).concluded(result) if is_session else result

    async def unallowed(self, task_id: str) -> tuple[Power, ...]:
        """What the members of a task would be started with that the user has not allowed."""
        created = (await self._look.state(task_id)).created
        try:
            await anyio.to_thread.run_sync(self._members.of_task, created)
        except NotTrusted:
            members = await self._unchecked(created)
            return powers_of(created, members.team)
        return ()

    async def allow(self, task_id: str) -> None:
        """Record that the user has looked at what the members of a task are started with."""
        created = (await self._look.state(task_id)).created
        members = await self._unchecked(created)
        now = instant.now()
        await anyio.to_thread.run_sync(allow, created, members.team, now, self.home)

    async def _unchecked(self, created: TaskCreated) -> run.Members:
        return await anyio.to_thread.run_sync(self._members.of, created.team, created.team_file)

    async def questions(self, *, only_open: bool = True) -> list[QuestionView]:
        """This project's questions, oldest first."""
        return await self._look.questions(only_open=only_open)

    async def answer(
        self,
        interaction_id: str,
        choice: str | None = None,
        text: str | None = None,
        *,
        author: str = YOU,
    ) -> Answered:
        """Answer once.  `choice` is an option's id, number or prefix.  Raises AnswerRefused.

        The answer `rule` is kept for the team's later tasks too.
        """
        question = await self.storage.inbox.question(interaction_id)
        asked = question.interaction if question else None
        if text is not None and asked is not None:
            text = await self._without_secrets(asked.task_id, text)
        answering = partial(steering.answer, self._look, interaction_id, choice, text, author)
        if asked is not None and self.shared is not None:
            from coterie.app.run_here import answer_shared

            answered = await answer_shared(self, asked, choice, answering)
        else:
            answered = await answering()
        if answered.rule is not None:
            learn = (self._project, answered.team, base_of(answered.member), answered.rule)
            await anyio.to_thread.run_sync(learn_rule, *learn)
        return answered

    async def say(self, task_id: str, text: str, author: str | None = None) -> str:
        """A word to a task: the answer where it is the human's turn, else heard after the
        running turn.  Returns what became of it: `answered q3` or `queued`."""
        text = await self._without_secrets(task_id, text)
        return await steering.say(self._look, task_id, text, author, run.Chat.name)

    async def tasks(self) -> list[TaskView]:
        """Every task that somebody started, oldest first."""
        views = await self._look.tasks()
        if self.shared is None:
            return views
        offered = await self.shared.dispatch.offered()
        return [replace(one, offered=one.id in offered) for one in views]

    async def below(self, task_id: str) -> list[str]:
        """A task and all that are below it, tickets and subtasks, each after the one above it."""
        return await self._look.below(task_id)

    async def find_task(self, name: str, *, tickets: bool = True) -> str:
        """The task a person means: its id, the start of it, `last`, or a ticket: `last/T1`."""
        return await self._look.find(name, tickets=tickets)

    async def show(self, task_id: str) -> TaskDetail:
        """All about one task."""
        detail = await self._look.show(task_id)
        if self.shared is None or not detail.view.resumable:
            return detail
        offer = (await self.shared.dispatch.offered()).get(task_id)
        view = replace(detail.view, offered=offer is not None)
        return replace(detail, view=view, refused=offer.refused if offer else {})

    async def timeline(self, task_id: str) -> list[Entry]:
        """What happened so far, in order."""
        return await timeline.timeline(self.storage, task_id)

    def follow(self, task_id: str) -> AsyncGenerator[Entry]:
        """The timeline, then whatever is added, until the task ends or its owner is gone."""

        async def is_run() -> bool:
            return await self._look.runner_of(task_id) is not None

        return timeline.follow(self.storage, task_id, is_run)

    async def running(self, task_id: str | None = None) -> list[RunningMember]:
        """The members of tasks that run now, and what each does."""
        return await self._look.running(task_id)

    async def parked(self) -> list[RunningMember]:
        """The members of parked tasks that wait for a limit to end, and until when."""
        return await self._look.parked()

    async def costs(self, task_id: str | None = None, since: str = "") -> list[Cost]:
        """What turns cost, of one task or of all, oldest first."""
        return await costs(self.storage, task_id, since)

    async def interrupt(self, task_id: str) -> None:
        """Break off the turn that runs now."""
        await self.storage.inbox.request(task_id, "interrupt", YOU, "")

    async def stop(self, task_id: str) -> bool:
        """Park a task and wait until its owner let go; False when nobody ran it."""
        if self.shared is not None:  # first: whoever lets go of it must not find it on offer
            await self.shared.dispatch.hold(task_id)
        return await steering.stop(self._look, task_id)

    async def stop_member(self, task_id: str, member: str) -> bool:
        """End one member's agent, and wait until it is gone; False when nobody ran the task.
        That goes on; when the member's turn comes, or came, the user is asked what now."""
        return await steering.stop_member(self._look, task_id, member)

    async def cancel(self, task_id: str) -> None:
        """End a task for good; children are gone when this returns."""
        await self.sessions.complete_files(task_id)
        await steering.cancel(self._look, await self.claimant(), task_id, unbegun_calls)

    def members(self, team: Team) -> run.Members:
        """The members of a team, ready to be spoken to.  Blocks."""
        return self._members.of(team)

    async def _without_secrets(self, task_id: str, text: str) -> str:
        """What a person says to a task, as it may be kept."""
        created = (await self._look.state(task_id)).created
        return (await self._redactor(created.team, created.team_file)).text(text)

    async def _redactor(self, team: Team, team_file: str | None) -> Redactor:
        """What takes the secrets of a team out of what is written; raises nothing."""
        try:
            made = await anyio.to_thread.run_sync(self._members.of, team, team_file)
        except CoterieError:  # its file is gone; whoever runs the task is told
            made = await anyio.to_thread.run_sync(self._members.of, team)
        return made.redactor()

    @property
    def _look(self) -> TaskReader:
        return TaskReader(
            self.storage,
            self.root,
            self.owners,
            lambda team, member: member_folder(self.root, team, member),
        )

    @property
    def _project(self) -> Project:
        return Project(self.root, self.home)

    async def own(self) -> str:
        """The id of this process as an owner, which it is when it first runs something."""
        self._is_owner = True
        return await self.owners.begin()

    async def claimant(self) -> Claimant:
        await self.own()
        return Claimant(self.owners, self.storage.leases, SurvivorReaper(), self.machine)

    @property
    def _members(self) -> run.MemberFactory:
        shared = (self.root, self.home, self.storage, self.machine, self.pool)
        return run.MemberFactory(*shared, self.owners, self.shared is not None)
