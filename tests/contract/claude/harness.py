"""A member on Claude, in its own project: for tests with the real program or a recording."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import anyio.to_thread

from coterie.agents.claude.adapter import ClaudeAdapter
from coterie.agents.claude.channel import ClaudeChannel
from coterie.model.agent import AgentDefinition
from coterie.model.conversation import Prompt
from coterie.model.interaction import Response
from coterie.model.team import Member
from coterie.model.update import Asked, TurnCompleted, Update
from coterie.model.workspace import Workspace
from coterie.workspace.folder import open_workspace
from tests.unit.process.children import token

ROLE = "You are Ann. You look at heliotropes only."
TEAM = "We are the garden team."
SLOWEST = 60

Answering = Callable[[Asked], Response]


@dataclass
class Log:
    """A child log that tests can inspect."""

    running: dict[str, int | None] = field(default_factory=dict[str, int | None])
    seen: int = 0

    async def starting(self, member: str, agent: str) -> str:
        self.seen += 1
        mark = token()
        self.running[mark] = None
        return mark

    def started(self, mark: str, pid: int) -> None:
        self.running[mark] = pid

    def ended(self, mark: str) -> None:
        del self.running[mark]


@dataclass
class ClaudeHarness:
    """One project; each channel opened here is verified to be gone at the end of its block."""

    project: Path
    command: str
    base_args: tuple[str, ...] = ()
    log: Log = field(default_factory=Log)
    more: dict[str, object] = field(default_factory=dict[str, object])
    """Extra fields of the workspace: `rehearsal`, `trusted`, `env`, …"""

    def member(self, **more: object) -> Member:
        known: dict[str, object] = {"id": "ann", "name": "ann", "displayName": "Ann"}
        return Member.model_validate(known | {"systemInstruction": ROLE} | more)

    @property
    def adapter(self) -> ClaudeAdapter:
        agent = AgentDefinition(name="claude", command=self.command, base_args=self.base_args)
        return ClaudeAdapter(agent, self.log, "subreaper")

    def workspace(self, member: Member) -> Workspace:
        passed = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        made = open_workspace(self.project, "garden", member, passed)
        more = {"team_instruction": TEAM, **self.more}
        env = {**made.env, **dict(more.pop("env", {}))}
        return replace(made, env=env, **more)

    async def open(self, thread: str | None = None, **member: object) -> ClaudeChannel:
        who = self.member(**member)
        workspace = await anyio.to_thread.run_sync(self.workspace, who)
        with anyio.fail_after(SLOWEST + 30):
            return await self.adapter.open(who, workspace, thread)  # type: ignore[return-value]
        raise AssertionError

    @asynccontextmanager
    async def channel(
        self, thread: str | None = None, **member: object
    ) -> AsyncIterator[ClaudeChannel]:
        channel = await self.open(thread, **member)
        try:
            yield channel
        finally:
            await channel.close()
            assert self.log.running == {}
            assert not channel.alive


def answered(asked: Asked, option: str | None = None, **more: str) -> Response:
    """A response as the engine would give it."""
    return Response(
        interaction_id="q1",
        task_id="t1",
        author_actor_id="you",
        selected_option_id=option,
        input_value=more.get("said"),
        comment=more.get("comment"),
    )


def approve(asked: Asked) -> Response:
    return answered(asked, "approve")


def reject(asked: Asked) -> Response:
    return answered(asked, "reject", comment="not today")


def no_answer(asked: Asked) -> Response:
    return answered(asked)


async def turn(
    channel: ClaudeChannel,
    text: str,
    answering: Answering = approve,
    then: Callable[[Update], object] | None = None,
) -> list[Update]:
    """Take one turn to its end, answering its questions; `then` is called with each update."""
    updates: list[Update] = []
    with anyio.fail_after(SLOWEST):
        async with aclosing(channel.take_turn(Prompt(text))) as coming:
            async for update in coming:
                updates.append(update)
                if then is not None and (waited := then(update)) is not None:
                    await waited  # type: ignore[misc]
                if isinstance(update, Asked):
                    # In a thread: the rules access files.
                    given = await anyio.to_thread.run_sync(answering, update)
                    await channel.answer(update.key, given)
    return updates


async def reply(channel: ClaudeChannel, text: str, answering: Answering = approve) -> str:
    end = (await turn(channel, text, answering))[-1]
    assert isinstance(end, TurnCompleted), end
    return end.text
