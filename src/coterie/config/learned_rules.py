"""Rules that the user made by answering `rule`: kept beside the team, for all its later tasks.

Not in the team file itself: that may be somebody else's, or be written in a form that cannot be
edited without losing its comments.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from coterie.config.files import write_atomically
from coterie.config.project import Project
from coterie.errors import ConfigError
from coterie.model.paths import shown
from coterie.model.team import Team

_RULES: TypeAdapter[dict[str, list[str]]] = TypeAdapter(dict[str, list[str]])


def rules_path(project: Project, team: str) -> Path:
    """Where a team's rules are."""
    return project.teams / team / "rules.json"


def learned_rules(project: Project, team: str) -> Mapping[str, list[str]]:
    """By member: what it may do unasked since the user said so."""
    path = rules_path(project, team)
    try:
        return _RULES.validate_json(path.read_bytes())
    except FileNotFoundError:
        return {}
    except ValidationError:
        raise ConfigError(
            f"{shown(path)} is not an object of lists of rules.",
            'Write {"member": ["run(npm test)"]}, or delete it.',
            str(path),
        ) from None


def learn_rule(project: Project, team: str, member: str, rule: str) -> Path:
    """Keep one more rule; returns the file that holds it now."""
    path = rules_path(project, team)
    rules = {name: list(known) for name, known in learned_rules(project, team).items()}
    mine = rules.setdefault(member, [])
    if rule not in mine:
        mine.append(rule)
        write_atomically(path, json.dumps(rules, indent=2, ensure_ascii=False) + "\n")
    return path


def with_learned(team: Team, rules: Mapping[str, list[str]]) -> Team:
    """The team with these rules added to what its members may do."""
    if not rules:
        return team
    members = tuple(
        member.model_copy(
            update={
                "permissions": member.permissions.model_copy(
                    update={"allow": (*member.permissions.allow, *rules.get(member.id, ()))}
                )
            }
        )
        for member in team.members
    )
    return team.model_copy(update={"members": members})
