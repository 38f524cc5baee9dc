"""Paths that several layers name: a member's folder, and any path as a person would type it."""

from __future__ import annotations

import contextlib
from pathlib import Path

from coterie.errors import UsageError
from coterie.model.team import Member, safe_name, safe_seat


def shown(path: Path) -> str:
    """A path as a person would type it from here."""
    for base, prefix in ((Path.cwd, ""), (Path.home, "~/")):
        with contextlib.suppress(ValueError, RuntimeError, OSError):
            inside = path.relative_to(base())
            return f"{prefix}{inside}" if inside.parts else str(path)
    return str(path)


def member_folder(root: Path, team: str, member: Member) -> Path:
    """A member's folder: `.coterie/teams/<team>/<id>` of the project, or where its file says."""
    if not safe_name(team) or not safe_seat(member.id):
        raise UsageError(f"{team}/{member.id} cannot be the name of a folder.")
    if member.working_dir is not None:
        return Path(member.working_dir)
    return root / ".coterie" / "teams" / team / member.id
