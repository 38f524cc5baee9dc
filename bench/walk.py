"""How many source files an operation passes through: the reader's path, counted.

Each operation runs twice in this process, once to warm up imports and caches and once counted.
A file counts if one of its functions is called, in any thread; imports and child processes do not
count.

    python -m bench.walk        the names of the files, by operation
"""

from __future__ import annotations

import inspect
import io
import json
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import coterie
from bench.commands import created_home
from coterie.cli.main import main as coterie_command
from coterie.model.task import Ended, TaskCreated
from coterie.ports import Context
from coterie.workflows.chat import Chat

AWAITED = ContextVar("AWAITED", default=False)
"""Whether this is the turn that is measured, or a task that it started."""
SOURCE = str(Path(coterie.__file__).parent) + os.sep


@dataclass
class Walk:
    """The files entered, by name within the package, while it is `counting`."""

    files: set[str] = field(default_factory=set[str])
    counting: bool = True
    callers: set[FrameType] = field(default_factory=set[FrameType])
    """Frames that are only resumed, on the way to the measured one."""
    loop: int | None = None
    """The thread of the event loop, where only what is awaited counts."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Observe the calls of this thread, and of every thread that is started in this block."""
        threading.setprofile(self._enter)
        sys.setprofile(self._enter)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _enter(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if not self.counting or event != "call" or not code.co_filename.startswith(SOURCE):
            return
        if threading.get_ident() == self.loop and not (AWAITED.get() and frame not in self.callers):
            return
        if code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<"):
            self.files.add(code.co_filename[len(SOURCE) :])


@dataclass(frozen=True)
class Walked:
    """The files that each operation entered."""

    chat: set[str]
    tasks: set[str]
    inbox: set[str]
    turn: set[str]
    """`context.turn` alone, from its call to its return: what it awaits and every other thread,
    but not the surface that shows its records."""


def measure_walk(folder: Path) -> Walked:
    """Measure a chat of one turn with a generic agent, and the two commands that look at it."""
    chat = ("chat", "--agents", "a=scripted", "--max-turns", "1", "hello there")
    team = folder / "team.json"
    members = [{"id": "a", "agent": "scripted"}, {"id": "max", "type": "human"}]
    team.write_text(json.dumps({"name": "pair", "members": members}))
    asking = ("chat", "-t", str(team), "hello there")
    with _environment(created_home(folder)):
        run(folder, *asking, may_end=(0, 3))  # leaves a question in the inbox
        counts = [_entered(folder, Walk(), *words) for words in (chat, ("tasks",), ("inbox",))]
        with _only_turns(Walk(counting=False)) as walk:
            entered = _entered(folder, walk, *chat)
    turn = {name for name in entered if not name.startswith("cli" + os.sep)}
    return Walked(*counts, turn=turn)


def _entered(folder: Path, walk: Walk, *words: str) -> set[str]:
    run(folder, *words)  # the first creates the project, and imports
    walk.files.clear()
    with walk.watching():
        run(folder, *words)
    return walk.files


def _callers() -> Iterator[FrameType]:
    """Yield the frames below the running one: they are resumed repeatedly, whatever they await."""
    frame = inspect.currentframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


@contextmanager
def _only_turns(walk: Walk) -> Iterator[Walk]:
    """Have a walk count only from the call of the workflow's `context.turn` to its return."""
    real = Chat.run

    async def run_counted(self: Chat, task: TaskCreated, context: Context) -> Ended:
        take = context.turn

        async def turn(*given: Any) -> object:
            walk.callers, walk.loop = set(_callers()), threading.get_ident()
            AWAITED.set(True)
            walk.counting = True
            try:
                return await take(*given)
            finally:
                walk.counting = False
                AWAITED.set(False)

        vars(context)["turn"] = turn
        return await real(self, task, context)

    Chat.run = run_counted
    try:
        yield walk
    finally:
        Chat.run = real


def run(folder: Path, *words: str, may_end: tuple[int, ...] = (0,)) -> None:
    """Run a command in this process, capturing its output."""
    before, sys.argv = sys.argv, ["coterie", "-C", str(folder / "work"), *words]
    output = io.StringIO()
    try:
        with redirect_stdout(output), redirect_stderr(output):
            code: object = coterie_command()
    except SystemExit as end:
        code = end.code
    finally:
        sys.argv = before
    assert (code or 0) in may_end, (words, code, output.getvalue())


@contextmanager
def _environment(env: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(env)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        for operation, names in vars(measure_walk(Path(place))).items():
            sys.stdout.write(f"{operation}: {len(names)}\n")
            sys.stdout.writelines(f"    {name}\n" for name in sorted(names))
