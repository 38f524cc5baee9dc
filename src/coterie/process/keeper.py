"""The keeper of one agent: outlives Coterie just long enough to end the agent's whole tree.

Run by path (`python -I -S keeper.py …`); imports nothing of Coterie but, for a lease, deadline.py:

    keeper.py --parent=PID --control=FD --status=FD --grace=SECONDS [--tty] [--locale=NAME]
      [--private] [--lease=FD --soft=SECONDS] [--memory=FD --orphaned=WORDS] -- COMMAND [ARG…]

As a child subreaper it becomes the parent of every orphan in the agent's tree, so killing its
children until none is left ends even processes that called setsid, forked twice and scrubbed their
environment.  It ends the agent when Coterie ends (death signal TERM, or the end of the control
pipe) or commands it, and the rest of the tree once the agent is gone.  `--private`: where the
kernel allows it, the agent runs below a fork of the keeper in a pid namespace with its own /proc,
so that it cannot read the keys in other processes' environments.  `--lease`, a page shared with
Coterie: the agent is sent TERM `--soft` seconds before the deadline in it, unless that is extended,
and all is killed at the deadline; past it nothing starts.  `--orphaned`, words joined by U+001F:
the program to exec when nothing is left, if Coterie is gone by then; `--memory` is only for that.

Control, one byte each: `i` SIGINT to the agent's process group, `t` TERM to the agent and after the
grace period KILL to all, `k` KILL to all now.  Status, one line each: `private` (it is), `started
PID`, `failed ERRNO` (the command cannot be executed), `left COUNT` (processes that the agent left
running, if any), `exited CODE` (128+n for signal n).  Status ends when the keeper does, and the
keeper ends when nothing is left below it.

On macOS there is neither a subreaper nor a death signal, only the end of the control pipe and the
agent's process group, so a tool that leaves that group can outlive us.
"""

import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from coterie.process.deadline import LeaseTimer
LINUX = sys.platform == "linux"
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
CLONE = {"x86_64": 56, "aarch64": 220}  # the number of clone(2), by machine
NEW_MOUNTS, NEW_USER, NEW_PIDS = 0x20000, 0x10000000, 0x20000000
NOSUID_NODEV_NOEXEC, RECURSIVE, SLAVE, DETACH = 2 | 4 | 8, 0x4000, 1 << 19, 2
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
FIRST_PAUSE, LONGEST_PAUSE = 0.002, 0.25


def libc(name: str, *words: object) -> int:
    """Call a C library function that Python does not expose.  Raises OSError if it fails."""
    import ctypes  # costs 3 ms, and macOS does not need it

    answer = getattr(ctypes.CDLL(None, use_errno=True), name)(*words)
    if answer < 0:
        raise OSError(ctypes.get_errno(), name)
    return answer


def become_agent(command: list[str], tty: bool, report: int, keeper: int) -> None:
    """Turn the forked child into the agent; never returns."""
    try:
        if tty:
            os.login_tty(0)
        else:
            os.setsid()
        if LINUX:
            # If the keeper itself is killed, at least the agent is killed with it.
            libc("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != keeper:
                os._exit(127)
        # exec resets handlers by itself, but ignored signals (Python: SIGPIPE; nohup: SIGHUP; a
        # shell's `&`: SIGINT) would stay ignored in the agent and everything it starts.
        ignored = [n for n in signal.valid_signals() if signal.getsignal(n) is signal.SIG_IGN]
        for number in ignored:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execvp(command[0], command)
    except OSError as error:
        os.write(report, str(error.errno or 0).encode())
    finally:
        os._exit(127)


def start(command: list[str], tty: bool) -> tuple[int, int]:
    """Fork and exec the agent; return its pid, and the errno if exec failed (else 0)."""
    keeper = os.getpid()
    result, report = os.pipe()  # closed by exec: end of file without data means success
    pid = os.fork()
    if pid == 0:
        become_agent(command, tty, report, keeper)
    os.close(report)
    with open(result, "rb") as pipe:
        return pid, int(pipe.read() or 0)


def start_private(command: list[str], tty: bool, ids: tuple[int, int] | None) -> tuple[int, int]:
    """Start the agent below the init of a new pid namespace; return the init's pid and reports.

    With `ids`, those of the user, also in a user namespace, which needs no privileges.
    The pid is 0 if the namespace cannot be created; then nothing was started.
    """
    flags = NEW_PIDS | NEW_MOUNTS | (NEW_USER if ids else 0) | signal.SIGCHLD
    reports, reporter = os.pipe()
    try:
        init = libc("syscall", CLONE[os.uname().machine], flags, 0, 0, 0, 0)  # like fork(2)
    except (KeyError, OSError):
        init = -1
    if init == 0:
        os.close(reports)
        be_init(command, tty, reporter, ids)
    os.close(reporter)
    return (init if init > 0 and os.read(reports, 1) else 0), reports


def be_init(command: list[str], tty: bool, reporter: int, ids: tuple[int, int] | None) -> None:
    """Start the agent, reap processes and report on the agent; never returns.

    Reports: a byte when the namespace is ready, then the lines `started ERRNO PID`, with the
    agent's pid inside the namespace, and `exited CODE`.
    """
    try:
        signal.set_wakeup_fd(-1)
        for number in (*ENDING, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        own_proc(ids)
        libc("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)
        os.write(reporter, b".")  # fails if the keeper died before the signal was set
        agent, problem = start(command, tty)
        os.write(reporter, f"started {problem} {agent}\n".encode())
        close_stdio()
        while True:
            pid, status = os.wait()
            if pid == agent:
                os.write(reporter, f"exited {exit_code(status)}\n".encode())
    except OSError:  # no child is left, the namespace cannot be created, or the keeper is gone
        pass
    finally:
        os._exit(0)


def map_ids(ids: tuple[int, int]) -> None:
    """Map only this user and group, to the same ids, in the new user namespace."""
    maps = zip(("uid_map", "gid_map"), ids, strict=True)
    for name, line in (("setgroups", "deny"), *((name, f"{own} {own} 1") for name, own in maps)):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(line)


def own_proc(ids: tuple[int, int] | None) -> None:
    """Make /proc show this pid namespace, so that not even root in here can uncover the old one:
    that is unmounted, or locked in place as a mount inherited by a further user namespace."""
    if ids:
        map_ids(ids)
    libc("mount", b"none", b"/", None, RECURSIVE | SLAVE, None)
    if not ids:
        libc("umount2", b"/proc", DETACH)
    libc("mount", b"proc", b"/proc", b"proc", NOSUID_NODEV_NOEXEC, None)
    if ids:
        libc("unshare", NEW_USER | NEW_MOUNTS)
        map_ids(ids)


def exit_code(status: int) -> int:
    """The exit code for a wait(2) status, 128+n for signal n."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def children(pid: int) -> list[int]:
    """The pids of a process's current children."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as listed:
            return [int(child) for child in listed.read().split()]
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and parent(name) == pid]


def parent(pid: str) -> int:
    """The parent of a process, 0 if it is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            state, ppid = stat.read().rpartition(b")")[2].split()[:2]  # the name may hold anything
    except OSError:
        return 0
    return 0 if state in b"ZX" else int(ppid)


def left_running() -> int:
    """How many processes still run below us now that the agent itself is gone."""
    if not LINUX or not children(os.getpid()):
        return 0
    parents = {int(name): parent(name) for name in os.listdir("/proc") if name.isdigit()}
    tree, new = set[int](), {os.getpid()}
    while new:
        tree |= new
        new = {pid for pid, ppid in parents.items() if ppid in tree} - tree
    # The init of a pid namespace only waits for the others.
    return sum(inner_pid(pid) != 1 for pid in tree - {os.getpid()})


def inner_pid(pid: int) -> int:
    """The pid of a process inside its own pid namespace; 0 if it is in ours."""
    try:
        with open(f"/proc/{pid}/status", "rb") as status:
            lines = dict(line.split(b":", 1) for line in status if b":" in line)
    except OSError:
        return 1  # it is already gone
    return int([b"0", *lines.get(b"NSpid", b"").split()[1:]][-1])


def send(pid: int, number: int) -> None:
    """Signal a descendant, or the group -pid; it may be gone, or not ours to kill (sudo)."""
    try:
        os.kill(pid, number)
    except OSError:
        pass


class Keeper:
    """Watches one running agent; the pids of its children are not reused until it reaps them."""

    def __init__(self, control: int, status: int) -> None:
        self.status = status
        self.agent: int = 0
        self.child: int = 0  # the agent, or the init of its namespace
        self.reports: int | None = None  # from that init, if there is one
        self.problem: int = 0  # the errno if the agent could not be executed
        self.code: int | None = None
        self.deserted: bool = False  # whether the control pipe has ended
        self.lease: LeaseTimer | None = None
        for end in (pipe := os.pipe()):
            os.set_blocking(end, False)
        self.wakeup: int = pipe[0]
        for number in (*ENDING, signal.SIGCHLD):
            signal.signal(number, lambda number, frame: None)  # else the pipe is not written
        signal.set_wakeup_fd(pipe[1], warn_on_full_buffer=False)
        self.poll: select.poll = select.poll()
        for end in (control, self.wakeup):
            self.poll.register(end, select.POLLIN)

    def report(self, line: str) -> None:
        """Write a status line to Coterie, if it is still running."""
        try:
            os.write(self.status, line.encode() + b"\n")
        except OSError:
            pass

    def wait(self, seconds: float | None) -> str:
        """Wait for commands or signals; return the control letters, `t` for a signal to end."""
        received = ""
        seconds = seconds if self.lease is None else self.lease.until_look(seconds)
        timeout = None if seconds is None else max(0, int(seconds * 1000) + 1)
        for ready, _ in self.poll.poll(timeout):
            if ready == self.reports:
                self.read_reports()
                continue
            letters = os.read(ready, 4096)  # a timer's data, a count, is no command
            if ready == self.wakeup:
                received += "t" if any(number in ENDING for number in letters) else ""
            elif letters:
                received += letters.decode("ascii", "ignore")
            else:
                self.poll.unregister(ready)
                received, self.deserted = f"{received}t", True
        return received + (self.lease.look() if self.lease is not None else "")

    def reap(self) -> bool:
        """Reap all dead children; return False when no child is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.child:
                if self.reports is not None:
                    self.read_reports()
                if self.code is None:
                    self.ended(exit_code(status))

    def ended(self, code: int) -> None:
        """Record and report the agent's exit."""
        self.code = code
        if left := left_running():
            self.report(f"left {left}")
        self.report(f"exited {self.code}")

    def read_reports(self) -> None:
        """Read the reports of the namespace's init."""
        assert self.reports is not None
        received = os.read(self.reports, 4096).decode()
        for word, number, *inner in (line.split() for line in received.splitlines()):
            if word == "exited":
                self.ended(int(number))
                continue
            self.problem = int(number)
            below = {inner_pid(pid): pid for pid in children(self.child)}
            self.agent = below.get(int(inner[0]), self.child)
        if not received:
            self.poll.unregister(self.reports)
            os.close(self.reports)
            self.reports = None

    def may_start(self, page: int, soft: float) -> bool:
        """Follow the lease from now on; return False if it is already over."""
        sys.path.append(os.path.dirname(__file__))  # `coterie` itself is not importable here
        self.lease = timer = __import__("deadline").LeaseTimer.of(page, soft)
        if timer.fd is not None:
            self.poll.register(timer.fd, select.POLLIN)
        return not timer.page.passed()

    def start(self, command: list[str], tty: bool, private: bool) -> None:
        """Start the agent, in its own namespace if wanted and possible."""
        user = os.geteuid(), os.getegid()
        for ids in (None, user) if private and user[0] == 0 else (user,) if private else ():
            if not self.child:
                self.child, self.reports = start_private(command, tty, ids)
        if self.child and self.reports is not None:
            self.report("private")
            self.poll.register(self.reports, select.POLLIN)
            self.read_reports()
        else:
            self.reports, (self.child, self.problem) = None, start(command, tty)
            self.agent = self.child
        self.report(f"failed {self.problem}" if self.problem else f"started {self.agent}")

    def watch(self, grace: float) -> None:
        """Return when the agent is gone, or must be killed with its whole tree."""
        deadline = None
        while self.reap() and self.code is None:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            received = self.wait(left)
            if "k" in received:
                return
            if "e" in received:
                send(self.agent, signal.SIGTERM)
            if "i" in received:
                send(-self.agent, signal.SIGINT)
            if "t" in received and deadline is None:
                deadline = time.monotonic() + grace
                send(self.agent, signal.SIGTERM)

    def end_all(self) -> None:
        """Kill our children until none is left; we inherit theirs as they die."""
        pause = FIRST_PAUSE
        while self.reap():
            if LINUX:
                for pid in children(os.getpid()):
                    send(pid, signal.SIGKILL)
            else:
                send(-self.agent, signal.SIGKILL)
            before = time.monotonic()
            self.wait(pause)
            # Wait for one that will not die (not ours to kill, or stuck in the kernel): as long
            # as this process runs, Coterie knows that the tree is not gone.
            idle = time.monotonic() - before >= pause
            pause = min(pause * 2, LONGEST_PAUSE) if idle else FIRST_PAUSE


def close_stdio() -> None:
    """Close our copies of the agent's pipes: end of file must mean that the agent closed them."""
    with open(os.devnull, "rb+", 0) as null:
        for number in (0, 1, 2):
            os.dup2(null.fileno(), number)


def main(arguments: list[str]) -> int:
    """Run the keeper of one agent; return the agent's exit code."""
    cut = arguments.index("--")
    options: dict[str, str] = {}
    for word in arguments[:cut]:
        name, _, options[name] = word[2:].partition("=")
    control, status = int(options["control"]), int(options["status"])
    for name in {"control", "status", "memory"} & options.keys():
        os.set_inheritable(int(options[name]), False)
    keeper = Keeper(control, status)
    if LINUX:
        libc("prctl", PR_SET_CHILD_SUBREAPER, 1)
        libc("prctl", PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(options["parent"]):
        return 1  # Coterie died before the death signal was set: nothing has been started
    os.environ.pop("LC_CTYPE", None)  # Python sets it to C.UTF-8 when it starts in the C locale
    if "locale" in options:
        os.environ["LC_CTYPE"] = options["locale"]
    if "lease" in options and not keeper.may_start(int(options["lease"]), float(options["soft"])):
        return 1
    keeper.start(arguments[cut + 1 :], "tty" in options, LINUX and "private" in options)
    close_stdio()
    keeper.watch(float(options["grace"]))
    keeper.end_all()
    if "orphaned" in options and (keeper.deserted or not parent(options["parent"])):
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # the death signal may still arrive
        os.set_inheritable(int(options["memory"]), True)
        os.execv((words := options["orphaned"].split("\x1f"))[0], words)
    return keeper.code or 0


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # nothing to flush, and a normal shutdown costs 3 ms
