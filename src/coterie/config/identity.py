"""Decide whose a `.coterie` is: only a folder with an identity that Coterie gave it is believed.

The folder holds a random id; the user's own list of projects holds the same id with the folder's
path and owner.  A folder that came with a clone or an archive has no such entry.  Even in a listed
folder, git may write files later: files that it tracks there are only believed after the user has
confirmed them.  Links and other users' files, where Coterie makes none, are never believed.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast

from coterie.config import files
from coterie.config.git_index import TrackedFiles, tracked_below
from coterie.errors import ConfigError, NotOurs
from coterie.model import instant
from coterie.model.workspace import shown
from coterie.workspace.beneath import open_folder, read_file, write_file

FOLDER = ".coterie"
IDENTITY_FILE = "identity"
PROJECTS_FILE = "projects.json"
IGNORE_FILE = ".gitignore"
IGNORE_ALL = b"*\n"
"""Keeps our files from ever being committed, without touching the project's own `.gitignore`."""
MANY_PROJECTS = 500
"""From this many on, projects whose folder is gone are dropped when another one is added."""

Origin = Literal["ours", "absent", "earlier", "foreign", "moved", "tracked", "other_user", "link"]
"""Where a `.coterie` comes from: made by us; missing or empty; from an earlier version that kept
no ids; brought along with its folder; from another folder of ours; ours, but with files that git
tracks; another user's; not a folder, or one with links where Coterie makes none."""

_ID = re.compile(rb"[0-9a-f]{32}\n")
_UNFINISHED = re.compile(rf"\.({IDENTITY_FILE}|{re.escape(IGNORE_FILE)})\.[0-9a-f]{{8}}\.new")
"""Temporary files of a process that is still writing, or died while it was."""


@dataclass(frozen=True)
class KnownProject:
    """A project in the user's own list."""

    path: str
    added_at: str = ""
    id: str | None = None
    """None for an entry from a version that kept no ids."""
    owner: int | None = None
    tracked: str | None = None
    """Digest of the files in it that git tracked when it was given its id."""


@dataclass(frozen=True)
class OriginCheck:
    """Whether a `.coterie` is believed, and if not, why."""

    origin: Origin
    detail: str = ""
    """More about the origin: the owner's uid, or the folder that it was made for."""
    names: tuple[str, ...] = ()
    """What in it is not believed, relative to the folder: empty for all of it, `.` for itself."""

    @property
    def is_believed(self) -> bool:
        """Whether it may be read and written as ours."""
        return self.origin in ("ours", "absent", "earlier")


def check_origin(root: Path, projects: Path) -> OriginCheck:
    """Check where a folder's `.coterie` comes from, by the user's list of projects.  Read-only."""
    folder = root / FOLDER
    try:
        status = folder.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return OriginCheck("absent")
    if not stat.S_ISDIR(status.st_mode):
        return OriginCheck("link", names=(".",))
    known = _known_or_none(projects)
    entry = known.get(str(root))
    owner = os.geteuid() if entry is None or entry.owner is None else entry.owner
    if status.st_uid != owner:
        return OriginCheck("other_user", str(status.st_uid))
    own_id = _read_id(folder)
    if entry is None or (entry.id is not None and entry.id != own_id):
        return _check_unknown(folder, own_id, known)
    tracked = _tracked(folder)
    if tracked and tracked.digest != entry.tracked:
        return OriginCheck("tracked", names=tracked.names)
    if links := tuple(misplaced(folder, owner)):
        return OriginCheck("link", names=tuple(os.path.relpath(link, folder) for link in links))
    return OriginCheck("ours" if entry.id else "earlier")


def _tracked(folder: Path) -> TrackedFiles | None:
    in_git = any(os.path.lexists(above / ".git") for above in folder.parents)
    return tracked_below(folder) if in_git else None


def _check_unknown(folder: Path, own_id: str | None, known: dict[str, KnownProject]) -> OriginCheck:
    if _is_empty(folder):
        return OriginCheck("absent")
    made_for = (one.path for one in known.values() if own_id is not None and one.id == own_id)
    first = next(made_for, None)
    return OriginCheck("foreign") if first is None else OriginCheck("moved", first)


def _is_empty(folder: Path) -> bool:
    """Whether it holds nothing that could be believed."""
    present = {path.name for path in folder.iterdir()} - {IDENTITY_FILE}
    names = {name for name in present if not _UNFINISHED.fullmatch(name)}
    try:
        return not names or (
            names == {IGNORE_FILE} and read_file(folder, IGNORE_FILE, limit=4096) == IGNORE_ALL
        )
    except (OSError, NotOurs):
        return False


def _read_id(folder: Path) -> str | None:
    """The id in a `.coterie`, if it is in a file of the folder's owner."""
    try:
        text = read_file(folder, IDENTITY_FILE, limit=4096)
    except (OSError, NotOurs):
        return None
    return text.decode().strip() if _ID.fullmatch(text) else None


def give_identity(root: Path, known: Mapping[str, KnownProject]) -> KnownProject:
    """Make the `.coterie` of a folder if it has none, and give it an id of its own.

    Returns its entry for the user's list.  An entry from an earlier version keeps its position.
    """
    folder = root / FOLDER
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    with open_folder(folder) as handle:
        os.fchmod(handle, 0o700)  # one that somebody else made may be open to all
    before = known.get(str(root), KnownProject(str(root), instant.now()))
    own_id = secrets.token_hex(16)
    write_file(folder, (IDENTITY_FILE,), f"{own_id}\n".encode(), durable=True)
    tracked = _tracked(folder)
    return replace(
        before,
        id=own_id,
        owner=folder.lstat().st_uid,
        tracked=tracked.digest if tracked else None,
    )


def give_identities(known: Mapping[str, KnownProject], projects: Path) -> dict[str, KnownProject]:
    """Return the list with an identity for every project from a version that kept none.

    All are upgraded at once, so that a folder later put in the place of one is not accepted as it.
    """
    entries = dict(known)
    for path, entry in known.items():
        with suppress(OSError, NotOurs):
            if entry.id is None and check_origin(Path(path), projects).origin == "earlier":
                entries[path] = give_identity(Path(path), known)
    return entries


# -- what lies below it ------------------------------------------------------------------------

_DEPTHS = {
    "kept": 1,
    "logs": 1,
    "owners": 1,
    "prompts": 1,
    "sessions": 1,
    "snapshots.git": 1,
    "teams": 3,
    "worktrees": 2,
}
"""How many levels of a folder Coterie itself makes; anything below is a member's or git's."""
_WORK = re.compile(r"work|\.work\.[0-9a-f]{8}")
"""Names in a member's folder that may be links: Coterie makes one there itself."""


def misplaced(folder: Path, owner: int) -> Iterator[str]:
    """Yield what is a link, or another user's, below a `.coterie` where Coterie makes neither."""
    for entry, status in _entries(folder):
        if stat.S_ISLNK(status.st_mode) or status.st_uid != owner:
            yield entry.path
        elif stat.S_ISDIR(status.st_mode):
            yield from _misplaced(entry.path, owner, _DEPTHS.get(entry.name, 0))


def _misplaced(folder: str, owner: int, depth: int) -> Iterator[str]:
    for entry, status in _entries(folder) if depth else ():
        if stat.S_ISLNK(status.st_mode) or status.st_uid != owner:
            if depth > 1 or not _WORK.fullmatch(entry.name):
                yield entry.path
        elif stat.S_ISDIR(status.st_mode):
            yield from _misplaced(entry.path, owner, depth - 1)


def _entries(folder: str | Path) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
    pairs: list[tuple[os.DirEntry[str], os.stat_result]] = []
    with suppress(FileNotFoundError), os.scandir(folder) as entries:  # removed meanwhile
        for entry in entries:
            with suppress(FileNotFoundError):
                pairs.append((entry, entry.stat(follow_symlinks=False)))
    yield from pairs


# -- the user's own list -----------------------------------------------------------------------


def read_known(path: Path) -> dict[str, KnownProject]:
    """The projects in the user's list by path, in the order they were added."""
    try:
        data = cast("object", json.loads(path.read_bytes()))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{shown(path)} cannot be read: {error}.", None, str(path)) from None
    listed = cast("dict[str, object]", data).get("projects") if isinstance(data, dict) else None
    if not isinstance(listed, list):
        raise ConfigError(f"{shown(path)} is not a list of projects.", None, str(path))
    entries = (_known(entry) for entry in cast("list[object]", listed))
    return {entry.path: entry for entry in entries if entry is not None}


def _known(entry: object) -> KnownProject | None:
    given = cast("dict[str, object]", entry) if isinstance(entry, dict) else {}
    root, owner = given.get("path"), given.get("owner")
    if not (isinstance(root, str) and root.startswith("/") and "\0" not in root):
        return None
    id_, tracked = given.get("id"), given.get("tracked")
    return KnownProject(
        root,
        str(given.get("addedAt", "")),
        id_ if isinstance(id_, str) else None,
        owner if isinstance(owner, int) else None,
        tracked if isinstance(tracked, str) else None,
    )


def gone(known: Mapping[str, KnownProject]) -> Iterator[files.Notice]:
    """Yield a notice for each project that is no longer where it was: it may have been moved."""
    ids = [entry.id for entry in known.values()]
    for entry in known.values():
        root = Path(entry.path)
        if entry.id is None or ids.count(entry.id) > 1 or os.path.lexists(root / FOLDER):
            continue
        lost = f"{shown(root)} is gone, so its questions are not shown."
        if place := _moved_to(root, entry.id):
            lost = f"{shown(root)} is now {shown(place)}, so its questions are not shown."
            yield files.Notice(lost, f"coterie project adopt -C {shlex.quote(str(place))}")
        else:
            hint = (
                f"coterie project adopt -C NEW, or coterie project forget {shlex.quote(str(root))}"
            )
            yield files.Notice(lost, hint)


def _moved_to(root: Path, id_: str) -> Path | None:
    """The sibling folder that now holds the project, if it was only renamed."""
    with suppress(OSError):
        for folder in root.parent.iterdir():
            if _read_id(folder / FOLDER) == id_:
                return folder
    return None


def without_old_place(known: dict[str, KnownProject], root: Path) -> dict[str, KnownProject]:
    """The list without the path from which this project was moved."""
    id_ = _read_id(root / FOLDER)
    return {
        path: entry
        for path, entry in known.items()
        if entry.id is None or entry.id != id_ or os.path.lexists(Path(path) / FOLDER)
    }


def write_known(path: Path, known: dict[str, KnownProject]) -> None:
    """Replace the list; the caller holds its lock."""
    projects = [_written(entry) for entry in known.values()]
    files.write_atomically(path, json.dumps({"projects": projects}, indent=2) + "\n")


def _written(entry: KnownProject) -> dict[str, object]:
    values = {"path": entry.path, "addedAt": entry.added_at, "id": entry.id}
    values |= {"owner": entry.owner, "tracked": entry.tracked}
    return {key: value for key, value in values.items() if value is not None}


def _known_or_none(path: Path) -> dict[str, KnownProject]:
    """The list; empty if it cannot be read."""
    try:
        return read_known(path)
    except ConfigError:
        return {}
