"""What a run of a task needs: its workflow, members' processes, snapshots, checks, a stand-in."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from shutil import which
from typing import Literal

import anyio.from_thread
import anyio.to_thread

from coterie.agents.builtin import FACTS
from coterie.agents.human import HumanAdapter
from coterie.agents.table import KNOWN_AGENTS, Recall, adapter_maker, load_installed, with_login
from coterie.config import team_entry, trust_record
from coterie.config.allowed import powers_of, require_allowed
from coterie.config.project import Project, passthrough, user_home
from coterie.config.registry import load_registry, registry_path
from coterie.config.settings import Settings, load_settings
from coterie.config.team_file import LoadedTeam, load_team
from coterie.config.team_members import agents_of
from coterie.config.teams import powers, reading_for, require_trust
from coterie.engine.channels import ChannelPool, SessionChannels, StderrFiles, TaskChildren
from coterie.errors import CoterieError, NotFound, NotTrusted
from coterie.model.agent import AgentDefinition, AgentFacts
from coterie.model.journal import Fence
from coterie.model.record import ErrorRecord, ResultRecord
from coterie.model.redaction import Redactor
from coterie.model.task import Caps, TaskCreated
from coterie.model.team import CHAT, Member, Team, member_folder
from coterie.model.workspace import Workspace
from coterie.ports import Adapter, ChildLog, Observer, Owners, Storage, Workflow
from coterie.process.child import KeeperName
from coterie.process.processes import PidScope
from coterie.workflows.chat import Chat, Solo
from coterie.workflows.pipeline import Pipeline
from coterie.workflows.tickets import Tickets, TicketTurn
from coterie.workspace.folder import open_workspace, save_identity_if_new, write_instructions
from coterie.workspace.snapshots.folder_snapshots import FolderSnapshots

WITHOUT_CHECKS = frozenset({Chat.name, Solo.name, TicketTurn.name})
"""Workflows that run no command of their own."""
Rehearsal = bool | Path | Literal["demo"]
"""Whether models are replaced; a path is the script with the replies, `demo` the demo's model."""


@dataclass(frozen=True)
class StartRequest:
    """A task to be started."""

    team: Team
    goal: str | None
    """None: not known yet."""
    caps: Caps = Caps()
    team_file: Path | None = None
    rehearsal: Rehearsal = False
    workflow: str = CHAT
    member: str | None = None
    """The member who does the job; None: the workflow decides."""
    pipeline: Mapping[str, object] | None = None
    """For a pipeline: its `PipelineSettings`."""


@dataclass(frozen=True)
class MemberFactory:
    """Makes the members of a project's tasks from what they all share."""

    root: Path
    home: Path | None
    storage: Storage
    machine: PidScope
    pool: ChannelPool
    owners: Owners | None = None
    """The owner of their processes; None: nothing is started."""
    is_shared: bool = False
    """Whether tasks may have been made on another machine."""
    starts_agents: bool = True  # else no member is started, and the team need not be trusted

    def for_this_machine(self, created: TaskCreated) -> TaskCreated:
        """Return a task with the team that it may have here; raises NotTrusted.  Reads files."""
        if not self.is_shared:
            return created
        from coterie.app import elsewhere

        if not self.starts_agents:
            return elsewhere.without_file(created, self.root)
        return elsewhere.for_this_machine(created, Project(self.root, self.home), self._load)

    def of_task(self, created: TaskCreated, rehearsal: str | None = None) -> Members:
        """Return the members of a task, with everything that is not stored with it.  Reads files.

        Raises NotTrusted if they would be started with something that nobody allowed.
        """
        here = self.for_this_machine(created)
        members = self.of(here.team, here.team_file, rehearsal, here.workflow)
        if here is not created:
            return members
        if created.allowed is not None or not self._team_file_covers(created, members.team):
            require_allowed(created, members.team, self.home)
        return members

    def _team_file_covers(self, created: TaskCreated, team: Team) -> bool:
        """Whether a task asks for nothing that its team file does not, and that file is trusted."""
        if created.team_file is None:
            return False
        loaded = self._load(created.team_file)
        try:
            require_trust(loaded, Project(self.root, self.home), self.home)
        except NotTrusted:
            return False
        return set(powers_of(created, team)) <= set(powers(loaded))

    def _load(self, team_file: str) -> LoadedTeam:
        project, path = Project(self.root, self.home), Path(team_file)
        settings = load_settings(project.folder, self.home).values
        # A team that was only rehearsed may name agents that are not installed.
        registry = load_registry(KNOWN_AGENTS, registry_path(self.home)).with_all_known()
        return load_team(path, reading_for(path, project, registry, settings))

    def of(
        self,
        team: Team,
        team_file: str | None = None,
        rehearsal: str | None = None,
        workflow: str = "",
    ) -> Members:
        """Return the members of a team, with what only its file has.  Reads files."""
        project = Project(self.root, self.home)
        settings = load_settings(project.folder, self.home).values
        registry = load_registry(KNOWN_AGENTS, registry_path(self.home))
        registry = registry.with_agents(*agents_of(team).values())
        registry = registry if rehearsal is None else registry.with_all_known()
        adapters = Adapters(
            registry.agents,
            settings.keeper,
            settings.quiet_after_ms / 1000,
            self.storage.conversation.thread,
        )
        if any(member.env for member in team.members) and team_file:
            team = team.unsealed(self._load(team_file).team)
        agents = [one for m in team.members if (one := registry.agents.get(m.agent or ""))]
        load_installed(agents)
        used = [*filter(None, map(KNOWN_AGENTS.of, agents))]  # no other agent reads the material
        trusted = bool(used) and trust_record.is_material_trusted(self.root, self.home)
        known = (*KNOWN_AGENTS.ours.values(), *used)
        seen = passthrough(frozenset(key for facts in known for key in facts.keys))
        members = Members(self, adapters, team, trusted, None, known, seen, user_home(), settings)
        return members if rehearsal is None else members.rehearsing(rehearsal, workflow)


@dataclass(frozen=True)
class Adapters:
    """Finds the adapter for a member by its agent's registry entry."""

    agents: Mapping[str, AgentDefinition]
    keeper: KeeperName
    quiet_after: float
    recall: Recall
    """Reads a thread that Coterie stores itself, for the built-in agent."""

    def of(self, member: Member, children: ChildLog) -> Adapter:
        """Return the adapter for a member."""
        if member.type == "human":
            return HumanAdapter()
        agent = self.agents.get(member.agent or "")
        if agent is None:
            known = ", ".join(self.agents) or "none"
            raise NotFound(
                f'{member.id}: no agent "{member.agent}" in the registry; it has {known}.',
                "coterie agents scan",
            )
        if KNOWN_AGENTS.adapter_name(agent) == FACTS.name:
            from coterie.agents.builtin.adapter import BuiltinAdapter

            return BuiltinAdapter(agent, children, self.keeper, self.quiet_after, self.recall)
        place = KNOWN_AGENTS.adapter_place(agent)
        adapter = adapter_maker(place)(agent, children, self.keeper, self.quiet_after)
        return with_login(adapter, place.login) if place.login else adapter


@dataclass(frozen=True)
class Members:
    """The members of one team, ready to be prompted."""

    shared: MemberFactory
    adapters: Adapters
    team: Team
    trusted: bool
    rehearsal: str | None
    known: tuple[AgentFacts, ...]
    """The facts of Coterie's own agents and of those that the members use."""
    environment: Mapping[str, str]
    """The part of Coterie's environment that any member may see."""
    user_home: Path | None
    settings: Settings
    workflow: str = ""
    """The workflow that is rehearsed."""
    replaced_agents: frozenset[str] = frozenset()
    """The agents that a rehearsal replaces with a program of Coterie's."""

    def rehearsing(self, address: str, workflow: str) -> Members:
        """Return the members with stand-ins for their models or their agents.  Reads files."""
        from coterie.app.rehearsals import replaced_agents

        names = frozenset(replaced_agents(self.team, self.adapters.agents))
        return replace(self, rehearsal=address, workflow=workflow, replaced_agents=names)

    def channels(self, fence: Fence, task: TaskCreated) -> SessionChannels:
        """Return the channels of a task whose lease is held."""
        shared = self.shared
        return SessionChannels(
            # A child task's processes are its own, and end with it.
            session=task.task_id,
            pool=shared.pool,
            children=TaskChildren(
                shared.storage.leases,
                fence,
                shared.machine,
                StderrFiles(task.session_id, shared.root, self.team, self.redactor),
                shared.owners.deadline if shared.owners else None,
            ),
            adapter_of=self.adapter,
            workspace_of=self.workspace,
            folder_of=lambda member: str(member_folder(shared.root, self.team.name, member)),
        )

    def adapter(self, member: Member, children: ChildLog) -> Adapter:
        """Return the adapter for a member's agent, or for the program that replaces it."""
        if member.type == "ai" and not self.shared.starts_agents:
            raise NotTrusted(f"{member.id} is not started: this command only accepts work.")
        if member.agent not in self.replaced_agents:
            return self.adapters.of(member, children)
        from coterie.agents.generic import GenericAdapter
        from coterie.app.rehearsals import replacement_for

        adapters, address = self.adapters, self._model_address(member) or ""
        agent = replacement_for(adapters.agents[member.agent or ""], member, address)
        return GenericAdapter(agent, children, adapters.keeper, adapters.quiet_after)

    def _model_address(self, member: Member) -> str | None:
        if self.rehearsal is None:
            return None
        from coterie.app.rehearsals import member_address

        return member_address(self.rehearsal, self.workflow, member)

    def workspace(self, member: Member) -> Workspace:
        """Make a member's folder, and return everything its process is started with."""
        known = self.team.instance(member.id)
        # The env is not stored with the task; where the member works is up to the workflow.
        member = member.model_copy(update={"env": known.env}) if known else member
        agent = self.adapters.agents.get(member.agent or "")
        facts = KNOWN_AGENTS.of(agent) if agent else None
        # A rehearsal needs no keys, so no member gets one.
        keys = facts.keys if facts and self.rehearsal is None else ()
        hidden = {key for one in self.known for key in one.keys}.difference(keys)
        passed = {name: value for name, value in self.environment.items() if name not in hidden}
        env = agent.env if agent else None
        if member.agent in self.replaced_agents:  # must not see the agent's own variables
            member, env = member.model_copy(update={"env": {}}), None
        root = self.shared.root
        isolating = KNOWN_AGENTS.isolating(facts)
        workspace = open_workspace(root, self.team.name, member, passed, env, isolating)
        save_identity_if_new(root, self.team.name, member)
        if member.type == "ai":
            write_instructions(root, self.team, member, KNOWN_AGENTS.instruction_file(agent))
        return replace(
            workspace,
            others={one.id: one.role for one in self.team.in_order if one.id != member.id},
            team_instruction=self.team.full_instruction,
            trusted=self.trusted,
            user_home=self.user_home,
            rehearsal=self._model_address(member),
            model_variables=tuple(name for one in self.known for name in one.model_variables),
        )

    @property
    def guarded(self) -> frozenset[str]:
        """Names of files and folders through which an edit could make some agent run something."""
        return frozenset(name for facts in self.known for name in facts.settings)

    def redactor(self) -> Redactor:
        """Return what redacts these members' keys, and all of their env, from stored text."""
        keys = {key for facts in self.known for key in facts.keys}
        secrets = {
            value
            for name, value in self.environment.items()
            if (name in keys and "URL" not in name) or any(part in name.upper() for part in _SECRET)
        }
        for member in self.team.members:
            agent = self.adapters.agents.get(member.agent or "")
            secrets.update(member.env.values(), agent.env.values() if agent else ())
        return Redactor(secrets)


_SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")


@asynccontextmanager
async def with_snapshots(
    root: Path, task_id: str, observer: Observer
) -> AsyncGenerator[FolderSnapshots]:
    """Take snapshots for a run of a task; the last turn's changes are kept even if it was cut."""

    def tell(problem: str) -> None:
        text = f"Changes can be neither shown nor reverted: {problem}."
        hint = None if which("git") else "Install git."
        anyio.from_thread.run_sync(observer.saw, ErrorRecord("not_kept", text, hint, task=task_id))

    snapshots = await anyio.to_thread.run_sync(FolderSnapshots, root, tell)
    await anyio.to_thread.run_sync(snapshots.open)
    try:
        yield snapshots
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(snapshots.settle)


async def with_changes(snapshots: FolderSnapshots, result: ResultRecord) -> ResultRecord:
    """Add to the result of a run what the task has changed so far."""

    def figures() -> tuple[str, ...]:
        if not snapshots.has_kept(result.task):
            return ()
        diff = snapshots.diff(result.task)
        files = (str(one) for patch in diff.patches for one in patch.files)
        # What no diff can show, such as a nested repository, is named all the same.
        return (*files, *(f"{one.path} ({one.why})" for one in diff.missed))

    with suppress(CoterieError):  # the run itself is fine; `coterie diff` will report this
        return replace(result, changed=await anyio.to_thread.run_sync(figures))
    return result


@asynccontextmanager
async def rehearsing(
    created: TaskCreated, stand_in: str | None, storage: Storage
) -> AsyncGenerator[str | None]:
    """Yield the address of the stand-in for the models while a rehearsal runs; else None."""
    if stand_in is not None or not created.rehearsal:
        yield stand_in if created.rehearsal else None
        return
    from coterie.app.rehearsals import served

    async with served(created, storage) as address:
        yield address


@asynccontextmanager
async def notifying(
    created: TaskCreated, members: Members, observer: Observer
) -> AsyncGenerator[Observer]:
    """Yield the observer of a run, which also sends notifications if the user wants them."""
    if members.settings.notify is None:
        yield observer
        return
    notify = await anyio.to_thread.run_sync(import_module, "coterie.app.notify")  # reads files
    shared, target = members.shared, notify.Target(members.settings)
    arguments = (shared.storage, shared.root, created, target, members.redactor(), observer)
    async with notify.Notifier(*arguments).watching() as watched:
        yield watched


class Workflows(dict[str, Workflow]):
    """Workflows by name; one from another package is loaded when first requested."""

    def check(self, name: str) -> Workflow:
        """Return a workflow that may be named; raises UsageError if there is none.  Reads files."""
        if name == TicketTurn.name:  # sessions alone start it
            raise team_entry.unknown_workflow(name)
        return self[name]

    def __missing__(self, name: str) -> Workflow:
        from importlib.metadata import entry_points

        from coterie.ports.entry_points import InstalledWorkflow

        for point in entry_points(group=team_entry.WORKFLOW_GROUP, name=name):
            return self.setdefault(name, InstalledWorkflow.load(point))
        raise team_entry.unknown_workflow(name)


def workflow_names() -> tuple[str, ...]:
    """Return the names of Coterie's workflows, then those of other packages."""
    return team_entry.workflow_names()


async def load_workflow(name: str) -> Workflow:
    """Return the workflow of that name; raises UsageError if there is none."""
    return WORKFLOWS.get(name) or await anyio.to_thread.run_sync(WORKFLOWS.check, name)


_OURS = (Chat(), Solo(), Tickets(), Pipeline(), TicketTurn())
WORKFLOWS = Workflows({workflow.name: workflow for workflow in _OURS})
