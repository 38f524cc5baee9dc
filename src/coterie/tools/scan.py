"""The search for machines without ripgrep: a separate program, so that it can be stopped.

    scan.py PATTERN GLOB NAME

Searches the files below the current folder, or only the one called NAME in it, and prints the
path, a NUL and the number of each matching line.  The NUL-separated paths on standard input are
skipped.  Follows no links.  As with ripgrep, the exit code is 0 if something was found, 1 if
nothing was, 2 if the search failed.  A pattern that takes forever blocks only this process,
which the caller ends.
"""

import fnmatch
import os
import re
import stat
import sys
from collections.abc import Iterator

_CACHES = ".hg .mypy_cache .pytest_cache .ruff_cache .svn .tox .venv __pycache__ node_modules"
IGNORED = frozenset({".coterie", ".git", *_CACHES.split()})
"""Folders that contain nothing written by a person."""
LARGEST = 16 * 1024 * 1024
DEEPEST = 200
"""Folders nested deeper are not entered: each level takes a descriptor."""


def files(name: str, skipped: set[str]) -> Iterator[tuple[str, str, int]]:
    """Yield each file's path, its name, and the descriptor of its folder."""
    for place, folders, names, folder in os.fwalk(".", dir_fd=None):
        above = f"{place}/".removeprefix("./")
        is_last = name or place.count("/") >= DEEPEST
        within = [] if is_last else sorted(set(folders) - IGNORED)
        folders[:] = [one for one in within if above + one not in skipped]
        for one in sorted(names):
            if (not name or one == name) and above + one not in skipped:
                yield above + one, one, folder


def text_of(name: str, folder: int) -> str | None:
    """Return a file's text; None if it is not a regular file, too large, or binary."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        state = os.fstat(fd)
        if not stat.S_ISREG(state.st_mode) or state.st_size > LARGEST:
            return None
        data = file.read()
    return None if b"\0" in data[:8192] else data.decode("utf-8", "replace")


def wanted(path: str, name: str, glob: str) -> bool:
    """Whether a file matches the glob, if there is one."""
    if not glob:
        return True
    plain = glob.removeprefix("!")
    meant = fnmatch.fnmatch(path if "/" in plain else name, plain.replace("**/", "*"))
    return meant != glob.startswith("!")


def main(pattern: str, glob: str, name: str) -> int:
    """Search and return the exit code."""
    try:
        expression = re.compile(pattern)
    except re.error as error:
        sys.stderr.write(f"regex parse error: {error}\n")
        return 2
    hits = 0
    skipped = {path.rstrip("/") for path in os.fsdecode(sys.stdin.buffer.read()).split("\0")}
    for path, one, folder in files(name, skipped):
        text = text_of(one, folder) if wanted(path, one, glob) else None
        lines = text.removesuffix("\n").split("\n") if text else []
        for number, line in enumerate(lines, 1):
            if expression.search(line.removesuffix("\r")):
                hits += 1
                sys.stdout.buffer.write(os.fsencode(f"{path}\0{number}:\n"))
    return 0 if hits else 1


def run(pattern: str, glob: str, name: str) -> int:
    """Do the same; a bug has an exit code of its own, as Python's would mean "nothing found"."""
    try:
        return main(pattern, glob, name)
    except Exception as error:  # noqa: BLE001
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(run(*sys.argv[1:4]))
