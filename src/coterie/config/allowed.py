"""What a task's members may be started with: what the user allowed when the task was made, values
of environment variables included.

It is kept with the task as a digest under a key in the user's own folder, so that nobody who can
write the project, a member for one, can make another team look like the one that was allowed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path

from coterie.config.project import coterie_home
from coterie.config.team_file import LoadedTeam
from coterie.config.teams import Power, powers
from coterie.config.trust_record import is_trusted, record_trust
from coterie.errors import ConfigError, NotTrusted
from coterie.model.redaction import Redactor
from coterie.model.task import AllowedTeam, TaskCreated
from coterie.model.team import Team
from coterie.model.workspace import shown
from coterie.workspace.beneath import make_key

KEY_FILE = "key"


def allowed_team(task_id: str, team: Team, home: Path | None = None) -> AllowedTeam:
    """The digests of a team with the values of its env.  Makes the user's key if there is none."""
    key = _user_key((home or coterie_home()) / KEY_FILE)

    def digest(*parts: str) -> str:
        return hmac.new(key, json.dumps([task_id, *parts]).encode(), hashlib.sha256).hexdigest()

    return AllowedTeam(
        # Without defaults: a later release that knows more fields must come to the same.
        team=digest(team.sealed().model_dump_json(exclude_defaults=True)),
        env={
            member.id: digest(member.id, json.dumps(dict(member.env), sort_keys=True))
            for member in team.members
            if member.env
        },
    )


def require_allowed(created: TaskCreated, team: Team, home: Path | None = None) -> None:
    """Raise NotTrusted unless the user has allowed the team of a task with these values of env."""
    was, now = created.allowed, allowed_team(created.task_id, team, home)
    if was == now or (was is None and not powers_of(created, team)) or is_trusted(_name(now), home):
        return
    task, file = created.task_id, created.team_file
    if was is not None and was.team == now.team:
        changed = ", ".join(one for one, digest in now.env.items() if digest != was.env.get(one))
        problem = f"{task} was started with another env of {changed}"
        problem += f" than {shown(Path(file))} has now." if file else " than it would get now."
    else:
        problem = f"What the members of {task} may do is not what you allowed when you started it."
    raise NotTrusted(problem, f"coterie resume {task} --trust", file)


def allow(created: TaskCreated, team: Team, now: str, home: Path | None = None) -> None:
    """Record that the user has looked at what the members of a task would be started with."""
    name = _name(allowed_team(created.task_id, team, home))
    record_trust(name, f"task {created.task_id}", now, home)


def powers_of(created: TaskCreated, team: Team) -> tuple[Power, ...]:
    """What the team of a task asks for that could do harm."""
    path = Path(created.team_file) if created.team_file else None
    return powers(LoadedTeam(team, path))


def _name(allowed: AllowedTeam) -> str:
    return f"task:{hashlib.sha256(allowed.model_dump_json().encode()).hexdigest()}"


def _user_key(path: Path) -> bytes:
    key = make_key(path)
    if key is None:
        hint = f"Move it away: rm {shown(path)}; what you allowed is then asked about once more."
        raise ConfigError(f"{shown(path)} is no key.", hint, str(path))
    return key


def without_secrets(team: Team, by: Redactor) -> Team:
    """The team with the words that its members are given as they may be kept."""
    members = tuple(
        member.model_copy(update={"system_instruction": by.text(member.system_instruction)})
        for member in team.members
    )
    said = by.text(team.team_instruction) if team.team_instruction else team.team_instruction
    return team.model_copy(update={"members": members, "team_instruction": said})
