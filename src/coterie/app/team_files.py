"""Team files as they are edited: read, checked as they are typed, replaced, allowed.  All of it
blocks."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal

from coterie.app.agents import Agents
from coterie.app.teams import Teams, TeamView
from coterie.config import files
from coterie.config.team_file import interpret, team_path
from coterie.config.teams import reading_for, seats, teams_of
from coterie.errors import NotFound, UsageError

MemberChoice = Literal["update", "keep", "new"]


@dataclass(frozen=True)
class TeamSource:
    """The file of a team of the project, as it stands."""

    path: Path
    text: str

    @property
    def digest(self) -> str:
        """Of the text: it is another one once somebody has edited it."""
        return sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()


def team_source(teams: Teams, name: str) -> TeamSource:
    """The file of a team; raises NotFound."""
    folder = teams_of(teams.project).get(name)
    if folder is None:
        raise NotFound(f'No team "{name}" in this project.', "coterie team")
    path = team_path(folder)
    return TeamSource(path, files.read_text(path))


def checked_team(teams: Teams, name: str, text: str) -> TeamView:
    """The team that a text would make in its place; raises ConfigError with every mistake."""
    path = team_source(teams, name).path
    parse = files.parse_toml if path.suffix == ".toml" else files.parse_json
    reading = reading_for(path, teams.project, teams.registry, teams.settings)
    return TeamView(interpret(parse(path, text), reading))


def registering(teams: Teams, spec: str | None) -> Teams:
    """The same teams, after a look for agents on this machine unless all that are meant are
    registered."""
    known = teams.registry.agents
    named = [seat.agent for seat in seats(spec)] if spec else teams.ready_agents()
    if named and all(name in known for name in named):
        return teams
    Agents(teams.home).scan()
    return Teams(teams.project, teams.home)


def put_team(teams: Teams, name: str, text: str, seen: str) -> None:
    """Replace a team's file by a text without mistakes.

    Raises UsageError where the file is no longer the one that was `seen`, by its digest.
    """
    checked_team(teams, name, text)
    path = team_source(teams, name).path
    with files.locked(path):
        now = team_source(teams, name)
        if now.digest != seen:
            raise UsageError(f"{name} was edited in between.", "Read it again.", str(now.path))
        files.write_atomically(path, text)


def trust_seen(teams: Teams, name: str, seen: str) -> None:
    """Allow what a team file asks for, if it is still the one that was `seen`, by its digest."""
    source = team_source(teams, name)
    if source.digest != seen:
        raise UsageError(f"{name} was edited in between.", "Look again.", str(source.path))
    teams.trust(teams.read(name))


def settle_member(teams: Teams, name: str, member: str, choice: MemberChoice) -> None:
    """Say what holds of a member whose prompt or folder was edited since its folder was made."""
    view = teams.read(name)
    if all(change.member.id != member for change in teams.changed_members(view)):
        raise UsageError(f"{member} of {name} is as it was.", f"coterie team show {name}")
    match choice:
        case "update":
            teams.update_member(view.team, member)
        case "keep":
            teams.keep_member(view.team, member)
        case "new":
            teams.replaced(view, member, teams.free_name(view, member))


def team_fields(view: TeamView, root: Path) -> dict[str, object]:
    """A team as an object of JSON."""
    team, path = view.team, view.loaded.path
    return {
        "name": team.name,
        "workflow": team.workflow,
        "routing": team.routing,
        "roles": dict(team.roles),
        "budget": team.budget.model_dump(mode="json", exclude_none=True),
        "path": str(path) if path else None,
        "project": str(root),
        "members": [
            {
                "id": one.id,
                "type": one.type,
                "agent": one.agent,
                "role": one.role,
                "mode": one.permissions.mode if one.agent else None,
                "budget": one.budget.model_dump(mode="json", exclude_none=True),
            }
            for one in team.in_order
        ],
    }
