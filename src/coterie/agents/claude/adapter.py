"""The adapter for Claude Code: its home and command line, and a process on a thread of our choice.

Measured with 2.1.325.
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
from coterie.agents.claude.failures import SIGNED_OUT, told
from coterie.agents.fields import mapping, text
from coterie.agents.process import AgentProcess, AgentProcessEnded, Object
from coterie.agents.program import ProgramAdapter, RefusedChannel, opened_on
from coterie.agents.team_tools.serving import SERVER, Serving
from coterie.model.agent import AgentDefinition
from coterie.model.team import Member
from coterie.model.workspace import InteractiveStart, Workspace
from coterie.process.child import NothingStarts
from coterie.tools.read_only_sandbox import read_only_sandbox
from coterie.workspace import homes

_REAL = r"ANTHROPIC_|CLAUDE_CODE_(OAUTH|USE_)|CLAUDE_SECURESTORAGE_"
"""Variables that would lead a rehearsal to a real model."""
_SETTINGS: Mapping[str, object] = {
    # A thread is a member's memory: Claude would delete it after a month.
    "cleanupPeriodDays": 36_500,
    # Other sessions of the user's may speak to this one, by a socket; nobody does but Coterie.
    "crossSessionInbound": "refuse",
}
_DEFAULTS = {
    # Nothing but the model is spoken to, and the program stays the one that was tested.
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
    # Milliseconds; a tool of ours may wait for a person, who may take days.
    "MCP_TOOL_TIMEOUT": str(7 * 24 * 3600 * 1000),
}
"""What holds where the member's own env says nothing else."""
_STATE_EVENTS = "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS"
"""Has it tell when it is idle: without that the end of a turn is not known for sure."""
_CREDENTIALS = "CLAUDE_SECURESTORAGE_CONFIG_DIR"
"""Which folder holds the credentials, where that is not the config folder."""
_MENTION = re.compile(r"(?<!\S)@(?=\S)")


def prepare(member: Member, workspace: Workspace) -> dict[str, str]:
    """Write what Claude is to find, each time anew, so that edits of the team reach it.

    Returns the whole environment of its process.
    """
    config = homes.private_folder(workspace.home / ".claude")
    homes.write_private(config / "CLAUDE.md", _memory(workspace))
    homes.write_private(config / "settings.json", json.dumps(_SETTINGS) + "\n")
    return _environment(workspace, config)


_WELCOMED = "hasCompletedOnboarding"


def _skip_welcome(workspace: Workspace) -> None:
    """Claude greets whoever opens a new config folder with questions about colours and the login;
    who has answered them once is not asked again by every member."""
    own, state = workspace.home / ".claude" / ".claude.json", homes.object_in
    if workspace.user_home is None or state(own).get(_WELCOMED):
        return
    users = state(workspace.user_home / ".claude.json")
    if users.get(_WELCOMED):
        kept = {name: users[name] for name in (_WELCOMED, "theme") if name in users}
        homes.write_private(own, json.dumps({**state(own), **kept}) + "\n")


def _memory(workspace: Workspace) -> str:
    """The team's text, and where the user trusts the material, an import of its own."""
    # A word that begins with @ is an import to Claude: a team's text names people, not files.
    parts = [_MENTION.sub(r"\\@", workspace.team_instruction.strip())]
    if workspace.trusted:
        # Of those that Claude itself would read there, the first.
        names = ("CLAUDE.md", ".claude/CLAUDE.md", "AGENTS.md")
        paths = (workspace.execution_dir.resolve() / name for name in names)
        found = (str(path) for path in paths if path.is_file())
        parts += [f"@{path}".replace(" ", "\\ ") for path in islice(found, 1)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _environment(workspace: Workspace, config: Path) -> dict[str, str]:
    given = {**_DEFAULTS, **_signed_in(workspace), **workspace.env}
    if workspace.rehearsal is not None:
        key, url = homes.REHEARSAL_KEY, workspace.rehearsal
        login = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": key}
        given = homes.rehearsal_env(given, _REAL, {**_DEFAULTS, **login})
    return {
        **given,
        "CLAUDE_CONFIG_DIR": str(config),
        # Its socket too, if that makes a path of at most 103 bytes; else Claude puts that into
        # /tmp/cc-socks-<uid>, and nothing keeps it from doing so.
        "CLAUDE_CODE_TMPDIR": str(workspace.tmp),
        _STATE_EVENTS: "1",
    }


def _signed_in(workspace: Workspace) -> dict[str, str]:
    """Where the user signed in.

    Not a link in the member's home: when Claude refreshes a token it puts a new file in the
    link's place, and the user's own, with a token that is no longer good, would stay behind.
    Pointed at the user's folder, it reads, locks and replaces the one file there.  Without such
    a file the empty word means the usual place, which on macOS is the user's keychain.
    """
    home = workspace.user_home
    if home is None:
        return {}
    if (home / ".claude" / ".credentials.json").is_file():
        return {_CREDENTIALS: str(home / ".claude")}
    # A login with the vendor's console leaves a key among the user's settings.
    key = homes.text_in(home / ".claude.json", "primaryApiKey")
    return {_CREDENTIALS: "", **({"ANTHROPIC_API_KEY": key} if key else {})}


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
        """A channel on this thread, or on a new one where Claude cannot find it."""
        env = await anyio.to_thread.run_sync(prepare, member, workspace)
        opening = _Opening(self, member, workspace, env)
        if thread is not None:
            try:
                return await opening.on(thread, f"--resume={thread}")
            except _ThreadLost:
                pass
        elif await opening.is_refused():
            return RefusedChannel(told(SIGNED_OUT))
        new = str(uuid4())
        return await opening.on(new, f"--session-id={new}")


@dataclass(frozen=True)
class _Opening:
    """What happens between the start of a process and its first turn."""

    adapter: ClaudeAdapter
    member: Member
    workspace: Workspace
    env: Mapping[str, str]

    async def on(self, thread: str, choice: str) -> channel.ClaudeChannel:
        """A channel on a process of its own, which is ended if there will be none."""
        words = arguments(self.adapter.agent, self.member, choice)
        process = await self._start(self.workspace.execution_dir, *words)
        return await opened_on(process, self._opened(process, thread))

    async def is_refused(self) -> bool:
        """Whether nobody has signed in; a member that has a thread has spoken, and is not asked.

        What Claude does not say for sure is left to the first turn, which then fails in its own
        words.
        """
        words = (*self.adapter.agent.base_args, *self.member.additional_args)
        unseen = any(word.startswith(_UNSEEN) for word in (*self.env, *words))
        unasked = isinstance(self.adapter.children, NothingStarts)
        if unseen or unasked or self.workspace.rehearsal is not None:
            return False
        process = await self._start(self.workspace.home, *ASK)
        try:
            process.child.close_stdin()
            with anyio.move_on_after(PATIENCE):
                while True:
                    await process.receive()
        except AgentProcessEnded as end:
            return end.exit_code != 0 and _NO.search(end.tail) is not None
        finally:
            with anyio.CancelScope(shield=True):
                await process.close()
        return False

    async def _start(self, cwd: Path, *words: str) -> AgentProcess:
        return await self.adapter.start(self.member, self.workspace, cwd, self.env, *words)

    async def _opened(self, process: AgentProcess, thread: str) -> channel.ClaudeChannel:
        server = channel.TeamToolServer(
            channel.ControlChannel(process), Serving(self.workspace.others)
        )
        try:
            await _greet(process, server)
        except AgentProcessEnded as end:
            if _LOST in end.tail:
                raise _ThreadLost from end
            raise
        root = await anyio.to_thread.run_sync(self.workspace.execution_dir.resolve)
        looking = await read_only_sandbox(root)
        return channel.ClaudeChannel(process, server, thread, self.workspace, looking)


async def _greet(process: AgentProcess, server: channel.TeamToolServer) -> None:
    """Say hello, without which Claude prints nothing.

    Claude meets our tools before it answers; the first turn is to find them.
    """
    request_id = channel.ControlChannel(process).request("initialize", **_INITIALIZE)
    is_answered = False
    while not is_answered or (server.is_met and not server.is_listed):
        message = await process.receive()
        asked, response = mapping(message.get("request")), mapping(message.get("response"))
        if asked.get("subtype") == channel.SUBTYPE:
            server.hear(text(message.get("request_id")), asked, in_turn=False)
        elif response.get("request_id") == request_id:
            is_answered = True


# -- claude's command line ---------------------------------------------------------------------


_CONFINED = ("--setting-sources=user", "--strict-mcp-config")
"""Without these two a repository has its hooks and servers run by being opened."""
_ASKING = "--permission-mode=default"
"""Whoever the member is: what may be done unasked is not for Claude to say."""
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
"""A turn ends when it ends, and worktrees are Coterie's to make."""
_EDITS = ("Edit", "NotebookEdit", "Write")


def arguments(agent: AgentDefinition, member: Member, thread: str) -> tuple[str, ...]:
    """All of it; `thread` says which conversation."""
    return (*_CALL, thread, *_member_arguments(agent, member))


def _member_arguments(agent: AgentDefinition, member: Member) -> tuple[str, ...]:
    """What is the member's own: what it may not use, its role, its model, its arguments."""
    barred = (*_NEVER, *_EDITS) if member.permissions.mode == "read" else _NEVER
    chosen = [f"--disallowedTools={','.join(barred)}"]
    if member.system_instruction:
        chosen.append(f"--append-system-prompt={member.system_instruction}")
    if member.model:
        chosen.append(f"--model={member.model}")
    return (*chosen, *FACTS.flags.passed_on((*agent.base_args, *member.additional_args)))


# -- whether somebody has signed in to Claude --------------------------------------------------


ASK = ("--setting-sources=user", "--strict-mcp-config", "auth", "status")
"""Without the first word a repository could say for the user that there is a key."""
PATIENCE = 10.0
"""How long Claude may take to tell; in practice a third of a second."""
_NO = re.compile(r'"loggedIn":\s*false')
_UNSEEN = ("ANTHROPIC_CUSTOM_HEADERS", "--settings")
"""Where a key may be that the status knows nothing of: a header, settings of the member's own."""
