"""Edit team files: read them, check them while typing, replace and trust them.  Everything here
blocks."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Literal

from coterie.app.agents import Agents
from coterie.app.teams import Teams, TeamView
from coterie.config import files
from coterie.config.team_file import team_in, team_path
from coterie.config.teams import member_specs, reading_for, teams_of
from coterie.errors import NotFound, UsageError

MemberChoice = Literal["update", "keep", "new"]


def digest_of(text: str) -> str:
    """Return the digest of a team file's text, to detect that somebody has edited it."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def team_source(teams: Teams, name: str) -> tuple[Path, str]:
    """Return the file of a team of the project, and its current text; raises NotFound."""
    folder = teams_of(teams.project).get(name)
    if folder is None:
        raise NotFound(f'No team "{name}" in this project.', "coterie team")
    path = team_path(folder)
    return path, files.read_text(path)


def checked_team(teams: Teams, name: str, text: str) -> TeamView:
    """Return the team that a new text of its file would make; raises ConfigError with every
    mistake."""
    path, _ = team_source(teams, name)
    reading = reading_for(path, teams.project, teams.registry, teams.settings)
    return TeamView(team_in(files.parse(path, text), reading))


def registering(teams: Teams, spec: str | None) -> Teams:
    """Return the teams, after scanning this machine for agents unless all that are needed are
    registered."""
    known = teams.registry.agents
    named = [one.agent for one in member_specs(spec)] if spec else teams.ready_agents()
    if named and all(name in known for name in named):
        return teams
    Agents(teams.home).scan()
    return Teams(teams.project, teams.home)


def put_team(teams: Teams, name: str, text: str, seen: str) -> None:
    """Replace the text of a team's file, which must have no mistakes.

    Raises UsageError if the file no longer has the digest that was `seen`.
    """
    checked_team(teams, name, text)
    path, _ = team_source(teams, name)
    with files.locked(path):
        _require_seen(teams, name, seen, "Read it again.")
        files.write_atomically(path, text)


def trust_seen(teams: Teams, name: str, seen: str) -> None:
    """Allow what a team file asks for, if it still has the digest that was `seen`."""
    text = _require_seen(teams, name, seen, "Look again.")
    teams.trust(checked_team(teams, name, text))  # not read again: it may be edited at any moment


def _require_seen(teams: Teams, name: str, seen: str, advice: str) -> str:
    path, text = team_source(teams, name)
    if digest_of(text) != seen:
        raise UsageError(f"{name} was edited in the meantime.", advice, str(path))
    return text


def settle_member(teams: Teams, name: str, member: str, choice: MemberChoice) -> None:
    """Decide about a member whose prompt or folder was edited since its folder was made."""
    view = teams.read(name)
    if all(change.member.id != member for change in teams.changed_members(view)):
        raise UsageError(f"{member} of {name} has not changed.", f"coterie team show {name}")
    match choice:
        case "update":
            teams.update_member(view.team, member)
        case "keep":
            teams.keep_member(view.team, member)
        case "new":
            teams.replace_member(view, member, teams.free_name(view, member))


def team_fields(view: TeamView, root: Path) -> dict[str, object]:
    """Return a team as a JSON object."""
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
