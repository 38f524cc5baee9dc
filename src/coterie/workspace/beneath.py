"""Access to files below a project's `.coterie` without following symlinks on the way.

A repository, an archive or a member may have put a link where Coterie keeps a folder or file: then
what Coterie reads would not be its own, and what it writes or deletes would be somebody else's.
So a folder is opened component by component from `.coterie` down, each relative to its parent's
descriptor.  Where a library needs a path instead, the same checks run immediately before.  All
calls block.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path

from coterie.errors import NotOurs
from coterie.model.workspace import START_FILES

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_REFERENCE: int | None = getattr(os, "O_PATH", None)  # Linux only


@contextmanager
def open_folder(base: Path, *names: str, make: bool = False) -> Generator[int]:
    """Open the folder at these names below `base`, which is a `.coterie`; yield its descriptor.

    `make` creates missing folders, accessible only to their owner.  Raises NotOurs if a component
    is a link, not a folder or another user's, and OSError as the system reports it.
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


@contextmanager
def open_folder_below(
    base: Path, names: Iterable[str], *, make: bool = False, unlock: bool = False
) -> Generator[int]:
    """Do the same below any folder: links are not followed, but ownership is not checked.

    With `unlock`, folders of ours on the way give us full access from now on, whatever their
    permissions were.
    """
    opened = _open_unlocked if unlock else _open_below
    here = opened(base, None)
    try:
        for name in names:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=here)
            above, here = here, opened(name, here)
            os.close(above)
        yield here
    finally:
        os.close(here)


def _open_below(name: str | Path, folder: int | None) -> int:
    return os.open(name, _FOLDER, dir_fd=folder)


def _open_unlocked(name: str | Path, folder: int | None) -> int:
    try:
        descriptor = _open_below(name, folder)
    except PermissionError:
        _make_readable(name, folder)
        descriptor = _open_below(name, folder)
    facts = os.fstat(descriptor)
    if facts.st_mode & stat.S_IRWXU != stat.S_IRWXU and facts.st_uid == os.geteuid():
        with suppress(OSError):  # what stays locked shows in the next call
            os.fchmod(descriptor, stat.S_IMODE(facts.st_mode) | stat.S_IRWXU)
    return descriptor


def _make_readable(name: str | Path, folder: int | None) -> None:
    """Change the mode of a folder that cannot be opened; fails unless it is ours."""
    if _REFERENCE is None:
        os.chmod(name, stat.S_IRWXU, dir_fd=folder, follow_symlinks=False)
        return
    descriptor = os.open(name, _REFERENCE | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    try:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode) | stat.S_IRWXU
        Path(f"/proc/self/fd/{descriptor}").chmod(mode)
    finally:
        os.close(descriptor)


def walk(
    top: str | Path, enters: Callable[[str], bool] = lambda name: True
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield everything below a folder, in order, by relative path; links are not followed.

    Folders that cannot be read or that `enters` declines are not entered.  Unlike `os.walk`, which
    needs a stack frame for every level before Python 3.12, it copes with any depth.
    """
    stack = [("", _sorted_entries(f"{top}"))]
    while stack:
        inside, entries = stack[-1]
        entry = next(entries, None)
        if entry is None:
            stack.pop()
            continue
        name = inside + entry.name
        yield name, entry
        if entry.is_dir(follow_symlinks=False) and enters(name):
            stack.append((f"{name}/", _sorted_entries(f"{top}/{name}")))


def _sorted_entries(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as listed:
            return iter(sorted(listed, key=lambda entry: entry.name))
    except OSError:
        return iter(())


def remove_tree(path: str | Path, *, dir_fd: int | None = None) -> None:
    """Remove a folder and all that can be removed in it, however deep; OSError if anything remains.

    Folders inside are moved to the top: `shutil.rmtree` needs a descriptor for every level.
    """
    top = _open_unlocked(path, dir_fd)
    try:
        pending = list(_remove_files(top, top))
        while pending:
            name = pending.pop()
            with suppress(OSError):
                folder = _open_unlocked(name, top)
                try:
                    pending += _remove_files(folder, top)
                finally:
                    os.close(folder)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(path, dir_fd=dir_fd)


def _remove_files(folder: int, top: int) -> Iterator[str]:
    """Remove what is in a folder; yield the names of the folders in it, moved to the top."""
    with os.scandir(folder) as listed:
        entries = list(listed)
    for entry in entries:
        with suppress(OSError):
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.name, dir_fd=folder)
            elif folder == top:
                yield entry.name
            else:
                os.close(_open_unlocked(entry.name, folder))  # a locked one could not be moved
                name = secrets.token_hex(16)
                os.rename(entry.name, name, src_dir_fd=folder, dst_dir_fd=top)
                yield name


def open_within(folder: Path, path: Path) -> BufferedReader:
    """Open a regular file for reading; links on the way to it may not lead out of the folder.

    Raises OSError if they do, or if there is no such file, and ValueError for a null byte.  Never
    waits, not even for a pipe without a writer.
    """
    top = Path(os.path.realpath(folder))
    # Only a strict look resolves what follows a link in a loop.
    place = Path(os.path.realpath(path, strict=True))
    if top not in place.parents:
        raise OSError(f"leads out of {top}")
    *above, name = place.relative_to(top).parts
    with open_folder_below(top, above) as inner:
        descriptor = os.open(name, os.O_RDONLY | _FILE, dir_fd=inner)
    return regular_file(descriptor)


def regular_file(descriptor: int) -> BufferedReader:
    """Return an open regular file for reading; raises OSError if it is anything else."""
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise OSError(errno.EINVAL, "Is a directory" if stat.S_ISDIR(mode) else "Not a regular file")


def read_regular(path: Path | str, most: int, *, follow: bool = False) -> bytes:
    """Return the contents of a regular file that somebody else may have put there.

    Raises OSError if there is none, if it holds more than `most` bytes and, unless `follow`, for a
    link, and ValueError for a null byte in the path.  Never waits, not even for a pipe.
    """
    flags = _FILE & ~os.O_NOFOLLOW if follow else _FILE
    with regular_file(os.open(path, os.O_RDONLY | flags)) as file:
        # Not the maximum: that much memory would be allocated up front.
        data = file.read(min(most, os.fstat(file.fileno()).st_size) + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, "is too large", str(path))
    return data


def real_folder(base: Path, *names: str, make: bool = False) -> Path:
    """Return a folder's path, checked, for a library that cannot take a descriptor."""
    with open_folder(base, *names, make=make):
        return base.joinpath(*names)


def _open(place: Path, above: int | None) -> int:
    try:
        return os.open(place if above is None else place.name, _FOLDER, dir_fd=above)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            what = "is a link" if place.is_symlink() else "is not a folder"
            raise _not_ours(place, what) from None
        raise


def open_file(folder: int, place: Path, flags: int, mode: int = 0o600) -> int:
    """Open the file named like `place` in this folder: a regular file of the same owner.

    Raises NotOurs for a link, a pipe or another user's file; when writing, also for a file with
    several hard links, as it may be used anywhere else.
    """
    try:
        descriptor = os.open(place.name, flags | _FILE, mode, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _not_ours(place, "is a link") from None
        raise
    status = os.fstat(descriptor)
    writes = flags & (os.O_WRONLY | os.O_RDWR)
    wrong = None
    if not stat.S_ISREG(status.st_mode):
        wrong = "is not a regular file"
    elif status.st_uid != os.fstat(folder).st_uid:
        wrong = "belongs to another user"
    elif writes and status.st_nlink > 1:
        wrong = "has more than one hard link"
    if wrong is not None:
        os.close(descriptor)
        raise _not_ours(place, wrong)
    return descriptor


def read_file(base: Path, *names: str, limit: int = -1) -> bytes:
    """Return the contents of a file below `base`; raises FileNotFoundError if there is none."""
    with open_folder(base, *names[:-1]) as folder:
        descriptor = open_file(folder, base.joinpath(*names), os.O_RDONLY)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(limit)


def names_in(base: Path, *names: str) -> list[str]:
    """List a folder below `base`; empty if it is missing or not ours."""
    with suppress(OSError, NotOurs), open_folder(base, *names) as folder:
        return os.listdir(folder)  # noqa: PTH208 - a descriptor is not a path
    return []


def write_file(base: Path, names: Sequence[str], data: bytes, *, durable: bool = False) -> Path:
    """Replace a file, or a link in its place, below `base`; create the folders it needs.

    A crash of the process leaves the old or the new contents; with `durable`, so does one of the
    machine.
    """
    *above, name = names
    with open_folder(base, *above, make=True) as folder:
        replace_file(folder, name, data, durable=durable)
    return base.joinpath(*names)


def replace_file(
    folder: int, name: str, data: bytes, *, durable: bool = False, mode: int = 0o600
) -> None:
    """Do the same in an open folder; a temporary file left by a kill has a hidden name."""
    fresh = f".{name}.{os.urandom(4).hex()}.new"
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
    """Whether a file is a temporary one that `replace_file` left unfinished."""
    return re.fullmatch(r"\..+\.[0-9a-f]{8}\.new", name, re.DOTALL) is not None


def require_file(base: Path, *names: str) -> None:
    """Raise NotOurs if a file is a link, not a regular file or another user's.

    It is not opened: closing it would release the locks of a library that opens it by its path.
    """
    place = base.joinpath(*names)
    with open_folder(base, *names[:-1]) as folder, suppress(FileNotFoundError):
        status = os.stat(place.name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            raise _not_ours(place, "is a link")
        if not stat.S_ISREG(status.st_mode):
            raise _not_ours(place, "is not a regular file")
        if status.st_uid != os.fstat(folder).st_uid:
            raise _not_ours(place, "belongs to another user")


def remove_start_files(home: Path) -> None:
    """Remove all `START_FILES` from a home: a turn must leave nothing that the next one runs.

    Links are not followed: a link in place of a folder on the way is itself removed.
    """
    folder = _open_unlocked(home, None)
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
        remove_tree(name, dir_fd=folder)
    else:
        inner = _open_unlocked(name, folder)
        try:
            _remove_below(inner, *more)
        finally:
            os.close(inner)


def _not_ours(place: Path, what: str) -> NotOurs:
    return NotOurs(
        f"{place} {what}: Coterie did not create it.",
        "Nothing was read or written through it. Move it away, then try again.",
        str(place),
        "link",
    )


# -- keys that only their owner can read ---------------------------------------------------------

_KEY_BYTES = 32


def make_key(path: Path) -> bytes | None:
    """Return the key in a file, creating a missing file; None if the file holds no valid key."""
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(secrets.token_hex(_KEY_BYTES) + "\n")
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):  # atomic; never replaces another process's key
                os.link(fresh, path)
        finally:
            fresh.unlink()
    return read_key(path)


def read_key(path: Path) -> bytes | None:
    """Return the key in a file; None if the file is missing or holds no valid key."""
    try:
        key = bytes.fromhex(read_regular(path, 4 * _KEY_BYTES, follow=True).decode())
    except (OSError, ValueError):
        return None
    return key if len(key) == _KEY_BYTES else None
