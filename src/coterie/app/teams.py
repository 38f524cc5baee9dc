"""Teams: list, choose, create and change them, and decide what they may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from coterie.agents.table import KNOWN_AGENTS
from coterie.config import team_edit, teams, trust_record
from coterie.config.project import Project
from coterie.config.registry import Registry, load_registry, registry_path
from coterie.config.roles_file import roles_path
from coterie.config.settings import Settings, load_settings
from coterie.config.team_file import LoadedTeam, ReadContext, load_team
from coterie.errors import NotTrusted, UsageError
from coterie.model import instant
from coterie.model.team import Member, Team, member_folder
from coterie.workspace import folder as member_folders
from coterie.workspace.folder import ChangedMember
from coterie.workspace.own_worktree import branching_point

if TYPE_CHECKING:
    from coterie.app.agent_health import AgentHealth
    from coterie.workspace.role_prompts import RolePrompt

PRESET_NAMES = tuple(team_edit.PRESETS)
STARTER = "pair"
"""The preset of a first team, and its name."""


@dataclass(frozen=True)
class TeamView:
    """A team as defined by its file, and whether it may be used."""

    loaded: LoadedTeam
    refused: NotTrusted | None = None
    """Why it may not be used yet."""

    @property
    def team(self) -> Team:
        """The team itself."""
        return self.loaded.team

    def full(self) -> tuple[Mapping[str, object], str]:
        """Return every field by its long name, without secrets, as data and as team file text."""
        fields = team_edit.full_form(self.team.sealed())
        return fields, team_edit.render(fields)


@dataclass(frozen=True)
class Teams:
    """The teams of a project, and those from elsewhere that are used in it.  Blocks."""

    project: Project
    home: Path | None = None
    """Used instead of the user's `~/.coterie`."""
    rehearsal: bool = False
    """Whether a team is only rehearsed: then its agents need not be installed."""

    @cached_property
    def registry(self) -> Registry:
        """The agents that members may run on."""
        registry = load_registry(KNOWN_AGENTS, registry_path(self.home))
        return registry.with_all_known() if self.rehearsal else registry

    @cached_property
    def settings(self) -> Settings:
        """The settings that apply in the project."""
        folder = self.project.folder if self.project.exists else None
        return load_settings(folder, self.home).values

    def names(self) -> tuple[str, ...]:
        """Return the names of the project's own teams."""
        return tuple(teams.teams_of(self.project))

    def is_default(self, name: str) -> bool:
        """Whether this team of the project is used when none is named."""
        return name == self.settings.default_team or len(self.names()) == 1

    def read(self, name_or_path: str | None, option: teams.AgentsOption | None = None) -> TeamView:
        """Read and check the team with this name or path (None: the default one); the view says
        whether it may be used.  `option` is what the user could have given instead."""
        known = (self.registry, self.settings, self.home)
        try:
            loaded = teams.choose_team(self.project, name_or_path, *known, option)
        except NotTrusted as refused:
            path = Path(refused.where or "")
            reading = teams.reading_for(path, self.project, self.registry, self.settings)
            return TeamView(load_team(path, reading), refused)
        return TeamView(loaded)

    def choose(
        self,
        name_or_path: str | None,
        spec: str | None,
        *,
        or_roles: bool = False,
        one_agent: bool = False,
    ) -> TeamView:
        """Return a team by name or path, or made of agents; raises UsageError if both are given.

        If neither is given, `or_roles` means the project's roles file, if it has one.  `one_agent`:
        the user gave, or could have given, a single agent.
        """
        if name_or_path is not None and spec is not None:
            raise UsageError("--team and --agents cannot be combined.", "Give one of them.")
        option = teams.ONE_AGENT if one_agent else teams.AGENTS
        if spec is not None:
            return TeamView(teams.team_of_agents(spec, self.registry, self.settings, option))
        if name_or_path is None and or_roles and (roles := roles_path(self.project)):
            name_or_path = str(roles)
        return self.read(name_or_path, option)

    def changed_members(self, view: TeamView) -> list[ChangedMember]:
        """Return the members whose prompt or folder was edited since the folder was made: the user
        decides whether to keep the old state, update the member, or make a new one."""
        return member_folders.changed_members(self.project.root, view.team)

    def require_usable(self, view: TeamView) -> TeamView:
        """Return the team as it may work here, with the saved prompts and folders of its members.

        Raises NotTrusted unless the user has allowed what the file asks for, and UsageError if a
        member was edited and nobody has decided what applies now.
        """
        name = view.team.name
        for change in self.changed_members(view) if view.refused is None else ():
            member = change.member.id
            new = self.free_name(view, member)
            raise UsageError(
                f"{member}'s {describe_change(change)} changed since its folder was made.",
                f"coterie team update {member} -t {name}, or coterie team keep {member} "
                f"-t {name}, or coterie team rename {member} {new} -t {name}",
                str(view.loaded.path),
            )
        return self.require_trusted(view)

    def require_trusted(self, view: TeamView) -> TeamView:
        """Like `with_saved_identities`; raises NotTrusted unless the user has allowed what the file
        asks for."""
        if view.refused is not None:
            raise view.refused
        return self.with_saved_identities(view)

    def with_saved_identities(self, view: TeamView) -> TeamView:
        """Return the team with the saved prompts and folders of its members, edited or not."""
        team = member_folders.with_saved_identities(self.project.root, view.team)
        return replace(view, loaded=replace(view.loaded, team=team))

    def unread_material(self) -> tuple[str, ...]:
        """Return the project's own instruction files for agents, unless the user has decided about
        them."""
        files = teams.instruction_files(KNOWN_AGENTS, self.project.root)
        decided = not files or trust_record.is_material_decided(self.project.root, self.home)
        return () if decided else files

    def powers(self, view: TeamView) -> tuple[teams.Power, ...]:
        """Return what a team file asks for that could do harm."""
        return teams.powers(view.loaded, self.project)

    def trust(self, view: TeamView) -> TeamView:
        """Record that the user trusts a team file with this content; it may be used now."""
        teams.trust(view.loaded, instant.now(), self.home)
        return replace(view, refused=None)

    def trust_material(self, allowed: bool = True) -> None:
        """Record whether the project's own instruction files may reach the models, as text."""
        record = trust_record.trust_material if allowed else trust_record.decline_material
        record(self.project.root, instant.now(), self.home)

    def health(self) -> list[AgentHealth]:
        """Return whether each registered agent can work."""
        from coterie.app.agent_health import health_in

        return health_in(self.registry)

    def ready_agents(self) -> list[str]:
        """Return the agents that a team is made of if none are named."""
        from coterie.app.agent_health import to_be_members

        return to_be_members(self.health())

    def entries(self, preset: str | None, agents: str | None) -> list[team_edit.Entry]:
        """Return the members of a preset on these agents (None: those that are ready), or one
        member per agent if no preset is named."""
        if agents is not None and preset is None:
            return [team_edit.entry_of(one) for one in teams.member_specs(agents)]
        named = [one.agent for one in teams.member_specs(agents)] if agents else self.ready_agents()
        if not named:
            raise UsageError("No agent is ready to be a member.", "coterie doctor")
        return team_edit.preset_members(preset or STARTER, named)

    def write(
        self,
        name: str,
        entries: list[team_edit.Entry],
        *,
        preset: str | None = None,
        default: bool = False,
    ) -> TeamView:
        """Write a team of these members to the project, and make their folders."""
        workflow = "tickets" if preset == "tickets" else None  # other presets suit any workflow
        loaded = team_edit.new_team(self.project, name, entries, self.registry, workflow)
        self._make_folders(loaded)
        if default:
            team_edit.mark_default(self.project, name)
        return TeamView(loaded)

    def add(
        self, name_or_path: str | None, entry: team_edit.Entry, like: str | None = None
    ) -> TeamView:
        """Add a member to a team's file, with a folder of its own; `like` copies another's."""
        if entry.get("work") == "worktree":
            branching_point(self.project.root)  # raises UsageError before anything is written
        path = self._file(name_or_path, "Members cannot be added to a team without a file.")
        loaded = team_edit.add_member(path, entry, self._to_edit(path), like)
        self._make_folders(loaded, only=str(entry["id"]))
        return TeamView(loaded)

    def rename(self, name_or_path: str | None, member: str, name: str) -> TeamView:
        """Turn a member into a new one, with a folder of its own; the old folder is kept."""
        path = self._file(name_or_path, "A team without a file cannot be changed.")
        loaded = team_edit.rename_member(path, member, name, self._to_edit(path))
        self._make_folders(loaded)
        return TeamView(loaded)

    def replace_member(self, view: TeamView, member: str, name: str) -> TeamView:
        """Replace an edited member with a new one of that name; returns the team."""
        new = self.rename(str(view.loaded.path), member, name)
        return self.trust(new) if self.powers(new) else new  # already reviewed by the user

    def folder_of(self, team: Team, member: Member) -> Path:
        """Return a member's folder, as the team's file defines it."""
        return member_folder(self.project.root, team.name, member)

    def update_member(self, team: Team, member: str) -> None:
        """Apply a member's edited prompt and folder; its memory is kept.

        Raises UsageError if it would have to leave a folder that it is working from.
        """
        root, one = self.project.root, team.member(member)
        old = member_folders.former_folder(root, team.name, one)
        if old is not None and (task := self._running_task_in(old)):
            raise UsageError(
                f"{member} is working on {task} right now, in the folder that it would leave.",
                f"coterie stop {task}, then coterie team update {member} -t {team.name}",
                str(old),
            )
        member_folders.save_identity(root, team.name, one)
        self._make_folder(team, one)

    def _running_task_in(self, folder: Path) -> str | None:
        """Return the task for which somebody is working from a member's folder now."""
        from coterie.app.project import App
        from coterie.app.projects import has_history

        async def find_task() -> str | None:
            async with App.open(self.project.root, self.home) as app:
                at_work = (one.task for one in await app.running() if one.folder == folder)
                return next(at_work, None)

        return anyio.run(find_task) if has_history(self.project) else None

    def keep_member(self, team: Team, member: str) -> None:
        """Keep a member's saved prompt and folder, whatever its edited entry says."""
        member_folders.keep_saved_identity(self.project.root, team.name, team.member(member))

    def free_name(self, view: TeamView, member: str) -> str:
        """Return an unused id for a new member based on this one."""
        taken = {one.id.casefold() for one in view.team.members}
        # A member that is no longer in the team has left behind its folder, with its memory.
        beside = self.project.folder / "teams" / view.team.name
        names = (f"{member}{number}" for number in count(2))
        return next(
            name for name in names if name.casefold() not in taken and not (beside / name).exists()
        )

    def copy_prompts(self, roles: tuple[str, ...]) -> list[tuple[RolePrompt, bool]]:
        """Copy the prompts of a pipeline's roles to the project, all of them if none are named.

        Returns for each whether it is new there: existing ones are left as they are.
        """
        from coterie.workspace.role_prompts import copy_prompts

        return copy_prompts(self.project.root, roles)

    def filled_roles(self, team: Team) -> list[tuple[RolePrompt, Member]]:
        """Return the prompt of every pipeline role here, and the team member who fills it."""
        from coterie.model.pipeline_roles import FilledRoles
        from coterie.workspace.role_prompts import role_prompts

        filled = FilledRoles(team)
        prompts = role_prompts(self.project.root).items()
        return [(prompt, filled.member(role)) for role, prompt in prompts]

    def _file(self, name_or_path: str | None, problem: str) -> Path:
        path = self.read(name_or_path).loaded.path
        if path is None:
            raise UsageError(problem, "coterie team new NAME")
        return path

    def _to_edit(self, path: Path) -> ReadContext:
        # Without the settings: the content of an edited file does not depend on them.
        return teams.reading_for(path, self.project, self.registry)

    def _make_folders(self, loaded: LoadedTeam, only: str | None = None) -> None:
        for member in loaded.team.members:
            if only in (None, member.id):
                self._make_folder(loaded.team, member)

    def _make_folder(self, team: Team, member: Member) -> None:
        """Make a member's folder as far as it is missing, with its identity and instructions."""
        root = self.project.root
        member_folders.make_folder(root, team.name, member)
        member_folders.save_identity_if_new(root, team.name, member)
        settled = member_folders.with_saved_identities(root, team).get(member.id)
        if settled is None or settled.type == "human":
            return
        file = KNOWN_AGENTS.instruction_file(self.registry.agents.get(settled.agent or ""))
        member_folders.write_instructions(root, team, settled, file)


def describe_change(change: ChangedMember) -> str:
    """Describe what changed about a member, for people."""
    parts = (("prompt", change.prompt is not None), ("workingDir", change.folder is not None))
    return " and ".join(name for name, changed in parts if changed)
