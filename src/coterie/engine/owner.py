"""Whether a Coterie process lives: asked of a lock it holds for life, never of a pid or a clock.

Everything here touches files, so the event loop calls it in a thread.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class OwnerFacts:
    """What an owner wrote about itself: good for a message, never for a decision."""

    pid: int | None = None
    host: str | None = None


class Owner:
    """This process, as the owner of tasks."""

    def __init__(self, folder: Path, host: str) -> None:
        """Take a lock file of our own under `folder`."""
        folder.mkdir(mode=0o700, exist_ok=True)
        self.folder = folder
        self.id: str = secrets.token_hex(6)
        # Locked under a name nobody looks at, then renamed: a file that can be seen is locked,
        # unless its owner is dead.
        hidden = folder / f".{self.id}"
        self._fd = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(self._fd, json.dumps({"pid": os.getpid(), "host": host}).encode())
        hidden.rename(folder / self.id)

    def release(self) -> None:
        """Say that this process runs nothing any more."""
        with suppress(FileNotFoundError):
            (self.folder / self.id).unlink()
        os.close(self._fd)


@contextmanager
def proven_dead(folder: Path, owner: str) -> Generator[bool]:
    """Whether an owner is dead; while the block runs, nobody else can come to that conclusion."""
    try:
        fd = os.open(folder / owner, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        yield True
        return
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(fd)


def living(folder: Path, owner: str) -> OwnerFacts | None:
    """What is known of an owner that lives; None of a dead one."""
    with proven_dead(folder, owner) as dead:
        return None if dead else facts(folder, owner)


def facts(folder: Path, owner: str) -> OwnerFacts:
    """What is known of an owner."""
    try:
        data = json.loads((folder / owner).read_text())
        return OwnerFacts(pid=data.get("pid"), host=data.get("host"))
    except (OSError, ValueError):
        return OwnerFacts()


def sweep(folder: Path, needed: frozenset[str]) -> None:
    """Remove the files of dead owners that no lease names."""
    with suppress(FileNotFoundError):
        for path in folder.iterdir():
            if path.name in needed or path.name.startswith("."):
                continue
            with proven_dead(folder, path.name) as dead, suppress(FileNotFoundError):
                if dead:
                    path.unlink()
