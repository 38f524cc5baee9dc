"""A member on the built-in agent, a model that follows a script, and scripted answers."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from coterie.agents.builtin.adapter import BuiltinAdapter
from coterie.model.agent import AgentDefinition, Capabilities
from coterie.model.conversation import Prompt
from coterie.model.interaction import Response
from coterie.model.team import Member
from coterie.model.update import (
    Asked,
    Delegated,
    ThreadAppended,
    ToolCallFinished,
    ToolCallStarted,
    Update,
)
from coterie.rehearsal.script import ScriptedResponder, parse_script
from coterie.rehearsal.server import RehearsalServer
from coterie.rehearsal.simulation import Simulation
from coterie.workspace.folder import open_workspace
from tests.contract.acp.harness import Log, TurnUpdates

ROLE = "You are Ann. You look at security only."
TEAM = "The team is called heliotrope."
SLOWEST = 60

Hook = Callable[[Update], Awaitable[object] | None]
Line = Mapping[str, object]


def call(name: str, **given: object) -> Line:
    """A call of a tool, for a script."""
    return {"name": name, "input": given}


def calls(*tools: Line, text: str = "") -> Line:
    """A reply that calls tools."""
    return {"text": text, "tools": list(tools)}


def says(text: str) -> Line:
    """A reply that ends the turn."""
    return {"text": text}


def answer(**given: str) -> Response:
    return Response(interaction_id="q1", task_id="k3f9", author_actor_id="you", **given)


YES, NO = answer(selected_option_id="approve"), answer(selected_option_id="reject")


@dataclass
class BuiltinHarness:
    """A project with one member."""

    root: Path
    server: RehearsalServer
    capabilities: dict[str, Any] = field(default_factory=dict)
    log: Log = field(default_factory=Log)
    pauses: Sequence[float] = (0.0, 0.0)
    threads: dict[str, list[str]] = field(default_factory=dict)
    """The remembered entries of each thread, as the store keeps them."""

    @property
    def project(self) -> Path:
        return self.root / "project"

    def member(self, **more: Any) -> Member:
        given = {"system_instruction": ROLE, **more}
        return Member(id="ann", name="ann", display_name="Ann", agent="builtin", **given)

    def adapter(self) -> BuiltinAdapter:
        agent = AgentDefinition(
            name="builtin", command="builtin", capabilities=Capabilities(**self.capabilities)
        )
        return BuiltinAdapter(agent, self.log, "auto", 120.0, self.recall, self.pauses)

    async def recall(self, thread: str) -> list[str]:
        return list(self.threads.get(thread, []))

    @asynccontextmanager
    async def open(
        self, member: Member | None = None, thread: str | None = None, **workspace: Any
    ) -> AsyncGenerator[Any]:
        member = member or self.member()
        opened = await anyio.to_thread.run_sync(
            open_workspace, self.project, "pair", member, {"PATH": os.environ["PATH"]}
        )
        given = {"team_instruction": TEAM, "rehearsal": self.server.url, **workspace}
        channel = await self.adapter().open(member, replace(opened, **given), thread)
        try:
            yield channel
        finally:
            with anyio.CancelScope(shield=True):
                await channel.close()
            assert self.log.living == {}
            assert not channel.alive

    async def take_turn(
        self,
        channel: Any,
        text: str = "hello",
        answers: Sequence[Response] = (),
        hook: Hook | None = None,
        **prompt: Any,
    ) -> TurnUpdates:
        """Take a whole turn; questions get these answers in order, the last one repeated."""
        updates: list[Update] = []
        left = list(answers) or [YES]
        given = Prompt(text, **{"turn": "t1", **prompt})
        with anyio.fail_after(SLOWEST):
            async with aclosing(channel.take_turn(given)) as turn:
                async for update in turn:
                    updates.append(update)
                    if isinstance(update, ThreadAppended):
                        updates += update.calls
                        self.keep(update)
                    if hook is not None and (waited := hook(update)) is not None:
                        await waited
                    if isinstance(update, Asked | Delegated):
                        said = left.pop(0) if len(left) > 1 else left[0]
                        await channel.answer(update.key, said)
        return TurnUpdates(updates)

    async def take_one_turn(self, member: Member | None = None, **workspace: Any) -> TurnUpdates:
        """Take one turn on a channel of its own."""
        async with self.open(member, **workspace) as channel:
            return await self.take_turn(channel)

    def keep(self, update: ThreadAppended) -> None:
        """Keep entries as the store does: in order, with no place skipped or used twice."""
        kept = self.threads.setdefault(update.thread, [])
        assert update.place == len(kept) + 1
        kept += [json.dumps(entry) for entry in update.entries]

    def entries(self, thread: str) -> list[dict[str, Any]]:
        return [json.loads(entry) for entry in self.threads[thread]]

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """Every request that reached the model."""
        return [seen.body for seen in self.server.turns]

    def results(self) -> list[tuple[str, bool]]:
        """The tool results in the last request to the model."""
        asked = self.server.turns[-1].asked
        assert asked is not None
        return [(one.text, one.failed) for one in asked.results]


def outputs(taken: TurnUpdates) -> list[tuple[str, bool, Mapping[str, object]]]:
    """Every finished call: its tool, whether it failed, and its output."""
    names = {one.call_id: one.name for one in taken.of(ToolCallStarted)}
    ended = taken.of(ToolCallFinished)
    assert all(one.name == names.get(one.call_id, one.name) for one in ended)
    return [(one.name, one.is_error, one.output) for one in ended]


@asynccontextmanager
async def builtin_harness(
    folder: Path, *replies: Line, rules: Sequence[Mapping[str, object]] = (), **capabilities: Any
) -> AsyncGenerator[BuiltinHarness]:
    """A harness whose model gives these replies in order."""
    (folder / "project").mkdir(exist_ok=True)
    script = {"rules": [*rules, {"replies": list(replies)}] if replies else list(rules)}
    responder = ScriptedResponder(parse_script(script, "script"), Simulation())
    async with RehearsalServer(responder) as server:
        yield BuiltinHarness(folder, server, capabilities)
