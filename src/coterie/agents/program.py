"""What the adapters of long-lived programs have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from coterie.agents.generic import QUIET_AFTER
from coterie.agents.wire import Starting
from coterie.model.agent import AgentDefinition
from coterie.model.prompt import Limits
from coterie.model.team import Member
from coterie.model.workspace import Workspace
from coterie.ports import ChildLog
from coterie.process.child import KeeperName


@dataclass(frozen=True)
class ProgramAdapter:
    """An agent by its registry entry, and where the start of its processes is recorded."""

    agent: AgentDefinition
    children: ChildLog
    keeper: KeeperName = "auto"
    quiet_after: float = QUIET_AFTER

    def limits(self, member: Member) -> Limits:
        """The clocks for this member's turns: such an agent's end is an event, never silence."""
        quiet = self.quiet_after if member.quiet_after_ms is None else member.quiet_after_ms / 1000
        return Limits(self.agent.total_timeout_ms(member, silent=False) / 1000, quiet)

    def starting(
        self,
        member: Member,
        workspace: Workspace,
        cwd: Path,
        env: Mapping[str, str],
        *words: str,
    ) -> Starting:
        """A process of this agent for this member."""
        return Starting(
            member=member.id,
            agent=self.agent.name,
            command=self.agent.command,
            args=words,
            cwd=str(cwd),
            folder=str(workspace.folder),
            env=env,
            children=self.children,
            keeper=self.keeper,
        )
