"""The deadline of this process's agents, in a page of memory shared with their keepers.

The owner of a lease writes it with every renewal, and each keeper reads it by its own clock, so
that agents end in time even if their owner is stopped, cut off or too slow.  The page is two words:
the deadline in nanoseconds of CLOCK_BOOTTIME, which advances while a laptop sleeps, and whether it
was missed, which is set by whichever process notices first and never cleared.

Imports nothing from Coterie: the keeper, which is a separate program, uses it too.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # the keeper starts with every agent, so it imports little
    from collections.abc import Callable

CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
SIZE = 16
_SECOND = 1_000_000_000
_ABSOLUTE = 1
_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC


def now() -> float:
    """Seconds of a clock that never stops, not even while this machine sleeps."""
    return time.clock_gettime(CLOCK)


class LeaseDeadline:
    """The rules, on two words.  `soft` is how many seconds before the deadline the agents are asked
    to end; from then on nothing is started or written."""

    def __init__(
        self, words: memoryview[int] | list[int], soft: float, clock: Callable[[], float] = now
    ) -> None:
        self.soft = soft
        self.now = clock
        self._words = words

    @property
    def deadline(self) -> float:
        """When the last agent must be dead."""
        return self._words[0] / _SECOND

    def begin(self, deadline: float) -> None:
        """The lease was taken."""
        self._words[0] = int(deadline * _SECOND)

    def extend(self, deadline: float) -> bool:
        """The lease was renewed; returns False if that came too late."""
        if self.passed():
            return False
        self._words[0] = max(self._words[0], int(deadline * _SECOND))
        return not self.passed()

    def expire(self) -> None:
        """The lease is over, whatever its deadline says."""
        self._words[1] = 1

    def revoke(self) -> None:
        """Another process has taken over the lease and may already run: end everything at once."""
        self._words[0] = min(self._words[0], int(self.now() * _SECOND))
        self.expire()

    def passed(self) -> bool:
        """Whether nothing more may be started or written."""
        if not self._words[1] and self.now() >= self.deadline - self.soft:
            self.expire()
        return bool(self._words[1])


class DeadlinePage(LeaseDeadline):
    """The page itself, for its owner and for a keeper."""

    def __init__(self, fd: int, soft: float) -> None:
        super().__init__(memoryview(mmap.mmap(fd, SIZE)).cast("q"), soft)  # written at once
        self.fd = fd

    @classmethod
    def made(cls, soft: float) -> DeadlinePage:
        """A new page, in an unnamed file; its deadline counts as passed until it is set."""
        if sys.platform == "linux":
            fd = os.memfd_create("coterie-lease")
        else:
            import tempfile

            with tempfile.TemporaryFile() as file:
                fd = os.dup(file.fileno())
        os.ftruncate(fd, SIZE)
        return cls(fd, soft)

    def close(self) -> None:
        """Close the file; the keepers have their own descriptors."""
        os.close(self.fd)


class LeaseTimer:
    """A keeper's view of the page: wakes it when the last known deadline is near, but not when the
    deadline is extended."""

    def __init__(self, page: LeaseDeadline) -> None:
        self.page = page
        self.fd: int | None = None
        """A descriptor that becomes readable when it is time to look; None: see `due` instead."""
        if sys.platform == "linux":
            self.fd = _libc("timerfd_create", CLOCK, _NONBLOCK_CLOEXEC)
        self._missed = False
        self._arm(page.deadline - page.soft)

    @classmethod
    def of(cls, fd: int, soft: float) -> LeaseTimer:
        """A timer on the page in an inherited file, which the agent must not inherit."""
        os.set_inheritable(fd, False)
        return cls(DeadlinePage(fd, soft))

    def look(self) -> str:
        """Return `e` if the agent should be asked to end, `k` if its tree should be killed."""
        at = self.page.now()
        if self.page.passed() and at >= self.page.deadline:
            return "k"
        if not self.page.passed():
            self._arm(self.page.deadline - self.page.soft)
            return ""
        self._arm(self.page.deadline)
        first, self._missed = not self._missed, True
        return "e" if first else ""

    def until_look(self, seconds: float | None) -> float | None:
        """Limit a wait of this many seconds such that it ends when it is time to look."""
        if self.fd is not None:
            return seconds
        left = max(0.0, self.due - self.page.now())
        return left if seconds is None else min(seconds, left)

    def _arm(self, at: float) -> None:
        self.due: float = at
        if self.fd is not None:
            seconds = max(at, 0.0)
            spec = struct.pack("qqqq", 0, 0, int(seconds), int(seconds % 1 * _SECOND) or 1)
            _libc("timerfd_settime", self.fd, _ABSOLUTE, spec, None)


def _libc(name: str, *words: object) -> int:
    import ctypes  # the keeper has already loaded it; the owner needs no timer

    answer = getattr(ctypes.CDLL(None, use_errno=True), name)(*words)
    if answer < 0:
        raise OSError(ctypes.get_errno(), name)
    return answer
