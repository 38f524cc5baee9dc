"""A project with one member on an agent, and whole turns on it: for contract and live tests."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from coterie.agents.acp.adapter import AcpAdapter
from coterie.agents.gemini.adapter import GeminiAdapter
from coterie.model.agent import AgentDefinition
from coterie.model.conversation import Prompt
from coterie.model.interaction import Response
from coterie.model.team import Member, Mode, Permissions
from coterie.model.update import (
    Asked,
    End,
    ToolCallFinished,
    ToolCallStarted,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    Update,
)
from coterie.rehearsal import model_api
from coterie.rehearsal.model_api import Answer, reply
from coterie.rehearsal.server import RehearsalServer
from coterie.workspace.folder import open_workspace
from tests.contract.gate import Answering, Gate, yes

ROLE = "You are Ann. You look at security only; @rex looks at speed."
TEAM = "The team is called heliotrope."
SLOWEST = 100

MakeAdapter = type[AcpAdapter] | type[GeminiAdapter]
Hook = Callable[[Update], Awaitable[object] | None]


@dataclass
class Log:
    """`ports.ChildLog` in memory."""

    living: dict[str, int] = field(default_factory=dict)
    count: int = 0

    async def starting(self, member: str, agent: str) -> str:
        self.count += 1
        mark = f"{member}.{os.getpid()}.{self.count}"
        self.living[mark] = 0
        return mark

    def started(self, mark: str, pid: int) -> None:
        self.living[mark] = pid

    def ended(self, mark: str) -> None:
        del self.living[mark]


@dataclass
class TurnUpdates:
    """The updates of a turn."""

    updates: list[Update]

    @property
    def end(self) -> End:
        end = self.updates[-1]
        assert isinstance(end, TurnCompleted | TurnFailed | TurnInterrupted)
        return end

    @property
    def text(self) -> str:
        assert isinstance(self.end, TurnCompleted | TurnInterrupted), self.end
        return self.end.text

    @property
    def failure(self) -> TurnFailed:
        assert isinstance(self.end, TurnFailed), self.end
        return self.end

    @property
    def calls(self) -> list[tuple[str, object, bool | None]]:
        """Every tool call: its name, its command or path, whether it failed."""
        ended = {u.call_id: u.is_error for u in self.of(ToolCallFinished)}
        begun = self.of(ToolCallStarted)
        assert len({u.call_id for u in begun}) == len(begun), "a call was told twice"
        assert len(ended) == len(self.of(ToolCallFinished)), "an end was told twice"
        return [(u.name, _subject(u.input), ended.get(u.call_id)) for u in begun]

    def of(self, kind: type[Any]) -> list[Any]:
        return [update for update in self.updates if isinstance(update, kind)]


def _subject(given: Mapping[str, object]) -> object:
    names = ("command", "path", "file_path", "filePath", "filepath")
    return next((given[name] for name in names if name in given), None)


@dataclass
class AcpHarness:
    """A project with one member, on the agent that a registry entry names."""

    root: Path
    make: MakeAdapter
    agent: AgentDefinition
    rehearsal: str | None = None
    log: Log = field(default_factory=Log)
    passed: dict[str, str] = field(
        default_factory=lambda: {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    )

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def home(self) -> Path:
        return self.project / ".coterie" / "teams" / "pair" / "ann" / "home"

    def member(self, mode: Mode = "ask", **more: Any) -> Member:
        return Member(
            id="ann",
            name="ann",
            display_name="Ann",
            agent=self.agent.name,
            permissions=Permissions(mode=mode),
            **{"system_instruction": ROLE, **more},
        )

    def gate(self, mode: Mode = "ask", person: Answering = yes, **rules: tuple[str, ...]) -> Gate:
        return Gate(Permissions(mode=mode, **rules), self.project, person)

    def adapter(self) -> AcpAdapter | GeminiAdapter:
        return self.make(self.agent, self.log, "auto", 120.0)

    @asynccontextmanager
    async def open(
        self, member: Member | None = None, thread: str | None = None, **workspace: Any
    ) -> AsyncGenerator[Any]:
        """Open a channel; its process is gone when the block ends."""
        member = member or self.member()
        opened = await anyio.to_thread.run_sync(
            open_workspace, self.project, "pair", member, self.passed, self.agent.env
        )
        given = {"team_instruction": TEAM, "rehearsal": self.rehearsal, **workspace}
        channel = await self.adapter().open(member, replace(opened, **given), thread)
        try:
            yield channel
        finally:
            with anyio.CancelScope(shield=True):
                await channel.close()
            assert self.log.living == {}
            assert not channel.alive


class QueuedModel:
    """Give the queued answers in order, then a plain reply."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []

    async def answer(self, request: model_api.CompletionRequest) -> Answer:
        return self.answers.pop(0) if self.answers else reply("and that is all")


class RealAgentHarness(AcpHarness):
    """A harness whose member runs on a real agent, with a scripted model."""

    model: QueuedModel
    server: RehearsalServer
    channel: Any
    """The channel to the one member shared by all tests, if there is one."""

    def script(self, *answers: Answer) -> None:
        self.model.answers = list(answers)

    def reset(self) -> None:
        """Clear script, server and project files for the next test."""
        self.script()
        self.server.requests.clear()
        self.server.answers.clear()
        for path in self.project.iterdir():
            if path.name != ".coterie":
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def response(choice: str, comment: str | None = None) -> Response:
    return Response(
        interaction_id="q1",
        task_id="k3f9",
        author_actor_id="you",
        selected_option_id=choice,
        comment=comment,
    )


async def take_turn(
    channel: Any, text: str = "hello", choice: str | Answering = "reject", hook: Hook | None = None
) -> TurnUpdates:
    """Take a whole turn.  Every question gets this answer, unless it is empty."""
    updates: list[Update] = []
    with anyio.fail_after(SLOWEST):
        async with aclosing(channel.take_turn(Prompt(text))) as turn:
            async for update in turn:
                updates.append(update)
                if hook is not None and (waited := hook(update)) is not None:
                    await waited
                if not isinstance(update, Asked) or not choice:
                    continue
                if callable(choice):  # in a thread: the rules access files
                    given = await anyio.to_thread.run_sync(choice, update)
                    await channel.answer(update.key, given)
                else:
                    await channel.answer(update.key, response(choice))
    return TurnUpdates(updates)


async def run_until_timeout(server: RehearsalServer, turn: Awaitable[object]) -> None:
    """Run a turn whose model never answers; cancel it, as a timeout would, once it is asked."""
    number = len(server.turns) + 1
    limit = anyio.CancelScope()

    async def clock() -> None:
        await server.turn(number)
        limit.cancel()

    async with anyio.create_task_group() as above:
        above.start_soon(clock)
        with limit:
            await turn
    assert limit.cancelled_caught


def occurrences_in_requests(server: Any, text: str) -> list[int]:
    """How often a text occurs in each request that reached the model."""
    return [json.dumps(seen.body, ensure_ascii=False).count(text) for seen in server.turns]
