"""Members that follow a script, on a real store and engine: for tests of workflows and anything
else above agents.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread

from coterie.agents.human import HumanAdapter, HumanChannel
from coterie.engine.lease import Claimant, FlockOwners
from coterie.engine.reader import TaskReader
from coterie.engine.run import Engine
from coterie.errors import AgentMissing
from coterie.model import instant
from coterie.model.conversation import Limits, Prompt, opening_message
from coterie.model.interaction import Response
from coterie.model.journal import ChildLease, Fence
from coterie.model.record import MessageRecord, Record, ResultRecord
from coterie.model.task import Caps, TaskCreated
from coterie.model.team import Member, Team
from coterie.model.update import TurnCompleted, TurnInterrupted, Update
from coterie.ports import Channel, ChildLog, Owners, Storage, Workflow
from coterie.process.processes import PidScope
from coterie.stores.sqlite import SqliteStorage
from coterie.workflows.chat import Chat

TurnScript = str | Sequence[Update]
"""What a member does in one turn: a reply, or the updates of the turn."""
Script = Callable[[Member, Prompt], TurnScript | Awaitable[TurnScript]]


@dataclass
class ScriptedChannel:
    """A channel whose turns come from a function; records what it was sent."""

    member: Member
    script: Script
    holds_past: bool = True
    thread: str | None = None
    pid: int | None = None
    alive: bool = True
    sent: list[Prompt] = field(default_factory=list[Prompt])
    answers: list[Response] = field(default_factory=list[Response])
    interrupted: bool = False

    async def take_turn(self, prompt: Prompt) -> AsyncGenerator[Update]:
        self.sent.append(prompt)
        answer = self.script(self.member, prompt)
        played = await answer if isinstance(answer, Awaitable) else answer
        if isinstance(played, str):
            yield TurnCompleted(played)
            return
        for update in played:
            if self.interrupted:
                self.interrupted = False
                yield TurnInterrupted("so far")
                return
            yield update
        await anyio.sleep_forever()  # a script without an end is an agent that hangs

    async def answer(self, key: str, response: Response) -> None:
        self.answers.append(response)

    async def interrupt(self) -> None:
        """Interrupt the turn at its next update."""
        self.interrupted = True

    async def close(self) -> None:
        self.alive = False


@dataclass
class ChildRecorder:
    """`ports.ChildLog` in memory."""

    living: dict[str, int | None] = field(default_factory=dict[str, int | None])
    pids: list[int] = field(default_factory=list[int])

    async def starting(self, member: str, agent: str) -> str:
        mark = f"{member}.{secrets.token_hex(8)}"
        self.living[mark] = None
        return mark

    def started(self, mark: str, pid: int) -> None:
        self.living[mark] = pid
        self.pids.append(pid)

    def ended(self, mark: str) -> None:
        """Forget a child, which must have been started and ends only once."""
        del self.living[mark]


@dataclass
class ScriptedChannels:
    """`ports.Channels` for scripted members; humans are asked through the inbox as always."""

    script: Script
    holds_past: bool = True
    clocks: Limits = Limits(total=60.0, quiet_after=30.0)
    missing: frozenset[str] = frozenset()
    threads: bool = False
    """Whether the agents have threads of their own that can be resumed."""
    lost: frozenset[str] = frozenset()
    """Threads that cannot be resumed."""
    open: dict[str, Channel] = field(default_factory=dict[str, Channel])
    opened: list[ScriptedChannel] = field(default_factory=list[ScriptedChannel])

    def limits(self, member: Member) -> Limits:
        """Return the same limits for all agents; people get those of `HumanAdapter`."""
        return HumanAdapter().limits(member) if member.type == "human" else self.clocks

    def folder(self, member: Member) -> str:
        return f"teams/t/{member.id}"

    @property
    def children(self) -> ChildLog:
        return ChildRecorder()

    def work_folder(self, member: Member) -> str:
        return "/w"

    async def channel(self, member: Member, thread: str | None) -> Channel:
        if member.id in self.missing:
            raise AgentMissing(member.id, self.folder(member), "ghost", "not installed")
        known = self.open.get(member.id)
        elsewhere = (
            isinstance(known, ScriptedChannel)
            and known.member.execution_dir != member.execution_dir
        )
        if known is None or not known.alive or elsewhere:
            self.open[member.id] = known = self._new(member, thread)
        return known

    def _new(self, member: Member, thread: str | None) -> Channel:
        if member.type == "human":
            return HumanChannel(member)
        channel = ScriptedChannel(member, self.script, self.holds_past)
        if self.threads:
            resumes = thread is not None and thread not in self.lost
            channel.thread = thread if resumes else f"thread-{len(self.opened) + 1}-{id(self):x}"
        self.opened.append(channel)
        return channel

    async def close(self, member: Member) -> None:
        channel = self.open.pop(member.id, None)
        if channel is not None:
            await channel.close()

    async def close_all(self) -> None:
        for channel in self.open.values():
            await channel.close()
        self.open.clear()


@dataclass
class Recorder:
    """An observer that keeps all records."""

    records: list[Record] = field(default_factory=list[Record])

    def saw(self, record: Record) -> None:
        self.records.append(record)

    def of(self, kind: type[Record]) -> list[Record]:
        return [record for record in self.records if isinstance(record, kind)]


def team(*names: str, human: str | None = None) -> Team:
    """Return a team of AI members with these names, in order, and optionally a human after them."""
    members = [
        Member(id=name, name=name, display_name=name.capitalize(), agent="scripted", order=place)
        for place, name in enumerate(names, 1)
    ]
    if human:
        place = len(members) + 1
        members.append(Member(id=human, name=human, display_name="You", type="human", order=place))
    return Team(name="t", members=tuple(members))


TASK = "k3f9"


class NoopReaper:
    """A reaper for owners without children."""

    async def end(self, children: Sequence[ChildLease]) -> Sequence[int]:
        return []


@dataclass
class ScriptedProject:
    """One project with one task."""

    folder: Path
    storage: Storage
    engine: Engine
    owners: Owners
    recorder: Recorder = field(default_factory=Recorder)

    @property
    def look(self) -> TaskReader:
        return TaskReader(self.storage, self.folder, self.owners)

    async def start(
        self, team: Team, goal: str = "hello", caps: Caps | None = None, workflow: str = "chat"
    ) -> None:
        author = team.people[0].id
        created = TaskCreated(
            task_id=TASK,
            at=instant.now(),
            session_id=TASK,
            workflow=workflow,
            workflow_version=self.engine.workflow(workflow).version,
            goal=goal,
            author=author,
            team=team,
            caps=caps or Caps(),
        )
        opening = opening_message(created)
        assert await self.storage.create(created, self.owners.me, opening) is not None

    async def run(self, channels: ScriptedChannels, wait: float | None = 0.0) -> ResultRecord:
        def ready(fence: Fence, task: TaskCreated) -> ScriptedChannels:
            return channels

        return await self.engine.run(TASK, ready, self.recorder, wait)

    @property
    def messages(self) -> list[tuple[str, str]]:
        records = [r for r in self.recorder.records if isinstance(r, MessageRecord)]
        return [(record.member, record.text) for record in records]

    async def conversation(self) -> list[tuple[str, str]]:
        return [(m.member, m.text) for m in await self.storage.conversation.messages(TASK)]


@asynccontextmanager
async def scripted_project(
    folder: Path,
    storage: Storage | None = None,
    workflow: Workflow | None = None,
    more: Sequence[Workflow] = (),
    root: Path = Path(),
    owners: Owners | None = None,
) -> AsyncGenerator[ScriptedProject]:
    """Open a project in a folder; opened again it is the same project with another owner."""
    mine = storage or await SqliteStorage.open(folder / "coterie.db")
    owners = owners or FlockOwners(folder / "owners", "here")
    await owners.begin()
    machine = await anyio.to_thread.run_sync(PidScope.here)
    claimant = Claimant(owners, mine.leases, NoopReaper(), machine)
    flows = [workflow or Chat(), *more]
    engine = Engine(mine, {flow.name: flow for flow in flows}, claimant, root=root)
    try:
        yield ScriptedProject(folder, mine, engine, owners)
    finally:
        await owners.end()
        if storage is None:
            await mine.close()
