"""Command lines that mode `read` allows without asking, run under strace: none may escape.

An escape is a write, a connection, executing a file of the folder, or reading a file that is
neither in the folder nor the system's.  Each line is judged twice: for an agent with a sandbox, and
for one without, which is restricted only by the table of options.
"""

from __future__ import annotations

import os
import random
import re
import selectors
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.chaos.read_only_lines import CANARY, HostileFolder, LineMaker
from coterie.model.team import Permissions
from coterie.model.tool_call import Action
from coterie.tools.permission import decide
from coterie.tools.read_only_sandbox import ReadOnlySandbox

LINES_A_FOLDER = 100
BATCH = 25
_SECONDS = 10
_WRITES = (
    "creat,unlink,unlinkat,rename,renameat,renameat2,mkdir,mkdirat,rmdir,link,linkat,symlink,"
    "symlinkat,mknod,mknodat,truncate,chmod,fchmodat,chown,fchownat,lchown,utimensat,setxattr,mount"
)
_TRACED = f"trace=open,openat,openat2,execve,execveat,connect,bind,{_WRITES}"
_SYSTEM = re.compile(
    r"/(usr|bin|sbin|lib|lib32|lib64|etc|proc|sys|dev|opt|nix)(/|$)|/$|(pipe|socket|anon_inode):"
)
_CALL = re.compile(r"(?:\d+ +)?(\w+)\((.*)\) += (-?\d+)(?:<(.*?)>)?(?: .*)?$", re.DOTALL)
_STARTED = re.compile(r'^"((?:[^"\\]|\\.)*)"')
_WRITING = re.compile(r"O_(WRONLY|RDWR|CREAT|TRUNC|APPEND)")
_BATCH = """
for line; do
    timeout -k 1 {seconds} bash -c -- "$line" < /dev/null
done
"""


@dataclass
class ReadOnlyTally:
    """What was tried, and what escaped."""

    cases: int = 0
    held: int = 0
    """Lines that were allowed for an agent with a sandbox."""
    by_table: int = 0
    """Lines that were allowed for one without."""
    escapes: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        passed = f"{self.held} passed in the sandbox, {self.by_table} by the table"
        return f"{self.cases} cases, {passed}, {len(self.escapes)} escapes"


@dataclass(frozen=True)
class ReadOnlyFuzzer:
    """Runs lines in folders below `top`."""

    top: Path
    seed: int = 1

    def run(
        self, cases: int, progress: Callable[[ReadOnlyTally], None] = lambda _: None
    ) -> ReadOnlyTally:
        """Try this many lines."""
        tally = ReadOnlyTally()
        number = 0
        while tally.cases < cases:
            chance = random.Random(f"{self.seed} {number}")
            folder = HostileFolder(self.top / str(number))
            folder.make(chance)
            maker = LineMaker(folder, chance)
            count = min(LINES_A_FOLDER, cases - tally.cases)
            self._try_lines(folder, [maker.line() for _ in range(count)], tally)
            progress(tally)
            number += 1
        return tally

    def _try_lines(self, folder: HostileFolder, lines: Sequence[str], tally: ReadOnlyTally) -> None:
        tally.cases += len(lines)
        held = [line for line in lines if verdict(folder, line, sandbox=True) != "no"]
        bare = [line for line in lines if verdict(folder, line, sandbox=False) != "no"]
        tally.held += len(held)
        tally.by_table += len(bare)
        tally.escapes += escapes(folder, held, sandbox=True)
        tally.escapes += escapes(folder, bare, sandbox=False)


def verdict(folder: HostileFolder, line: str, *, sandbox: bool) -> str:
    """Return how a line is allowed in mode `read`: `held` or `bare`; `no` if it is not."""
    action = Action("run", "Bash", str(folder.project), command=line, read_only_sandbox=sandbox)
    ruling = decide(action, Permissions(mode="read"), None, folder.project)
    return {"allow": "bare", "allow_read_only": "held"}.get(ruling.verdict, "no")


def escapes(folder: HostileFolder, lines: Sequence[str], *, sandbox: bool) -> list[str]:
    """Return forbidden effects of these lines, run in batches, then singly if a batch has any."""
    found: list[str] = []
    for start in range(0, len(lines), BATCH):
        some = lines[start : start + BATCH]
        if run(folder, some, sandbox=sandbox):
            for line in some:
                found += [f"{line!r}: {what}" for what in run(folder, [line], sandbox=sandbox)]
    return found


def run(folder: HostileFolder, lines: Sequence[str], *, sandbox: bool) -> list[str]:
    """Run the lines under strace; return their forbidden effects."""
    reading, writing = os.pipe()
    held = ReadOnlySandbox(folder.project).words(folder.project) if sandbox else ()
    trace = ("strace", "-f", "-y", "-qq", "-s", "4096", "-e", _TRACED, "-o", f"/dev/fd/{writing}")
    script = _BATCH.format(seconds=_SECONDS)
    before = _state(folder)
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(folder.home),
        "TMPDIR": str(folder.temporary),
        "LANG": "C.UTF-8",
    }
    child = subprocess.Popen(
        [*held, *trace, "bash", "-c", script, "bash", *lines],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        cwd=folder.project,
        env=environment,
        pass_fds=(writing,),
    )
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8", errors="replace") as pipe:
        printed, trace = _drained(child, pipe.fileno())
    wrong = sorted(set(_wrong(trace, folder)))
    if CANARY.encode() in printed:
        wrong.append("printed a canary")
    if _state(folder) != before:
        wrong.append("changed something")
    return wrong


def _drained(child: subprocess.Popen[bytes], trace: int) -> tuple[bytes, str]:
    """Return the child's output and strace's, both read as they arrive."""
    assert child.stdout is not None
    collected = {child.stdout.fileno(): bytearray(), trace: bytearray()}
    with selectors.DefaultSelector() as waiting:
        for descriptor in collected:
            waiting.register(descriptor, selectors.EVENT_READ)
        while waiting.get_map():
            for key, _ in waiting.select():
                piece = os.read(key.fd, 1 << 16)
                collected[key.fd] += piece
                if not piece:
                    waiting.unregister(key.fd)
    child.wait()
    printed, recorded = collected.values()
    child.stdout.close()
    return bytes(printed), recorded.decode("utf-8", "replace")


def _state(folder: HostileFolder) -> dict[str, tuple[int, int, int]]:
    walked = os.walk(folder.top)
    paths = (Path(at) / name for at, below, files in walked for name in (*below, *files))
    states = ((str(path), path.lstat()) for path in paths)
    return {path: (state.st_mtime_ns, state.st_size, state.st_mode) for path, state in states}


def _wrong(trace: str, folder: HostileFolder) -> Iterator[str]:
    """Yield the calls that succeeded although they are forbidden."""
    for line in _joined(trace):
        call = _CALL.search(line)
        if call is None or int(call[3]) < 0:
            continue
        if _must_not(call[1], call[2], call[4] or "", folder):
            yield line


def _must_not(name: str, arguments: str, opened: str, folder: HostileFolder) -> bool:
    """Whether a call that succeeded is forbidden."""
    if name in ("connect", "bind"):
        return True
    if name.startswith("exec"):
        started = _STARTED.match(arguments)
        return started is not None and not _SYSTEM.match(started[1])
    if name.startswith("open"):
        return _is_wrong(opened, arguments, folder)
    return not re.search(r'"/(tmp|dev)/', arguments)


def _is_wrong(opened: str, arguments: str, folder: HostileFolder) -> bool:
    """Whether opening a file is forbidden, by where the file is after following links."""
    if _WRITING.search(arguments):
        # The sandbox has a /tmp of its own, which does not contain the test's folders.
        own = opened.startswith("/tmp/") and not opened.startswith(str(folder.top))
        return not (own or opened.startswith("/dev/"))
    if opened == "/tmp" or _SYSTEM.match(opened):
        return False
    inside = opened == str(folder.project) or opened.startswith(f"{folder.project}/")
    return not inside or opened.startswith(f"{folder.project}/.coterie/")


def _joined(trace: str) -> Iterator[str]:
    """Yield the lines of a trace, rejoining calls that another process's calls interrupted."""
    pending: dict[str, str] = {}
    for line in trace.splitlines():
        pid = line.partition(" ")[0]
        if line.endswith("<unfinished ...>"):
            pending[pid] = line.removesuffix("<unfinished ...>")
            continue
        resumed = re.match(r"\d+ +<\.\.\. \w+ resumed>(.*)", line)
        yield pending.pop(pid, "") + resumed[1] if resumed else line
