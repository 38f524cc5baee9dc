"""Running a program of ours or the user's to its end, for a bounded answer."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

import anyio

from coterie.process.launch import Launch, Program, Stdio, launch, shielded
from coterie.process.streams import OutputReader, Tail, read_from


@dataclass(frozen=True)
class CapturedOutput:
    """What a program answered; `status` is None when it was ended before it had."""

    output: bytes
    complaint: str
    status: int | None
    cut: bool = False
    """It said more than was wanted."""
    late: bool = False
    """It took longer than was allowed."""


@dataclass(frozen=True)
class CaptureRequest:
    """A program to run with no input; `env` is all that it gets."""

    words: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    most: int
    """How many bytes of output are wanted."""
    patience: float
    """For how many seconds it may run."""


class _Asked:
    """The program as it runs, and what it has said."""

    def __init__(self) -> None:
        self.program = Program()
        self.output = OutputReader()
        self.errors = OutputReader()
        self.complaint = Tail()
        self.errors.divert(self.complaint.add)

    async def start(self, query: CaptureRequest) -> None:
        stdio = Stdio.pipes()
        try:
            self.program = await launch(Launch(query.words, query.cwd, query.env, stdio))
        except BaseException:
            stdio.close_ours()
            raise
        finally:
            stdio.close_theirs()
        to_child, output, errors = stdio.ours
        os.close(to_child)
        await read_from(output, self.output)
        if errors is not None:
            await read_from(errors, self.errors)

    async def answer(self, query: CaptureRequest) -> CapturedOutput:
        kept = bytearray()
        with anyio.move_on_after(query.patience) as clock:
            while len(kept) <= query.most and (chunk := await self.output.receive()):
                kept += chunk
            if len(kept) <= query.most:
                await self.program.gone.wait()
                await self.errors.ended.wait()
        return CapturedOutput(
            output=bytes(kept[: query.most]),
            complaint=self.complaint.text,
            status=self.program.code,
            cut=len(kept) > query.most,
            late=clock.cancelled_caught,
        )

    async def end(self) -> None:
        self.program.signal(signal.SIGKILL)
        await self.program.gone.wait()
        self.output.close()
        self.errors.close()


async def capture(query: CaptureRequest) -> CapturedOutput:
    """Run it to its end, or to one of its two limits; OSError when it cannot be run.

    It is gone when this returns, or is cancelled.
    """
    asked = _Asked()
    await shielded(partial(asked.start, query))
    try:
        return await asked.answer(query)
    finally:
        await shielded(asked.end)


PATIENCE = 10.0
_VERSION = re.compile(r"\d+(?:\.\d+)+(?:[-+][0-9A-Za-z.-]+)?")


def succeeds(words: Sequence[str]) -> bool:
    """Whether a command ends with 0.  Blocks."""
    try:
        asked = subprocess.run(
            list(words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return False
    return asked.returncode == 0


def version_of(command: str, search_path: str) -> str | None:
    """The version a program prints when asked; None when it cannot be asked.  Blocks.

    Asked in a home that is thrown away: some leave files behind even then.
    """
    try:
        with tempfile.TemporaryDirectory() as home:
            asked = subprocess.run(
                [command, "--version"],
                env={"HOME": home, "TMPDIR": home, "PATH": search_path},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PATIENCE,
                check=False,
            )
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    found = _VERSION.search((asked.stdout + asked.stderr).decode("utf-8", "replace"))
    return found[0] if found and asked.returncode == 0 else None


def exec_program(words: Sequence[str], cwd: Path, env: Mapping[str, str]) -> NoReturn:
    """Run a program in our place, in that folder and with that environment; OSError if not."""
    os.chdir(cwd)
    os.execvpe(words[0], list(words), dict(env))  # noqa: S606 - no shell is wanted
