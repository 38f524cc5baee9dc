"""Where a path leads: links followed, `..` undone, whatever of it exists or not."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import iglob
from itertools import islice

MOST_LINKS = 40
MOST_FILES = 1000
"""A pattern that names more files than these is not looked through."""

GUARDED = frozenset(
    {
        ".git",
        ".coterie",
        ".claude",
        ".codex",
        ".gemini",
        ".qwen",
        ".opencode",
        ".mcp.json",
        ".husky",
        ".vscode",
        ".idea",
        ".devcontainer",
        ".envrc",
    }
)
"""What other programs run of themselves when a folder is opened, entered or committed to: hooks,
tasks, servers, settings of agents.  Who may edit files must not thereby be able to run any."""

PRIVATE = frozenset({".coterie"})
"""Holds the homes of all members, with their logins."""

FREE = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr"})

_OF_A_PROCESS = re.compile(r"/proc/[^/]+(?:/task/[^/]+)?/(cwd|root)")


@dataclass(frozen=True)
class Place:
    """What a path means."""

    named: str
    """Absolute, with `..` taken away as text."""
    real: str
    """Absolute, as the system would get there: through every link."""
    sure: bool = True
    """Whether another process, or another program, would get to the same place."""

    def within(self, root: str) -> bool:
        """Whether it surely is the folder or something in it."""
        return self.sure and is_below(self.real, root)

    def names_below(self, folder: str) -> Iterator[str]:
        """The names on the way from the folder to it, in lower case, by either reading."""
        for path in (self.named, self.real):
            if is_below(path, folder):
                yield from path[len(folder) :].casefold().split("/")

    def touches(self, names: frozenset[str], root: str) -> bool:
        """Whether one of these names is on the way to it."""
        return not names.isdisjoint(self.names_below(root))


def is_below(path: str, folder: str) -> bool:
    """Whether a path is the folder or in it, both absolute and without links."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def locate(path: str, cwd: str) -> Place:
    """Where a path leads, seen from a folder that is itself without links."""
    # Some tools trim what they are given, or take it for an address or a home; some do not.
    odd = "\0" in path or path != path.strip() or path.startswith(("~", "file:"))
    path = path.replace("\0", "")
    real, sure = _follow(path, cwd)
    return Place(_absolute(path, cwd), real, sure and not odd)


def at_home(path: str) -> str:
    """A path that may begin with `~`, without it."""
    return os.path.expanduser(path)  # noqa: PTH111 - Path would drop a last slash and dots


def _absolute(path: str, cwd: str) -> str:
    return "/" + os.path.normpath(os.path.join(cwd, path)).lstrip("/")  # noqa: PTH118


def _follow(path: str, cwd: str) -> tuple[str, bool]:
    here = "" if path.startswith("/") else cwd.rstrip("/")
    links, sure = 0, not here.startswith("/proc/")
    left = deque(path.split("/"))
    while left:
        part = left.popleft()
        if part in ("", "."):
            continue
        if part == "..":
            here = here.rpartition("/")[0]
            continue
        there = f"{here}/{part}"
        sure = sure and not there.startswith("/proc/")  # `self` is whoever looks
        target = _link(there, cwd)
        if target is None:
            here = there
            continue
        links += 1
        if links > MOST_LINKS:
            return there, False
        here = "" if target.startswith("/") else here
        left.extendleft(reversed(target.split("/")))
    return here or "/", sure


def _link(path: str, cwd: str) -> str | None:
    of_a_process = _OF_A_PROCESS.fullmatch(path)
    if of_a_process:
        return "/" if of_a_process[1] == "root" else cwd
    try:
        return os.readlink(path)  # noqa: PTH115 - names that are no text are kept as they are
    except (OSError, ValueError):
        return None


def exists_at_top(path: str) -> bool:
    """Whether the first name of an absolute path is there: `/api/users` mostly is no path."""
    return os.path.lexists("/" + path.strip("/").split("/")[0])


def files_named(pattern: str, cwd: str) -> Sequence[str] | None:
    """The files that a shell may put in place of a pattern; None where they are too many.

    Hidden ones too, which a shell only takes when it is told to.
    """
    if "**" in pattern:
        return None  # some shells look through whole trees
    found = iglob(pattern, root_dir=cwd, include_hidden=True)  # noqa: PTH207
    try:
        some = list(islice(found, MOST_FILES + 1))
    except (OSError, ValueError):
        return None
    return None if len(some) > MOST_FILES else some


def folder_of(pattern: str) -> str:
    """The folder in which all files are that a pattern may name."""
    return re.split(r"[*?\[]", pattern, maxsplit=1)[0].rpartition("/")[0] or (
        "/" if pattern.startswith("/") else "."
    )
