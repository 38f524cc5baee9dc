"""A `.coterie` that is not believed: the error for it, what it holds, and setting it aside."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from coterie.config.identity import FOLDER, OriginCheck
from coterie.errors import NotOurs
from coterie.workspace.beneath import open_folder

_ELSEWHERE = "Work in a folder of your own: -C DIR"
_MOST = 2000
"""The most entries looked at; a folder that somebody else filled may be of any size."""


def refusal(root: Path, check: OriginCheck) -> NotOurs:
    """The error for a `.coterie` that is not used, with a command for each way out."""
    place, at = str(root / FOLDER), _at(root)
    choices = {
        "See what it holds": look_at(root),
        "Adopt it": f"coterie project adopt {at}",
        "Set it aside": f"coterie project set-aside {at}",
    }
    if check.origin == "link":  # links are never followed, even with the user's consent
        del choices["Adopt it"]
    width = max(map(len, choices))
    hint = "\n".join(f"{does + ':':<{width + 2}}{command}" for does, command in choices.items())
    if check.origin == "other_user":
        hint = _ELSEWHERE
    return NotOurs(_problem(place, check), hint, place, check.origin)


def look_at(root: Path) -> str:
    """The command that shows what a project's `.coterie` holds."""
    return f"coterie project {_at(root)}"


def _at(root: Path) -> str:
    return f"-C {shlex.quote(str(root))}"


def _problem(place: str, check: OriginCheck) -> str:
    first = next(iter(check.names), ".")
    match check.origin:
        case "other_user":
            return f"{place} belongs to another user (uid {check.detail})."
        case "moved":
            return f"{place} was made for {check.detail}: it was moved or copied here."
        case "tracked":
            what = f"{first} in it" if first != "." else "it, or may do so"
            return f"{place} contains files that came with the repository: git tracks {what}."
        case "link" if first == ".":
            return f"{place} is not a folder."
        case "link":
            what = f"{place}/{first} is a link or belongs to another user"
            return f"{what}: Coterie did not create it."
        case _:
            return f"{place} came with this folder: it was not made by your Coterie."


@dataclass(frozen=True)
class FolderEntry:
    """Something in a `.coterie`, as listed for a person to inspect; also a `--json` object."""

    name: str
    """Relative to the folder."""
    kind: str
    """`file`, `folder`, `link` or `other`."""
    size: int
    target: str | None = None
    """Where a link points."""


def folder_entries(root: Path) -> tuple[FolderEntry, ...]:
    """What is in a `.coterie`, by name and kind, top level first; no file in it is opened."""
    return tuple(islice(_below(root / FOLDER), _MOST))


def _below(top: Path) -> Iterator[FolderEntry]:
    folders = [top]
    if top.is_symlink():
        yield FolderEntry("", "link", 0, str(top.readlink()))
        return
    while folders:
        try:
            entries = sorted(folders.pop(0).iterdir())
        except OSError:
            continue
        for entry in entries:
            listed = _entry(entry, top)
            if listed.kind == "folder":
                folders.append(entry)
            yield listed


def _entry(path: Path, top: Path) -> FolderEntry:
    name = str(path.relative_to(top))
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            return FolderEntry(name, "link", 0, str(path.readlink()))
    except OSError:
        return FolderEntry(name, "other", 0)
    if stat.S_ISDIR(status.st_mode):
        return FolderEntry(name, "folder", 0)
    return FolderEntry(name, "file" if stat.S_ISREG(status.st_mode) else "other", status.st_size)


def set_aside(root: Path, check: OriginCheck) -> Path:
    """Move what is not believed to a name beside `.coterie` that nothing reads; returns that path.

    In a `.coterie` of ours, only what others put there is moved.  No file is opened and no link
    followed.
    """
    folder, number = root / FOLDER, 1
    while os.path.lexists(destination := root / f"{FOLDER}.set-aside.{number}"):
        number += 1
    if not check.names or "." in check.names:
        folder.rename(destination)
        return destination
    for name in check.names:
        *above, last = Path(name).parts
        target = destination.joinpath(*above)
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open_folder(folder, *above) as source, suppress(FileNotFoundError):
            os.rename(last, target / last, src_dir_fd=source)
    return destination
