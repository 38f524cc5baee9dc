"""The adapter for Gemini CLI: a home of its own, and the protocol that other agents speak too."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import anyio.to_thread

from coterie.agents.acp.adapter import AcpOpening
from coterie.agents.acp.channel import AcpChannel, served
from coterie.agents.acp.failures import Failures
from coterie.agents.gemini.headless import HeadlessChannel
from coterie.agents.gemini.home import GeminiHome, prepare
from coterie.agents.process import AgentProcess, ProcessStart
from coterie.agents.program import ProgramAdapter, without
from coterie.errors import AgentMissing
from coterie.model.team import Member
from coterie.model.workspace import Workspace

SIGN_IN = "Start gemini in a terminal and sign in, or set GEMINI_API_KEY."
_NO_PROTOCOL = re.compile(r"Unknown arguments?: (?:.*, )?acp\b")
"""What a Gemini says that does not know the flag for the protocol."""


@dataclass(frozen=True)
class GeminiAdapter(ProgramAdapter):
    """Opens members' lines to Gemini."""

    async def open(
        self, member: Member, workspace: Workspace, thread: str | None
    ) -> AcpChannel | HeadlessChannel:
        """A channel on a new thread: what Gemini keeps of an old one may be lost."""
        try:
            async with served(self, member, workspace) as inside:
                furnished = replace(workspace, tools=inside.commands)
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
                return await opening.on(await AgentProcess.open(start), inside)
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
        given = passed_on((*self.agent.base_args, *member.additional_args))
        return self.starting(member, workspace, home.cwd, home.env, *call, *model, *given)


# -- the arguments that a registry entry and a team file give, as the adapter passes them on -----


_CHOSEN: Mapping[str, int] = {
    "--acp": 0,
    "--experimental-acp": 0,
    "--list-sessions": 0,
    "--skip-trust": 0,
    "-y": 0,
    "--yolo": 0,
    "--approval-mode": 1,
    "--delete-session": 1,
    "-i": 1,
    "--prompt-interactive": 1,
    "-o": 1,
    "--output-format": 1,
    "-p": 1,
    "--prompt": 1,
    "-r": 1,
    "--resume": 1,
    "--session-id": 1,
}
"""What is not for others to choose, and how many words more belong to each."""


def passed_on(arguments: Sequence[str]) -> tuple[str, ...]:
    """The arguments without those."""
    return without(arguments, _CHOSEN)
