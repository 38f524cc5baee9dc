"""The members of a task: their agents, folders and what their processes see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from coterie.agents.table import BUILT_IN, Adapters
from coterie.config.environment import passthrough, user_home
from coterie.config.known_agents import KNOWN_AGENTS, family, is_built_in, known_agent
from coterie.config.project import Project
from coterie.config.registry import load_registry, registry_path
from coterie.config.roles_file import agents_of
from coterie.config.settings import Settings
from coterie.config.team_file import load_team
from coterie.config.teams import reading_for
from coterie.config.trust import is_material_trusted
from coterie.engine.children import SessionChannels, TaskChildren
from coterie.errors import UsageError
from coterie.model.journal import Fence
from coterie.model.redaction import Redactor
from coterie.model.task import TaskCreated
from coterie.model.team import Member, Team
from coterie.model.workspace import Workspace
from coterie.ports import Storage
from coterie.process.pool import ChannelPool
from coterie.process.processes import Machine
from coterie.workspace.folder import member_folder, open_workspace, save_prompt_if_new
from coterie.workspace.homes.by_hand import home_environment


@dataclass(frozen=True)
class Household:
    """What the members of every task of a project share."""

    root: Path
    home: Path | None
    settings: Settings
    storage: Storage
    machine: Machine
    pool: ChannelPool

    def members(self, team: Team, team_file: str | None, rehearsal: str | None) -> Members:
        """The members of a team, with all that was not kept with the task.  Reads files."""
        agents = {**load_registry(registry_path(self.home), BUILT_IN).agents, **agents_of(team)}
        adapters = Adapters(
            agents,
            self.settings.keeper,
            self.settings.quiet_after_ms / 1000,
            self.storage.conversation.thread,
        )
        if any(member.env for member in team.members) and team_file:
            path = Path(team_file)
            reading = reading_for(path, Project(self.root), agents, self.settings)
            team = team.unsealed(load_team(path, reading).team)
        trusted = is_material_trusted(self.root, self.home)
        return Members(self, adapters, team, trusted, rehearsal)


@dataclass(frozen=True)
class Members:
    """The members of one team, ready to be spoken to."""

    household: Household
    adapters: Adapters
    team: Team
    trusted: bool
    rehearsal: str | None

    def channels(self, fence: Fence, task: TaskCreated) -> SessionChannels:
        """The channels of a task, once its lease is held."""
        house = self.household
        return SessionChannels(
            # A child task's processes are its own, and end with it.
            session=task.task_id,
            pool=house.pool,
            children=TaskChildren(house.storage.leases, fence, house.machine),
            adapter_of=self.adapters.of,
            workspace_of=self.workspace,
            folder_of=lambda member: str(member_folder(house.root, self.team.name, member)),
        )

    def workspace(self, member: Member) -> Workspace:
        """A member's folder, made, and all that its process is told."""
        known = self.team.seated(member.id)
        # What was not kept with the task; where it works, and for how long, is the workflow's say.
        member = member.model_copy(update={"env": known.env}) if known else member
        agent = self.adapters.agents.get(member.agent or "")
        known = known_agent(family(agent)) if agent else None
        # In a rehearsal nobody's key is needed, so nobody gets one.
        keys = known.keys if known and self.rehearsal is None else ()
        env = agent.env if agent else None
        root = self.household.root
        made = open_workspace(root, self.team.name, member, passthrough(keys), env)
        save_prompt_if_new(root, self.team.name, member)
        return replace(
            made,
            others={one.id: one.role for one in self.team.in_order if one.id != member.id},
            team_instruction=self.team.team_instruction or "",
            trusted=self.trusted,
            user_home=user_home(),
            rehearsal=self.rehearsal,
        )

    def redactor(self) -> Redactor:
        """What takes the keys of these members out of all that is written."""
        secrets = _secrets(passthrough([key for known in KNOWN_AGENTS for key in known.keys]))
        for member in self.team.members:
            agent = self.adapters.agents.get(member.agent or "")
            secrets |= _secrets(member.env) | (_secrets(agent.env) if agent else set())
        return Redactor(secrets)


_SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")


def _secrets(env: Mapping[str, str]) -> set[str]:
    return {value for name, value in env.items() if any(part in name.upper() for part in _SECRET)}


@dataclass(frozen=True)
class ByHand:
    """A member's CLI as a person starts it."""

    words: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]


def by_hand(members: Members, member: Member) -> ByHand:
    """How a member's CLI is started by hand: program, folder, home, environment.  Blocks."""
    agent = members.adapters.agents.get(member.agent or "")
    if agent is None or is_built_in(agent):
        raise UsageError(f"{member.id} has no program to open.", "coterie team show")
    workspace = members.workspace(member)
    return ByHand(
        (agent.command, *member.additional_args),
        workspace.execution_dir,
        home_environment(agent.adapter_in(BUILT_IN), agent, member, workspace),
    )
