"""What a command would do: who, with what, where, within which limits; nothing is started.

Each adapter is asked to open a channel, in a scratch folder that is laid out as the member's own
will be, and is stopped where it would start its process: so what is shown is what would be run.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import anyio.to_thread

from coterie.agents.generic import GenericAdapter
from coterie.agents.table import KNOWN_AGENTS
from coterie.app.run import PIPELINE, TICKETS, MemberFactory, Members, Rehearsal, StartRequest
from coterie.app.teams import Teams, TeamView
from coterie.config.registry_edit import place
from coterie.config.settings import load_scheduler
from coterie.config.team_file import LoadedTeam
from coterie.engine.channels import ChannelPool
from coterie.errors import CoterieError, NotTrusted
from coterie.model import step_name
from coterie.model.envelope import Plan
from coterie.model.pipeline_roles import PIPELINE_ROLES, FilledRoles
from coterie.model.task import DEMO, TaskCreated
from coterie.model.team import Member, Team, member_folder
from coterie.model.ticket import SchedulerConfig
from coterie.process.child import NothingStarts, Spawn, WouldStart
from coterie.process.processes import Machine
from coterie.stores.sqlite import SqliteStorage
from coterie.workspace.git import repository_of

if TYPE_CHECKING:
    from coterie.app.project import App

_STAND_IN = "http://127.0.0.1"
"""Where a rehearsal's model would be; its port is chosen when it starts."""


@dataclass(frozen=True)
class MemberStart:
    """A process as it would be started."""

    words: tuple[str, ...]
    cwd: str
    variables: tuple[str, ...]
    """The names of all that stands in its environment; no value is shown."""


@dataclass(frozen=True)
class MemberPlan:
    """What a member would do, with what, and where."""

    member: Member
    duty: str
    installed: bool
    folder: Path
    start: MemberStart | None = None
    """None for a human, for an agent that is no program, and where there is a problem."""
    problem: str = ""
    """Why its agent could not be started."""
    timeout_ms: int | None = None
    """After so long a turn has failed; None for a human."""
    silence_ms: int | None = None
    """So long a silence ends a reply; None where the agent says so itself."""


@dataclass(frozen=True)
class DryRun:
    """What a command would do.  Nothing was started or written."""

    view: TeamView
    root: Path
    request: StartRequest
    members: tuple[MemberPlan, ...]
    scheduler: SchedulerConfig
    branches: tuple[str, ...]
    """For a ticket, and for what is approved; empty where all work in one folder."""
    base: str | None
    """The commit where branches would begin; None where there is none."""
    plan: Plan | None
    """The plan that a script holds; nobody knows one that the manager has yet to make."""
    task: str | None = None
    """The task that would go on; None: a new one."""


async def dry_run(teams: Teams, view: TeamView, request: StartRequest) -> DryRun:
    """What starting this would do.  Whoever is not signed in is not looked for."""
    scheduler = load_scheduler(teams.project)
    return await _found(teams.project.root, teams.home, view, request, _Resumed(scheduler))


async def dry_resume(app: App, task_id: str) -> DryRun:
    """What going on with a task would do."""
    created = (await app.show(task_id)).state.created
    factory = MemberFactory(app.root, app.home, app.storage, app.machine, ChannelPool())
    address = _STAND_IN if created.rehearsal else None
    refused: NotTrusted | None = None
    try:
        members = await anyio.to_thread.run_sync(factory.of_task, created, address)
    except NotTrusted as error:
        refused = error
        team, path = created.team, created.team_file
        members = await anyio.to_thread.run_sync(factory.of, team, path, address)
    request = StartRequest(
        members.team,
        created.goal,
        created.caps,
        Path(created.team_file) if created.team_file else None,
        _rehearsal_of(created),
        created.workflow,
        created.member,
    )
    view = TeamView(LoadedTeam(members.team, request.team_file), refused)
    turns = await app.storage.journal.turns(task_id)
    own = (turn for turn in turns if turn.thread and not step_name.parse(turn.step).topic)
    resumed = _Resumed(created.scheduler, task_id, {turn.member: turn.thread for turn in own})
    return await _found(app.root, app.home, view, request, resumed)


class _Resumed(NamedTuple):
    """What is known of a task before it is run."""

    scheduler: SchedulerConfig
    task_id: str | None = None
    threads: Mapping[str, str | None] = {}
    """By member: the thread that its agent would take up."""


async def _found(
    root: Path, home: Path | None, view: TeamView, request: StartRequest, resumed: _Resumed
) -> DryRun:
    team, workflow = request.team, request.workflow
    git = None
    if workflow in (TICKETS, PIPELINE):
        git = await anyio.to_thread.run_sync(repository_of, root)
    async with _scratch(root, home, request, resumed) as scratch:
        plans = [await scratch.plan(member, in_worktree=bool(git)) for member in team.in_order]
    script = request.rehearsal if isinstance(request.rehearsal, Path) else None
    name = f"coterie/{resumed.task_id or '<id>'}"
    branches = (f"{name}/work",) if workflow == PIPELINE else (f"{name}/T1", f"{name}/merged")
    return DryRun(
        view,
        root,
        request,
        tuple(plans),
        resumed.scheduler,
        branches if git else (),
        git.head() if git else None,
        _plan_of(script) if workflow == TICKETS and script else None,
        resumed.task_id,
    )


def _rehearsal_of(created: TaskCreated) -> Rehearsal:
    if created.script in (None, DEMO):
        return DEMO if created.script else created.rehearsal
    return Path(created.script or "")


@asynccontextmanager
async def _scratch(
    root: Path, home: Path | None, request: StartRequest, resumed: _Resumed
) -> AsyncGenerator[_Scratch]:
    """Members whose folders lie in a temporary one."""
    with TemporaryDirectory(prefix="coterie-") as made:
        folder = await anyio.to_thread.run_sync(_real, made)
        storage = await SqliteStorage.open(folder / "coterie.db")
        try:
            machine = await anyio.to_thread.run_sync(Machine.here)
            factory = MemberFactory(root, home, storage, machine, ChannelPool())
            address = None if request.rehearsal is False else _STAND_IN
            members = factory.of(request.team, None, address, request.workflow)
            members = replace(members, shared=replace(factory, root=folder))
            yield _Scratch(root, folder, request, members, resumed)
        finally:
            await storage.close()


@dataclass(frozen=True)
class _Scratch:
    root: Path
    folder: Path
    request: StartRequest
    members: Members
    resumed: _Resumed

    async def plan(self, member: Member, *, in_worktree: bool) -> MemberPlan:
        """What a member would do."""
        team, duty = self.request.team, _duty(self.request, member)
        real = member_folder(self.root, team.name, member)
        agent = self.members.adapters.agents.get(member.agent or "")
        plan = MemberPlan(member, duty, True, real)
        if agent is None:
            return plan
        plan = replace(plan, installed=place(KNOWN_AGENTS, agent) is not None)
        plan = self._limited(plan)
        if KNOWN_AGENTS.is_part_of_coterie(agent) and member.agent not in self.members.stood_in:
            return plan
        is_pipeline = self.request.workflow == PIPELINE
        apart = in_worktree and (is_pipeline or member.id != team.manager.id)
        try:
            spawn = await self._spawn(member, apart=apart)
        except CoterieError as error:
            return replace(plan, problem=str(error).replace(str(self.folder), str(self.root)))
        return replace(plan, start=self._told(member, spawn, real) if spawn else None)

    def _limited(self, plan: MemberPlan) -> MemberPlan:
        """The same with the limits of the member's turns."""
        adapter = self.members.adapter(plan.member, NothingStarts())
        if not isinstance(adapter, GenericAdapter):
            total = adapter.limits(plan.member).total
            return replace(plan, timeout_ms=round(total * 1000))
        silence = adapter.agent.idle_timeout_ms(plan.member)
        is_silent = adapter.agent.capabilities.detection == "idleTimeout"
        return replace(
            plan,
            timeout_ms=adapter.agent.total_timeout_ms(plan.member),
            silence_ms=silence if is_silent else None,
        )

    async def _spawn(self, member: Member, *, apart: bool) -> Spawn | None:
        """What its adapter would start; None where it starts nothing when it opens a channel."""
        seated = member.model_copy(update={"working_dir": None, "home_dir": None, "work": "link"})
        own = member_folder(self.folder, self.request.team.name, seated)
        own.mkdir(parents=True)
        if apart or member.work == "worktree":
            (own / "work").mkdir()
            seated = seated.model_copy(update={"execution_dir": None})
        elif seated.execution_dir is None:
            (own / "work").symlink_to(_material(self.root, self.request.team, member))
        workspace = await anyio.to_thread.run_sync(self.members.workspace, seated)
        adapter = self.members.adapter(seated, NothingStarts())
        try:
            opened = await adapter.open(seated, workspace, self.resumed.threads.get(member.id))
        except WouldStart as would:
            return would.spawn
        await opened.close()
        return None

    def _told(self, member: Member, spawn: Spawn, real: Path) -> MemberStart:
        """The same as it will be in the member's real folder."""
        own = str(member_folder(self.folder, self.request.team.name, _unplaced(member)))
        places = {f"{own}/home": str(member.home_dir or real / "home"), own: str(real)}
        folder = {TICKETS: "T1", PIPELINE: "work"}.get(self.request.workflow)
        if folder is not None and not Path(spawn.cwd).is_symlink():
            session = self.resumed.task_id or "<id>"
            worktree = str(self.root / ".coterie" / "worktrees" / session / folder)
            places = {f"{own}/work": worktree, **places}

        by = self.members.redactor()

        def placed(text: str) -> str:
            for scratch, there in places.items():
                text = text.replace(scratch, there)
            return by.text(text)

        words = tuple(map(placed, (spawn.command, *spawn.args)))
        return MemberStart(words, placed(spawn.cwd), tuple(sorted(spawn.marked_env)))


def _real(folder: str) -> Path:
    return Path(folder).resolve()


def _unplaced(member: Member) -> Member:
    return member.model_copy(update={"working_dir": None})


def _material(root: Path, team: Team, member: Member) -> Path:
    """Where a member's `work` leads: as it is, or will be when it is made."""
    work = member_folder(root, team.name, member) / "work"
    return work.resolve() if work.is_dir() else root


def _duty(request: StartRequest, member: Member) -> str:
    team, workflow = request.team, request.workflow
    if workflow == TICKETS:
        if member.type == "human":
            return "answers"
        return "manager" if member.id == team.manager.id else "worker"
    if workflow == PIPELINE and member.type == "ai":
        filled = FilledRoles(team)
        return ", ".join(one for one in PIPELINE_ROLES if filled.member(one).id == member.id)
    if workflow != "solo" or member.type == "human":
        return member.role
    return "does it" if member.id == request.member else "may be handed a part of it"


def _plan_of(script: Path) -> Plan | None:
    from coterie.app.rehearsals import script_in

    for rule in script_in(script).rules:
        for line in rule.replies:
            text = line.text if isinstance(line.text, str) else "".join(line.text)
            with suppress(ValueError):
                return Plan.model_validate_json(text[text.index("{") : text.rindex("}") + 1])
    return None
