"""Agents that need a terminal get one, always under Coterie's own keeper."""

from __future__ import annotations

import json

import anyio
import pytest

from coterie.process.child import KeeperName
from tests.unit.process.children import (
    KEEPERS,
    all_output,
    count_pids_with_argument,
    pids_with_argument,
    program,
    scripted,
    started,
    token,
    until,
)


@pytest.mark.parametrize("keeper", [*KEEPERS, "auto"])
async def test_all_three_are_terminals_and_one_controls(keeper: KeeperName) -> None:
    async with started(scripted(use_pty=True), keeper) as child:
        child.post(b"!tty\n")
        child.close_stdin()
        assert json.loads(await all_output(child))["result"] == "[true, true, true, true]"
        assert await child.exit() == 0


async def test_nothing_is_echoed_or_mangled() -> None:
    async with started(program("cat", use_pty=True)) as child:
        data = b"one\r\ntwo\ttabs \xc3\xa9 \x03\x1a\x15\x7f\x11\x13\x16 all\nlast\n"
        child.post(data)
        child.close_stdin()
        assert await all_output(child) == data
        assert await child.exit() == 0


async def test_a_line_longer_than_the_kernels_buffer_arrives() -> None:
    async with started(scripted(use_pty=True)) as child:
        child.post(b"x" * 1_000_000 + b"\n!count\n")
        child.close_stdin()
        with anyio.fail_after(60):
            assert json.loads(await all_output(child))["result"] == str(1_000_007)


async def test_what_it_prints_is_its_tail_and_its_exit_code_is_kept() -> None:
    async with started(program("sh", "-c", "echo oops >&2; exit 7", use_pty=True)) as child:
        assert await all_output(child) == b"oops\n"
        assert await child.exit() == 7
        assert child.stderr_tail == "oops\n"


async def test_its_tree_is_ended_too() -> None:
    word = token()
    async with started(scripted("--persistent", use_pty=True)) as child:
        child.post(f"!daemon {word}\n".encode())
        assert b"daemon left" in await child.receive()
        assert await count_pids_with_argument(word) == 1
        assert await child.terminate()
        assert await count_pids_with_argument(word) == 0
    await until(lambda: not pids_with_argument(word))
