"""The files in a member's home: written atomically, and never through a link.

What a particular vendor's CLI needs there is in its package under `agents/`.  All calls block, so
keep them off the event loop.  Disk errors become StorageErrors.
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
from coterie.workspace.beneath import open_within, read_regular, remove_start_files
from coterie.workspace.worktree import top_of

REHEARSAL_KEY = "rehearsal"
"""Placeholder for an API key in a rehearsal."""
_LARGEST = 64 * 1024 * 1024
"""Bytes; some CLIs keep much in one file, but none as much as this."""
_DOCUMENT = 32 * 1024
"""Maximum length of the material's own instructions."""


def private_folder(path: Path) -> Path:
    """Create a folder that only its owner can enter; its parents must exist."""
    with _storage_errors(path):
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        with _open_folder(path) as folder:
            if stat.S_IMODE(os.fstat(folder).st_mode) & 0o077:
                os.fchmod(folder, 0o700)
    return path


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read; leave it alone if it is so already.

    A link in its place is replaced, not followed; its folder must exist and not be a link.
    """
    data = text.encode("utf-8", "replace")
    with _storage_errors(path), _open_folder(path.parent) as folder:
        if _has_content(folder, path.name, data):
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
    """Create a link to a file elsewhere, replacing a file in its place."""
    with _storage_errors(link), _open_folder(link.parent) as folder:
        with suppress(OSError):  # missing, or not a link
            if os.readlink(link.name, dir_fd=folder) == str(target):
                return
        fresh = _new_name(link)
        os.symlink(target, fresh, dir_fd=folder)
        os.rename(fresh, link.name, src_dir_fd=folder, dst_dir_fd=folder)


def remove_private(path: Path) -> None:
    """Remove a file if it exists; of a link only the link itself."""
    with _storage_errors(path), _open_folder(path.parent) as folder, suppress(FileNotFoundError):
        os.unlink(path.name, dir_fd=folder)


def read_json_object(path: Path) -> dict[str, object]:
    """Return the object in a JSON file; empty for anything else."""
    try:
        data = cast("object", json.loads(read_regular(path, _LARGEST, follow=True)))
    except (OSError, ValueError, RecursionError):
        return {}
    return cast("dict[str, object]", data) if isinstance(data, dict) else {}


def read_json_string(path: Path, *names: str) -> str | None:
    """Return the string at this path of keys in a JSON file; None if there is none."""
    value = cast("object", read_json_object(path))
    for name in names:
        value = cast("dict[str, object]", value).get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None


def rehearsal_env(env: Mapping[str, str], real: str, login: Mapping[str, str]) -> dict[str, str]:
    """Return an environment that leads only to a rehearsal's stand-in, not to a real model.

    `real` is a regular expression for the beginning of variable names that could lead to a real
    model.
    """
    kept = {name: value for name, value in env.items() if not re.match(real, name)}
    return {**kept, **login, **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")}


def link_login(link: Path, place: str, workspace: Workspace) -> bool:
    """Share a file of the user's home with this member; return whether the link leads to one.

    For programs that write a renewed login to the file itself: they write through the link.
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
    """Return the member's role, the team's instructions and, if the user trusts the material, those
    of its documents with these names."""
    parts = [member.system_instruction.strip(), workspace.team_instruction.strip()]
    cwd = workspace.execution_dir.resolve()
    if workspace.trusted and (text := documents_of(cwd, documents)):
        parts.append(f"The project's own instructions:\n\n{text}")
    return "\n\n".join(part for part in parts if part)


def documents_of(cwd: Path, names: Sequence[str], *, first_per_folder: bool = False) -> str:
    """Return the text of files with these names, from the repository's root down to this folder.

    With `first_per_folder` only the first in each folder counts.
    """
    up = [cwd, *cwd.parents]
    root = top_of(cwd) or cwd
    folders = reversed(up[: up.index(root) + 1])
    texts: list[str] = []
    for folder in folders:
        here = [text for name in names if (text := _document(folder / name, root))]
        texts += here[:1] if first_per_folder else here
    return "\n\n".join(texts)[:_DOCUMENT]


def _document(path: Path, root: Path) -> str:
    # A link may lead to another file of the material, but not to one of the user's.
    try:
        with open_within(root, path) as file:
            return file.read(4 * _DOCUMENT).decode(errors="replace").strip()
    except OSError:
        return ""


_COMMANDS = "commands"


def home_of_commands(workspace: Workspace) -> Workspace:
    """Return the workspace with a separate home for commands of the built-in agent.

    What they leave there must not be in the home that a vendor's CLI would use, should the member
    switch to one.
    """
    home = private_folder(workspace.home / _COMMANDS)
    with _storage_errors(home):
        remove_start_files(home)
    return replace(workspace, home=home, env={**workspace.env, "HOME": str(home)})


# -- never following links ---------------------------------------------------------------------


@contextmanager
def _storage_errors(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        problem = f"The member's files cannot be written: {error.strerror}"
        raise StorageError(str(path), problem) from error


@contextmanager
def _open_folder(folder: Path) -> Generator[int]:
    if folder.is_symlink() or folder.is_file():
        raise UsageError(
            f"{folder} is not a folder.",
            "A member's home must not contain links to folders: remove it.",
        )
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _has_content(folder: int, name: str, data: bytes) -> bool:
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError:  # absent, or a link
        return False
    try:
        status = os.fstat(descriptor)
        # A second hard link would let whoever created it read what is written next.
        regular = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
        private = not stat.S_IMODE(status.st_mode) & 0o077
        return regular and private and os.pread(descriptor, len(data) + 1, 0) == data
    finally:
        os.close(descriptor)


def _new_name(path: Path) -> str:
    return f".{path.name}.{os.urandom(4).hex()}"
