"""The generic adapter: an agent defined by nothing but a registry entry."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from coterie.agents.generic import GenericAdapter, GenericChannel
from coterie.engine.channels import ChannelKey, ChannelPool
from coterie.errors import AgentMissing
from coterie.model.agent import AgentDefinition, Capabilities
from coterie.model.conversation import Limits, Prompt
from coterie.model.team import Member
from coterie.model.update import (
    Activity,
    TextDelta,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    Update,
)
from coterie.model.workspace import Workspace
from tests.unit.process.children import AGENT, count_pids_with_argument, token, until

ROLE = "You are Ann."
EVENT: dict[str, object] = {"completionDetection": "jsonl", "completionTypes": ["result"]}
SILENT: dict[str, object] = {"completionDetection": "idleTimeout", "idleTimeoutMs": 200}
STAYS: dict[str, object] = {"persistent": True, "promptFormat": "jsonl"}


@dataclass
class Log:
    """A child log that tests can inspect."""

    running: dict[str, int | None] = field(default_factory=dict[str, int | None])
    seen: int = 0
    go_on: anyio.Event | None = None
    """If set, agents wait for it before they start."""

    async def starting(self, member: str, agent: str) -> str:
        self.seen += 1
        if self.go_on is not None:
            await self.go_on.wait()
        mark = token()
        self.running[mark] = None
        return mark

    def started(self, mark: str, pid: int) -> None:
        self.running[mark] = pid

    def ended(self, mark: str) -> None:
        del self.running[mark]


@dataclass
class GenericHarness:
    """One member on one agent."""

    folder: Path
    log: Log = field(default_factory=Log)

    def adapter(
        self, told: dict[str, object], *words: str, use_pty: bool = False
    ) -> GenericAdapter:
        agent = AgentDefinition(
            name="scripted",
            command=sys.executable,
            base_args=("-I", "-S", AGENT, *words),
            capabilities=Capabilities.model_validate(told),
            use_pty=use_pty,
        )
        return GenericAdapter(agent, self.log, keeper="subreaper")

    def member(self, **more: object) -> Member:
        known: dict[str, object] = {"id": "ann", "name": "ann", "displayName": "Ann"}
        return Member.model_validate(known | {"systemInstruction": ROLE} | more)

    async def open(self, adapter: GenericAdapter, member: Member | None = None) -> GenericChannel:
        env = {"PATH": os.environ["PATH"]}
        space = Workspace(self.folder, self.folder, self.folder, self.folder, env)
        return await adapter.open(member or self.member(), space, None)

    @asynccontextmanager
    async def channel(
        self, told: dict[str, object], *words: str, member: Member | None = None
    ) -> AsyncIterator[GenericChannel]:
        channel = await self.open(self.adapter(told, *words), member)
        try:
            yield channel
        finally:
            await channel.close()
            assert self.log.running == {}
            assert not channel.alive


@pytest.fixture
def harness(tmp_path: Path) -> GenericHarness:
    return GenericHarness(tmp_path)


async def turn(channel: GenericChannel, text: str) -> list[Update]:
    with anyio.fail_after(30):
        async with aclosing(channel.take_turn(Prompt(text))) as updates:
            return [update async for update in updates]
    raise AssertionError


async def reply(channel: GenericChannel, text: str) -> str:
    end = (await turn(channel, text))[-1]
    assert isinstance(end, TurnCompleted), end
    return end.text


async def test_a_one_shot_agent_is_started_for_each_turn(harness: GenericHarness) -> None:
    async with harness.channel(EVENT) as channel:
        assert (channel.pid, channel.alive, channel.holds_past, channel.thread) == (
            None,
            True,
            False,
            None,
        )
        assert harness.log.seen == 0
        assert await turn(channel, "!turn") == [Activity(), TurnCompleted("turn 1")]
        assert await reply(channel, "!turn") == "turn 1"
        assert harness.log.seen == 2


async def test_a_persistent_agent_is_started_once(harness: GenericHarness) -> None:
    async with harness.channel(EVENT | STAYS, "--persistent") as channel:
        assert (channel.alive, channel.holds_past) == (True, True)
        assert list(harness.log.running.values()) == [channel.pid]
        assert [await reply(channel, "!turn") for _ in range(3)] == ["turn 1", "turn 2", "turn 3"]
        assert harness.log.seen == 1


async def test_silence_shows_what_is_printed(harness: GenericHarness) -> None:
    async with harness.channel(
        SILENT, "--plain", member=harness.member(systemInstruction="")
    ) as channel:
        updates = await turn(channel, "hello")
    assert updates[-1] == TurnCompleted("heard: hello")
    assert "".join(u.text for u in updates if isinstance(u, TextDelta)) == "heard: hello\n"


async def test_after_a_silence_nothing_goes_on_working(harness: GenericHarness) -> None:
    async with harness.channel(SILENT, "--plain") as channel:
        assert await turn(channel, "!hang") == [TurnCompleted("")]
        assert (channel.pid, harness.log.running) == (None, {})
        assert channel.alive


def test_the_clocks(harness: GenericHarness) -> None:
    silent, other = harness.adapter(SILENT), harness.adapter(EVENT)
    # The engine's limit is a little above the adapter's own, whose error can say more.
    assert (silent.total(harness.member()), silent.limits(harness.member())) == (
        30.0,
        Limits(32.0, 120.0),
    )
    assert other.total(harness.member()) == 1800.0
    member = harness.member(timeoutMs=5000, quietAfterMs=100)
    assert (other.total(member), other.limits(member)) == (5.0, Limits(7.0, 0.1))


# -- how the agent is started ------------------------------------------------------------------


async def test_arguments_of_the_agent_the_model_the_role_and_the_member(
    harness: GenericHarness,
) -> None:
    told = EVENT | {"systemPromptFlag": "--system", "modelFlag": "--graceful"}
    member = harness.member(model="opus", additionalArgs=["args"])
    async with harness.channel(told, "--deaf", member=member) as channel:
        heard = json.loads(await reply(channel, "go"))
    assert heard == ["--deaf", "--graceful", "opus", "--system", ROLE, "args"]


# -- failures ----------------------------------------------------------------------------------


async def test_an_agent_that_is_not_installed(harness: GenericHarness) -> None:
    for told in (EVENT, EVENT | STAYS):
        agent = AgentDefinition(
            name="ghost", command="no-such-agent", capabilities=Capabilities.model_validate(told)
        )
        adapter = GenericAdapter(agent, harness.log, keeper="subreaper")
        if told is EVENT:
            [end] = await turn(await harness.open(adapter), "hello")
            assert isinstance(end, TurnFailed)
            assert (end.kind, end.retry) == ("missing", False)
            assert str(harness.folder) in end.message
        else:
            with pytest.raises(AgentMissing):
                await harness.open(adapter)
    assert harness.log.running == {}


async def test_a_failed_turn_ends_the_process_and_the_next_one_works(
    harness: GenericHarness,
) -> None:
    async with harness.channel(EVENT) as channel:
        end = (await turn(channel, "!exit 3"))[-1]
        assert isinstance(end, TurnFailed)
        assert (end.kind, end.exit_code, end.stderr_tail) == ("exit", 3, "boom\n")
        assert harness.log.running == {}
        assert await reply(channel, "!turn") == "turn 1"


async def test_a_persistent_agent_that_died_is_replaced_by_the_pool(
    harness: GenericHarness,
) -> None:
    pool, key = ChannelPool(), ChannelKey("s", "scripted", "ann")
    adapter = harness.adapter(EVENT | STAYS, "--persistent")

    pids: list[int | None] = []

    async def take(text: str) -> Update:
        channel = await pool.get(key, lambda: harness.open(adapter))
        assert isinstance(channel, GenericChannel)
        pids.append(channel.pid)
        return (await turn(channel, text))[-1]

    assert await take("!turn") == TurnCompleted("turn 1")
    failed = await take("!silent-exit 9")
    assert isinstance(failed, TurnFailed)
    assert failed.exit_code == 9
    assert await take("hello") == TurnCompleted(f"heard: [SYSTEM]\n{ROLE}\n\nhello")
    assert pids[0] == pids[1] != pids[2]
    await pool.close_all()
    assert harness.log.running == {}


@pytest.mark.parametrize("deaf", [False, True])
async def test_a_turn_is_broken_off(harness: GenericHarness, deaf: bool) -> None:
    words = ["--persistent", *(["--deaf"] if deaf else [])]
    async with harness.channel(EVENT | STAYS, *words) as channel:
        assert await reply(channel, "!turn")
        async with anyio.create_task_group() as group:

            async def interrupt() -> None:
                await anyio.wait_all_tasks_blocked()
                await channel.interrupt()

            group.start_soon(interrupt)
            assert (await turn(channel, "!hang"))[-1] == TurnInterrupted("")
        assert not channel.alive


async def test_an_interrupt_between_turns_harms_nobody(harness: GenericHarness) -> None:
    async with harness.channel(EVENT | STAYS, "--persistent") as channel:
        await reply(channel, "!turn")
        await channel.interrupt()
        assert await reply(channel, "!turn") == "turn 2"


async def test_one_that_is_broken_off_while_it_starts_does_not_wait_for_its_prompt(
    harness: GenericHarness,
) -> None:
    """Left waiting, it would take the end of its input for an empty prompt if Coterie died."""
    go_on = harness.log.go_on = anyio.Event()
    async with harness.channel(EVENT) as channel:
        async with anyio.create_task_group() as group:

            async def interrupt() -> None:
                await until(lambda: harness.log.seen == 1)
                await channel.interrupt()
                go_on.set()

            group.start_soon(interrupt)
            assert (await turn(channel, "hello"))[-1] == TurnInterrupted("")
        assert harness.log.running == {}
        assert await reply(channel, "hello")


async def test_what_an_agent_left_behind_is_gone_with_its_channel(harness: GenericHarness) -> None:
    word = token()
    async with harness.channel(EVENT | STAYS, "--persistent") as channel:
        await reply(channel, f"!daemon {word}")
        assert await count_pids_with_argument(word) == 1
    assert await count_pids_with_argument(word) == 0


async def test_one_that_is_closed_while_it_starts_is_not_left(harness: GenericHarness) -> None:
    go_on = harness.log.go_on = anyio.Event()
    async with harness.channel(EVENT) as channel:
        async with anyio.create_task_group() as group:

            async def close() -> None:
                await until(lambda: harness.log.seen == 1)
                group.start_soon(channel.close)
                go_on.set()

            group.start_soon(close)
            assert isinstance((await turn(channel, "!hang"))[-1], TurnFailed)
        assert harness.log.running == {}
        [end] = await turn(channel, "again")
        assert isinstance(end, TurnFailed)
        assert end.kind == "missing"


async def test_lines_as_they_are_to_one_that_stays_and_is_ended_by_silence(
    harness: GenericHarness,
) -> None:
    told = SILENT | {"persistent": True}
    async with harness.channel(told, "--persistent", "--plain") as channel:
        lines = ["heard: [SYSTEM]", f"heard: {ROLE}", "heard: ", "heard: one", "heard: two"]
        assert await reply(channel, "one\ntwo") == "\n".join(lines)
        assert await reply(channel, "three") == "heard: three"
