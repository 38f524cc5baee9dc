"""Running a program to its end for a bounded answer, or in our own place."""

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

PATIENCE = 10.0
_VERSION = re.compile(r"\d+(?:\.\d+)+(?:[-+][0-9A-Za-z.-]+)?")


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


@dataclass(frozen=True)
class CapturedOutput:
    """What a program printed; `status` is None when it was ended before it had exited."""

    output: bytes
    complaint: str
    status: int | None
    cut: bool = False
    """It printed more than was wanted."""
    late: bool = False
    """It took longer than was allowed."""


async def capture(request: CaptureRequest) -> CapturedOutput:
    """Run a program that only reads, to its end or to a limit; OSError when it cannot be run.

    It is gone when this returns, or is cancelled.
    """
    output, errors, complaint = OutputReader(), OutputReader(), Tail()
    errors.divert(complaint.add)
    program = await shielded(partial(_start, request, output, errors))
    printed = bytearray()
    try:
        with anyio.move_on_after(request.patience) as timeout:
            while len(printed) <= request.most and (chunk := await output.receive()):
                printed += chunk
            if len(printed) <= request.most:
                await program.gone.wait()
                await errors.ended.wait()
        return CapturedOutput(
            output=bytes(printed[: request.most]),
            complaint=complaint.text,
            status=program.code,
            cut=len(printed) > request.most,
            late=timeout.cancelled_caught,
        )
    finally:
        program.signal(signal.SIGKILL)
        await shielded(program.gone.wait)
        output.close()
        errors.close()


async def _start(request: CaptureRequest, output: OutputReader, errors: OutputReader) -> Program:
    stdio = Stdio.pipes()
    try:
        program = await launch(Launch(request.words, request.cwd, request.env, stdio))
    except BaseException:
        stdio.close_ours()
        raise
    finally:
        stdio.close_theirs()
    to_child, from_child, child_errors = stdio.ours
    os.close(to_child)
    await read_from(from_child, output)
    if child_errors is not None:
        await read_from(child_errors, errors)
    return program


def succeeds(words: Sequence[str]) -> bool:
    """Whether a command exits with 0.  Blocks."""
    ran = _run(words, None, subprocess.DEVNULL)
    return ran is not None and ran.returncode == 0


def version_of(command: str, search_path: str) -> str | None:
    """The version a program prints with `--version`; None when it prints none.  Blocks.

    It gets a home that is thrown away: some programs leave files behind even then.
    """
    try:
        with tempfile.TemporaryDirectory() as home:
            env = {"HOME": home, "TMPDIR": home, "PATH": search_path}
            ran = _run([command, "--version"], env, subprocess.PIPE)
    except OSError:
        return None
    if ran is None or ran.returncode != 0:
        return None
    match = _VERSION.search((ran.stdout + ran.stderr).decode("utf-8", "replace"))
    return match[0] if match else None


def _run(
    words: Sequence[str], env: Mapping[str, str] | None, output: int
) -> subprocess.CompletedProcess[bytes] | None:
    """Run it with its output dropped or captured; None when it cannot be, or takes too long."""
    try:
        return subprocess.run(
            words,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None


def exec_program(words: Sequence[str], cwd: Path, env: Mapping[str, str]) -> NoReturn:
    """Replace this process by a program, with that folder and environment; OSError if it cannot."""
    os.chdir(cwd)
    os.execvpe(words[0], list(words), dict(env))  # noqa: S606 - no shell is wanted
