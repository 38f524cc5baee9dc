"""The adapter for agents of the Agent Client Protocol: a registry entry is all it needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import anyio.to_thread

from coterie.agents.acp.channel import AcpChannel
from coterie.agents.acp.home import AcpHome, ProgramSetup, nothing_known, prepare
from coterie.agents.acp.inside import served
from coterie.agents.acp.opening import Opening
from coterie.agents.program import ProgramAdapter
from coterie.agents.wire import Starting, Wire
from coterie.model.team import Member
from coterie.model.workspace import Workspace


@dataclass(frozen=True)
class AcpAdapter(ProgramAdapter):
    """Opens members' channels to an agent that speaks the protocol."""

    @staticmethod
    def set_up(member: Member, workspace: Workspace, cwd: Path) -> ProgramSetup:
        """Write what this program is to find in the member's home; a vendor's adapter overrides."""
        return nothing_known(member, workspace, cwd)

    async def open(self, member: Member, workspace: Workspace, thread: str | None) -> AcpChannel:
        """A channel on a new thread: an agent's own store of threads is not relied on."""
        async with served(self, member, workspace) as inside:
            furnished = replace(workspace, tools=inside.commands)
            home = await anyio.to_thread.run_sync(prepare, member, furnished, self.set_up)
            if home.setup.problem is not None:
                raise self.missing(member, workspace, home.setup.problem)
            flag = self.agent.capabilities.model_flag
            opening = Opening(
                name=self.agent.name,
                cwd=str(home.cwd),
                mode=member.permissions.mode,
                introduction=home.introduction,
                model=None if flag else member.model,
                reads_only=home.setup.reads_only,
                takes_servers=not home.setup.takes_commands,
            )
            return await opening.on(
                await Wire.open(self._starting(member, workspace, home)), inside
            )

    def _starting(self, member: Member, workspace: Workspace, home: AcpHome) -> Starting:
        flag = self.agent.capabilities.model_flag
        model = (flag, member.model) if flag and member.model else ()
        words = (*self.agent.base_args, *home.setup.args, *model, *member.additional_args)
        return self.starting(member, workspace, home.cwd, home.env, *words)
