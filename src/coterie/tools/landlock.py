"""The launcher of a command that Landlock holds: a program that confines itself, then becomes it.

    landlock.py [--write=PATH…] [--read=PATH…] [--hide=PATH…] -- COMMAND [ARG…]
    landlock.py --scope -- COMMAND [ARG…]

It imports nothing of Coterie and is run by path.  What is confined stays so, with all that it
starts.  Landlock knows only what is allowed and never takes back a part of it, so what is hidden
is left out of what may be read: everything beside the way to it is allowed by itself.  For the
same reason nothing can be hidden inside a folder that may be written.

With `--scope` no files are held, for another sandbox does that, but the sockets without a file of
processes outside are, which no mount can hide: a desktop's can be typed into.

If the kernel cannot hold the command, it is not run: exit code 126.
"""

import ctypes
import os
import struct
import sys
from collections.abc import Iterator
from typing import NoReturn

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
ASK_VERSION = 1
PATH_BENEATH = 1
PR_SET_NO_NEW_PRIVS = 38
CAPABILITY_VERSION = 0x20080522
OLDEST = 3
"""Before this version a file outside could still be emptied."""

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
SINCE = {1: (1 << 13) - 1, 2: 1 << 13, 3: TRUNCATE, 5: IOCTL_DEV}
"""The rights that each version brought."""
SCOPES = 6
NO_SIGNALS_OUT = 0b11
"""Since that version: neither signals nor abstract sockets to processes outside."""
DEVICES = ("full", "null", "ptmx", "pts", "random", "shm", "tty", "urandom", "zero")
REFUSED = 126

libc: ctypes.CDLL = ctypes.CDLL(None, use_errno=True)


def call(*words: object) -> int:
    """A system call that Python has no name for; OSError if it fails."""
    answer = libc.syscall(*words)
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer


def rights(version: int) -> int:
    """All that this version can forbid."""
    return sum(bits for since, bits in SINCE.items() if since <= version)


def ruleset(version: int, files: int) -> int:
    """A set of rules that forbids this of files, and all else that it can, as a descriptor."""
    words = [files, 0, NO_SIGNALS_OUT][: 1 if version < 4 else 2 if version < SCOPES else 3]
    given = struct.pack(f"{len(words)}Q", *words)
    return call(CREATE_RULESET, given, len(given), 0)


def allow(rules: int, path: str, allowed: int) -> None:
    """Allow this at a path and below; one that is not there, or not for us, is passed over."""
    try:
        fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not os.path.isdir(f"/proc/self/fd/{fd}"):  # noqa: PTH112 - starts faster
            allowed &= OF_FILES
        call(ADD_RULE, rules, PATH_BENEATH, struct.pack("=Qi", allowed, fd), 0)
    finally:
        os.close(fd)


def beside(folder: str, hidden: list[str]) -> Iterator[str]:
    """All that is in a folder and does not lead to something hidden, each by itself.

    No links: one may lead to where something is hidden, and what it leads to counts by itself.
    """
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.path in hidden or entry.is_symlink():
            continue
        if any(one.startswith(f"{entry.path}/") for one in hidden):
            yield from beside(entry.path, hidden)
        else:
            yield entry.path


def confine(writable: list[str], readable: list[str], hidden: list[str]) -> None:
    """Give up every other right, for good."""
    version = call(CREATE_RULESET, None, 0, ASK_VERSION)
    if version < OLDEST:
        raise OSError(f"Landlock is of version {version}, and {OLDEST} is needed")
    rules = ruleset(version, rights(version))
    for path in [*beside("/", hidden), *readable]:
        allow(rules, path, READ & rights(version))
    devices = [f"/dev/{name}" for name in DEVICES]
    for path in [*writable, *devices]:
        allow(rules, path, rights(version))
    give_up_privileges()
    restrict(rules)


def scope() -> None:
    """Give up what is outside and is no file."""
    version = call(CREATE_RULESET, None, 0, ASK_VERSION)
    if version < SCOPES:
        raise OSError(f"Landlock is of version {version}, and {SCOPES} is needed")
    rules = ruleset(version, 0)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "privileges cannot be given up")
    restrict(rules)


def restrict(rules: int) -> None:
    """Hold this process to rules."""
    call(RESTRICT_SELF, rules, 0)
    os.close(rules)


def give_up_privileges() -> None:
    """Have no capability and never get one again: root could else look into other processes."""
    nobody = struct.pack("Ii", CAPABILITY_VERSION, 0), bytes(24)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or libc.capset(*nobody) != 0:
        raise OSError(ctypes.get_errno(), "privileges cannot be given up")


def main(arguments: list[str]) -> NoReturn:
    """Confine this process and become the command; never returns."""
    cut = arguments.index("--")
    given: dict[str, list[str]] = {"--write": [], "--read": [], "--hide": [], "--scope": []}
    for word in arguments[:cut]:
        name, _, path = word.partition("=")
        given[name].append(path)
    try:
        if given["--scope"]:
            scope()
        else:
            confine(given["--write"], given["--read"], given["--hide"])
    except OSError as error:
        sys.stderr.write(f"The sandbox cannot be set up: {error}\n")
        sys.exit(REFUSED)
    command = arguments[cut + 1 :]
    try:
        os.execvp(command[0], command)  # noqa: S606 - no shell is wanted
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        sys.exit(REFUSED + 1)


if __name__ == "__main__":
    main(sys.argv[1:])
