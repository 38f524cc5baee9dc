"""Claude's command line: what the adapter chooses, then what registry and team file add."""

from __future__ import annotations

import json
from collections.abc import Mapping

from coterie.agents.claude.own_server import CONFIG
from coterie.agents.words import without
from coterie.model.agent import AgentDefinition
from coterie.model.team import Member

_CALL = (
    "-p",
    "--input-format=stream-json",
    "--output-format=stream-json",
    "--verbose",
    "--include-partial-messages",
    "--permission-prompt-tool=stdio",
    # Without these two a repository has its hooks and servers run by being opened.
    "--setting-sources=user",
    "--strict-mcp-config",
    f"--mcp-config={json.dumps(CONFIG, separators=(',', ':'))}",
    # Whoever the member is: what may be done unasked is not for Claude to say.
    "--permission-mode=default",
)
_NEVER = ("CronCreate", "CronDelete", "CronList", "ScheduleWakeup", "EnterWorktree", "ExitWorktree")
"""A turn ends when it ends, and worktrees are Coterie's to make."""
_EDITS = ("Edit", "NotebookEdit", "Write")

_CHOSEN: Mapping[str, int] = {
    "-p": 0,
    "--print": 0,
    "--verbose": 0,
    "--include-partial-messages": 0,
    "--replay-user-messages": 0,
    "--strict-mcp-config": 0,
    "-c": 0,
    "--continue": 0,
    "--fork-session": 0,
    "--no-session-persistence": 0,
    "--dangerously-skip-permissions": 0,
    "--allow-dangerously-skip-permissions": 0,
    "--input-format": 1,
    "--output-format": 1,
    "--permission-mode": 1,
    "--permission-prompt-tool": 1,
    "--permission-prompts": 1,
    "--setting-sources": 1,
    "--session-id": 1,
    "-r": 1,
    "--resume": 1,
}
"""What is not for others to choose, and how many words more belong to each."""


def arguments(agent: AgentDefinition, member: Member, thread: str) -> tuple[str, ...]:
    """All of it; `thread` says which conversation."""
    barred = (*_NEVER, *_EDITS) if member.permissions.mode == "read" else _NEVER
    chosen = [
        *_CALL,
        f"--disallowedTools={','.join(barred)}",
        thread,
    ]
    if member.system_instruction:
        chosen.append(f"--append-system-prompt={member.system_instruction}")
    if member.model:
        chosen.append(f"--model={member.model}")
    return (*chosen, *without((*agent.base_args, *member.additional_args), _CHOSEN))
