"""The first process of a machine: a separate program that does what lines on stdin ask for.

Everything that a machine runs descends from it, even when parents die; when stdin ends, all of it
is killed.  If the machine has a PID namespace of its own, this is its process 1.
"""

import contextlib
import ctypes
import json
import os
import signal
import struct
import subprocess
import sys
import threading
import time

CHILD_SUBREAPER = 36


def other_processes() -> dict[int, str]:
    """Return everything that runs here except us, with its command line."""
    parents, names = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        try:
            with open(f"/proc/{name}/stat") as file:  # noqa: PTH123
                state, parent = file.read().rpartition(")")[2].split()[:2]
            with open(f"/proc/{name}/cmdline") as file:  # noqa: PTH123
                names[int(name)] = file.read().replace("\0", " ").strip()
        except OSError:
            continue
        if state not in "ZX":
            parents[int(name)] = int(parent)
    found, more = set(), {os.getpid()}
    while more:
        found |= more
        more = {pid for pid, parent in parents.items() if parent in found} - found
    return {pid: names[pid] for pid in found - {os.getpid()}}


def send(pid: int, number: int) -> None:
    """Send a signal to a process that may be gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def end_all() -> None:
    """Kill until nothing is left."""
    while left := other_processes():
        for pid in left:
            send(pid, signal.SIGKILL)
        time.sleep(0.01)


def freeze() -> None:
    """Stop all processes, including those that start meanwhile."""
    stopped = set()
    while more := set(other_processes()) - stopped:
        for pid in more:
            send(pid, signal.SIGSTOP)
        stopped |= more


class FirstProcess:
    """The requests that it accepts."""

    def __init__(self) -> None:
        self.started: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, words: list[str], cwd: str, env: dict[str, str], log: str) -> int:
        with open(log, "ab") as out:  # noqa: PTH123
            process = subprocess.Popen(
                words,
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self.started[process.pid] = process
        return process.pid

    def signal(self, pid: int, number: int) -> None:
        send(pid, number)

    def wait(self, pid: int) -> int:
        code = self.started[pid].wait()
        del self.started[pid]
        return code

    def has_ended(self, pid: int) -> bool:
        return self.started[pid].poll() is not None

    def freeze(self) -> None:
        freeze()

    def put_off_deadlines(self, seconds: float) -> None:
        """Extend the leases of frozen processes, as if this machine's clock had stood still, as it
        does in a virtual machine that its host has paused."""
        seen = set()
        for pid in other_processes():
            for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
                file = f"/proc/{pid}/fd/{name}"
                with contextlib.suppress(FileNotFoundError):
                    if "memfd:coterie-lease" not in os.readlink(file):  # noqa: PTH115
                        continue
                    with open(file, "r+b", buffering=0) as page:  # noqa: PTH123
                        inode = os.fstat(page.fileno()).st_ino
                        if inode not in seen:
                            (deadline,) = struct.unpack("q", page.read(8))
                            page.seek(0)
                            page.write(struct.pack("q", deadline + int(seconds * 1e9)))
                        seen.add(inode)

    def thaw(self) -> None:
        for pid in other_processes():
            send(pid, signal.SIGCONT)

    def end_all(self) -> None:
        end_all()

    def processes(self) -> list[str]:
        return sorted(other_processes().values())

    def cpu(self, pid: int) -> float:
        """Return the CPU seconds of one process, without its children."""
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self, pid: int) -> float:
        """Return the megabytes of one process that are not shared with others."""
        with open(f"/proc/{pid}/statm") as file:  # noqa: PTH123
            fields = file.read().split()
        return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE") / 1e6


def reap_orphans(known: dict[int, subprocess.Popen[bytes]]) -> None:
    """Reap children that we did not start: they became ours when their parents died."""
    while True:
        time.sleep(0.1)
        for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
            pid = int(name)
            if pid not in known:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


def main() -> None:
    ctypes.CDLL(None).prctl(CHILD_SUBREAPER, 1, 0, 0, 0)
    here = FirstProcess()
    threading.Thread(target=reap_orphans, args=[here.started], daemon=True).start()
    print(json.dumps(os.getpid()), flush=True)
    for line in sys.stdin:
        name, *words = json.loads(line)
        print(json.dumps(getattr(here, name)(*words)), flush=True)
    end_all()


if __name__ == "__main__":
    main()
