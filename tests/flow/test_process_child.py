"""A child under each keeper: its streams, its exit, its environment."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import anyio
import pytest

from coterie.errors import AgentMissing
from coterie.process.child import Child, KeeperName, start
from tests.unit.process.children import (
    KEEPERS,
    all_output,
    program,
    require_keeper,
    scripted,
    started,
)

pytestmark = pytest.mark.parametrize("keeper", KEEPERS)


async def reply_of(child: Child, prompt: str) -> str:
    """Return the reply of a one-shot scripted agent."""
    child.post(prompt.encode())
    child.close_stdin()
    with anyio.fail_after(30):
        return json.loads(await all_output(child))["result"]


async def test_input_output_and_exit_code(keeper: KeeperName) -> None:
    shell = "read x; echo got $x; echo oops >&2; exit 3"
    async with started(program("sh", "-c", shell), keeper) as child:
        assert child.alive
        child.post(b"this\n")
        assert await all_output(child) == b"got this\n"
        assert await child.exit() == 3
        assert (child.alive, child.stderr_tail) == (False, "oops\n")


async def test_a_signal_is_128_and_its_number(keeper: KeeperName) -> None:
    async with started(program("sh", "-c", "kill -SEGV $$"), keeper) as child:
        assert await child.exit() == 128 + signal.SIGSEGV


async def test_a_missing_program_is_named(keeper: KeeperName) -> None:
    await require_keeper(keeper)
    with pytest.raises(AgentMissing) as caught:
        await start(program("no-such-program"), keeper)
    assert str(caught.value) == (
        "ann cannot start: no-such-program: No such file or directory (in teams/t/ann)."
    )


async def test_what_cannot_be_executed_is_named(keeper: KeeperName, tmp_path: Path) -> None:
    await require_keeper(keeper)
    plain, lost = tmp_path / "plain", tmp_path / "lost"
    plain.write_text("no program\n")
    lost.write_text("#!/no/such/interpreter\n")
    lost.chmod(0o755)
    for spawn, problem in [
        (program(str(plain)), "Permission denied"),
        (program(str(tmp_path)), "(Permission denied|No such file or directory)"),
        (program(str(lost)), "(No such file or directory|interpreter)"),
        (program("sh", cwd=str(tmp_path / "none")), "No such file or directory"),
        (program("sh", "a\0b"), "null byte"),
        (program("sh", "-c", "x" * 200_000), "Argument list too long"),
    ]:
        with pytest.raises(AgentMissing, match=problem):
            await start(spawn, keeper)


async def test_it_sees_its_environment_with_the_mark_and_nothing_else(
    keeper: KeeperName, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAKED", "secret")
    spawn = program("env", mark="m-1", env={"PATH": "/usr/bin:/bin", "A": "1 2"})
    async with started(spawn, keeper) as child:
        lines = set((await all_output(child)).decode().split("\n"))
    assert lines - {"", "SHLVL=0", "_=/usr/bin/env"} - {f"PWD={spawn.cwd}"} == {
        "PATH=/usr/bin:/bin",
        "A=1 2",
        "COTERIE_MARK=m-1",
    }


async def test_it_inherits_no_descriptor_and_no_signal_setting(keeper: KeeperName) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        async with started(scripted(), keeper) as child:
            assert json.loads(await reply_of(child, "!fds")) == [0, 1, 2]
        async with started(scripted(), keeper) as child:
            assert json.loads(await reply_of(child, "!signals")) == [[], []]
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) >= {signal.SIGUSR1}
    finally:
        signal.signal(signal.SIGHUP, before)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


async def test_it_runs_in_its_folder(keeper: KeeperName, tmp_path: Path) -> None:
    async with started(scripted(cwd=str(tmp_path)), keeper) as child:
        assert Path(await reply_of(child, "!cwd")).samefile(tmp_path)


async def test_a_prompt_larger_than_any_pipe_arrives(keeper: KeeperName) -> None:
    async with started(scripted(), keeper) as child:
        assert await reply_of(child, "x" * 20_000_000 + "\n!count") == str(20_000_007)


async def test_one_that_prints_while_it_is_written_to_does_not_block_us(keeper: KeeperName) -> None:
    async with started(program("cat"), keeper) as child:
        child.post(b"y" * 20_000_000)
        child.close_stdin()
        with anyio.fail_after(30):
            assert len(await all_output(child)) == 20_000_000


async def test_output_that_nobody_receives_is_bounded(keeper: KeeperName) -> None:
    async with started(program("sh", "-c", "yes & exec sleep 600"), keeper) as child:
        await anyio.sleep(0.3)
        assert sum(map(len, child.pending())) < 8_000_000


async def test_a_broken_pipe_is_no_error(keeper: KeeperName) -> None:
    # In a pid namespace init keeps the pipe open too, so there it breaks only when the agent exits.
    rest = "sleep 600" if keeper == "subreaper" else "exit"
    async with started(program("sh", "-c", f"exec <&-; echo shut; {rest}"), keeper) as child:
        assert await child.receive() == b"shut\n"
        for _ in range(20):
            child.post(b"x" * 65536)
            await anyio.sleep(0.01)
        child.close_stdin()


async def test_stderr_never_blocks_and_its_end_is_kept(keeper: KeeperName) -> None:
    async with started(scripted(), keeper) as child:
        assert await reply_of(child, "!stderr 5000") == "after stderr"
        assert await child.exit() == 0
        assert len(child.stderr_tail) == 64 * 1024
        assert child.stderr_tail.endswith("the last word\n")


async def test_an_interrupt_reaches_the_process_group(keeper: KeeperName) -> None:
    shell = "trap 'echo caught; exit 5' INT; echo ready; sleep 600 & wait"
    async with started(program("sh", "-c", shell), keeper) as child:
        assert await child.receive() == b"ready\n"
        child.interrupt()
        with anyio.fail_after(30):
            assert await child.exit() == 5
            assert await all_output(child) == b"caught\n"


async def test_output_can_be_diverted(keeper: KeeperName) -> None:
    async with started(program("cat"), keeper) as child:
        seen: list[bytes] = []
        done = anyio.Event()

        def sink(chunk: bytes) -> None:
            seen.append(chunk)
            if b"stop" in chunk:
                done.set()

        child.divert(sink)
        child.post(b"stop\n")
        with anyio.fail_after(30):
            await done.wait()
            child.divert(None)
            child.post(b"kept\n")
            assert await child.receive() == b"kept\n"
        assert b"".join(seen) == b"stop\n"


async def test_nothing_of_ours_stays_open(keeper: KeeperName) -> None:
    async def once() -> None:
        async with started(scripted(), keeper) as child:
            await reply_of(child, "hello")

    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    await once()
    before = await anyio.to_thread.run_sync(descriptors)
    for _ in range(5):
        await once()
        with pytest.raises(AgentMissing):
            await start(program("no-such-program"), keeper)
    await anyio.lowlevel.checkpoint()
    await anyio.lowlevel.checkpoint()
    assert await anyio.to_thread.run_sync(descriptors) == before
