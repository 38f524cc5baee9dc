"""The agents of tasks: recorded before they start, one channel per member, opened on demand."""

from __future__ import annotations

import math
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import anyio
import anyio.to_thread

from coterie.errors import CoterieError
from coterie.model import instant
from coterie.model.conversation import Limits
from coterie.model.journal import ChildLease, Fence
from coterie.model.redaction import Redactor
from coterie.model.team import Member, Team, member_folder
from coterie.model.workspace import Workspace
from coterie.ports import Adapter, Channel, ChildLog, Deadline, LeaseStore
from coterie.process.processes import PidScope, end_marked_in_thread

if TYPE_CHECKING:
    from coterie.workspace.stderr_file import StderrFile

_TO_END = 2.0
"""Extra seconds for an adapter that ends a turn at the member's limit by itself."""


@dataclass(frozen=True)
class TaskChildren:
    """`ports.ChildLog` for the holder of a task's lease."""

    leases: LeaseStore
    fence: Fence
    machine: PidScope
    stderr_files: StderrFiles | None = None
    """Stores the stderr of members' processes; None discards it."""
    deadline: Deadline | None = None
    """When its processes are ended unless the owner's lease is renewed."""

    def stderr(self, member: str) -> Callable[[bytes], None]:
        """Return a callback that stores what a member's process writes to stderr."""
        return self.stderr_files.of(member) if self.stderr_files else _drop

    async def starting(self, member: str, agent: str) -> str:
        """Record that a process will be started; returns the mark by which it is found again."""
        mark = f"{self.fence.task_id}.{self.fence.token}.{secrets.token_hex(4)}"
        child = ChildLease(
            task_id=self.fence.task_id,
            member=member,
            agent=agent,
            mark=mark,
            boot_id=self.machine.boot_id,
            pid_namespace=self.machine.pid_namespace,
            host=self.machine.host,
            started_at=instant.now(),
        )
        await self.leases.record_child(self.fence, child)
        return mark

    def started(self, mark: str, pid: int) -> None:
        """Record its pid."""
        self.leases.set_child_pid(mark, pid)

    def ended(self, mark: str) -> None:
        """Record that the process is proven gone."""
        self.leases.drop_child(mark)


@dataclass(frozen=True)
class StderrFiles:
    """Stores what the processes of a team's members write to stderr in a session."""

    session: str
    root: Path
    team: Team
    redactor: Callable[[], Redactor]

    def of(self, instance: str) -> Callable[[bytes], None]:
        """Return a callback that stores the stderr of one process; most write nothing to it."""
        member = self.team.instance(instance)
        files: list[StderrFile] = []

        def keep(chunk: bytes) -> None:
            if member is None or not (chunk or files):
                return
            if not files:
                from coterie.workspace.stderr_file import StderrFile

                folder = member_folder(self.root, self.team.name, member)
                files.append(StderrFile(folder, self.session, self.redactor()))
            files[0].add(chunk)

        return keep


def _drop(_chunk: bytes) -> None:
    """Discard the data."""


class SurvivorReaper:
    """`ports.Reaper` that finds processes by the marks in their environments."""

    async def end(self, children: Sequence[ChildLease]) -> Sequence[int]:
        """Kill marked processes and everything below them; returns the pids not proven dead."""
        survivors = await end_marked_in_thread([child.mark for child in children])
        return [process.pid for process in survivors]


@dataclass(frozen=True)
class SessionChannels:
    """`ports.Channels`: a pool of channels, one per member, opened when first needed."""

    session: str
    pool: ChannelPool
    children: ChildLog
    adapter_of: Callable[[Member, ChildLog], Adapter]
    workspace_of: Callable[[Member], Workspace]
    folder_of: Callable[[Member], str]
    _work_folders: dict[str, str] = field(default_factory=dict[str, str])
    _places: dict[str, str | None] = field(default_factory=dict[str, str | None])
    """By member: the work folder that its process was started for."""

    def limits(self, member: Member) -> Limits:
        """The limits for this member's turns; its own timeout applies whatever its adapter says."""
        limits = self.adapter_of(member, self.children).limits(member)
        own = math.inf if member.timeout_ms is None else member.timeout_ms / 1000
        return limits if limits.total <= own + _TO_END else Limits(own, limits.quiet_after)

    def folder(self, member: Member) -> str:
        """The member's folder, to be shown in messages."""
        return self.folder_of(member)

    def work_folder(self, member: Member) -> str:
        """Where the member's process works; empty until its channel was first opened."""
        return self._work_folders.get(member.id, "")

    async def channel(self, member: Member, thread: str | None) -> Channel:
        """Return the member's channel; one that is dead, or works elsewhere, is replaced."""
        if self._places.get(member.id, member.execution_dir) != member.execution_dir:
            await self.close(member)
        self._places[member.id] = member.execution_dir

        async def opened() -> Channel:
            adapter = self.adapter_of(member, self.children)
            workspace = await anyio.to_thread.run_sync(self.workspace_of, member)
            self._work_folders[member.id] = str(workspace.execution_dir)
            return await adapter.open(member, workspace, thread)

        return await self.pool.get(self._key(member), opened)

    async def close(self, member: Member) -> None:
        """End one member's agent."""
        await self.pool.close(self._key(member))

    async def close_all(self) -> None:
        """End every agent of the session."""
        await self.pool.close_all(self.session)

    def _key(self, member: Member) -> ChannelKey:
        return ChannelKey(self.session, member.agent or "human", member.id)


Opener = Callable[[], Awaitable[Channel]]


class ChannelKey(NamedTuple):
    """Identifies a channel.  Compared as a tuple; the label is for people and is never parsed."""

    session: str
    agent: str
    member: str

    @property
    def label(self) -> str:
        """The key as shown to people."""
        return f"{self.agent}-{self.member}"


class _Slot:
    """The channel of one key; the lock is held while it is opened or closed."""

    def __init__(self) -> None:
        self.lock = anyio.Lock()
        self.channel: Channel | None = None
        self.closing = 0

    async def empty(self) -> None:
        """Close the channel, if any; it stays if its end could not be proven."""
        if self.channel is not None:
            await self.channel.close()
            self.channel = None


class ChannelPool:
    """Hands out channels, and ensures that there are never two at once for one key."""

    def __init__(self) -> None:
        self._slots: dict[ChannelKey, _Slot] = {}

    async def get(self, key: ChannelKey, opener: Opener) -> Channel:
        """Return the open channel of a key, or a new one if there is none or its agent has died.

        Raises what the opener raises, and ClosedResourceError if the channel was closed by another
        caller while it was being opened.
        """
        slot = self._slots.setdefault(key, _Slot())
        async with slot.lock:
            if slot.channel is not None and slot.channel.alive:
                return slot.channel
            await slot.empty()
            slot.channel = await opener()
            if slot.closing:
                await slot.empty()
                raise anyio.ClosedResourceError(f"{key.label} was closed while it was opened")
            return slot.channel

    async def close(self, key: ChannelKey) -> None:
        """Close one channel; returns when its agent is proven gone."""
        slot = self._slots.get(key)
        if slot is None:
            return
        slot.closing += 1
        with anyio.CancelScope(shield=True):
            try:
                async with slot.lock:
                    await slot.empty()
            finally:
                slot.closing -= 1

    async def close_all(self, session: str | None = None) -> None:
        """Close all channels of a session, or all there are, concurrently.

        Takes as long as the slowest of them, which is bounded.  All are tried even if some cannot
        be closed; then the first error is raised.
        """
        keys = [key for key in self._slots if session in (None, key.session)]
        failed: list[CoterieError] = []
        async with anyio.create_task_group() as group:
            for key in keys:
                group.start_soon(self._try_to_close, key, failed)
        if failed:
            raise failed[0]

    async def _try_to_close(self, key: ChannelKey, failed: list[CoterieError]) -> None:
        try:
            await self.close(key)
        except CoterieError as error:
            failed.append(error)
