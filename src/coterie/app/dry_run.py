"""What a command would start, where and within which limits, without starting anything.

Each adapter is asked to open a channel in a scratch folder laid out like the member's own, and is
stopped just before it starts its process: so what is shown is what would be run.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple, cast

import anyio.to_thread

from coterie.agents.generic import GenericAdapter
from coterie.agents.table import KNOWN_AGENTS
from coterie.app.run import MemberFactory, Members, Rehearsal, StartRequest
from coterie.app.teams import Teams
from coterie.config.registry_edit import agent_location
from coterie.config.settings import load_scheduler
from coterie.engine.channels import ChannelPool
from coterie.errors import CoterieError, NotTrusted
from coterie.model import step_name
from coterie.model.envelope import Plan
from coterie.model.pipeline_roles import PIPELINE_ROLES, FilledRoles
from coterie.model.task import DEMO, TaskCreated
from coterie.model.team import PIPELINE, SOLO, TICKETS, Member, Team, member_folder
from coterie.model.ticket import BASE_COMMIT, SchedulerConfig
from coterie.model.workspace import branch_of
from coterie.process.child import DryRunChildLog, Spawn, WouldStart
from coterie.process.processes import PidScope
from coterie.stores.sqlite import SqliteStorage
from coterie.workspace.folder import leads_to_task_worktree
from coterie.workspace.pipeline_work import work_name
from coterie.workspace.ticket_worktrees import MERGED, open_ticket_worktrees

if TYPE_CHECKING:
    from coterie.app.project import App

_PLACEHOLDER_URL = "http://127.0.0.1"
"""The address of a rehearsal's model; its port is only chosen when it starts."""


@dataclass(frozen=True)
class MemberPlan:
    """How a member would be started, and the limits of its turns."""

    member: Member
    installed: bool
    start: Spawn | str | None = None
    """Its process, or why that could not be started; None for a human or an agent that is not a
    program."""
    timeout_ms: int | None = None
    """The time after which a turn fails; None for a human."""
    silence_ms: int | None = None
    """The silence that ends a reply; None if the agent reports the end itself."""


@dataclass(frozen=True)
class DryRun:
    """What a command would do.  Nothing was started or written."""

    request: StartRequest
    root: Path
    members: tuple[MemberPlan, ...]
    scheduler: SchedulerConfig
    branches: tuple[str, ...]
    """The branches of a ticket and of approved work, or of a build; empty if all members work in
    one folder."""
    base: str | None
    """The commit that branches would start from; None if there is none."""
    plan: Plan | None
    """The plan from a rehearsal's script; None if the manager has yet to make one."""
    task: str | None = None
    """The task that would be resumed; None: a new one."""
    refused: NotTrusted | None = None
    """Why it may not be resumed yet."""

    def folder(self, member: Member) -> Path:
        """Return the path of a member's own folder, which need not exist yet."""
        return member_folder(self.root, self.request.team.name, member)

    def duty(self, member: Member) -> str:
        """Return what a member would do."""
        team, workflow = self.request.team, self.request.workflow
        if workflow == TICKETS:
            if member.type == "human":
                return "answers"
            return "manager" if member.id == team.manager.id else "worker"
        if workflow == PIPELINE and member.type == "ai":
            filled = FilledRoles(team)
            return ", ".join(one for one in PIPELINE_ROLES if filled.member(one).id == member.id)
        if workflow != SOLO or member.type == "human":
            return member.role
        return "does the job" if member.id == self.request.member else "may get subtasks"


async def dry_run(teams: Teams, request: StartRequest) -> DryRun:
    """Return what starting this would do.  Whether agents are signed in is not checked."""
    scheduler = load_scheduler(teams.project)
    return await _read(teams.project.root, teams.home, request, _TaskState(scheduler))


async def dry_resume(app: App, task_id: str) -> DryRun:
    """Return what resuming a task would do."""
    created = (await app.show(task_id)).state.created
    factory = MemberFactory(app.root, app.home, app.storage, app.machine, ChannelPool())
    address = _PLACEHOLDER_URL if created.rehearsal else None
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
    turns = await app.storage.journal.turns(task_id)
    own = (turn for turn in turns if turn.thread and not step_name.parse(turn.step).topic)
    threads = {turn.member: turn.thread for turn in own}
    base = cast("str | None", await app.sessions.step(task_id, BASE_COMMIT))
    resumed = _TaskState(created.scheduler, task_id, threads, base)
    return replace(await _read(app.root, app.home, request, resumed), refused=refused)


class _TaskState(NamedTuple):
    """What is known of a task before it runs."""

    scheduler: SchedulerConfig
    task_id: str | None = None
    threads: Mapping[str, str | None] = {}
    """By member: the thread that its agent would continue."""
    base: str | None = None
    """The commit that it began at, empty without git; None before that."""


async def _read(
    root: Path, home: Path | None, request: StartRequest, resumed: _TaskState
) -> DryRun:
    team, workflow = request.team, request.workflow
    worktrees = None
    if workflow in (TICKETS, PIPELINE):
        opening = (open_ticket_worktrees, root, resumed.task_id or "", resumed.base)
        worktrees = await anyio.to_thread.run_sync(*opening)
    in_worktree = worktrees is not None
    async with _scratch(root, home, request, resumed) as scratch:
        plans = [await scratch.plan(member, in_worktree=in_worktree) for member in team.in_order]
    script = request.rehearsal if isinstance(request.rehearsal, Path) else None
    names = (work_name(0),) if workflow == PIPELINE else ("T1", MERGED)
    branches = tuple(branch_of(resumed.task_id or "<id>", name) for name in names)
    return DryRun(
        request,
        root,
        tuple(plans),
        resumed.scheduler,
        branches if worktrees else (),
        worktrees.base if worktrees else None,
        _plan_of(script) if workflow == TICKETS and script else None,
        resumed.task_id,
    )


def _rehearsal_of(created: TaskCreated) -> Rehearsal:
    if created.script in (None, DEMO):
        return DEMO if created.script else created.rehearsal
    return Path(created.script or "")


@asynccontextmanager
async def _scratch(
    root: Path, home: Path | None, request: StartRequest, resumed: _TaskState
) -> AsyncGenerator[_Scratch]:
    """Yield the members with their folders inside a temporary one."""
    with TemporaryDirectory(prefix="coterie-") as path:
        folder = await anyio.to_thread.run_sync(_real, path)
        storage = await SqliteStorage.open(folder / "coterie.db")
        try:
            machine = await anyio.to_thread.run_sync(PidScope.here)
            factory = MemberFactory(root, home, storage, machine, ChannelPool())
            address = None if request.rehearsal is False else _PLACEHOLDER_URL
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
    resumed: _TaskState

    async def plan(self, member: Member, *, in_worktree: bool) -> MemberPlan:
        """Return how a member would be started, and the limits of its turns."""
        team = self.request.team
        agent = self.members.adapters.agents.get(member.agent or "")
        plan = MemberPlan(member, True)
        if agent is None:
            return plan
        plan = replace(plan, installed=agent_location(KNOWN_AGENTS, agent) is not None)
        plan = self._limited(plan)
        if (
            KNOWN_AGENTS.is_part_of_coterie(agent)
            and member.agent not in self.members.replaced_agents
        ):
            return plan
        is_pipeline = self.request.workflow == PIPELINE
        apart = in_worktree and (is_pipeline or member.id != team.manager.id)
        try:
            spawn = await self._spawn(member, apart=apart)
        except CoterieError as error:
            return replace(plan, start=str(error).replace(str(self.folder), str(self.root)))
        return replace(plan, start=self._in_real_folder(member, spawn) if spawn else None)

    def _limited(self, plan: MemberPlan) -> MemberPlan:
        """Return the plan with the limits of the member's turns."""
        adapter = self.members.adapter(plan.member, DryRunChildLog())
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
        """Return what the adapter would start; None if opening a channel starts no process."""
        unplaced = member.model_copy(update={"working_dir": None, "home_dir": None, "work": "link"})
        own = member_folder(self.folder, self.request.team.name, unplaced)
        own.mkdir(parents=True)
        if apart or member.work == "worktree":
            (own / "work").mkdir()
            unplaced = unplaced.model_copy(update={"execution_dir": None})
        elif unplaced.execution_dir is None:
            (own / "work").symlink_to(_target_of_work(self.root, self.request.team, member))
        workspace = await anyio.to_thread.run_sync(self.members.workspace, unplaced)
        adapter = self.members.adapter(unplaced, DryRunChildLog())
        try:
            opened = await adapter.open(unplaced, workspace, self.resumed.threads.get(member.id))
        except WouldStart as would:
            return would.spawn
        await opened.close()
        return None

    def _in_real_folder(self, member: Member, spawn: Spawn) -> Spawn:
        """Return the spawn as it would be in the member's real folder, with secrets redacted."""
        name = self.request.team.name
        real = member_folder(self.root, name, member)
        own = str(member_folder(self.folder, name, _unplaced(member)))
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

        command, *args = map(placed, (spawn.command, *spawn.args))
        return replace(spawn, command=command, args=tuple(args), cwd=placed(spawn.cwd))


def _real(folder: str) -> Path:
    return Path(folder).resolve()


def _unplaced(member: Member) -> Member:
    return member.model_copy(update={"working_dir": None})


def _target_of_work(root: Path, team: Team, member: Member) -> Path:
    """Return where a member's `work` leads, or would lead once it is made."""
    work = member_folder(root, team.name, member) / "work"
    return work.resolve() if work.is_dir() and not leads_to_task_worktree(work, root) else root


def _plan_of(script: Path) -> Plan | None:
    from coterie.app.rehearsals import script_in

    for rule in script_in(script).rules:
        for line in rule.replies:
            text = line.text if isinstance(line.text, str) else "".join(line.text)
            with suppress(ValueError):
                return Plan.model_validate_json(text[text.index("{") : text.rindex("}") + 1])
    return None
