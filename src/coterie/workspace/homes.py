"""What a member's home holds, and writing it: whole or not at all, and never through a link.

What one vendor's CLI needs there is in its package under `agents/`.  All of it blocks: not for
the event loop.  What the disk refuses is a StorageError.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import cast

from coterie.errors import StorageError, UsageError
from coterie.model.team import Member
from coterie.model.workspace import Workspace
from coterie.workspace.beneath import remove_start_files
from coterie.workspace.worktree import top_of

REHEARSAL_KEY = "rehearsal"
"""Stands where an API key would, in a rehearsal."""
_DOCUMENT = 32 * 1024
"""So much of the material's own instructions is read."""


def private_folder(path: Path) -> Path:
    """Make a folder that only its owner can enter; the ones above it are there already."""
    with _told(path):
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        with _opened(path) as folder:
            if stat.S_IMODE(os.fstat(folder).st_mode) & 0o077:
                os.fchmod(folder, 0o700)
    return path


def write_private(path: Path, text: str) -> None:
    """Give a file this text, readable by its owner alone; left alone where it is so already.

    A link in its place is replaced, not followed; its folder must be there and be no link.
    """
    data = text.encode("utf-8", "replace")
    with _told(path), _opened(path.parent) as folder:
        if _has(folder, path.name, data):
            return
        fresh = _new_name(path)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with os.fdopen(os.open(fresh, flags, 0o600, dir_fd=folder), "wb") as file:
                file.write(data)
            os.rename(fresh, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            with suppress(FileNotFoundError):
                os.unlink(fresh, dir_fd=folder)
            raise


def link_private(link: Path, target: Path) -> None:
    """Have a link lead to a file elsewhere; a file that stands in its place is replaced."""
    with _told(link), _opened(link.parent) as folder:
        with suppress(OSError):  # there is none, or it is no link
            if os.readlink(link.name, dir_fd=folder) == str(target):
                return
        fresh = _new_name(link)
        os.symlink(target, fresh, dir_fd=folder)
        os.rename(fresh, link.name, src_dir_fd=folder, dst_dir_fd=folder)


def remove_private(path: Path) -> None:
    """Have no file here; a link goes, what it leads to stays."""
    with _told(path), _opened(path.parent) as folder, suppress(FileNotFoundError):
        os.unlink(path.name, dir_fd=folder)


def object_in(path: Path) -> dict[str, object]:
    """The object that a JSON file holds; empty for anything else."""
    try:
        found = cast("object", json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError):
        return {}
    return cast("dict[str, object]", found) if isinstance(found, dict) else {}


def text_in(path: Path, *names: str) -> str | None:
    """The text that stands under these names, one below the other, in a JSON file; else None."""
    found = cast("object", object_in(path))
    for name in names:
        found = cast("dict[str, object]", found).get(name) if isinstance(found, dict) else None
    return found if isinstance(found, str) else None


def rehearsal_env(env: Mapping[str, str], real: str, login: Mapping[str, str]) -> dict[str, str]:
    """An environment that leads to the stand-in of a rehearsal, and to nothing real.

    `real` is how the names of variables begin that would lead to a real model, as a regular
    expression.
    """
    kept = {name: value for name, value in env.items() if not re.match(real, name)}
    return {**kept, **login, **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")}


def link_login(link: Path, place: str, workspace: Workspace) -> bool:
    """Let what stands at this place of the user's home serve this member; whether there is one.

    For programs that write a renewed login into the file itself: it goes through the link.
    """
    login = None
    if workspace.user_home is not None and workspace.rehearsal is None:
        login = workspace.user_home / place
    if login is not None and login.is_file():
        link_private(link, login)
    elif link.is_symlink():
        remove_private(link)
    return link.exists()


def briefing(member: Member, workspace: Workspace, documents: Sequence[str]) -> str:
    """Who the member is, what its team is told, and what the material's documents of these names
    say where the user trusts it."""
    parts = [member.system_instruction.strip(), workspace.team_instruction.strip()]
    cwd = workspace.execution_dir.resolve()
    if workspace.trusted and (text := documents_of(cwd, documents)):
        parts.append(f"The project's own instructions:\n\n{text}")
    return "\n\n".join(part for part in parts if part)


def documents_of(cwd: Path, names: Sequence[str], *, one_a_folder: bool = False) -> str:
    """What files of these names say, from the root of the repository down to here.

    `one_a_folder`: of those in one folder only the first counts.
    """
    up = [cwd, *cwd.parents]
    root = top_of(cwd) or cwd
    folders = reversed(up[: up.index(root) + 1])
    found: list[str] = []
    for folder in folders:
        here = [said for name in names if (said := _document(folder / name, root))]
        found += here[:1] if one_a_folder else here
    return "\n\n".join(found)[:_DOCUMENT]


def _document(path: Path, root: Path) -> str:
    found = path.resolve()
    # A link may lead to another file of the material, not to one of the user's.
    if not (found.is_file() and found.is_relative_to(root)):
        return ""
    with found.open(encoding="utf-8", errors="replace") as file:
        return file.read(_DOCUMENT).strip()


_COMMANDS = "commands"


def home_of_commands(workspace: Workspace) -> Workspace:
    """The same with a home of its own for commands of the built-in agent: what these leave is in
    none that the program of a vendor would start from, should the member become another's."""
    home = private_folder(workspace.home / _COMMANDS)
    with _told(home):
        remove_start_files(home)
    return replace(workspace, home=home, env={**workspace.env, "HOME": str(home)})


# -- without following links -------------------------------------------------------------------


@contextmanager
def _told(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        problem = f"The member's files cannot be written: {error.strerror}"
        raise StorageError(str(path), problem) from error


@contextmanager
def _opened(folder: Path) -> Generator[int]:
    if folder.is_symlink() or folder.is_file():
        raise UsageError(
            f"{folder} is no folder.", "A member's home holds no links to folders: remove it."
        )
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _has(folder: int, name: str, data: bytes) -> bool:
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError:  # absent, or a link
        return False
    try:
        found = os.fstat(descriptor)
        # Another name of the same file would let whoever made it read what is written next.
        ours = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
        private = not stat.S_IMODE(found.st_mode) & 0o077
        return ours and private and os.pread(descriptor, len(data) + 1, 0) == data
    finally:
        os.close(descriptor)


def _new_name(path: Path) -> str:
    return f".{path.name}.{os.urandom(4).hex()}"
