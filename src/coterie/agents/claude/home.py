"""Claude Code's own home: its config folder, written by us, and the environment it needs.

Measured with 2.1.325.  All of it blocks: not for the event loop.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from coterie.model.team import Member
from coterie.model.workspace import Workspace
from coterie.workspace.homes import (
    TEAM_INSTRUCTION,
    instruction_text,
    private_folder,
    write_instruction,
    write_private,
)

KEYS = frozenset(
    {
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_CUSTOM_HEADERS",
        "CLAUDE_CODE_OAUTH_TOKEN",
    }
)
"""What of the user's environment says who pays, and to whom it is sent."""

_REAL = re.compile(r"ANTHROPIC_|CLAUDE_CODE_(OAUTH|USE_)|CLAUDE_SECURESTORAGE_")
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
}
_STATE_EVENTS = "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS"
"""Has it tell when it is idle: without that the end of a turn is not known for sure."""
_TOOL_PATIENCE = str(7 * 24 * 3600 * 1000)
"""Milliseconds; a tool of ours may wait for a person, who may take days."""
_CREDENTIALS = "CLAUDE_SECURESTORAGE_CONFIG_DIR"
"""Which folder holds the credentials, where that is not the config folder."""
_MENTION = re.compile(r"(?<!\S)@(?=\S)")


@dataclass(frozen=True)
class ClaudeHome:
    """Where Claude keeps its things for one member, and the whole environment of its process."""

    config: Path
    env: Mapping[str, str]


def prepare(member: Member, workspace: Workspace) -> ClaudeHome:
    """Write what Claude is to find, each time anew, so that edits of the team reach it."""
    config = private_folder(workspace.home / ".claude")
    write_private(config / "CLAUDE.md", _memory(workspace))
    write_private(config / "settings.json", json.dumps(_SETTINGS) + "\n")
    reference = f"@{TEAM_INSTRUCTION}" if workspace.team_instruction else ""
    write_instruction(workspace.folder / "CLAUDE.md", instruction_text(member, reference))
    return ClaudeHome(config, _environment(workspace, config))


# -- what it reads -----------------------------------------------------------------------------


def _memory(workspace: Workspace) -> str:
    """The team's text, and where the user trusts the material, an import of its own."""
    # A word that begins with @ is an import to Claude: a team's text names people, not files.
    parts = [_MENTION.sub(r"\\@", workspace.team_instruction.strip())]
    theirs = _instruction_of(workspace.execution_dir.resolve()) if workspace.trusted else None
    if theirs is not None:
        parts.append("@" + str(theirs).replace(" ", "\\ "))
    return "\n\n".join(part for part in parts if part) + "\n"


def _instruction_of(material: Path) -> Path | None:
    """The file that Claude itself would read there."""
    names = ("CLAUDE.md", ".claude/CLAUDE.md", "AGENTS.md")
    return next((material / name for name in names if (material / name).is_file()), None)


# -- what its process sees ---------------------------------------------------------------------


def _environment(workspace: Workspace, config: Path) -> dict[str, str]:
    given = {**_DEFAULTS, **_signed_in(workspace), **workspace.env}
    if workspace.rehearsal is not None:
        kept = {name: value for name, value in given.items() if not _REAL.match(name)}
        given = {**kept, **_rehearsing(workspace.rehearsal)}
    return {
        **given,
        "CLAUDE_CONFIG_DIR": str(config),
        # Its socket too, if that makes a path of at most 103 bytes; else Claude puts that into
        # /tmp/cc-socks-<uid>, and nothing keeps it from doing so.
        "CLAUDE_CODE_TMPDIR": str(workspace.tmp),
        _STATE_EVENTS: "1",
        "MCP_TOOL_TIMEOUT": _TOOL_PATIENCE,
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
    key = _key_of_login(home / ".claude.json")
    return {_CREDENTIALS: "", **({"ANTHROPIC_API_KEY": key} if key else {})}


def _key_of_login(settings: Path) -> str | None:
    """The key that a login with the vendor's console leaves among the user's settings."""
    try:
        found = cast("object", json.loads(settings.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None
    key = cast("dict[str, object]", found).get("primaryApiKey") if isinstance(found, dict) else None
    return key if isinstance(key, str) else None


def _rehearsing(url: str) -> dict[str, str]:
    direct = "127.0.0.1,localhost"
    return {
        **_DEFAULTS,
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "rehearsal",
        "NO_PROXY": direct,
        "no_proxy": direct,
    }
