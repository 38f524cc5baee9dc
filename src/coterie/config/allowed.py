"""What a task's members may be started with: what the user allowed when the task was created,
including the values of environment variables.

It is stored with the task as a digest, keyed with a key in the user's own folder, so that nobody
who can write to the project (a member, for one) can pass off another team as the allowed one.
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
    """The digests of a team and its env values.  Creates the user's key if there is none."""
    key = _user_key((home or coterie_home()) / KEY_FILE)

    def digest(*parts: str) -> str:
        return hmac.new(key, json.dumps([task_id, *parts]).encode(), hashlib.sha256).hexdigest()

    return AllowedTeam(
        # Without defaults: a later release with more fields must compute the same digest.
        team=digest(team.sealed().model_dump_json(exclude_defaults=True)),
        env={
            member.id: digest(member.id, json.dumps(dict(member.env), sort_keys=True))
            for member in team.members
            if member.env
        },
    )


def require_allowed(created: TaskCreated, team: Team, home: Path | None = None) -> None:
    """Raise NotTrusted unless the user has allowed a task's team with these env values."""
    was, now = created.allowed, allowed_team(created.task_id, team, home)
    if was == now or (was is None and not powers_of(created, team)) or is_trusted(_name(now), home):
        return
    task, file = created.task_id, created.team_file
    if was is not None and was.team == now.team:
        changed = ", ".join(one for one, digest in now.env.items() if digest != was.env.get(one))
        where = f" ({shown(Path(file))})" if file else ""
        problem = f"The env of {changed} has changed since {task} was started{where}."
    else:
        problem = f"What the members of {task} may do is not what you allowed when you started it."
    raise NotTrusted(problem, f"coterie resume {task} --trust", file)


def allow(created: TaskCreated, team: Team, now: str, home: Path | None = None) -> None:
    """Record that the user has reviewed what a task's members would be started with."""
    name = _name(allowed_team(created.task_id, team, home))
    record_trust(name, f"task {created.task_id}", now, home)


def powers_of(created: TaskCreated, team: Team) -> tuple[Power, ...]:
    """Everything that a task's team asks for that could do harm."""
    path = Path(created.team_file) if created.team_file else None
    return powers(LoadedTeam(team, path))


def _name(allowed: AllowedTeam) -> str:
    return f"task:{hashlib.sha256(allowed.model_dump_json().encode()).hexdigest()}"


def _user_key(path: Path) -> bytes:
    key = make_key(path)
    if key is None:
        hint = f"rm {shown(path)}; you are then asked again about what you have allowed."
        raise ConfigError(f"{shown(path)} is not a valid key file.", hint, str(path))
    return key


def without_secrets(team: Team, by: Redactor) -> Team:
    """The team with secrets redacted from its instructions, as it may be stored."""
    members = tuple(
        member.model_copy(update={"system_instruction": by.text(member.system_instruction)})
        for member in team.members
    )
    instruction = by.text(team.team_instruction) if team.team_instruction else team.team_instruction
    return team.model_copy(update={"members": members, "team_instruction": instruction})
