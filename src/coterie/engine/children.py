"""The agents of one task: recorded before they start, so that no crash can hide them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import anyio.to_thread

from coterie.model import instant
from coterie.model.journal import ChildLease, Fence
from coterie.model.prompt import Limits
from coterie.model.team import Member
from coterie.model.workspace import Workspace
from coterie.ports import Adapter, Channel, ChildLog, LeaseStore
from coterie.process.pool import ChannelKey, ChannelPool
from coterie.process.processes import Machine, end_marked_in_thread


@dataclass(frozen=True)
class TaskChildren:
    """`ports.ChildLog` for the holder of a task's lease."""

    leases: LeaseStore
    fence: Fence
    machine: Machine

    async def starting(self, member: str, agent: str) -> str:
        """Record that a process will be started; its mark is how it is found again."""
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
        """Record that it is proven gone."""
        self.leases.drop_child(mark)


class SurvivorReaper:
    """`ports.Reaper` by the marks in the environments of processes."""

    async def end(self, children: Sequence[ChildLease]) -> Sequence[int]:
        """Kill what carries a mark, and all below it; the pids not proven dead."""
        left = await end_marked_in_thread([child.mark for child in children])
        return [process.pid for process in left]


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
    """By member: where its process was told to work."""

    def limits(self, member: Member) -> Limits:
        """The clocks for this member's turns."""
        return self.adapter_of(member, self.children).limits(member)

    def folder(self, member: Member) -> str:
        """The member's folder, for messages."""
        return self.folder_of(member)

    def work_folder(self, member: Member) -> str:
        """Where the member's process works, known since it was first opened."""
        return self._work_folders.get(member.id, "")

    async def channel(self, member: Member, thread: str | None) -> Channel:
        """The member's channel; one that is dead, or works elsewhere, is replaced."""
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
