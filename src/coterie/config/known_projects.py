"""The projects Coterie has been at work in, so that one inbox covers them all."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from coterie.config.document import read_document
from coterie.config.environment import coterie_home
from coterie.config.files import locked, set_aside, write_atomically
from coterie.config.mistakes import Notice
from coterie.config.project import FOLDER, Project
from coterie.errors import ConfigError, CoterieError
from coterie.model.paths import shown

FILE_NAME = "projects.json"
MANY = 500
"""From here on, folders that are gone are forgotten when another is added."""


@dataclass(frozen=True)
class KnownProjects:
    """Projects that still exist, and what was worth saying."""

    projects: tuple[Project, ...]
    notices: tuple[Notice, ...] = ()


def known_projects(home: Path | None = None) -> KnownProjects:
    """Every project that is still there; a damaged list is set aside, not fatal."""
    path = (home or coterie_home()) / FILE_NAME
    try:
        entries, notices = _read(path), ()
    except ConfigError as error:
        entries, notices = {}, (_recovered(path, error),)
    there = tuple(Project(Path(root)) for root in entries if _is_project(root))
    return KnownProjects(there, notices)


def remember_project(project: Project, now: str, home: Path | None = None) -> Notice | None:
    """Enter a project into the list.  That it cannot be is worth a word, not a failure."""
    path = (home or coterie_home()) / FILE_NAME
    root = str(project.root)
    try:
        if root in _read(path):
            return None
    except ConfigError:
        pass  # looked at again, and set aside, under the lock
    try:
        return _enter(path, root, now)
    except CoterieError as error:
        return Notice(f"This project is not in the list of known projects: {error}", error.hint)


def _enter(path: Path, root: str, now: str) -> Notice | None:
    notice = None
    with locked(path):
        try:
            entries = _read(path)
        except ConfigError as error:
            entries, notice = {}, _put_aside(path, error)
        if len(entries) >= MANY:
            entries = {known: at for known, at in entries.items() if _is_project(known)}
        entries[root] = now
        projects = [{"path": known, "addedAt": at} for known, at in entries.items()]
        write_atomically(path, json.dumps({"projects": projects}, indent=2) + "\n")
    return notice


def _recovered(path: Path, error: ConfigError) -> Notice:
    try:
        with locked(path):
            _read(path)  # another process may have mended it meanwhile
    except ConfigError:
        with locked(path):
            return _put_aside(path, error)
    except CoterieError:
        pass
    return Notice(str(error))


def _put_aside(path: Path, error: ConfigError) -> Notice:
    try:
        aside = set_aside(path)
    except CoterieError:
        return Notice(str(error))
    return Notice(f"{error} It was set aside as {shown(aside)}; projects are listed anew.")


def _read(path: Path) -> dict[str, str]:
    """Roots and when they were added, in that order."""
    if not path.exists():
        return {}
    data = read_document(path).data
    listed = cast("dict[str, object]", data).get("projects") if isinstance(data, dict) else None
    if not isinstance(listed, list):
        raise ConfigError(f"{shown(path)} is no list of projects.", None, str(path))
    found: dict[str, str] = {}
    for entry in cast("list[object]", listed):
        known = cast("dict[str, object]", entry) if isinstance(entry, dict) else {}
        root = known.get("path")
        if isinstance(root, str) and root.startswith("/") and "\0" not in root:
            found[root] = str(known.get("addedAt", ""))
    return found


def _is_project(root: str) -> bool:
    try:
        return (Path(root) / FOLDER).is_dir()
    except OSError:
        return False
