"""The adapter for agents of the Agent Client Protocol: a registry entry is all it needs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import anyio.to_thread

from coterie.agents.acp.channel import AcpChannel
from coterie.agents.acp.inside import served
from coterie.agents.acp.opening import Opening
from coterie.agents.program import ProgramAdapter
from coterie.agents.wire import Starting, Wire
from coterie.model.team import Member
from coterie.model.workspace import Workspace
from coterie.workspace.homes.acp import AcpHome, prepare


@dataclass(frozen=True)
class AcpAdapter(ProgramAdapter):
    """Opens members' lines to an agent that speaks the protocol."""

    async def open(self, member: Member, workspace: Workspace, thread: str | None) -> AcpChannel:
        """A channel on a new thread: an agent's own store of threads is not relied on."""
        async with served(self, member, workspace) as inside:
            furnished = replace(workspace, tools=inside.commands)
            home = await anyio.to_thread.run_sync(prepare, self.agent, member, furnished)
            if home.problem is not None:
                raise self.missing(member, workspace, home.problem)
            flag = self.agent.capabilities.model_flag
            opening = Opening(
                name=self.agent.name,
                cwd=str(home.cwd),
                mode=member.permissions.mode,
                introduction=home.introduction,
                model=None if flag else member.model,
                reads_only=home.reads_only,
                takes_servers=not home.takes_commands,
            )
            return await opening.on(
                await Wire.open(self._starting(member, workspace, home)), inside
            )

    def _starting(self, member: Member, workspace: Workspace, home: AcpHome) -> Starting:
        flag = self.agent.capabilities.model_flag
        model = (flag, member.model) if flag and member.model else ()
        words = (*self.agent.base_args, *home.args, *model, *member.additional_args)
        return self.starting(member, workspace, home.cwd, home.env, *words)
