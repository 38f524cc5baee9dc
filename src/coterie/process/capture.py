"""Asking a program of ours that only looks, such as a search, for a bounded answer."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import anyio

from coterie.process.launch import Launch, Program, Stdio, launch
from coterie.process.pipes import Inflow, Tail, read_from
from coterie.process.shield import shielded


@dataclass(frozen=True)
class Captured:
    """What a program answered; `status` is None when it was ended before it had."""

    output: bytes
    complaint: str
    status: int | None
    cut: bool = False
    """It said more than was wanted."""
    late: bool = False
    """It took longer than was allowed."""


@dataclass(frozen=True)
class Query:
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
        self.output = Inflow()
        self.errors = Inflow()
        self.complaint = Tail()
        self.errors.divert(self.complaint.add)

    async def start(self, query: Query) -> None:
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

    async def answer(self, query: Query) -> Captured:
        kept = bytearray()
        with anyio.move_on_after(query.patience) as clock:
            while len(kept) <= query.most and (chunk := await self.output.receive()):
                kept += chunk
            if len(kept) <= query.most:
                await self.program.gone.wait()
                await self.errors.ended.wait()
        return Captured(
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


async def capture(query: Query) -> Captured:
    """Run it to its end, or to one of its two limits; OSError when it cannot be run.

    It is gone when this returns, or is cancelled.
    """
    asked = _Asked()
    await shielded(partial(asked.start, query))
    try:
        return await asked.answer(query)
    finally:
        await shielded(asked.end)
