"""What the adapters of long-lived programs have in common."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from pathlib import Path

from coterie.agents.generic import QUIET_AFTER
from coterie.agents.wire import Starting
from coterie.errors import AgentMissing
from coterie.model.agent import AgentDefinition
from coterie.model.interaction import Response
from coterie.model.prompt import Limits, Prompt
from coterie.model.team import Member
from coterie.model.update import TurnFailed, Update
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

    def missing(self, member: Member, workspace: Workspace, problem: str) -> AgentMissing:
        """Why this agent cannot be started for this member."""
        return AgentMissing(member.id, str(workspace.folder), self.agent.command, problem)


@dataclass(frozen=True)
class RefusedChannel:
    """`ports.Channel` to an agent that nobody has signed in to: nothing runs and nothing is sent.

    It is not alive, so the next try opens another, by when somebody may have signed in.
    """

    failure: TurnFailed

    thread = None
    holds_past = False
    version = ""
    pid = None
    alive = False

    async def take_turn(self, prompt: Prompt) -> AsyncGenerator[Update]:
        """Say why there is no turn."""
        yield self.failure

    async def answer(self, key: str, response: Response) -> None:
        """It asks nothing."""

    async def interrupt(self) -> None:
        """It does nothing that could be broken off."""

    async def close(self) -> None:
        """There is nothing to end."""
