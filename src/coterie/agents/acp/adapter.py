"""The adapter for agents of the Agent Client Protocol: a registry entry is all it needs."""

from __future__ import annotations

from dataclasses import dataclass

import anyio.to_thread

from coterie.agents.acp.channel import AcpChannel
from coterie.agents.acp.opening import Opening
from coterie.agents.generic import QUIET_AFTER
from coterie.agents.wire import Starting, Wire
from coterie.errors import AgentMissing
from coterie.model.agent import AgentDefinition
from coterie.model.prompt import Limits
from coterie.model.team import Member
from coterie.model.workspace import Workspace
from coterie.ports import ChildLog
from coterie.process.child import KeeperName
from coterie.workspace.homes.acp import AcpHome, prepare


@dataclass(frozen=True)
class AcpAdapter:
    """Opens members' lines to an agent that speaks the protocol."""

    agent: AgentDefinition
    children: ChildLog
    keeper: KeeperName = "auto"
    quiet_after: float = QUIET_AFTER

    def limits(self, member: Member) -> Limits:
        """The clocks for this member's turns."""
        quiet = self.quiet_after if member.quiet_after_ms is None else member.quiet_after_ms / 1000
        return Limits(self.agent.total_timeout_ms(member, silent=False) / 1000, quiet)

    async def open(self, member: Member, workspace: Workspace, thread: str | None) -> AcpChannel:
        """A channel on a new thread: an agent's own store of threads is not relied on."""
        home = await anyio.to_thread.run_sync(prepare, self.agent, member, workspace)
        if home.problem is not None:
            folder = str(workspace.folder)
            raise AgentMissing(member.id, folder, self.agent.command, home.problem)
        flag = self.agent.capabilities.model_flag
        opening = Opening(
            name=self.agent.name,
            cwd=str(home.cwd),
            mode=member.permissions.mode,
            introduction=home.introduction,
            model=None if flag else member.model,
            reads_only=home.reads_only,
        )
        return await opening.on(await Wire.open(self._starting(member, workspace, home)))

    def _starting(self, member: Member, workspace: Workspace, home: AcpHome) -> Starting:
        flag = self.agent.capabilities.model_flag
        model = (flag, member.model) if flag and member.model else ()
        return Starting(
            member=member.id,
            agent=self.agent.name,
            command=self.agent.command,
            args=(*self.agent.base_args, *home.args, *model, *member.additional_args),
            cwd=str(home.cwd),
            folder=str(workspace.folder),
            env=home.env,
            children=self.children,
            keeper=self.keeper,
        )
