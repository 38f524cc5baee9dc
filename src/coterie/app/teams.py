"""Teams: which there are, which one is meant, making and changing them, and what they may do."""

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
from coterie.config.team_file import LoadedTeam, load_team
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
    """A team as its file gives it, and whether it may be used."""

    loaded: LoadedTeam
    refused: NotTrusted | None = None
    """Why it may not be used yet."""
    is_default: bool = False

    @property
    def team(self) -> Team:
        """The team itself."""
        return self.loaded.team

    def full(self) -> tuple[Mapping[str, object], str]:
        """Every field under its long name, without secrets: as data, and as a team file's text."""
        fields = team_edit.full_form(self.team.sealed())
        return fields, team_edit.render(fields)


@dataclass(frozen=True)
class Teams:
    """The teams of a project, and teams from elsewhere that are used in it.  Blocks."""

    project: Project
    home: Path | None = None
    """Takes the place of the user's `~/.coterie`."""
    rehearsal: bool = False
    """Whether a team is only tried: then its agents need not be here."""

    @cached_property
    def registry(self) -> Registry:
        """The agents that members may run on."""
        registry = load_registry(KNOWN_AGENTS, registry_path(self.home))
        return registry.with_all_known() if self.rehearsal else registry

    @cached_property
    def settings(self) -> Settings:
        """The settings that hold in the project."""
        folder = self.project.folder if self.project.exists else None
        return load_settings(folder, self.home).values

    def names(self) -> tuple[str, ...]:
        """The project's own teams."""
        return tuple(teams.teams_of(self.project))

    def is_default(self, name: str) -> bool:
        """Whether this team of the project is meant when none is named."""
        return name == self.settings.default_team or len(self.names()) == 1

    def read(self, word: str | None) -> TeamView:
        """The team of this name or path (None: the default one), checked, with whether it may be
        used."""
        try:
            loaded = teams.choose_team(self.project, word, self.registry, self.settings, self.home)
        except NotTrusted as refused:
            path = Path(refused.where or "")
            reading = teams.reading_for(path, self.project, self.registry, self.settings)
            return TeamView(load_team(path, reading), refused)
        return TeamView(loaded, is_default=self.is_default(loaded.team.name))

    def of_agents(self, spec: str) -> TeamView:
        """A team without a file: `claude,codex` or `sec=claude:opus`."""
        return TeamView(teams.team_of_agents(spec, self.registry, self.settings))

    def choose(self, word: str | None, spec: str | None, *, or_roles: bool = False) -> TeamView:
        """The team that is named by a word or made of agents; raises UsageError for both.

        Where neither is given, `or_roles` means the project's roles file, if it has one.
        """
        if word is not None and spec is not None:
            raise UsageError("--team and --agents at once.", "Give one of them.")
        if spec is not None:
            return self.of_agents(spec)
        if word is None and or_roles and (roles := roles_path(self.project)):
            word = str(roles)
        return self.read(word)

    def changed_members(self, view: TeamView) -> list[ChangedMember]:
        """The members whose prompt or folder was edited since that folder was made: the user says
        whether it is kept, updated, or makes a new member."""
        return member_folders.changed_members(self.project.root, view.team)

    def usable(self, view: TeamView) -> TeamView:
        """The team as it may work here, with the prompts and folders that its members keep.

        Raises NotTrusted unless the user has looked at what the file asks for, and UsageError
        if one of them was edited and nobody said what holds now.
        """
        name = view.team.name
        for change in self.changed_members(view) if view.refused is None else ():
            member = change.member.id
            new = self.free_name(view, member)
            raise UsageError(
                f"{member}'s {changed_in(change)} changed since its folder was made.",
                f"coterie team update {member} -t {name}, or coterie team keep {member} "
                f"-t {name}, or coterie team rename {member} {new} -t {name}",
                str(view.loaded.path),
            )
        return self.trusted(view)

    def trusted(self, view: TeamView) -> TeamView:
        """The same as `kept`; raises NotTrusted unless the user has looked at what the file asks
        for."""
        if view.refused is not None:
            raise view.refused
        return self.kept(view)

    def kept(self, view: TeamView) -> TeamView:
        """The team with the prompts and folders that its members keep, edited or not."""
        team = member_folders.with_saved_identities(self.project.root, view.team)
        return replace(view, loaded=replace(view.loaded, team=team))

    def unread_material(self) -> tuple[str, ...]:
        """The project's own instruction files for agents, where the user has said neither yes nor
        no to them."""
        files = teams.instruction_files(KNOWN_AGENTS, self.project.root)
        decided = not files or trust_record.is_material_decided(self.project.root, self.home)
        return () if decided else files

    def powers(self, view: TeamView) -> tuple[teams.Power, ...]:
        """What a team file asks for that could do harm."""
        return teams.powers(view.loaded, self.project)

    def trust(self, view: TeamView) -> TeamView:
        """Record that the user has looked at this content of a team file; it may be used now."""
        teams.trust(view.loaded, instant.now(), self.home)
        return replace(view, refused=None)

    def trust_material(self, allowed: bool = True) -> None:
        """Record whether the project's own instruction files may reach the models, as text."""
        record = trust_record.trust_material if allowed else trust_record.decline_material
        record(self.project.root, instant.now(), self.home)

    def health(self) -> list[AgentHealth]:
        """Whether each registered agent can work."""
        from coterie.app.agent_health import health_in

        return health_in(self.registry)

    def ready_agents(self) -> list[str]:
        """The agents that a team is made of where nobody names any."""
        from coterie.app.agent_health import to_be_members

        return to_be_members(self.health())

    def entries(self, preset: str | None, agents: str | None) -> list[team_edit.Entry]:
        """The members of a preset on these agents (None: those that are ready), or the agents as
        they are where no preset is named."""
        if agents is not None and preset is None:
            return [team_edit.entry_of(seat) for seat in teams.seats(agents)]
        named = [seat.agent for seat in teams.seats(agents)] if agents else self.ready_agents()
        if not named:
            raise UsageError("No agent is ready to be a member.", "coterie doctor")
        return team_edit.seated(preset or STARTER, named)

    def write(
        self,
        name: str,
        entries: list[team_edit.Entry],
        *,
        preset: str | None = None,
        default: bool = False,
    ) -> TeamView:
        """Write a team of these members into the project, and their folders."""
        workflow = "tickets" if preset == "tickets" else None  # the other presets are for any
        loaded = team_edit.new_team(self.project, name, entries, self.registry, workflow)
        self._make_folders(loaded)
        if default:
            team_edit.mark_default(self.project, name)
        return TeamView(loaded, is_default=default)

    def add(self, word: str | None, entry: team_edit.Entry, like: str | None = None) -> TeamView:
        """Add a member to a team's file, with a folder of its own; `like` copies another's."""
        if entry.get("work") == "worktree":
            branching_point(self.project.root)  # raises UsageError before anything is written
        path = self._file(word, "A team without a file cannot be added to.")
        loaded = team_edit.add_member(path, entry, self.registry, self.project, like)
        self._make_folders(loaded, only=str(entry["id"]))
        return TeamView(loaded)

    def rename(self, word: str | None, member: str, name: str) -> TeamView:
        """Make a member a new one, with a folder of its own; the old folder is kept."""
        path = self._file(word, "A team without a file cannot be changed.")
        loaded = team_edit.rename_member(path, member, name, self.registry, self.project)
        self._make_folders(loaded)
        return TeamView(loaded)

    def replaced(self, view: TeamView, member: str, name: str) -> TeamView:
        """The team with a new member of that name in the place of an edited one."""
        new = self.rename(str(view.loaded.path), member, name)
        return self.trust(new) if self.powers(new) else new  # the user has looked at it

    def folder_of(self, team: Team, member: Member) -> Path:
        """Where a member's folder is, by the team's file."""
        return member_folder(self.project.root, team.name, member)

    def update_member(self, team: Team, member: str) -> None:
        """Let a member be who and where its edited entry says; its memory is kept.

        Raises UsageError where it would have to leave a folder that it works from just now.
        """
        root, one = self.project.root, team.member(member)
        old = member_folders.former_folder(root, team.name, one)
        if old is not None and (task := self._at_work_in(old)):
            raise UsageError(
                f"{member} works in {task} just now, from the folder that it would leave.",
                f"coterie stop {task}, then coterie team update {member} -t {team.name}",
                str(old),
            )
        member_folders.save_identity(root, team.name, one)
        self._make_folder(team, one)

    def _at_work_in(self, folder: Path) -> str | None:
        """The task for which somebody works from a member's folder now."""
        from coterie.app.project import App
        from coterie.app.projects import has_history

        async def found() -> str | None:
            async with App.open(self.project.root, self.home) as app:
                at_work = (one.task for one in await app.running() if one.folder == folder)
                return next(at_work, None)

        return anyio.run(found) if has_history(self.project) else None

    def keep_member(self, team: Team, member: str) -> None:
        """Let a member stay who and where it was, whatever its edited entry says."""
        member_folders.keep_saved_identity(self.project.root, team.name, team.member(member))

    def free_name(self, view: TeamView, member: str) -> str:
        """An id for a new member that is as this one was edited to be."""
        taken = {one.id.casefold() for one in view.team.members}
        # A member that is in the team no longer has left its folder, and its memory in it.
        beside = self.project.folder / "teams" / view.team.name
        names = (f"{member}{number}" for number in count(2))
        return next(
            name for name in names if name.casefold() not in taken and not (beside / name).exists()
        )

    def copy_prompts(self, roles: tuple[str, ...]) -> list[tuple[RolePrompt, bool]]:
        """Write prompts of a pipeline's roles to the project, all where none is named; says of each
        whether it is new there: one that the user has is left as it is."""
        from coterie.workspace.role_prompts import copy_prompts

        return copy_prompts(self.project.root, roles)

    def filled_roles(self, team: Team) -> list[tuple[RolePrompt, Member]]:
        """Every role of a pipeline: its prompt here, and who of the team fills it."""
        from coterie.model.pipeline_roles import FilledRoles
        from coterie.workspace.role_prompts import role_prompts

        filled = FilledRoles(team)
        found = role_prompts(self.project.root).items()
        return [(prompt, filled.member(role)) for role, prompt in found]

    def _file(self, word: str | None, problem: str) -> Path:
        path = self.read(word).loaded.path
        if path is None:
            raise UsageError(problem, "coterie team new NAME")
        return path

    def _make_folders(self, loaded: LoadedTeam, only: str | None = None) -> None:
        for member in loaded.team.members:
            if only in (None, member.id):
                self._make_folder(loaded.team, member)

    def _make_folder(self, team: Team, member: Member) -> None:
        """Make a member's folder, as far as it is not there, with who it is and what it is told."""
        root = self.project.root
        member_folders.make_folder(root, team.name, member)
        member_folders.save_identity_if_new(root, team.name, member)
        settled = member_folders.with_saved_identities(root, team).get(member.id)
        if settled is None or settled.type == "human":
            return
        file = KNOWN_AGENTS.instruction_file(self.registry.agents.get(settled.agent or ""))
        member_folders.write_instructions(root, team, settled, file)


def changed_in(change: ChangedMember) -> str:
    """What of a member changed, for people."""
    parts = (("prompt", change.prompt is not None), ("workingDir", change.folder is not None))
    return " and ".join(name for name, changed in parts if changed)
