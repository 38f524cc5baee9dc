"""A `.coterie` that is not believed: what is said of it, what it holds, and setting it aside."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from coterie.config.identity import FOLDER, Judgement
from coterie.errors import NotOurs
from coterie.workspace.beneath import opened_folder

_ELSEWHERE = "Work in a folder of your own: -C DIR"
_MOST = 2000
"""So many files are looked at, at most; a folder that somebody else filled may be of any size."""


def refusal(root: Path, found: Judgement) -> NotOurs:
    """Why a `.coterie` is not used, with the command for each thing that can be done about it."""
    place, at = str(root / FOLDER), _at(root)
    choices = {
        "See what it holds": look_at(root),
        "Take it over": f"coterie project adopt {at}",
        "Set it aside": f"coterie project set-aside {at}",
    }
    if found.origin == "link":  # nothing is reached through one, whoever agrees
        del choices["Take it over"]
    width = max(map(len, choices))
    hint = "\n".join(f"{does + ':':<{width + 2}}{command}" for does, command in choices.items())
    if found.origin == "other_user":
        hint = _ELSEWHERE
    return NotOurs(_problem(place, found), hint, place, found.origin)


def look_at(root: Path) -> str:
    """The command that shows what a project's `.coterie` holds."""
    return f"coterie project {_at(root)}"


def _at(root: Path) -> str:
    return f"-C {shlex.quote(str(root))}"


def _problem(place: str, found: Judgement) -> str:
    first = next(iter(found.names), ".")
    match found.origin:
        case "other_user":
            return f"{place} belongs to another user (uid {found.detail})."
        case "moved":
            return f"{place} was made for {found.detail}: it was moved or copied here."
        case "tracked":
            what = f"{first} in it" if first != "." else "it, or may do so"
            return f"{place} holds what came with the repository: git tracks {what}."
        case "link" if first == ".":
            return f"{place} is no folder."
        case "link":
            what = f"{place}/{first} is a link, or another user's"
            return f"{what}: Coterie makes no such thing there."
        case _:
            return f"{place} came with this folder: it was not made by your Coterie."


@dataclass(frozen=True)
class HeldFile:
    """Something in a `.coterie`, as it is listed for a person to look at."""

    name: str
    """As seen from the folder."""
    kind: str
    """`file`, `folder`, `link` or `other`."""
    size: int
    target: str | None = None
    """Where a link leads."""


def held_files(root: Path) -> tuple[HeldFile, ...]:
    """What is in a `.coterie`, by name and kind, what is nearest first; no file of it is opened."""
    return tuple(islice(_below(root / FOLDER), _MOST))


def _below(top: Path) -> Iterator[HeldFile]:
    folders = [top]
    if top.is_symlink():
        yield HeldFile("", "link", 0, str(top.readlink()))
        return
    while folders:
        folder = folders.pop(0)
        try:
            entries = sorted(folder.iterdir())
        except OSError:
            continue
        for entry in entries:
            held = _held(entry, top)
            if held.kind == "folder":
                folders.append(entry)
            yield held


def _held(path: Path, top: Path) -> HeldFile:
    name = str(path.relative_to(top))
    try:
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode):
            return HeldFile(name, "link", 0, str(path.readlink()))
    except OSError:
        return HeldFile(name, "other", 0)
    if stat.S_ISDIR(found.st_mode):
        return HeldFile(name, "folder", 0)
    return HeldFile(name, "file" if stat.S_ISREG(found.st_mode) else "other", found.st_size)


def set_aside(root: Path, found: Judgement) -> Path:
    """Move what is not believed to a name that nothing reads, beside `.coterie`; returns that.

    Of a `.coterie` of ours only what others put there.  No file is opened, no link followed.
    """
    folder, number = root / FOLDER, 1
    while os.path.lexists(aside := root / f"{FOLDER}.set-aside.{number}"):
        number += 1
    if not found.names or "." in found.names:
        folder.rename(aside)
        return aside
    for name in found.names:
        *above, last = Path(name).parts
        target = aside.joinpath(*above)
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        with opened_folder(folder, *above) as source, suppress(FileNotFoundError):
            os.rename(last, target / last, src_dir_fd=source)
    return aside
