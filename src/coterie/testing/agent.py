"""A scripted agent: a program that does to its caller whatever an agent might do.

Run by path, with nothing but the standard library: `python agent.py [OPTION…] [ACT [ARG…]]`.

It reads a prompt, acts, and replies with a JSON line `{"type": "result", "result": TEXT}`, or
in plain text with `--plain`.  Its act is the last line of the prompt if that begins with `!`
(`!huge 20`), else the one named on the command line, else `echo`.

Options

    --persistent     stay, and take one prompt from each line (plain, or `{"type": …, "text": …}`)
    --plain          reply in plain text
    --end TEXT       print this line after a plain reply
    --early TEXT     print this line at the start, before any prompt is read
    --deaf           ignore TERM and INT
    --graceful FILE  on TERM, write a line to this file and exit with 0
    --system TEXT    a system prompt, which `whoami` repeats

Acts

    echo             reply `heard: PROMPT`
    turn             reply with the number of prompts so far
    whoami           reply with the system prompt
    env NAME         reply with a variable; `args` with the arguments, `cwd` with the folder
    fds, signals     reply with the open descriptors; with the ignored and blocked signals
    tty              reply which of stdin, stdout, stderr are terminals, and whether we have a
                     controlling one
    count            reply with the prompt's size in bytes
    huge N           print a line of N MiB, then reply
    big N            reply with a text of N MiB
    half             print the reply in two halves
    bytes            print bytes that are not UTF-8, also within the reply
    nuls             print NULs, also within the reply
    brackets N       print N open brackets, plain and in an object, and a number of N digits
    deltas N         print N lines of progress, then reply
    leftover         reply, then print a whole second reply and half of a third
    late             end the line that `leftover` left open, then reply
    stderr N         write N KiB to stderr, then reply
    nothing          print nothing; if persistent, wait for the next prompt
    hang             print nothing and never end
    exit CODE        print part of a line, write to stderr, then exit
    silent-exit CODE exit without printing anything
    shut             close stdout and keep running
    daemon TOKEN     leave a process behind that has its own session, is nobody's child, ignores
                     TERM, HUP and INT, and has an empty environment; TOKEN is its last argument
    daemon-hang TOKEN  the same, and then never end
    tool TOKEN       leave an ordinary child behind, which keeps our stdout open
    swarm TOKEN      leave a process behind that keeps forking and exiting, so its pid never stays
                     the same
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import cast

MIB = 1024 * 1024
SLEEP = "import time; time.sleep(600)"
SWARM = """
import os, time
for _ in range(5000):
    if os.fork():
        os._exit(0)
    os.setsid()
    time.sleep(0.002)
"""


class Options:
    """The parsed command line."""

    def __init__(self, words: list[str]) -> None:
        self.persistent = self.plain = self.deaf = False
        self.end = self.early = self.graceful = self.system = ""
        while words and words[0].startswith("--"):
            name = words.pop(0)[2:]
            if isinstance(getattr(self, name), bool):
                setattr(self, name, True)
            else:
                setattr(self, name, words.pop(0))
        self.act: list[str] = words or ["echo"]


class Agent:
    """One run of the program."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.turns: int = 0

    def raw(self, data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def reply(self, text: str) -> None:
        self.raw(self.replying(text.encode()))

    def replying(self, text: bytes) -> bytes:
        """Return the bytes of a reply; `text` may be any bytes."""
        if not self.options.plain:
            return b'{"type": "result", "result": "%s"}\n' % _escaped(text)
        end = self.options.end.encode() + b"\n" if self.options.end else b""
        return text + b"\n" + end

    def run(self) -> None:
        if self.options.early:
            self.raw(self.options.early.encode() + b"\n")
        if not self.options.persistent:
            self.take(sys.stdin.buffer.read().decode(errors="replace").removesuffix("\n"))
            return
        for line in sys.stdin.buffer:
            self.take(_prompt(line.decode(errors="replace").rstrip("\n")))

    def take(self, prompt: str) -> None:
        self.turns += 1
        last = prompt.rpartition("\n")[2]
        name, *words = last[1:].split() if last.startswith("!") else self.options.act
        if name in REPLIES:
            self.reply(REPLIES[name](self, prompt, words))
        else:
            act: Callable[..., None] = getattr(self, "do_" + name.replace("-", "_"))
            act(prompt, *words)

    def do_fds(self, prompt: str) -> None:
        listed = sorted(int(name) for name in os.listdir("/proc/self/fd"))  # noqa: PTH208
        self.reply(json.dumps([fd for fd in listed if _is_open(fd)]))

    def do_signals(self, prompt: str) -> None:
        ours = {signal.SIGPIPE, signal.SIGXFSZ}  # ignored by Python itself
        ignored = [
            n for n in signal.valid_signals() - ours if signal.getsignal(n) is signal.SIG_IGN
        ]
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        self.reply(json.dumps([sorted(map(int, ignored)), sorted(map(int, blocked))]))

    def do_tty(self, prompt: str) -> None:
        try:
            os.close(os.open("/dev/tty", os.O_RDWR))
            controls = True
        except OSError:
            controls = False
        self.reply(json.dumps([*map(os.isatty, (0, 1, 2)), controls]))

    def do_huge(self, prompt: str, size: str) -> None:
        self.raw(b"x" * int(size) * MIB + b"\n")
        self.reply("after a huge line")

    def do_half(self, prompt: str) -> None:
        data = self.replying(b"two halves")
        self.raw(data[: len(data) // 2])
        time.sleep(0.05)
        self.raw(data[len(data) // 2 :])

    def do_bytes(self, prompt: str) -> None:
        self.raw(b"\xff\xfe\x80 \xc3\n")
        self.raw(self.replying(b"bad \xff byte"))

    def do_nuls(self, prompt: str) -> None:
        self.raw(b"\0" * 1000 + b"\n")
        self.raw(self.replying(b"a \0 NUL"))

    def do_brackets(self, prompt: str, count: str) -> None:
        many = b"[" * int(count)
        self.raw(many + b"\n" + b'{"type": ' + many + b"\n" + b'{"a": {"b": ' * int(count) + b"\n")
        self.raw(b'{"type": "result", "result": ' + b"9" * int(count) + b"}\n")
        self.raw(b'{"type": NaN}\n{"type": ["result"]}\n["result"]\n"result"\nnull\n{}\n')
        self.reply("after brackets")

    def do_deltas(self, prompt: str, count: str) -> None:
        for number in range(int(count)):
            self.raw(b'{"type": "delta", "n": %d}\n' % number)
            time.sleep(0.01)
        self.reply("after deltas")

    def do_leftover(self, prompt: str) -> None:
        second, third = self.replying(b"a second reply"), self.replying(b"a third reply")
        self.raw(self.replying(b"first") + second + third[: len(third) // 2])

    def do_late(self, prompt: str) -> None:
        third = self.replying(b"a third reply")
        self.raw(third[len(third) // 2 :])
        self.reply("late")

    def do_stderr(self, prompt: str, size: str) -> None:
        sys.stderr.write("e" * 1023 * int(size) + "the last word\n")
        sys.stderr.flush()
        self.reply("after stderr")

    def do_nothing(self, prompt: str) -> None:
        pass

    def do_hang(self, prompt: str) -> None:
        time.sleep(600)

    def do_exit(self, prompt: str, code: str) -> None:
        self.raw(self.replying(b"cut")[:8])
        sys.stderr.write("boom\n")
        sys.stderr.flush()
        os._exit(int(code))

    def do_silent_exit(self, prompt: str, code: str) -> None:
        os._exit(int(code))

    def do_shut(self, prompt: str) -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        time.sleep(600)

    def do_daemon_hang(self, prompt: str, token: str) -> None:
        _start_leftover("daemon", SLEEP, token)
        time.sleep(600)


REPLIES: dict[str, Callable[[Agent, str, list[str]], str]] = {
    "echo": lambda agent, prompt, words: f"heard: {prompt}",
    "turn": lambda agent, prompt, words: f"turn {agent.turns}",
    "whoami": lambda agent, prompt, words: agent.options.system,
    "env": lambda agent, prompt, words: os.environ.get(words[0], ""),
    "args": lambda agent, prompt, words: json.dumps(sys.argv[1:]),
    "cwd": lambda agent, prompt, words: os.getcwd(),  # noqa: PTH109 - starts faster
    "count": lambda agent, prompt, words: str(len(prompt.encode())),
    "big": lambda agent, prompt, words: "x" * int(words[0]) * MIB,
    "daemon": lambda agent, prompt, words: _start_leftover("daemon", SLEEP, words[0]),
    "tool": lambda agent, prompt, words: _start_leftover("tool", SLEEP, words[0], alone=False),
    "swarm": lambda agent, prompt, words: _start_leftover("swarm", SWARM, words[0]),
}
"""The acts that make exactly one reply."""


def _start_leftover(name: str, program: str, token: str, *, alone: bool = True) -> str:
    """Start a Python program that outlives us, and return a reply once it runs."""
    running, started = os.pipe()  # closes at exec
    if os.fork() == 0:
        if alone:
            os.setsid()
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            if os.fork():
                os._exit(0)
        environment = {} if alone else dict(os.environ)
        argv = [sys.executable, "-I", "-S", "-c", program, token]
        os.execve(sys.executable, argv, environment)  # noqa: S606
    os.close(started)
    os.read(running, 1)
    os.close(running)
    return f"{name} left"


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False  # the descriptor that listed them
    return True


def _escaped(text: bytes) -> bytes:
    """Escape text for a JSON string, leaving bytes alone that are invalid in one."""
    return text.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")


def _prompt(line: str) -> str:
    try:
        message: object = json.loads(line)
    except ValueError:
        return line
    if not isinstance(message, dict):
        return line
    return str(cast("dict[str, object]", message).get("text", line))


def _end_gracefully(file: str) -> None:
    def end(number: int, frame: object) -> None:
        with open(file, "a") as log:  # noqa: PTH123
            log.write("goodbye\n")
        os._exit(0)

    signal.signal(signal.SIGTERM, end)


def main(words: list[str]) -> None:
    """Run as an agent."""
    options = Options(words)
    if options.deaf:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
    if options.graceful:
        _end_gracefully(options.graceful)
    Agent(options).run()


if __name__ == "__main__":
    main(sys.argv[1:])
