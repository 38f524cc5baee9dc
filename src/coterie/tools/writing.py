"""Writing a file whole or not at all, in the folder that was reached and nowhere else."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from dataclasses import dataclass

from coterie.model.workspace import unfinished_name
from coterie.tools.ground import Place, Refusal
from coterie.tools.text_file import WHOLE

NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS)
"""What a file system says that has no hard links."""


@dataclass(frozen=True)
class Found:
    """A file as it was read."""

    data: bytes
    state: os.stat_result

    def same(self, other: os.stat_result) -> bool:
        """Whether that is still this file, unchanged."""
        mine, now = self.state, other
        return (mine.st_dev, mine.st_ino, mine.st_size, mine.st_mtime_ns) == (
            now.st_dev,
            now.st_ino,
            now.st_size,
            now.st_mtime_ns,
        )


def found(place: Place) -> Found | None:
    """The file that is there; None if there is none, Refusal if it cannot be edited."""
    if not place.exists():
        return None
    with place.open_file() as file:
        state = os.fstat(file.fileno())
        if state.st_size > WHOLE:
            raise Refusal(f"{place.path} has {state.st_size:,} bytes: too large to edit.")
        return Found(file.read(), state)


def write(place: Place, data: bytes, now: Found | None) -> None:
    """Put the file in its place, if what is there is still what was found.

    Whoever looks meanwhile sees the old file or the new one.  Should the name have become a
    link, the link itself is replaced and never followed.
    """
    if now is not None and not os.access(place.name, os.W_OK, dir_fd=place.folder):
        raise Refusal(f"{place.path} is write-protected.")
    fresh = unfinished_name()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(fresh, flags, 0o666, dir_fd=place.folder)
    try:
        with os.fdopen(fd, "wb") as file:
            if now is not None:
                _like(fd, now.state)
            file.write(data)
            file.flush()
            os.fsync(fd)
        _put(place, fresh, now)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=place.folder)


def _like(fd: int, state: os.stat_result) -> None:
    with suppress(PermissionError):  # another's file in a folder of ours
        os.fchown(fd, state.st_uid, state.st_gid)
    os.fchmod(fd, stat.S_IMODE(state.st_mode))


def _put(place: Place, fresh: str, now: Found | None) -> None:
    if now is None:
        folder = place.folder
        try:
            os.link(fresh, place.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            raise Refusal(f"{place.path} has been made by somebody else meanwhile.") from None
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            _over(place, fresh)
        return
    try:
        still = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except FileNotFoundError:
        still = None
    if still is None or not now.same(still):
        raise Refusal(f"{place.path} was changed by somebody else just now. Read it again.")
    _over(place, fresh)


def _over(place: Place, fresh: str) -> None:
    os.replace(fresh, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
