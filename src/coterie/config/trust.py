"""A team file may come with a repository; what it asks for counts only after one look.

Per content: a file that changed is looked at again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from coterie.config.document import read_document
from coterie.config.environment import coterie_home
from coterie.config.files import locked, set_aside, shown, write_atomically
from coterie.config.mistakes import quoted
from coterie.config.project import Project, is_tracked
from coterie.config.team_file import LoadedTeam
from coterie.errors import ConfigError, NotTrusted
from coterie.model.team import Member

FILE_NAME = "trusted.json"


@dataclass(frozen=True)
class Power:
    """Something a team file asks for that could do harm."""

    member: str
    what: str


def powers(loaded: LoadedTeam, project: Project | None = None) -> tuple[Power, ...]:
    """All that a team file asks for, for a person to look at; variables by name only."""
    found = [
        Power(member.id, what) for member in loaded.team.members for what in _asked(member, project)
    ]
    found += [Power("", f"takes a prompt from {path}") for path in loaded.outside_prompts]
    return tuple(found)


def _asked(member: Member, project: Project | None) -> Iterator[str]:
    if member.permissions.mode == "full":
        yield "permissions full: it never asks"
    for rule in member.permissions.allow:
        yield f"permissions allow {quoted(rule)}: not asked about"
    for variable in member.env:
        yield f"env sets {variable}"
    if member.additional_args:
        yield f"additionalArgs {' '.join(quoted(word) for word in member.additional_args)}"
    if project is None:
        return
    folders = (
        ("works in", member.execution_dir),
        ("keeps its files in", member.working_dir),
        ("has its home in", member.home_dir),
    )
    for words, folder in folders:
        if folder is not None and not Path(folder).resolve().is_relative_to(project.root):
            yield f"{words} {folder}, outside the project"


def require_trust(loaded: LoadedTeam, project: Project, home: Path | None = None) -> None:
    """Refuse a team that asks for powers nobody has looked at."""
    path = loaded.path
    wanted = list(powers(loaded, project))
    if path is None or not wanted:
        return
    if _is_the_users(path, project) or is_trusted(loaded.digest, home):
        return
    first = wanted[0]
    more = f", and {len(wanted) - 1} more" if len(wanted) > 1 else ""
    who = f"{first.member}: " if first.member else ""
    raise NotTrusted(
        f"{shown(path)} asks for powers that you have not looked at: {who}{first.what}{more}.",
        f"coterie team trust {shown(path)}",
        str(path),
    )


def _is_the_users(path: Path, project: Project) -> bool:
    """Under `.coterie` only the user writes, unless somebody put that folder under git."""
    return path.resolve().is_relative_to(project.folder.resolve()) and not is_tracked(project)


def trust(loaded: LoadedTeam, now: str, home: Path | None = None) -> None:
    """Record that the user has looked at this content."""
    path = (home or coterie_home()) / FILE_NAME
    with locked(path):
        try:
            known = _read(path)
        except ConfigError:
            set_aside(path)
            known = {}
        known[loaded.digest] = {"path": str(loaded.path), "trustedAt": now}
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
