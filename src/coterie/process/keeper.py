"""The keeper of one agent: outlives Coterie just long enough to end the agent's whole tree.

A program of its own, run by path (`python -I -S keeper.py …`), that imports nothing of Coterie:

    keeper.py --parent=PID --control=FD --status=FD --grace=SECONDS [--tty] [--locale=NAME]
        -- COMMAND [ARG…]

As a child subreaper it becomes the parent of everything below the agent that loses its own, so
killing its children until none is left ends even what called setsid, forked twice and scrubbed
its environment.  It ends the agent when Coterie ends (death signal TERM, or the end of the
control pipe) or commands it, and the rest of the tree whenever the agent is gone.

Control, one byte each: `i` SIGINT to the agent's process group, `t` TERM to the agent and after
the grace KILL to all, `k` KILL to all now.  Status, one line each: `started PID`,
`failed ERRNO` (the command cannot be executed), `left COUNT` (processes that the agent leaves
running, if any), `exited CODE` (128+n for signal n).  The status pipe ends when the keeper does,
and the keeper does when nothing is left below it.

On macOS there is neither a subreaper nor a death signal: what is left is the end of the control
pipe and the agent's process group, so a tool that leaves that group can outlive us.
"""

import os
import select
import signal
import sys
import time

LINUX = sys.platform == "linux"
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
FIRST_PAUSE, LONGEST_PAUSE = 0.002, 0.25


def prctl(option: int, value: int) -> None:
    """Call prctl(2), which Python has no name for."""
    import ctypes  # costs 3 ms, and macOS has no use for it

    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def become_agent(command: list[str], tty: bool, report: int, keeper: int) -> None:
    """Turn the forked child into the agent; never returns."""
    try:
        os.setsid()
        if tty:
            import fcntl
            import termios

            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        if LINUX:
            # If the keeper itself is killed, the agent at least is killed with it.
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != keeper:
                os._exit(127)
        # Handlers go by themselves at exec; what is ignored (Python: SIGPIPE; nohup: SIGHUP; a
        # shell's `&`: SIGINT) would stay so in the agent and in all that it starts.
        for number in signal.valid_signals():
            if signal.getsignal(number) is signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execvp(command[0], command)
    except OSError as error:
        os.write(report, str(error.errno or 0).encode())
    finally:
        os._exit(127)


def start(command: list[str], tty: bool) -> tuple[int, int]:
    """Fork and exec the agent; its pid, and the errno if it could not be executed (else 0)."""
    keeper = os.getpid()
    result, report = os.pipe()  # closes at exec: an end without data is success
    pid = os.fork()
    if pid == 0:
        become_agent(command, tty, report, keeper)
    os.close(report)
    with open(result, "rb") as pipe:
        return pid, int(pipe.read() or 0)


def children() -> list[int]:
    """The pids of our own children as they are now."""
    me = os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children", "rb") as listed:
            return [int(pid) for pid in listed.read().split()]
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and parent(name) == me]


def parent(pid: str) -> int:
    """The parent of a process, 0 if it is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            state, ppid = stat.read().rpartition(b")")[2].split()[:2]  # the name may hold anything
    except OSError:
        return 0
    return 0 if state in b"ZX" else int(ppid)


def left_running() -> int:
    """How many processes run below us now that the agent itself is gone."""
    if not LINUX or not children():
        return 0
    parents = {int(name): parent(name) for name in os.listdir("/proc") if name.isdigit()}
    tree: set[int] = set()
    new = {os.getpid()}
    while new:
        tree |= new
        new = {pid for pid, ppid in parents.items() if ppid in tree} - tree
    return sum(not is_init(pid) for pid in tree - {os.getpid()})


def is_init(pid: int) -> bool:
    """Whether it is the first in a pid namespace, where it only waits for the others."""
    try:
        with open(f"/proc/{pid}/status", "rb") as status:
            lines = dict(line.split(b":", 1) for line in status if b":" in line)
    except OSError:
        return True  # it is gone by now
    return lines.get(b"NSpid", b"").split()[1:][-1:] == [b"1"]


def send(pid: int, number: int) -> None:
    """Send a signal to one of our own; it may be gone, or not ours to kill (sudo)."""
    try:
        if pid < 0:
            os.killpg(-pid, number)
        else:
            os.kill(pid, number)
    except OSError:
        pass


def ignore(number: int, frame: object) -> None:
    """Handle a signal by doing nothing: the wake-up pipe reports it."""


class Keeper:
    """Watches one running agent; every pid below it stays ours until we have reaped it."""

    def __init__(self, control: int, status: int) -> None:
        self.status = status
        self.agent = 0
        self.code: int | None = None
        wakeup, wakeup_writer = os.pipe()
        self.wakeup: int = wakeup
        for end in (wakeup, wakeup_writer):
            os.set_blocking(end, False)
        for number in (*ENDING, signal.SIGCHLD):
            signal.signal(number, ignore)  # without a handler the wake-up pipe is not written
        signal.set_wakeup_fd(wakeup_writer, warn_on_full_buffer=False)
        self.poll: select.poll = select.poll()
        self.poll.register(control, select.POLLIN)
        self.poll.register(self.wakeup, select.POLLIN)

    def report(self, line: str) -> None:
        """Write a status line to Coterie, if it still runs."""
        try:
            os.write(self.status, line.encode() + b"\n")
        except OSError:
            pass

    def wait(self, seconds: float | None) -> str:
        """Wait for commands or a signal; returns the control letters, a signal to end being `t`."""
        received = ""
        timeout = None if seconds is None else max(0, int(seconds * 1000) + 1)
        for ready, _ in self.poll.poll(timeout):
            letters = os.read(ready, 4096)
            if ready == self.wakeup:
                received += "t" if any(number in ENDING for number in letters) else ""
            elif letters:
                received += letters.decode("ascii", "ignore")
            else:
                self.poll.unregister(ready)
                received += "t"
        return received

    def reap(self) -> bool:
        """Collect all that have died; False when we have no child left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.agent:
                code = os.waitstatus_to_exitcode(status)
                self.code = code if code >= 0 else 128 - code
                if left := left_running():
                    self.report(f"left {left}")
                self.report(f"exited {self.code}")

    def watch(self, grace: float) -> None:
        """Return when the agent is gone, or is to be killed with all the others."""
        deadline = None
        while self.reap() and self.code is None:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            received = self.wait(left)
            if "k" in received:
                return
            if "i" in received:
                send(-self.agent, signal.SIGINT)
            if "t" in received and deadline is None:
                deadline = time.monotonic() + grace
                send(self.agent, signal.SIGTERM)

    def end_all(self) -> None:
        """Kill our children until there is none; theirs become ours as they die."""
        pause = FIRST_PAUSE
        while self.reap():
            if LINUX:
                for pid in children():
                    send(pid, signal.SIGKILL)
            else:
                send(-self.agent, signal.SIGKILL)
            before = time.monotonic()
            self.wait(pause)
            # One that will not die (not ours to kill, or stuck in the kernel) is waited for: as
            # long as this process runs, Coterie knows that the tree is not gone.
            idle = time.monotonic() - before >= pause
            pause = min(pause * 2, LONGEST_PAUSE) if idle else FIRST_PAUSE


def close_stdio() -> None:
    """Close our copies of the agent's pipes: end of file must mean that the agent closed them."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.close(null)


def restore_locale(name: str | None) -> None:
    """Undo what Python itself did at its start: in the C locale it sets LC_CTYPE to C.UTF-8."""
    if name is None:
        os.environ.pop("LC_CTYPE", None)
    else:
        os.environ["LC_CTYPE"] = name


def main(arguments: list[str]) -> int:
    """Keep one agent; returns its exit code."""
    cut = arguments.index("--")
    options: dict[str, str] = {}
    for word in arguments[:cut]:
        name, _, options[name] = word[2:].partition("=")
    control, status = int(options["control"]), int(options["status"])
    for number in (control, status):
        os.set_inheritable(number, False)
    keeper = Keeper(control, status)
    if LINUX:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(options["parent"]):
        return 1  # Coterie died before the death signal was set: nothing has been started
    restore_locale(options.get("locale"))
    keeper.agent, problem = start(arguments[cut + 1 :], "tty" in options)
    keeper.report(f"failed {problem}" if problem else f"started {keeper.agent}")
    close_stdio()
    keeper.watch(float(options["grace"]))
    keeper.end_all()
    return keeper.code or 0


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # at once: there is nothing to flush, and tidying costs 3 ms
