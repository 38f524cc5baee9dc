"""Until when the agents of this process may run: a page of memory that their keepers share.

Written by the owner of a lease with every renewal, read by each keeper on its own clock, so that
agents end in time even where their owner is stopped, cut off or too slow.  The page is two words:
the deadline in nanoseconds of CLOCK_BOOTTIME, which goes on while a laptop sleeps, and whether it
was missed, which whoever sees it first writes there and nobody takes back.

Imports nothing of Coterie: the keeper, which is a program of its own, uses it too.
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
    """Seconds of a clock that never stands still while this machine runs, or sleeps."""
    return time.clock_gettime(CLOCK)


class LeaseDeadline:
    """The rules, on two words.  `soft` is how many seconds before the deadline agents are asked to
    end; from then on nothing is started or written."""

    def __init__(
        self, words: memoryview[int] | list[int], soft: float, clock: Callable[[], float] = now
    ) -> None:
        self.soft = soft
        self.now = clock
        self._words = words

    @property
    def deadline(self) -> float:
        """When the last agent is dead."""
        return self._words[0] / _SECOND

    def begin(self, deadline: float) -> None:
        """The lease was taken."""
        self._words[0] = int(deadline * _SECOND)

    def extend(self, deadline: float) -> bool:
        """The lease was renewed; False where that came too late."""
        if self.passed():
            return False
        self._words[0] = max(self._words[0], int(deadline * _SECOND))
        return not self.passed()

    def miss(self) -> None:
        """The lease is over, whatever its deadline says."""
        self._words[1] = 1

    def lose(self) -> None:
        """Another has taken the lease from us, and may go on already: there is no time to end."""
        self._words[0] = min(self._words[0], int(self.now() * _SECOND))
        self.miss()

    def passed(self) -> bool:
        """Whether nothing may be started or written any more."""
        if not self._words[1] and self.now() >= self.deadline - self.soft:
            self.miss()
        return bool(self._words[1])


class DeadlinePage(LeaseDeadline):
    """The page itself, for its owner and for a keeper."""

    def __init__(self, fd: int, soft: float) -> None:
        super().__init__(memoryview(mmap.mmap(fd, SIZE)).cast("q"), soft)  # written at once
        self.fd = fd

    @classmethod
    def made(cls, soft: float) -> DeadlinePage:
        """A new page, in a file without a name; its deadline has passed until it is set."""
        if sys.platform == "linux":
            fd = os.memfd_create("coterie-lease")
        else:
            import tempfile

            with tempfile.TemporaryFile() as file:
                fd = os.dup(file.fileno())
        os.ftruncate(fd, SIZE)
        return cls(fd, soft)

    def close(self) -> None:
        """Let go of the file; the keepers have theirs."""
        os.close(self.fd)


class LeaseTimer:
    """A keeper's look at the page: wakes it when the deadline it knows of is near, and not when
    that is put off."""

    def __init__(self, page: LeaseDeadline) -> None:
        self.page = page
        self.fd: int | None = None
        """What can be read when it is time to look; where there is no such thing, `due` says."""
        if sys.platform == "linux":
            self.fd = _libc("timerfd_create", CLOCK, _NONBLOCK_CLOEXEC)
        self._missed = False
        self._arm(page.deadline - page.soft)

    @classmethod
    def of(cls, fd: int, soft: float) -> LeaseTimer:
        """A look at the page in an inherited file, which is not for the agent."""
        os.set_inheritable(fd, False)
        return cls(DeadlinePage(fd, soft))

    def look(self) -> str:
        """`e` when the agent is to be asked to end, `k` when all of it is to be killed."""
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
        """How long to wait for something else, of so many seconds, until it is time to look."""
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
    import ctypes  # the keeper has it already; the owner needs no timer

    answer = getattr(ctypes.CDLL(None, use_errno=True), name)(*words)
    if answer < 0:
        raise OSError(ctypes.get_errno(), name)
    return answer
