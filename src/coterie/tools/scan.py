"""The search for machines without ripgrep: a program of its own, so that it can be stopped.

    scan.py PATTERN GLOB NAME

Looks through the files below the current folder, or in the one of that NAME, and prints the path,
a NUL and the number of each line that the pattern is found in.  Follows no link.  As with ripgrep
the exit code is 0 if something was found, 1 if nothing, 2 if the pattern is wrong.  A pattern
that takes for ever holds up only this process, which the caller ends.
"""

import fnmatch
import os
import re
import stat
import sys
from collections.abc import Iterator

IGNORED = {".coterie", ".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules"}
LARGEST = 16 * 1024 * 1024


def files(name: str) -> Iterator[tuple[str, str, int]]:
    """The path of each file, its name, and the folder that it is in, which is open."""
    for place, folders, names, folder in os.fwalk(".", dir_fd=None):
        folders[:] = [] if name else sorted(set(folders) - IGNORED)
        for one in sorted(names):
            if not name or one == name:
                yield f"{place}/{one}".removeprefix("./"), one, folder


def text_of(name: str, folder: int) -> str | None:
    """What is in a file; None if it is none, too large, or no text."""
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
    """Whether a glob, if there is one, means this file."""
    if not glob:
        return True
    plain = glob.removeprefix("!")
    meant = fnmatch.fnmatch(path if "/" in plain else name, plain.replace("**/", "*"))
    return meant != glob.startswith("!")


def main(pattern: str, glob: str, name: str) -> int:
    """Search; returns the exit code."""
    try:
        expression = re.compile(pattern)
    except re.error as error:
        sys.stderr.write(f"regex parse error: {error}\n")
        return 2
    hits = 0
    for path, one, folder in files(name):
        text = text_of(one, folder) if wanted(path, one, glob) else None
        lines = text.removesuffix("\n").split("\n") if text else []
        for number, line in enumerate(lines, 1):
            if expression.search(line.removesuffix("\r")):
                hits += 1
                sys.stdout.buffer.write(os.fsencode(f"{path}\0{number}:\n"))
    return 0 if hits else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
