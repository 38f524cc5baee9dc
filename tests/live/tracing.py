"""Traces who wrote what: every file system change below a Coterie process, by member, with strace.

A member's processes are those below the first one that carries its mark, whatever they do to
their environment, session or parents afterwards.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePath

import pytest

FOLDERS = frozenset({"mkdir", "mkdirat", "rmdir"})
_OPENING = frozenset({"open", "openat", "openat2", "creat"})
_DOUBLING = frozenset({"dup", "dup2", "dup3"})
_SECOND = frozenset({"link", "linkat", "symlink", "symlinkat"})
"""Calls with two names that change only the second."""
_CHANGING = FOLDERS | _SECOND | {"rename", "renameat", "renameat2", "unlink", "unlinkat"}
_MORE = frozenset({"truncate", "mknod", "mknodat", "bind"})
_STARTING = frozenset({"clone", "clone3", "fork", "vfork"})
_BLIND = "io_uring_setup"
"""Writes through it are not traceable."""
_CALLS = _OPENING | _DOUBLING | _CHANGING | _MORE | _STARTING | {"chdir", "execve", _BLIND}

_LINE = re.compile(r"(\d+) +(.*)")
_CUT = " <unfinished ...>"
_RESUMED = re.compile(r"<\.\.\. \w+ resumed>(.*)")
_CALL = re.compile(r"(\w+)\((.*)\) += (-?\d+|\?)(.*)", re.DOTALL)
_NAME = re.compile(r'(?:(?:AT_FDCWD|\d+)<((?:[^>\\]|\\.)*)>, )?"((?:[^"\\]|\\.)*)"')
_AT = re.compile(r"AT_FDCWD<((?:[^>\\]|\\.)*)>")
_OPENED = re.compile(r"<((?:[^>\\]|\\.)*)>")
_ELSEWHERE = re.compile(r"/\* (\d+) in strace's PID NS \*/")
_OWN_FILE = re.compile(r"/proc/self/fd/(\d+)(/.*)?")
_FOR_WRITING = re.compile(r"O_(?:WRONLY|RDWR|CREAT|TRUNC|APPEND)")
_MARKED = re.compile(r'"COTERIE_MARK=')
_HOME = re.compile(r'"HOME=[^"]*/([^"/]+)/home"')


def strace(output: Path) -> list[str]:
    """The command prefix for tracing; skips the test where tracing is not permitted."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed: scripts/system-packages")
    if subprocess.run(["strace", "-o", "/dev/null", "true"], check=False).returncode:
        pytest.skip("strace may trace nobody here")
    # Only relevant calls stop a process, so that a CLI is hardly slowed down.
    quick = ["--follow-forks", "--seccomp-bpf", "--quiet=all", "--signal=none"]
    words = ["--decode-fds=path", "--decode-pids=pidns", "--string-limit=100000"]
    calls = ["-e", f"trace={','.join(sorted(_CALLS))}", "-e", "abbrev=!execve"]
    return ["strace", *quick, *words, *calls, "--output", str(output)]


@dataclass(frozen=True)
class Call:
    """A successful call."""

    pid: int
    name: str
    words: str
    result: int
    shown: str
    """What strace prints about the result."""


@dataclass(frozen=True, order=True)
class Write:
    """A file or folder that was created, opened for writing, renamed or removed."""

    member: str | None
    """None: Coterie itself."""
    call: str
    path: PurePath

    @property
    def of_folder(self) -> bool:
        return self.call in FOLDERS


def writes(trace: Path) -> list[Write]:
    """Every write of a trace, without duplicates."""
    told = trace.read_text(encoding="utf-8", errors="replace")
    calls = list(_calls(told.splitlines()))
    assert [call for call in calls if call.name == _BLIND] == []
    processes = _Processes()
    for call in calls:
        processes.learn(call)
    found = {write for call in calls for write in processes.follow(call)}
    return sorted(found, key=lambda write: (write.member or "", write.path, write.call))


def _calls(lines: Iterable[str]) -> Iterator[Call]:
    begun: dict[str, str] = {}
    for line in lines:
        if (matched := _LINE.fullmatch(line)) is None:
            continue
        pid, rest = matched.groups()
        if rest.endswith(_CUT):
            begun[pid] = rest.removesuffix(_CUT)
            continue
        if (resumed := _RESUMED.fullmatch(rest)) is not None:
            rest = begun.pop(pid, "") + resumed[1]
        if (call := _CALL.fullmatch(rest)) is not None and call[3] not in ("-1", "?"):
            yield Call(int(pid), call[1], call[2], int(call[3]), call[4])


@dataclass
class _Processes:
    parents: dict[int, int] = field(default_factory=dict[int, int])
    leaders: dict[int, int] = field(default_factory=dict[int, int])
    """By thread: the thread whose open files and folder it shares."""
    members: dict[int, str] = field(default_factory=dict[int, str])
    folders: dict[int, PurePath] = field(default_factory=dict[int, PurePath])
    opened: dict[tuple[int, int], str] = field(default_factory=dict[tuple[int, int], str])

    def learn(self, call: Call) -> None:
        """Record parents and marks in a first pass: a child may outrun its parent's call."""
        if call.name in _STARTING:
            elsewhere = _ELSEWHERE.search(call.shown)
            child = int(elsewhere[1]) if elsewhere else call.result
            self.parents[child] = call.pid
            if "CLONE_THREAD" in call.words:
                self.leaders[child] = call.pid
        elif call.name == "execve" and _MARKED.search(call.words):
            home = _HOME.search(call.words)
            self.members.setdefault(call.pid, home[1] if home else "?")

    def member(self, pid: int) -> str | None:
        """The member a process belongs to: the mark closest to Coterie counts."""
        line = reversed(self._line(pid))
        return next((self.members[one] for one in line if one in self.members), None)

    def follow(self, call: Call) -> Iterator[Write]:
        leader = self._leader(call.pid)
        if (at := _AT.search(call.words)) is not None:
            self.folders[leader] = PurePath(_plain(at[1]))
        if call.name == "chdir":
            self.folders[leader] = next(self._names(call))
            return
        if call.name in _OPENING | _DOUBLING and (shown := _OPENED.search(call.shown)) is not None:
            self.opened[leader, call.result] = _plain(shown[1])
        for path in self._written(call):
            if (real := _outside_a_sandbox(path)) is not None:
                yield Write(self.member(call.pid), call.name, real)

    def _written(self, call: Call) -> Iterator[PurePath]:
        if call.name in _OPENING:
            if call.name == "creat" or _FOR_WRITING.search(call.words):
                # Use what was opened, so that links in the path do not matter.
                yield PurePath(self.opened[self._leader(call.pid), call.result])
        elif call.name in _CHANGING | _MORE:
            names = list(self._names(call))
            yield from names[-1:] if call.name in _SECOND else names

    def _names(self, call: Call) -> Iterator[PurePath]:
        for beside, name in _NAME.findall(call.words):
            path = self._folder(call.pid) / _plain(beside) / _plain(name)
            if (own := _OWN_FILE.fullmatch(str(path))) is not None:
                path = PurePath(self._opened(call.pid, int(own[1])) + (own[2] or ""))
            # The last component is what is changed; links before it are resolved.
            yield PurePath(os.path.realpath(path.parent)) / path.name

    def _leader(self, pid: int) -> int:
        while pid in self.leaders:
            pid = self.leaders[pid]
        return pid

    def _folder(self, pid: int) -> PurePath:
        line = self._line(self._leader(pid))
        return next((self.folders[one] for one in line if one in self.folders), PurePath("/"))

    def _opened(self, pid: int, number: int) -> str:
        line = self._line(self._leader(pid))
        found = next((one for one in line if (one, number) in self.opened), None)
        assert found is not None, f"{pid} has {number} open: what is it?"
        return self.opened[found, number]

    def _line(self, pid: int) -> list[int]:
        """The chain of parents from a process up to Coterie."""
        line = [pid]
        while (parent := self.parents.get(line[-1])) is not None:
            line.append(parent)
        return line


def _plain(shown: str) -> str:
    """What strace prints, without its escapes."""
    return shown.encode("latin-1", "backslashreplace").decode("unicode_escape")


def _outside_a_sandbox(path: PurePath) -> PurePath | None:
    """The path on the disk; None if it is not on the disk.

    Devices and pipes are not files.  Bubblewrap builds its own root in memory, named `newroot`,
    which also contains the real folders that were bound into it.
    """
    text = str(path)
    if path.name in ("newroot", "oldroot"):
        return None
    if text.startswith("/newroot/"):
        inner = PurePath(text.removeprefix("/newroot"))
        return inner if inner.is_relative_to(os.path.realpath(_temporary())) else None
    return None if text.startswith(("/dev/", "/proc/", "pipe:", "socket:", "anon_inode:")) else path


def _temporary() -> str:
    return os.environ.get("TMPDIR", "/tmp")
