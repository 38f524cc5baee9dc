"""A launcher that confines itself with Landlock, then executes a command in its place.

    landlock.py [--write=PATH…] [--read=PATH…] [--hide=PATH…] -- COMMAND [ARG…]
    landlock.py --scope -- COMMAND [ARG…]

It imports nothing from Coterie and is run by path.  The confinement is permanent and covers all
descendants.  Landlock rules only grant access and cannot exclude part of a grant, so a hidden path
is left out of what may be read: everything beside the path to it is allowed individually.  For the
same reason nothing can be hidden inside a writable folder.

With `--scope` files are left to another sandbox.  Only signals and abstract sockets to processes
outside are blocked: no mount can hide those sockets, and a command could type into a desktop's.

If the kernel cannot confine the command, it is not run and the exit code is 126.
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
MINIMUM_VERSION = 3
"""Older versions cannot forbid truncating files outside."""

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
SINCE = {1: (1 << 13) - 1, 2: 1 << 13, 3: TRUNCATE, 5: IOCTL_DEV}
"""The rights that each version added."""
SCOPE_VERSION = 6
NO_SIGNALS_OUT = 0b11
"""From version `SCOPE_VERSION` on: no signals and no abstract sockets to processes outside."""
DEVICES = ("full", "null", "ptmx", "pts", "random", "shm", "tty", "urandom", "zero")
REFUSED = 126

libc: ctypes.CDLL = ctypes.CDLL(None, use_errno=True)


def call(*words: object) -> int:
    """Make a system call that Python does not wrap; raises OSError if it fails."""
    answer = libc.syscall(*words)
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer


def rights(version: int) -> int:
    """Return all file rights that this version can restrict."""
    return sum(bits for since, bits in SINCE.items() if since <= version)


def ruleset(version: int, files: int) -> int:
    """Create a ruleset for these file rights, signals and sockets; returns its descriptor."""
    words = [files, 0, NO_SIGNALS_OUT][: 1 if version < 4 else 2 if version < SCOPE_VERSION else 3]
    attributes = struct.pack(f"{len(words)}Q", *words)
    return call(CREATE_RULESET, attributes, len(attributes), 0)


def allow(rules: int, path: str, allowed: int) -> None:
    """Allow these rights at a path and below; a missing or inaccessible path is skipped."""
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


def unhidden_paths(folder: str, hidden: list[str]) -> Iterator[str]:
    """Yield the paths in a folder that do not lead to anything hidden.

    Links are skipped: one may lead to something hidden, and its target is allowed by its own path.
    """
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.path in hidden or entry.is_symlink():
            continue
        if any(one.startswith(f"{entry.path}/") for one in hidden):
            yield from unhidden_paths(entry.path, hidden)
        else:
            yield entry.path


def confine(writable: list[str], readable: list[str], hidden: list[str]) -> None:
    """Permanently restrict this process to these paths, and drop its privileges."""
    version = call(CREATE_RULESET, None, 0, ASK_VERSION)
    if version < MINIMUM_VERSION:
        raise OSError(
            f"the kernel has Landlock version {version}, but {MINIMUM_VERSION} or later is needed"
        )
    rules = ruleset(version, rights(version))
    for path in [*unhidden_paths("/", hidden), *readable]:
        allow(rules, path, READ & rights(version))
    devices = [f"/dev/{name}" for name in DEVICES]
    for path in [*writable, *devices]:
        allow(rules, path, rights(version))
    drop_privileges()
    restrict(rules)


def scope() -> None:
    """Permanently give up signals and abstract sockets to processes outside."""
    version = call(CREATE_RULESET, None, 0, ASK_VERSION)
    if version < SCOPE_VERSION:
        raise OSError(
            f"the kernel has Landlock version {version}, but {SCOPE_VERSION} or later is needed"
        )
    rules = ruleset(version, 0)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "privileges cannot be dropped")
    restrict(rules)


def restrict(rules: int) -> None:
    """Apply a ruleset to this process."""
    call(RESTRICT_SELF, rules, 0)
    os.close(rules)


def drop_privileges() -> None:
    """Drop all capabilities for good: root could otherwise inspect other processes."""
    nobody = struct.pack("Ii", CAPABILITY_VERSION, 0), bytes(24)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or libc.capset(*nobody) != 0:
        raise OSError(ctypes.get_errno(), "privileges cannot be dropped")


def main(arguments: list[str]) -> NoReturn:
    """Confine this process and become the command; never returns."""
    cut = arguments.index("--")
    options: dict[str, list[str]] = {"--write": [], "--read": [], "--hide": [], "--scope": []}
    for word in arguments[:cut]:
        name, _, path = word.partition("=")
        options[name].append(path)
    try:
        if options["--scope"]:
            scope()
        else:
            confine(options["--write"], options["--read"], options["--hide"])
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
