"""Nothing of an agent is left after its own end or Coterie's, however it tries to stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from coterie.process import processes
from coterie.process.child import Child, KeeperName
from tests.unit.process import owner
from tests.unit.process.children import (
    KEEPERS,
    all_output,
    count_pids_with_argument,
    pids_with_argument,
    program,
    require_keeper,
    scripted,
    started,
    token,
    until,
)

BOUND = 5.0
both = pytest.mark.parametrize("keeper", KEEPERS)


async def act(child: Child, prompt: str) -> str:
    child.post(f"{prompt}\n".encode())
    with anyio.fail_after(30):
        return (await child.receive()).decode()


@both
@pytest.mark.parametrize("what", ["daemon", "tool"])
async def test_terminate_ends_what_agents_leave_behind(keeper: KeeperName, what: str) -> None:
    word = token()
    async with started(scripted("--persistent", "--deaf"), keeper) as child:
        assert f"{what} left" in await act(child, f"!{what} {word}")
        assert await count_pids_with_argument(word) == 1
        begun = time.monotonic()
        assert await child.terminate()
        assert time.monotonic() - begun < 4.0
        assert await count_pids_with_argument(word) == 0
        assert await child.terminate()
        assert await child.exit() == 128 + signal.SIGKILL


@both
async def test_one_that_heeds_term_is_gone_at_once_and_in_order(
    keeper: KeeperName, tmp_path: Path
) -> None:
    word, said = token(), tmp_path / "said"
    spawn = scripted("--persistent", "--graceful", str(said))
    async with started(spawn, keeper) as child:
        await act(child, f"!daemon {word}")
        begun = time.monotonic()
        assert await child.terminate()
        assert time.monotonic() - begun < 1.5
        assert said.read_text() == "goodbye\n"
        assert await child.exit() == 0
        assert await count_pids_with_argument(word) == 0


@both
async def test_the_rest_goes_when_the_agent_ends_by_itself(keeper: KeeperName) -> None:
    word = token()
    async with started(scripted("daemon", word), keeper) as child:
        child.close_stdin()
        with anyio.fail_after(BOUND):
            assert b"daemon left" in await all_output(child)
            assert await child.exit() == 0
        assert await until(lambda: not pids_with_argument(word)) < BOUND


@both
async def test_a_grandchild_that_holds_stdout_holds_up_nobody(keeper: KeeperName) -> None:
    word = token()
    async with started(scripted("tool", word), keeper) as child:
        child.close_stdin()
        with anyio.fail_after(BOUND):
            assert b"tool left" in await all_output(child)
            assert await child.exit() == 0
            assert await child.terminate()
    assert await count_pids_with_argument(word) == 0


@both
async def test_a_swarm_that_never_stays_the_same_is_caught(keeper: KeeperName) -> None:
    word = token()
    async with started(scripted("--persistent"), keeper) as child:
        await act(child, f"!swarm {word}")
        assert await child.terminate()
        assert await count_pids_with_argument(word) == 0
    assert await count_pids_with_argument(word) == 0


async def test_a_stopped_keeper_is_woken_and_does_its_work() -> None:
    word = token()
    async with started(scripted("--persistent")) as child:
        await act(child, f"!daemon {word}")
        os.kill(child.pid, signal.SIGSTOP)
        assert await child.terminate()
        assert await count_pids_with_argument(word) == 0


@both
async def test_an_end_that_is_cancelled_is_still_an_end(keeper: KeeperName) -> None:
    word = token()
    async with started(scripted("--persistent", "--deaf"), keeper) as child:
        await act(child, f"!daemon {word}")
        async with anyio.create_task_group() as group:
            group.start_soon(child.terminate)
            group.start_soon(child.terminate)
            await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        assert await count_pids_with_argument(word) == 0
        assert not child.alive


@asynccontextmanager
async def owned(keeper: KeeperName, word: str, mark: str) -> AsyncIterator[subprocess.Popen[str]]:
    """A process that owns an agent, a tool and a daemon, all of them running."""
    await require_keeper(keeper)
    root = Path(owner.__file__).parents[3]
    process = subprocess.Popen(
        [sys.executable, owner.__file__, keeper, mark, f"={word}"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path, str(root), str(root / "src")])},
    )
    assert process.stdout is not None
    try:
        for what in ("tool left", "daemon left"):
            assert what in await anyio.to_thread.run_sync(process.stdout.readline)
        assert await count_pids_with_argument(word) == 2
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        await anyio.to_thread.run_sync(processes.end_marked, [mark])


@both
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_all_is_gone_soon_after_its_owner(keeper: KeeperName, number: int) -> None:
    word, mark = token(), token()
    async with owned(keeper, word, mark) as process:
        process.send_signal(number)
        await until(
            lambda: not pids_with_argument(word) and not processes.find_marked([mark]), BOUND
        )


async def test_the_keeper_ends_its_tree_on_term() -> None:
    word = token()
    async with started(scripted("--persistent")) as child:
        await act(child, f"!daemon {word}")
        os.kill(child.pid, signal.SIGTERM)
        with anyio.fail_after(BOUND):
            assert await child.exit() == 128 + signal.SIGTERM
        await until(lambda: not pids_with_argument(word), BOUND)


@both
async def test_when_the_keeper_itself_is_killed_what_can_be_found_is_ended(
    keeper: KeeperName,
) -> None:
    word = token()
    async with started(scripted("--persistent"), keeper) as child:
        await act(child, f"!tool {word}")
        os.kill(child.pid, signal.SIGKILL)
        with anyio.fail_after(BOUND):
            assert await child.exit() == 128 + signal.SIGKILL
        assert await child.terminate()
        assert await count_pids_with_argument(word) == 0
        assert await anyio.to_thread.run_sync(processes.find_marked, [child.spawn.mark]) == []


async def test_a_keeper_whose_parent_is_gone_starts_nothing(tmp_path: Path) -> None:
    made = tmp_path / "made"
    (control, told), (status, report) = os.pipe(), os.pipe()
    options = ["--parent=1", f"--control={control}", f"--status={report}", "--grace=1"]
    ended = await anyio.to_thread.run_sync(
        lambda: subprocess.run(
            [sys.executable, "-I", "-S", str(processes.KEEPER), *options, "--", "touch", str(made)],
            pass_fds=(control, report),
            check=False,
        )
    )
    os.close(report)
    assert (ended.returncode, os.read(status, 100), made.exists()) == (1, b"", False)
    for fd in (control, told, status):
        os.close(fd)


@both
async def test_the_agent_is_found_by_its_pid(keeper: KeeperName) -> None:
    async with started(program("sleep", "600"), keeper) as child:
        await until(lambda: processes.describe(child.agent_pid, 0).argv == ("sleep", "600"))
        assert child.pid != child.agent_pid
        parents = await anyio.to_thread.run_sync(processes.snapshot)
        assert child.agent_pid in processes.descendants({child.pid}, parents)


async def test_many_start_and_end_side_by_side() -> None:
    word = token()

    async def once(keeper: KeeperName) -> None:
        async with started(scripted("--persistent"), keeper) as child:
            await act(child, f"!daemon {word}")

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for _ in range(6):
                for keeper in KEEPERS:
                    group.start_soon(once, keeper)
    assert await count_pids_with_argument(word) == 0


WITHOUT = """
import anyio, sys
from coterie.errors import AgentMissing
from coterie.process.child import start
from tests.unit.process.children import program

async def main():
    child = await start(program("/bin/sh", "-c", "exit 4"), "auto")
    print(await child.exit(), await child.terminate())
    try:
        await start(program("/bin/sh"), "bubblewrap")
    except AgentMissing as error:
        print(error)

anyio.run(main)
"""


async def test_without_bubblewrap_auto_is_our_own_keeper(tmp_path: Path) -> None:
    root = Path(owner.__file__).parents[3]
    modules = os.pathsep.join([*sys.path, str(root), str(root / "src")])
    told = await anyio.to_thread.run_sync(
        lambda: subprocess.run(
            [sys.executable, "-c", WITHOUT],
            env={"PATH": str(tmp_path), "PYTHONPATH": modules},
            capture_output=True,
            text=True,
            check=True,
        )
    )
    assert told.stdout.splitlines() == [
        "4 True",
        "ann cannot start: /bin/sh: keeper bubblewrap: not installed (in teams/t/ann).",
    ]
