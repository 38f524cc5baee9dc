"""The adapter for Gemini CLI: a home of its own, and the protocol that other agents speak too."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial

import anyio.to_thread

from coterie.agents.acp.adapter import AcpOpening
from coterie.agents.acp.channel import AcpChannel, served
from coterie.agents.acp.failures import Failures
from coterie.agents.gemini import FACTS
from coterie.agents.gemini.headless import HeadlessChannel
from coterie.agents.gemini.home import GeminiHome, prepare
from coterie.agents.process import AgentProcess, ProcessStart
from coterie.agents.program import ProgramAdapter
from coterie.errors import AgentMissing
from coterie.model.team import Member
from coterie.model.workspace import Workspace

SIGN_IN = "Start gemini in a terminal and sign in, or set GEMINI_API_KEY."
_NO_PROTOCOL = re.compile(r"Unknown arguments?: (?:.*, )?acp\b")
"""What a Gemini says that does not know the flag for the protocol."""


@dataclass(frozen=True)
class GeminiAdapter(ProgramAdapter):
    """Opens members' channels to Gemini."""

    prepare_home = staticmethod(prepare)

    async def open(
        self, member: Member, workspace: Workspace, thread: str | None
    ) -> AcpChannel | HeadlessChannel:
        """A channel on a new thread: what Gemini keeps of an old one may be lost."""
        try:
            async with served(self, member, workspace) as tools:
                furnished = replace(workspace, tools=tools.commands)
                home = await anyio.to_thread.run_sync(prepare, member, furnished)
                opening = AcpOpening(
                    name=self.agent.name,
                    cwd=str(home.cwd),
                    mode=member.permissions.mode,
                    sign_in=SIGN_IN,
                    reads_only=True,
                    # It would start none in a folder that it does not trust.
                    takes_servers=False,
                )
                start = self._starting(member, workspace, home, "--acp")
                return await opening.on(await AgentProcess.open(start), tools)
        except AgentMissing as error:
            if _NO_PROTOCOL.search(error.problem) is None:
                raise
        home = await anyio.to_thread.run_sync(prepare, member, workspace)
        each = partial(self._starting, member, workspace, home)
        return HeadlessChannel(each, Failures(self.agent.name, SIGN_IN))

    def _starting(
        self, member: Member, workspace: Workspace, home: GeminiHome, *call: str
    ) -> ProcessStart:
        model = ("--model", home.model) if home.model else ()
        given = FACTS.flags.passed_on((*self.agent.base_args, *member.additional_args))
        return self.starting(member, workspace, home.cwd, home.env, *call, *model, *given)
