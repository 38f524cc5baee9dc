"""The adapter for Claude Code: starts it in a home of its own, on a thread of our choice."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import uuid4

import anyio
import anyio.to_thread

from coterie.agents.claude.arguments import arguments
from coterie.agents.claude.channel import ClaudeChannel, Line
from coterie.agents.claude.control import Control
from coterie.agents.claude.failures import signed_out
from coterie.agents.claude.home import ClaudeHome, prepare
from coterie.agents.claude.own_server import SUBTYPE, OwnServer
from coterie.agents.claude.status import ASK, is_signed_out
from coterie.agents.fields import mapping, text
from coterie.agents.inside import Serving
from coterie.agents.inside.tools import SERVER
from coterie.agents.program import ProgramAdapter, RefusedChannel
from coterie.agents.wire import Object, Starting, Wire, WireEnded
from coterie.errors import AgentMissing
from coterie.model.team import Member
from coterie.model.workspace import Workspace

START = 60.0
"""How long Claude may take to start; in practice a second."""
_LOST = "No conversation found"
_ANSWER_HOOKS_WITHIN = 7 * 24 * 3600
"""Seconds; a hook waits behind a question that a person may leave open for days."""
_INITIALIZE: Object = {
    # Else a role that was edited would never reach a thread that is taken up again.
    "systemPromptSnapshot": False,
    "hooks": {
        "PreToolUse": [
            {
                "matcher": None,
                "hookCallbackIds": ["call"],
                "timeout": _ANSWER_HOOKS_WITHIN,
                # A call that could not be told of is not made.
                "onFailure": "block",
            }
        ]
    },
    "sdkMcpServers": [SERVER],
}


class _ThreadLost(Exception):
    """Claude does not find the conversation."""


@dataclass(frozen=True)
class ClaudeAdapter(ProgramAdapter):
    """Opens members' lines to Claude."""

    async def open(
        self, member: Member, workspace: Workspace, thread: str | None
    ) -> ClaudeChannel | RefusedChannel:
        """A channel on this thread, or on a new one where Claude cannot find it."""
        home = await anyio.to_thread.run_sync(prepare, member, workspace)
        opening = _Opening(self, member, workspace, home)
        if thread is not None:
            try:
                return await opening.on(thread, f"--resume={thread}")
            except _ThreadLost:
                pass
        elif await opening.is_refused():
            return RefusedChannel(signed_out())
        new = str(uuid4())
        return await opening.on(new, f"--session-id={new}")


@dataclass(frozen=True)
class _Opening:
    """What happens between the start of a process and its first turn."""

    adapter: ClaudeAdapter
    member: Member
    workspace: Workspace
    home: ClaudeHome

    async def on(self, thread: str, choice: str) -> ClaudeChannel:
        """A channel on a process of its own, which is ended if there will be none."""
        wire = await Wire.open(self._starting(choice))
        server = OwnServer(Control(wire), Serving(self.workspace.others))
        try:
            with anyio.move_on_after(START):
                return ClaudeChannel(wire, self._line(thread, await _greeted(wire, server)), server)
            problem = f"it did not answer within {START:g} s"
        except WireEnded as end:
            if _LOST in end.tail:
                await wire.close()
                raise _ThreadLost from end
            problem = f"it ended with exit code {end.exit_code}"
        except BaseException:
            with anyio.CancelScope(shield=True):
                await wire.close()
            raise
        await wire.close()
        raise self._missing(problem, wire.tail)

    async def is_refused(self) -> bool:
        """Whether nobody has signed in; a member that has a thread has spoken, and is not asked."""
        if self.workspace.rehearsal is not None:
            return False
        place, agent = self.workspace.home, self.adapter.agent
        asking = self.adapter.starting(self.member, self.workspace, place, self.home.env, *ASK)
        return await is_signed_out(asking, (*agent.base_args, *self.member.additional_args))

    def _starting(self, choice: str) -> Starting:
        words = arguments(self.adapter.agent, self.member, choice)
        place = self.workspace.execution_dir
        return self.adapter.starting(self.member, self.workspace, place, self.home.env, *words)

    def _line(self, thread: str, version: str) -> Line:
        return Line(
            thread=thread,
            cwd=str(self.workspace.execution_dir),
            version=version,
            rehearsed=self.workspace.rehearsal is not None,
        )

    def _missing(self, problem: str, tail: str) -> AgentMissing:
        told = f"{problem}\n{tail}" if tail else problem
        return self.adapter.missing(self.member, self.workspace, told)


async def _greeted(wire: Wire, server: OwnServer) -> str:
    """Say hello, without which Claude prints nothing; the version, where it tells it.

    Claude meets our tools before it answers; the first turn is to find them.
    """
    request_id = Control(wire).request("initialize", **_INITIALIZE)
    version: str | None = None
    while version is None or (server.is_met and not server.is_listed):
        message = await wire.receive()
        asked, response = mapping(message.get("request")), mapping(message.get("response"))
        if asked.get("subtype") == SUBTYPE:
            server.hear(text(message.get("request_id")), asked, in_turn=False)
        elif response.get("request_id") == request_id:
            version = text(mapping(response.get("response")).get("claude_code_version"))
    return version
