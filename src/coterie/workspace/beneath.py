"""Files below a project's `.coterie`, reached without following a link on the way.

A repository, an archive or a member may have put a link where Coterie keeps a folder or a file of
its own: then what we read would not be ours, and what we write or delete would be somebody else's.
So a folder is opened part by part from `.coterie` down, each from the handle of the one above.
Where a library has to be given a path instead, the same is looked at right before.  All of it
blocks.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from coterie.errors import NotOurs
from coterie.model.workspace import START_FILES

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
NEW = ".new"
"""How the name of a draft ends."""


@contextmanager
def opened_folder(base: Path, *names: str, make: bool = False) -> Generator[int]:
    """A handle of the folder that these names lead to from `base`, which is a `.coterie`.

    `make` makes what is missing of it, for its owner alone.  Raises NotOurs where something on the
    way is a link, no folder or another user's, and OSError as the system does.
    """
    place, descriptor = base, -1
    try:
        descriptor = _open(base, None)
        owner = os.fstat(descriptor).st_uid
        for name in names:
            place /= name
            if make:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=descriptor)
            above, descriptor = descriptor, _open(place, descriptor)
            os.close(above)
            if os.fstat(descriptor).st_uid != owner:
                raise _not_ours(place, "belongs to another user")
        yield descriptor
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def real_folder(base: Path, *names: str, make: bool = False) -> Path:
    """The path of a folder for a library that cannot take a handle; checked as it is opened."""
    with opened_folder(base, *names, make=make):
        return base.joinpath(*names)


def _open(place: Path, above: int | None) -> int:
    try:
        return os.open(place if above is None else place.name, _FOLDER, dir_fd=above)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise _not_ours(place, _kind(place)) from None
        raise


def open_file(folder: int, place: Path, flags: int, mode: int = 0o600) -> int:
    """Open the file that `place` is called in the folder of this handle: a regular file of ours.

    Raises NotOurs for a link, a pipe or another user's; also for a second name of some file where
    it is to be written, as that file may be anywhere.
    """
    try:
        descriptor = os.open(place.name, flags | _FILE, mode, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _not_ours(place, "is a link") from None
        raise
    found = os.fstat(descriptor)
    writes = flags & (os.O_WRONLY | os.O_RDWR)
    wrong = None
    if not stat.S_ISREG(found.st_mode):
        wrong = "is no regular file"
    elif found.st_uid != os.fstat(folder).st_uid:
        wrong = "belongs to another user"
    elif writes and found.st_nlink > 1:
        wrong = "has another name elsewhere"
    if wrong is not None:
        os.close(descriptor)
        raise _not_ours(place, wrong)
    return descriptor


def read_file(base: Path, *names: str, limit: int = -1) -> bytes:
    """What a file below `base` holds; raises FileNotFoundError where there is none."""
    with opened_folder(base, *names[:-1]) as folder:
        descriptor = open_file(folder, base.joinpath(*names), os.O_RDONLY)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(limit)


def names_in(base: Path, *names: str) -> list[str]:
    """What is in a folder below `base`; nothing where there is no such folder of ours."""
    with suppress(OSError, NotOurs), opened_folder(base, *names) as folder:
        return os.listdir(folder)  # noqa: PTH208 - a handle is no path
    return []


def write_file(base: Path, names: Sequence[str], data: bytes, *, durable: bool = False) -> Path:
    """Replace a file below `base` as a whole, with the folders it needs; a link in its place goes.

    After a crash of the process it holds the old data or the new; `durable`: of the machine too.
    """
    *above, name = names
    with opened_folder(base, *above, make=True) as folder:
        replace_file(folder, name, data, durable=durable)
    return base.joinpath(*names)


def replace_file(
    folder: int, name: str, data: bytes, *, durable: bool = False, mode: int = 0o600
) -> None:
    """The same in the folder of a handle; a draft that a kill leaves there is hidden."""
    fresh = f".{name}.{os.urandom(4).hex()}{NEW}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(fresh, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=folder)
        raise
    if durable:
        os.fsync(folder)


def is_draft(name: str) -> bool:
    """Whether a file is one that `replace_file` has not finished."""
    return name.startswith(".") and name.endswith(NEW)


def require_file(base: Path, *names: str) -> None:
    """Raise NotOurs where a file is a link, no file or another user's; for a library that opens
    it by its path, and may not find its locks released by our closing it."""
    place = base.joinpath(*names)
    with opened_folder(base, *names[:-1]) as folder, suppress(FileNotFoundError):
        found = os.stat(place.name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            raise _not_ours(place, "is a link")
        if not stat.S_ISREG(found.st_mode):
            raise _not_ours(place, "is no regular file")
        if found.st_uid != os.fstat(folder).st_uid:
            raise _not_ours(place, "belongs to another user")


def remove_start_files(home: Path) -> None:
    """Have none of `START_FILES` in a home, so that a turn leaves nothing that the next one runs.

    No link is followed: one that stands for a folder on the way is removed itself.
    """
    folder = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for path in START_FILES.split():
            _remove_below(folder, *path.split("/"))
    finally:
        os.close(folder)


def _remove_below(folder: int, name: str, *more: str) -> None:
    try:
        kind = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(kind):
        os.unlink(name, dir_fd=folder)
    elif not more:
        shutil.rmtree(name, dir_fd=folder)
    else:
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
        try:
            _remove_below(inner, *more)
        finally:
            os.close(inner)


def _kind(place: Path) -> str:
    return "is a link" if place.is_symlink() else "is no folder"


def _not_ours(place: Path, what: str) -> NotOurs:
    return NotOurs(
        f"{place} {what}: Coterie makes no such thing there.",
        "Nothing was read or written through it. Move it away, then try again.",
        str(place),
        "link",
    )


# -- keys that nobody but their owner can read ---------------------------------------------------

_KEY_BYTES = 32


def make_key(path: Path) -> bytes | None:
    """The key in a file, made if there is no file; None where the file holds none."""
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(secrets.token_hex(_KEY_BYTES) + "\n")
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):  # whole or not at all, and never in another's place
                os.link(fresh, path)
        finally:
            fresh.unlink()
    return read_key(path)


def read_key(path: Path) -> bytes | None:
    """The key in a file; None where it is gone or holds none."""
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return key if len(key) == _KEY_BYTES else None
