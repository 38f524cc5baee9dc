"""The adapter for Claude Code: its home and command line, and a process on a thread of our choice.

Based on how 2.1.325 behaves.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from uuid import uuid4

import anyio
import anyio.to_thread

from coterie.agents.claude import FACTS, channel
from coterie.agents.claude.failures import SIGNED_OUT, ApiTrouble, failed, failure_of
from coterie.agents.fields import mapping, text
from coterie.agents.process import AgentProcess, AgentProcessEnded, Object
from coterie.agents.program import CannotOpen, ProgramAdapter, RefusedChannel, open_or_end
from coterie.agents.team_tools.serving import SERVER, Serving
from coterie.model.agent import AgentDefinition
from coterie.model.team import Member
from coterie.model.workspace import InteractiveStart, Workspace
from coterie.process.child import DryRunChildLog
from coterie.tools.read_only_sandbox import read_only_sandbox
from coterie.workspace import homes

_REAL = r"ANTHROPIC_|CLAUDE_CODE_(OAUTH|USE_)|CLAUDE_SECURESTORAGE_"
"""Variables that would lead a rehearsal to a real model."""
_SETTINGS: Mapping[str, object] = {
    # A thread is a member's memory: Claude would delete it after a month.
    "cleanupPeriodDays": 36_500,
    # The user's other sessions could talk to this one through a socket; only Coterie may.
    "crossSessionInbound": "refuse",
}
_DEFAULTS = {
    # It contacts nothing but the model, and stays the version that was tested.
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
    # Milliseconds; our tools may wait for a person, who may take days.
    "MCP_TOOL_TIMEOUT": str(7 * 24 * 3600 * 1000),
}
"""Used unless the member's own env says otherwise."""
_STATE_EVENTS = "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS"
"""Makes it report when it is idle: without that the end of a turn is not known for sure."""
_CREDENTIALS = "CLAUDE_SECURESTORAGE_CONFIG_DIR"
"""The folder that holds the credentials, if it is not the config folder."""
_MENTION = re.compile(r"(?<!\S)@(?=\S)")


def prepare(member: Member, workspace: Workspace) -> dict[str, str]:
    """Rewrite the member's home on every start, so that edits to the team take effect.

    Returns the complete environment of its process.
    """
    config = homes.private_folder(workspace.home / ".claude")
    homes.write_private(config / "CLAUDE.md", _memory(workspace))
    homes.write_private(config / "settings.json", json.dumps(_SETTINGS) + "\n")
    return _environment(workspace, config)


_WELCOMED = "hasCompletedOnboarding"


def _skip_welcome(workspace: Workspace) -> None:
    """Skip the questions about colours and the login that Claude asks in a new config folder: a
    user who has answered them once is not asked again by every member."""
    own, state = workspace.home / ".claude" / ".claude.json", homes.read_json_object
    if workspace.user_home is None or state(own).get(_WELCOMED):
        return
    users = state(workspace.user_home / ".claude.json")
    if users.get(_WELCOMED):
        kept = {name: users[name] for name in (_WELCOMED, "theme") if name in users}
        homes.write_private(own, json.dumps({**state(own), **kept}) + "\n")


def _memory(workspace: Workspace) -> str:
    """Return the team's text and, if the user trusts the project, an import of the project's."""
    # Claude reads a word that begins with @ as an import; a team's text names people, not files.
    parts = [_MENTION.sub(r"\\@", workspace.team_instruction.strip())]
    if workspace.trusted:
        # The first of those that Claude itself would read there.
        names = ("CLAUDE.md", ".claude/CLAUDE.md", "AGENTS.md")
        paths = (workspace.execution_dir.resolve() / name for name in names)
        existing = (str(path) for path in paths if path.is_file())
        parts += [f"@{path}".replace(" ", "\\ ") for path in islice(existing, 1)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _environment(workspace: Workspace, config: Path) -> dict[str, str]:
    env = {**_DEFAULTS, **_signed_in(workspace), **workspace.env}
    if workspace.rehearsal is not None:
        key, url = homes.REHEARSAL_KEY, workspace.rehearsal
        login = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": key}
        env = homes.rehearsal_env(env, _REAL, {**_DEFAULTS, **login})
    return {
        **env,
        "CLAUDE_CONFIG_DIR": str(config),
        # For its socket too, if the path has at most 103 bytes; otherwise Claude puts the socket
        # into /tmp/cc-socks-<uid>, and nothing can prevent that.
        "CLAUDE_CODE_TMPDIR": str(workspace.tmp),
        _STATE_EVENTS: "1",
    }


def _signed_in(workspace: Workspace) -> dict[str, str]:
    """Return the variables that lead to the user's login.

    Not a link in the member's home: when Claude refreshes a token it replaces the link by a new
    file, and the user's own file would stay behind with an invalid token.  Pointed at the user's
    folder, it reads, locks and replaces the one file there.  Without such a file, the empty value
    means the usual place, which on macOS is the user's keychain.
    """
    home = workspace.user_home
    if home is None:
        return {}
    if (home / ".claude" / ".credentials.json").is_file():
        return {_CREDENTIALS: str(home / ".claude")}
    # Signing in through the vendor's console leaves a key in the user's settings.
    key = homes.read_json_string(home / ".claude.json", "primaryApiKey")
    return {_CREDENTIALS: "", **({"ANTHROPIC_API_KEY": key} if key else {})}


_LOST = "No conversation found"
"""What a Claude says that ends without a result; the tested version gives one."""
_LOST_SUBTYPE = "error_during_execution"
"""The subtype of that result, which comes before any turn."""
_ANSWER_HOOKS_WITHIN = 7 * 24 * 3600
"""Seconds; a hook waits behind a question that a person may leave open for days."""
_INITIALIZE: Object = {
    # Otherwise an edited role would never reach a resumed thread.
    "systemPromptSnapshot": False,
    "hooks": {
        "PreToolUse": [
            {
                "matcher": None,
                "hookCallbackIds": ["call"],
                "timeout": _ANSWER_HOOKS_WITHIN,
                # A call that could not be reported is not made.
                "onFailure": "block",
            }
        ]
    },
    "sdkMcpServers": [SERVER],
}


class _ThreadLost(Exception):
    """Claude cannot find the conversation."""


@dataclass(frozen=True)
class ClaudeAdapter(ProgramAdapter):
    """Opens members' channels to Claude."""

    @classmethod
    def interactive(
        cls, agent: AgentDefinition, member: Member, workspace: Workspace
    ) -> InteractiveStart:
        env = prepare(member, workspace)
        _skip_welcome(workspace)
        return InteractiveStart((*_CONFINED, _ASKING, *_member_arguments(agent, member)), env)

    async def open(
        self, member: Member, workspace: Workspace, thread: str | None
    ) -> channel.ClaudeChannel | RefusedChannel:
        """Open a channel on this thread, or on a new one if Claude cannot find it."""
        env = await anyio.to_thread.run_sync(prepare, member, workspace)
        opening = _Opening(self, member, workspace, env)
        if thread is not None:
            try:
                return await opening.open(thread, resumed=True)
            except _ThreadLost:
                pass
        elif await opening.is_refused():
            return RefusedChannel(failure_of(SIGNED_OUT))
        return await opening.open(str(uuid4()))


@dataclass(frozen=True)
class _Opening:
    """What happens between the start of a process and its first turn."""

    adapter: ClaudeAdapter
    member: Member
    workspace: Workspace
    env: Mapping[str, str]

    async def open(self, thread: str, *, resumed: bool = False) -> channel.ClaudeChannel:
        """Open a channel on a process of its own, which is ended if that fails."""
        choice = f"--resume={thread}" if resumed else f"--session-id={thread}"
        words = arguments(self.adapter.agent, self.member, choice)
        process = await self._start(self.workspace.execution_dir, *words)
        return await open_or_end(process, self._opened(process, thread, resumed=resumed))

    async def is_refused(self) -> bool:
        """Whether nobody has signed in; not checked for members with a thread, who have spoken.

        If Claude does not say for sure, that is left to the first turn, which then fails in its
        own words.
        """
        words = (*self.adapter.agent.base_args, *self.member.additional_args)
        unseen = any(word.startswith(_UNSEEN_KEYS) for word in (*self.env, *words))
        unasked = isinstance(self.adapter.children, DryRunChildLog)
        if unseen or unasked or self.workspace.rehearsal is not None:
            return False
        process = await self._start(self.workspace.home, *STATUS_ARGUMENTS)
        try:
            process.child.close_stdin()
            with anyio.move_on_after(TIMEOUT):
                while True:
                    await process.receive()
        except AgentProcessEnded as end:
            return end.exit_code != 0 and _SIGNED_OUT.search(end.tail) is not None
        finally:
            with anyio.CancelScope(shield=True):
                await process.close()
        return False

    async def _start(self, cwd: Path, *words: str) -> AgentProcess:
        return await self.adapter.start(self.member, self.workspace, cwd, self.env, *words)

    async def _opened(
        self, process: AgentProcess, thread: str, *, resumed: bool
    ) -> channel.ClaudeChannel:
        server = channel.TeamToolServer(
            channel.ControlChannel(process), Serving(self.workspace.others)
        )
        try:
            await _handshake(process, server, resumed=resumed)
        except AgentProcessEnded as end:
            if resumed and _LOST in end.tail:
                raise _ThreadLost from end
            raise
        root = await anyio.to_thread.run_sync(self.workspace.execution_dir.resolve)
        sandbox = await read_only_sandbox(root)
        return channel.ClaudeChannel(process, server, thread, self.workspace, sandbox)


async def _handshake(
    process: AgentProcess, server: channel.TeamToolServer, *, resumed: bool
) -> None:
    """Initialize Claude, which prints nothing before that.

    Claude contacts our tool server before it answers; wait until it has listed the tools, so that
    the first turn has them.
    """
    request_id = channel.ControlChannel(process).request("initialize", **_INITIALIZE)
    is_answered = False
    while not is_answered or (server.is_met and not server.is_listed):
        message = await process.receive()
        request, response = mapping(message.get("request")), mapping(message.get("response"))
        if request.get("subtype") == channel.SUBTYPE:
            server.handle(text(message.get("request_id")), request, in_turn=False)
        elif response.get("request_id") == request_id:
            is_answered = True
        elif message.get("type") == "result" and message.get("is_error") is True:
            # No turn has begun, so this is about the start.
            if resumed and message.get("subtype") == _LOST_SUBTYPE:
                raise _ThreadLost
            raise CannotOpen(failed(message, ApiTrouble()).message)


# -- claude's command line ---------------------------------------------------------------------


_CONFINED = ("--setting-sources=user", "--strict-mcp-config")
"""Without these two, opening a repository would run its hooks and servers."""
_ASKING = "--permission-mode=default"
"""For every member: what may be done unasked is not for Claude to decide."""
_CALL = (
    "-p",
    "--input-format=stream-json",
    "--output-format=stream-json",
    "--verbose",
    "--include-partial-messages",
    "--permission-prompt-tool=stdio",
    *_CONFINED,
    f"--mcp-config={json.dumps(channel.CONFIG, separators=(',', ':'))}",
    _ASKING,
)
_NEVER = ("CronCreate", "CronDelete", "CronList", "ScheduleWakeup", "EnterWorktree", "ExitWorktree")
"""Nothing may outlast its turn, and only Coterie makes worktrees."""
_EDITS = ("Edit", "NotebookEdit", "Write")


def arguments(agent: AgentDefinition, member: Member, thread: str) -> tuple[str, ...]:
    """Return the whole command line; `thread` selects the conversation."""
    return (*_CALL, thread, *_member_arguments(agent, member))


def _member_arguments(agent: AgentDefinition, member: Member) -> tuple[str, ...]:
    """Return the member's own part: the tools it may not use, its role, model and arguments."""
    barred = (*_NEVER, *_EDITS) if member.permissions.mode == "read" else _NEVER
    chosen = [f"--disallowedTools={','.join(barred)}"]
    if member.system_instruction:
        chosen.append(f"--append-system-prompt={member.system_instruction}")
    if member.model:
        chosen.append(f"--model={member.model}")
    return (*chosen, *FACTS.flags.passed_on((*agent.base_args, *member.additional_args)))


# -- whether somebody has signed in to Claude --------------------------------------------------


STATUS_ARGUMENTS = ("--setting-sources=user", "--strict-mcp-config", "auth", "status")
"""Without the first argument, a repository could pretend that the user has a key."""
TIMEOUT = 10.0
"""How long Claude may take to answer; in practice a third of a second."""
_SIGNED_OUT = re.compile(r'"loggedIn":\s*false')
_UNSEEN_KEYS = ("ANTHROPIC_CUSTOM_HEADERS", "--settings")
"""Where there may be a key unknown to the status: a header, settings of the member's own."""
