"""The sandbox for commands that run unasked because they are only meant to read.

They see the work folder and the system's own programs, nothing else: no home, no other project, no
socket, no environment but the one set here.  They can write only to a private `/tmp`, have no
network, and cannot execute files in the work folder.  So nobody has to know what a command does.

Bubblewrap provides it.  Since that cannot forbid execution, the work folder is first mounted noexec
in a namespace around it.  Landlock cannot block the network, so it is no substitute.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from coterie.process.launch import succeeds
from coterie.tools.sandbox import BWRAP, KERNEL, SHELL
from coterie.tools.workspace_files import COTERIE
from coterie.workspace.worktree import Worktree

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
_ETC_FILES = (
    "alternatives group ld.so.cache ld.so.conf ld.so.conf.d locale.alias localtime magic "
    "nsswitch.conf passwd"
)
"""What programs need from /etc; the rest may hold secrets of the user or the machine."""
_MOUNT = """
while [ "$1" != -- ]; do
    mount --bind "$1" "$1" && mount --options-source disable \\
        -o remount,bind,ro,noexec,nosuid,nodev "$1" || exit 126
    shift
done
shift
exec "$@"
"""
_ENVIRONMENT = (
    ("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"),
    ("HOME", "/tmp"),  # noqa: S108 - the sandbox's own
    ("TMPDIR", "/tmp"),  # noqa: S108
    ("LANG", "C.UTF-8"),
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_COUNT", "2"),
    # Ownership says nothing in a namespace where all other users are nobody.
    ("GIT_CONFIG_KEY_0", "safe.directory"),
    ("GIT_CONFIG_VALUE_0", "*"),
    ("GIT_CONFIG_KEY_1", "core.fsmonitor"),
    ("GIT_CONFIG_VALUE_1", "false"),
)
"""A command's entire environment."""


@dataclass(frozen=True)
class ReadOnlySandbox:
    """The read-only sandbox of a work folder, given with links resolved."""

    root: Path

    def words(self, cwd: Path) -> tuple[str, ...]:
        """Return the words to prefix to a command that runs in `cwd`; blocks."""
        below = cwd.resolve() if cwd.resolve().is_relative_to(self.root) else self.root
        return (*self._mounting(), *self._confining(), "--chdir", str(below), "--")

    def wrapped(self, command: str, cwd: Path) -> str:
        """Return the command line that runs another one, unchanged, in the sandbox; blocks."""
        return shlex.join((*self.words(cwd), SHELL, "-c", command))

    def _mounting(self) -> Iterator[str]:
        # Set from the first process on: /proc shows the environment each was started with.
        yield from (_which("env"), "-i", *(f"{name}={value}" for name, value in _ENVIRONMENT))
        yield from (_which("unshare"), "--map-root-user", "--mount", "--propagation", "private")
        yield from (SHELL, "-c", _MOUNT, SHELL, *map(str, self._seen()), "--")

    def _seen(self) -> Iterator[Path]:
        yield self.root
        worktree = Worktree.around(self.root)
        if worktree is not None:
            yield worktree.common

    def _confining(self) -> Iterator[str]:
        yield from (_which(BWRAP), "--unshare-all", "--die-with-parent", "--cap-drop", "ALL")
        yield from ("--uid", str(os.getuid()), "--gid", str(os.getgid()))
        for path in map(Path, _SYSTEM):
            if path.is_symlink():
                yield from ("--symlink", str(path.readlink()), str(path))
            elif path.exists():
                yield from ("--ro-bind", str(path), str(path))
        yield from ("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp")  # noqa: S108
        for path in (*KERNEL, *(f"/etc/{name}" for name in _ETC_FILES.split())):
            yield from ("--ro-bind-try", path, path)
        for path in sorted(map(str, self._seen()), key=len):
            yield from ("--ro-bind", path, path)
        if (self.root / COTERIE).is_dir() and not (self.root / COTERIE).is_symlink():
            hidden = str(self.root / COTERIE)
            yield from ("--tmpfs", hidden, "--remount-ro", hidden)
        yield from ("--remount-ro", "/")


def _which(program: str) -> str:
    return shutil.which(program) or program


async def read_only_sandbox(root: Path) -> ReadOnlySandbox | None:
    """Return the sandbox of a work folder, given with links resolved; None if unavailable."""
    # Mounting such a folder noexec would keep the system's own programs from running.
    if any(Path(folder).is_relative_to(root) for folder in ("/usr", "/tmp", "/proc", "/dev")):  # noqa: S108
        return None
    return ReadOnlySandbox(root) if await works() else None


_works: list[bool] = []


async def works() -> bool:
    """Whether the sandbox works on this machine; tried only once."""
    if not _works:
        _works.append(await anyio.to_thread.run_sync(_try))
    return _works[0]


_TRIAL = """
cat "$1/file" > /tmp/copy || exit 1
(: > "$1/new") 2> /dev/null && exit 1
"$1/program" 2> /dev/null && exit 1
cat "$2/file" 2> /dev/null && exit 1
exit 0
"""


def _try() -> bool:
    if sys.platform != "linux" or not all(map(shutil.which, (BWRAP, "unshare", "mount"))):
        return False
    with tempfile.TemporaryDirectory() as name:
        inside, outside = (Path(name).resolve() / one for one in ("in", "out"))
        for folder in (inside, outside):
            folder.mkdir()
            (folder / "file").write_text("text")
        (inside / "program").write_text(f"#!{SHELL}\n")
        (inside / "program").chmod(0o755)
        held = ReadOnlySandbox(inside).words(inside)
        return succeeds([*held, SHELL, "-c", _TRIAL, "trial", str(inside), str(outside)])
