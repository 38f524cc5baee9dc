"""A stage for workflows: a real store and engine, members that say what a script says."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio.to_thread

from coterie.engine.lease import Claimant, Owner
from coterie.engine.reader import TaskReader
from coterie.engine.run import Engine
from coterie.model import instant
from coterie.model.conversation import YOU, Message, spoken
from coterie.model.journal import ChildLease, Fence
from coterie.model.record import MessageRecord, ResultRecord
from coterie.model.task import Caps, TaskCreated
from coterie.model.team import Team
from coterie.ports import Storage, Workflow
from coterie.process.processes import Machine
from coterie.stores.sqlite import SqliteStorage
from coterie.testing.scripted import Recorder, ScriptedChannels
from coterie.workflows.chat import Chat

TASK = "k3f9"


class NothingToEnd:
    """A reaper for owners without children."""

    async def end(self, children: Sequence[ChildLease]) -> Sequence[int]:
        return []


@dataclass
class Stage:
    """One project with one task."""

    folder: Path
    storage: Storage
    engine: Engine
    owner: Owner
    recorder: Recorder = field(default_factory=Recorder)

    @property
    def look(self) -> TaskReader:
        return TaskReader(
            self.storage, self.folder, self.owner.folder, lambda _, m: self.folder / m.id
        )

    async def start(
        self, team: Team, goal: str = "hello", caps: Caps | None = None, workflow: str = "chat"
    ) -> None:
        author = next((m.id for m in team.in_order if m.type == "human"), YOU)
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
        said = spoken(team, Message(TASK, 1, author, "", created.at), goal)[0] if goal else None
        assert await self.storage.create(created, self.owner.id, said) is not None

    async def run(self, channels: ScriptedChannels, patience: float | None = 0.0) -> ResultRecord:
        def ready(fence: Fence, task: TaskCreated) -> ScriptedChannels:
            return channels

        return await self.engine.run(TASK, ready, self.recorder, patience)

    @property
    def said(self) -> list[tuple[str, str]]:
        records = [r for r in self.recorder.records if isinstance(r, MessageRecord)]
        return [(record.member, record.text) for record in records]

    async def conversation(self) -> list[tuple[str, str]]:
        return [(m.member, m.text) for m in await self.storage.conversation.messages(TASK)]


@asynccontextmanager
async def stage(
    folder: Path,
    storage: Storage | None = None,
    workflow: Workflow | None = None,
    more: Sequence[Workflow] = (),
) -> AsyncGenerator[Stage]:
    """A project in a folder; opened a second time it is the same project with another owner."""
    mine = storage or await SqliteStorage.open(folder / "coterie.db")
    owner = await anyio.to_thread.run_sync(Owner, folder / "owners", "here")
    machine = await anyio.to_thread.run_sync(Machine.here)
    claimant = Claimant(owner, mine.leases, NothingToEnd(), machine)
    flows = [workflow or Chat(), *more]
    engine = Engine(mine, {flow.name: flow for flow in flows}, claimant)
    try:
        yield Stage(folder, mine, engine, owner)
    finally:
        await anyio.to_thread.run_sync(owner.release)
        if storage is None:
            await mine.close()
