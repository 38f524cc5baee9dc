"""`coterie chat` on a real pseudo-terminal: it draws, reads keys and restores everything."""

from __future__ import annotations

import codecs
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from tests.cli.command import Cli, forked, normalize
from tests.cli.terminal_emulator import TerminalEmulator
from tests.conftest import init_project

# While the screen is drawn, it is the terminal that turns a Ctrl-C into a signal, which requires it
# to be the program's controlling terminal.
ON_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


# A shell with job control, as far as ^Z needs one.
UNDER_A_SHELL = """
import os, signal, sys
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
_, status = os.waitpid(child, os.WUNTRACED)
if os.WIFSTOPPED(status):
    os.tcsetpgrp(0, os.getpid())
    print("the shell has it", flush=True)
    os.tcsetpgrp(0, child)
    os.kill(child, signal.SIGCONT)
    _, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


class Terminal:
    """A program on a pseudo-terminal, with its output as text."""

    def __init__(
        self,
        cli: Cli,
        *words: str,
        columns: int = 80,
        term: str = "xterm-256color",
        shell: tuple[str, ...] = (),
    ) -> None:
        self.master, self.slave = pty.openpty()
        self.resize(columns)
        self.before = termios.tcgetattr(self.slave)
        self.emulator = TerminalEmulator()
        self.decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        env = {**os.environ, "TERM": term, "NO_COLOR": "1", "PYTHONUTF8": "1"}
        self.child = (
            self._launch([*shell, "-m", "coterie", *words], cli, env)
            if shell
            else forked().start_on_terminal(words, cli.user.project, env, self.slave)
        )

    def _launch(self, words: list[str], cli: Cli, env: dict[str, str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-c", ON_TERMINAL, sys.executable, *words],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            cwd=cli.user.project,
            env=env,
            start_new_session=True,
        )

    def resize(self, columns: int, rows: int = 24) -> None:
        """Resize the terminal, as when a window is dragged."""
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self.master, keys.encode())

    def until(self, text: str, timeout: float = 30) -> None:
        """Read until the text is visible."""
        end = time.monotonic() + timeout
        while text not in self.emulator.shown:
            ready = self._ready(timeout=max(end - time.monotonic(), 0))
            assert ready, f"{text!r} never came; there was\n{self.emulator.shown}"
            self._read()

    def ended(self) -> int:
        """Wait for the exit code, and check that the terminal is restored."""
        if isinstance(self.child, subprocess.Popen):
            gone = os.pidfd_open(self.child.pid)
        else:
            gone = os.dup(self.child.fileno())
        with os.fdopen(gone):
            while gone not in (ready := self._ready(gone, timeout=30)):
                assert ready, f"it never ended; there was\n{self.emulator.shown}"
                self._read()
        while self._ready():
            self._read()
        assert termios.tcgetattr(self.slave) == self.before
        return self.child.wait()

    def _ready(self, *others: int, timeout: float = 0) -> list[int]:
        return select.select([self.master, *others], [], [], timeout)[0]

    def _read(self) -> None:
        self.emulator.write(self.decode(os.read(self.master, 65536)))

    def close(self) -> None:
        """Kill the program and close the terminal."""
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def open_terminal(cli: Cli) -> Iterator[Any]:
    opened: list[Terminal] = []

    def make(*words: str, **more: Any) -> Terminal:
        opened.append(Terminal(cli, *words, **more))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def test_a_whole_conversation(cli: Cli, open_terminal: Any) -> None:
    """A user who is typing is not notified of what they see."""
    cli.team("ada", "rex")
    told = cli.user.home / "told"
    settings = {"notify": f"sh -c 'cat >> {told}'"}
    (cli.user.coterie_home / "settings.json").write_text(json.dumps(settings))
    terminal = open_terminal("chat")
    terminal.until("What should they do?")
    terminal.type("fix it\r")
    terminal.until("ada heard 'fix it'")
    terminal.until("rex heard")
    terminal.until("speak next")
    terminal.type("@rex and now?\r")
    terminal.until("rex heard '@rex and now?'")
    terminal.until("speak next")
    terminal.type("/end\r")
    terminal.until("you ended it")
    assert terminal.ended() == 0
    assert not told.exists()
    shown = re.sub(r"(?<=Done  )\w+|(?<=log )\w+", "k3f9", terminal.emulator.shown)
    assert normalize(shown) == snapshot("""\
 pair: ada, rex.   What should they do?

 you   fix it

 ada   ada
       ada heard 'fix it'
                                                                            0.1s

 rex   rex
       rex heard "ada heard 'fix it'"
                                                                            0.1s

 you   @rex and now?

 rex   rex
       rex heard '@rex and now?'
                                                                            0.1s

 ada   ada
       ada heard "rex heard '@rex and now?'"
                                                                            0.1s

Done  k3f9 · 6 turns · 0.1s
  why      you ended it
  next     coterie log k3f9
""")


def test_what_was_typed_is_offered_again_in_the_next_run_without_secrets(
    cli: Cli, open_terminal: Any
) -> None:
    cli.team("ada")
    key = f"sk-ant-api03-{'secret' * 6}"
    first = open_terminal("chat")
    first.until("What should they do?")
    first.type(f"use {key} once\r")
    first.until("speak next")
    first.type("/end\r")
    assert first.ended() == 0
    assert key not in (init_project(cli.user.project) / "history").read_text()
    second = open_terminal("chat")
    second.until("What should they do?")
    second.type("\x1b[A\x1b[A")
    second.until("> use [redacted 49] once")
    second.type("\x03")
    assert second.ended() == 130


@pytest.mark.parametrize("columns", [80, 40])
def test_a_question_is_opened_by_tab_and_answered(
    cli: Cli, open_terminal: Any, columns: int
) -> None:
    cli.team("ada", "rex")
    terminal = open_terminal("ada-fails for sure", columns=columns)
    terminal.until("ada asks q1")
    terminal.type("\t")
    terminal.until("4 stop")
    terminal.type("2\r")
    terminal.until("q1 answered by you: skip")
    terminal.until("rex heard")
    terminal.type("\x03")
    terminal.until("Parked: coterie resume")
    assert terminal.ended() == 130


REPLIES = {
    "rules": [
        {
            "when": {"message": "coupons"},
            "replies": [
                {
                    "text": "It needs the client.",
                    "tools": [{"name": "runCommand", "input": {"command": "touch client.txt"}}],
                },
                {
                    "text": "Then without it.",
                    "tools": [
                        {
                            "name": "editFile",
                            "input": {"path": "coupon.py", "oldStr": "", "newStr": "RATE = 10\n"},
                        }
                    ],
                },
                {"text": "Coupons are there."},
            ],
        }
    ]
}


def test_a_risky_action_is_denied_with_a_comment_and_another_allowed(
    cli: Cli, open_terminal: Any, tmp_path: Path
) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps(REPLIES))
    terminal = open_terminal("do", "--agent", "builtin", "--script", str(script), "add coupons")
    terminal.until("builtin asks q1")
    terminal.type("1\r")  # typed, but not into the card: a message to the agent
    terminal.until("read after this turn")
    terminal.type("\t")
    terminal.until("No answer is never a yes.")
    shown = terminal.emulator.shown
    for part in (
        "wants to RUN A COMMAND",
        "     touch client.txt",
        "4 rule        run(touch client.txt)",
    ):
        assert part in shown
    terminal.type("\r2 no network here\r")
    terminal.until("q1 answered by you: deny: no network here")
    terminal.until("builtin asks q2")
    terminal.type("\t")
    terminal.until("     +RATE = 10")
    terminal.type("1\r")
    terminal.until("Done  ")
    assert terminal.ended() == 0
    assert sorted(path.name for path in cli.user.project.iterdir()) == [".coterie", "coupon.py"]
    outcomes = [(one["name"], one["outcome"]) for one in cli("audit", "--json").of("audit")]
    assert outcomes == [("runCommand", "denied"), ("editFile", "ok")]
    log = cli("log").out
    assert "✗ not run: touch client.txt  (no network here)" in log
    assert "✓ used editFile coupon.py" in log
    assert cli("audit", "--verify").code == 0


def test_ctrl_c_twice_while_an_agent_hangs(cli: Cli, open_terminal: Any) -> None:
    cli.team("ada", "rex")
    terminal = open_terminal("rex-hangs on it")
    terminal.until("rex working")
    terminal.type("\x03\x03")
    terminal.until("Parked: coterie resume")
    assert terminal.ended() == 130


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_restores_the_terminal(
    cli: Cli, open_terminal: Any, number: signal.Signals
) -> None:
    cli.team("ada", "rex")
    terminal = open_terminal("rex-hangs on it")
    terminal.until("rex working")
    terminal.child.send_signal(number)
    terminal.until("Parked: coterie resume")
    assert terminal.ended() == 130


def test_escape_breaks_off_one_turn(cli: Cli, open_terminal: Any) -> None:
    cli.team("ada", "rex")
    terminal = open_terminal("rex-hangs on it")
    terminal.until("rex working")
    terminal.type("\x1b")
    terminal.until("speak next")
    terminal.type("/end\r")
    assert terminal.ended() == 0


def test_resizing_while_it_runs(cli: Cli, open_terminal: Any) -> None:
    cli.team("ada", "rex")
    terminal = open_terminal("hello to you")
    terminal.until("speak next")
    for columns in (40, 120, 25, 80):
        terminal.resize(columns)
        terminal.child.send_signal(signal.SIGWINCH)
        terminal.until("─" * (columns - 1))
    terminal.type("/end\r")
    assert terminal.ended() == 0


def test_a_conversation_goes_on_after_kill_9(cli: Cli, open_terminal: Any) -> None:
    cli.team("ada", "rex")
    terminal = open_terminal("hello to you")
    terminal.until("speak next")
    terminal.child.kill()
    terminal.child.wait()
    again = open_terminal("resume")
    again.until("rex heard")  # shows what was said before
    again.until("speak next")
    again.type("/end\r")
    assert again.ended() == 0


def test_a_killed_task_is_parked_and_not_shown_as_stopped_by_anyone(
    cli: Cli, open_terminal: Any
) -> None:
    cli.team("ada", "rex")
    terminal = open_terminal("rex-hangs on it")
    terminal.until("rex working")
    watching = open_terminal("attach")
    watching.until("rex working")
    terminal.child.kill()
    terminal.child.wait()
    watching.until("why      nobody runs it any more; nothing is lost")
    assert watching.ended() == 130
    other = open_terminal("hello to you")
    other.until("speak next")
    other.type("/tasks\r")
    other.until("   parked   rex-hangs on it")
    other.type("/end\r")
    assert other.ended() == 0


def test_a_dumb_terminal_gets_plain_lines(cli: Cli, open_terminal: Any) -> None:
    cli.team("ada")
    terminal = open_terminal("chat", "hello", term="dumb")
    terminal.until("Done  ")
    assert terminal.ended() == 0


def test_a_team_from_elsewhere_is_asked_about(cli: Cli, open_terminal: Any) -> None:
    path = cli.user.project / "team.json"
    path.write_text('{"members": [{"id": "ada", "agent": "ada", "permissions": "full"}]}')
    terminal = open_terminal("chat", "-t", "./team.json", "hello")
    terminal.until("Use it as it is now? [y/N]")
    terminal.type("\r")
    assert terminal.ended() == 2
    again = open_terminal("chat", "-t", "./team.json", "hello")
    again.until("Use it as it is now? [y/N]")
    again.type("y\r")
    again.until("ada heard")
    again.type("/end\r")
    assert again.ended() == 0


def test_cancel_asks(cli: Cli, open_terminal: Any) -> None:
    cli.team("ada", "you")
    task = cli.task("hello")
    terminal = open_terminal("cancel", task)
    terminal.until("for good?")
    terminal.type("n\r")
    assert terminal.ended() != 0
    assert cli("tasks", "--json").lines[0]["status"] == "waiting"


def test_a_folder_that_came_along_is_asked_about(cli: Cli, open_terminal: Any) -> None:
    planted = cli.user.project / ".coterie" / "teams" / "pair"
    planted.mkdir(parents=True)
    (planted / "team.json").write_text('{"members": [{"id": "ada", "agent": "ada"}]}')
    for answer, code in (("l", 2), ("a", 0), ("", 0)):
        terminal = open_terminal("team", "list")
        if answer:
            terminal.until("leave it")
            assert "teams/pair/team.json" in terminal.emulator.shown
            terminal.type(f"{answer}\r")
        assert terminal.ended() == code
        assert ("is now yours" in terminal.emulator.shown) == (answer == "a")


def test_escape_in_a_job_is_not_its_end(cli: Cli, open_terminal: Any) -> None:
    terminal = open_terminal("do", "--agent", "ada", "ada-hangs now")
    terminal.until("working")
    terminal.type("\x1b")
    terminal.until("your turn")
    assert cli("tasks", "--json").of("task")[0]["status"] == "waiting"
    terminal.type("try something else\r")
    terminal.until("ada heard 'try something else'")
    assert terminal.ended() == 0
    assert "Done  " in terminal.emulator.shown


def test_a_job_that_was_broken_off_and_ended_is_not_done(cli: Cli, open_terminal: Any) -> None:
    terminal = open_terminal("do", "--agent", "ada", "ada-hangs now")
    terminal.until("working")
    terminal.type("\x1b")
    terminal.until("your turn")
    terminal.type("/end\r")
    assert terminal.ended() == 1
    assert "you ended it" in terminal.emulator.shown
    assert cli("tasks", "--json").of("task")[0]["status"] == "failed"


def test_ctrl_z_gives_the_terminal_back_and_fg_goes_on(cli: Cli, open_terminal: Any) -> None:
    cli.team("ada", "rex")
    terminal = open_terminal("chat", shell=("-c", UNDER_A_SHELL))
    terminal.until("What should they do?")
    terminal.type("hel\x1a")
    terminal.until("the shell has it")
    terminal.until("> hel")
    terminal.type("lo\r")
    terminal.until("ada heard 'hello'")
    terminal.until("speak next")
    terminal.type("/end\r")
    assert terminal.ended() == 0
    assert "^Z" not in terminal.emulator.shown


def test_attach_is_the_screen_of_a_task_that_runs_elsewhere(cli: Cli, open_terminal: Any) -> None:
    with cli.start("chat", "--agents", "ada,rex", "ada-hangs please") as started:
        started.until("ada-hangs please")
        registry = cli.user.coterie_home / "agents" / "config.json"
        valid = registry.read_text()
        for _ in ("valid", "not valid"):
            watching = open_terminal("attach")
            watching.until("ada working")
            watching.until("^C leave, it keeps running")
            watching.type("\x03")
            watching.until("keeps running.   coterie attach")
            assert watching.ended() == 0
            registry.write_text("{,}")  # only whoever runs the task needs it
        registry.write_text(valid)
        again = open_terminal("attach")
        again.until("ada working")
        again.type("hurry\r")
        again.until("read after this turn")
        again.type("\x1b")
        again.until("rex heard")
        assert again.ended() == 0
        assert "Done" in again.emulator.shown
        assert started.wait(20) == 0
    assert cli("attach").err.startswith("! ")


def test_a_member_that_was_broken_off_is_idle_where_it_is_watched_and_the_task_can_be_stopped(
    cli: Cli, open_terminal: Any
) -> None:
    with cli.start("chat", "--wait", "1m", "--agents", "ada", "ada-hangs please") as started:
        started.until("ada-hangs please")
        watching = open_terminal("attach")
        watching.until("ada working")
        watching.type("\x1b")
        watching.until("○ ada   ▲ you speak next")
        watching.type("/stop\r")
        watching.until("next     coterie inbox · coterie resume")
        assert started.wait(20) == 130


def test_a_question_is_answered_where_it_is_watched(cli: Cli, open_terminal: Any) -> None:
    with cli.start("chat", "--wait", "20s", "--agents", "ada", "ada-fails") as started:
        started.until("q1")
        watching = open_terminal("attach")
        watching.until("Tab open q1")
        watching.type("\t")
        watching.until("q1>")
        watching.type("2\r")
        assert watching.ended() == 0
        assert started.wait(20) == 0
