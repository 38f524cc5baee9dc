"""What the user allowed: team files and instruction files of a repository, and rules by answering.

A team file per content: one that changed is looked at again.  Instruction files per folder.  Rules
are kept beside the team and not in its file: that may be somebody else's, or be written in a form
that cannot be edited without losing its comments.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from pydantic import TypeAdapter, ValidationError

from coterie.config.files import locked, read_document, set_aside, write_atomically
from coterie.config.mistakes import quoted
from coterie.config.project import Project, coterie_home, is_tracked
from coterie.config.team_file import LoadedTeam
from coterie.config.team_members import COMMAND
from coterie.errors import ConfigError, NotTrusted
from coterie.model.agent import KnownAgents
from coterie.model.team import Member, Team
from coterie.model.workspace import shown

FILE_NAME = "trusted.json"


@dataclass(frozen=True)
class Power:
    """Something a team file asks for that could do harm."""

    member: str
    kind: str
    """Which key asks for it."""
    what: str
    """All of it, for a person who wants to look; of variables only their names."""


def powers(loaded: LoadedTeam, project: Project | None = None) -> tuple[Power, ...]:
    """All that a team file asks for."""
    found = [
        Power(member.id, kind, what)
        for member in loaded.team.members
        for kind, what in _asked(member, project)
    ]
    shared = loaded.team.permissions
    if shared and shared.allow:
        what = f"asks nobody about {_words(shared.allow)}"
        found.append(Power(loaded.team.name, "allow", what))
    found += [
        Power(loaded.team.name, "promptFile", f"takes a prompt from {path}")
        for path in loaded.outside_prompts
    ]
    return tuple(found)


def _asked(member: Member, project: Project | None) -> Iterator[tuple[str, str]]:
    if member.permissions.mode == "full":
        yield "full", "never asks"
    if member.permissions.allow:
        yield "allow", f"is not asked about {_words(member.permissions.allow)}"
    if COMMAND in member.metadata:
        yield COMMAND, f"runs {quoted(str(member.metadata[COMMAND]), 200)}"
    if member.env:
        yield "env", f"sets {', '.join(member.env)}"
    if member.additional_args:
        yield "additionalArgs", f"adds {_words(member.additional_args)}"
    folders = (
        ("workDir", "works in", member.execution_dir),
        ("workingDir", "keeps its files in", member.working_dir),
        ("homeDir", "has its home in", member.home_dir),
    )
    for kind, does, folder in folders:
        if project and folder and not Path(folder).resolve().is_relative_to(project.root):
            yield kind, f"{does} {folder}, outside the project"


def _words(words: Sequence[str]) -> str:
    return " ".join(quoted(word, 200) for word in words)


def require_trust(loaded: LoadedTeam, project: Project, home: Path | None = None) -> None:
    """Refuse a team that asks for powers nobody has looked at."""
    path = loaded.path
    wanted = powers(loaded, project)
    if path is None or not wanted:
        return
    if _is_the_users(path, project) or is_trusted(loaded.digest, home):
        return
    kinds: dict[str, list[str]] = {}
    for power in wanted:
        kinds.setdefault(power.member, []).append(power.kind)
    said = "; ".join(f"{member}: {', '.join(asked)}" for member, asked in kinds.items())
    raise NotTrusted(
        f"{shown(path)} asks for powers that you have not looked at ({said}).",
        f"coterie team trust {shlex.quote(shown(path))}",
        str(path),
    )


def _is_the_users(path: Path, project: Project) -> bool:
    """Under `.coterie` only the user writes, unless somebody put that folder under git."""
    return path.resolve().is_relative_to(project.folder.resolve()) and not is_tracked(project)


def trust(loaded: LoadedTeam, now: str, home: Path | None = None) -> None:
    """Record that the user has looked at this content."""
    _record(loaded.digest, str(loaded.path), now, home)


def trust_material(root: Path, now: str, home: Path | None = None) -> None:
    """Record that a folder's own instruction files may reach the models, as text."""
    _record(_material(root), str(root), now, home)


def is_material_trusted(root: Path, home: Path | None = None) -> bool:
    """Whether the user has said so of this folder."""
    return is_trusted(_material(root), home)


def instruction_files(known: KnownAgents, root: Path) -> tuple[str, ...]:
    """The instruction files that a folder brings for agents."""
    names = (name for facts in known.all for name in facts.instructions)
    return tuple(name for name in dict.fromkeys(names) if (root / name).is_file())


def _material(root: Path) -> str:
    return f"material:{root.resolve()}"


def _record(key: str, path_shown: str, now: str, home: Path | None) -> None:
    path = (home or coterie_home()) / FILE_NAME
    with locked(path):
        try:
            known = _read(path)
        except ConfigError:
            set_aside(path)
            known = {}
        known[key] = {"path": path_shown, "trustedAt": now}
        write_atomically(path, json.dumps({"trusted": known}, indent=2) + "\n")


def is_trusted(digest: str, home: Path | None = None) -> bool:
    """Whether this content was looked at; a damaged record means that nothing was."""
    try:
        return digest in _read((home or coterie_home()) / FILE_NAME)
    except ConfigError:
        return False


def _read(path: Path) -> dict[str, object]:
    if not path.exists():
        return {}
    data = read_document(path).data
    found = cast("dict[str, object]", data).get("trusted") if isinstance(data, dict) else None
    if not isinstance(found, dict):
        raise ConfigError(f"{shown(path)} is no record of trust.", None, str(path))
    return cast("dict[str, object]", found)


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
