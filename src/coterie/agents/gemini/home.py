"""A Gemini member's home: its settings, its GEMINI.md, its rules and its login.

Eight things of Gemini CLI 0.61 decide what stands here:

- A folder that it trusts has its MCP servers, hooks, commands and variables used by being opened,
  and its settings may let every tool run unasked.  So no folder is ever trusted, which keeps
  Gemini from the material's GEMINI.md too: where the user trusts that, its text is copied.
- Even then it takes a key from an `.env` of the folder, unless `ignoreLocalEnv` is set, and the
  folder's helper agents, unless there are none at all.
- A word that begins with @ in GEMINI.md is replaced by a file, or by a note that there is none.
  Only the flat format leaves the text as it was written.
- What a helper agent does is not told by protocol: another reason to have none.
- A failing model is tried again up to ten times, for minutes, without a word.
- A command that it takes for harmless runs unasked even where a rule says to ask, unless the rule
  has a pattern for its arguments.
- A rule of priority 950 is taken for a standing yes of the user's, and passed over.
- In a folder that is not trusted it starts no server at all, so our tools are commands.

All of it blocks: not for the event loop.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from coterie.agents.acp.adapter import AcpHome
from coterie.model.flags import words
from coterie.model.team import Member, Mode
from coterie.model.workspace import ToolCommands, Workspace
from coterie.workspace import homes

REHEARSAL_MODEL = "gemini-2.5-pro"
"""The default is a router, which asks another model first."""
_DOCUMENT = "GEMINI.md"
UNATTENDED = {"NO_BROWSER": "true", "NO_COLOR": "1"}
"""Where a person sits, it may show colours, and a browser to sign in."""
_ATTEMPTS = 2
"""A second one after some five seconds; a third would come after twelve more, in silence, where
Coterie itself tries a failed turn again and says so."""
_REAL = "GEMINI_API_|GOOGLE_|CODE_ASSIST_"
"""Variables that would lead a rehearsal to a real model."""
_OAUTH, _BY_KEY, _VERTEX = "oauth-personal", "gemini-api-key", "vertex-ai"
_WRITING = ("write_file", "replace")
_SHELL = "run_shell_command"
_HARMLESS = words(
    "update_topic write_todos list_background_processes read_background_output "
    "discovered_tool_ask_human discovered_tool_hand_over"
)
"""They touch nothing but Gemini itself, or are ours."""


def prepare(member: Member, workspace: Workspace) -> AcpHome:
    """Write what Gemini is to find, each time anew, so that edits of the team reach it."""
    cwd = workspace.execution_dir.resolve()
    home = homes.private_folder(workspace.home / ".gemini")
    signed_in = _link_logins(home, workspace)
    settings = _settings(_sign_in(workspace, signed_in=signed_in), workspace.tools)
    homes.write_private(home / "settings.json", json.dumps(settings, indent=2) + "\n")
    homes.write_private(home / _DOCUMENT, homes.briefing(member, workspace, (_DOCUMENT,)) + "\n")
    rules = homes.private_folder(home / "policies")
    homes.write_private(rules / "coterie.toml", _rules(member.permissions.mode, workspace.tools))
    model = member.model or (REHEARSAL_MODEL if workspace.rehearsal is not None else None)
    return AcpHome(
        cwd,
        _environment(workspace),
        args=("--model", model) if model else (),
        reads_only=True,
        # It would start no server in a folder that it does not trust.
        takes_commands=True,
        sign_in="Start gemini in a terminal and sign in, or set GEMINI_API_KEY.",
    )


def _settings(sign_in: str, tools: ToolCommands | None) -> Mapping[str, object]:
    ours = {"discoveryCommand": tools.listing, "callCommand": tools.calling} if tools else {}
    return {
        "advanced": {"ignoreLocalEnv": True},
        "context": {
            "importFormat": "flat",
            # Outside git it would list our own folder, with the names of the others.
            "includeDirectoryTree": False,
            "memoryBoundaryMarkers": [],
        },
        "experimental": {"enableAgents": False},
        "general": {
            "enableAutoUpdate": False,
            "enableAutoUpdateNotification": False,
            "maxAttempts": _ATTEMPTS,
            # Its own mode for planning, which it would ask to enter and to leave.
            "plan": {"enabled": False},
            "sessionRetention": {"enabled": False},
        },
        "hooksConfig": {"enabled": False},
        "ide": {"enabled": False},
        "privacy": {"usageStatisticsEnabled": False},
        "security": {
            "auth": {"selectedType": sign_in},
            # "For this task" is our rule, never the CLI's own.
            "disableAlwaysAllow": True,
            # Off, so that the variable decides: with this on, a headless run would be refused.
            "folderTrust": {"enabled": False},
        },
        "telemetry": {"enabled": False},
        # Else it tells nothing of what a command printed.
        "tools": {"shell": {"enableInteractiveShell": False}, **ours},
    }


def _rules(mode: Mode, tools: ToolCommands | None) -> str:
    """What Gemini is to ask about: where it is Coterie that it asks, about all that it would do.

    Without the protocol nobody can be asked: there Gemini itself has only the tools that look.
    """
    rules: list[Mapping[str, object]] = []
    if mode == "read":
        rules.append({"toolName": [*_WRITING, _SHELL], "priority": 970, "decision": "deny"})
    if tools is not None:
        asking = {"decision": "ask_user", "interactive": True}
        rules += [
            {"toolName": "*", "priority": 900, **asking},
            {"toolName": _SHELL, "argsPattern": ".", "priority": 901, **asking},
            {"toolName": list(_HARMLESS), "priority": 990, "decision": "allow"},
        ]
    return "\n".join(map(_rule, rules))


def _rule(given: Mapping[str, object]) -> str:
    # What JSON spells TOML spells alike.
    lines = (f"{name} = {json.dumps(value)}" for name, value in given.items())
    return "\n".join(["[[rule]]", *lines]) + "\n"


def _link_logins(home: Path, workspace: Workspace) -> bool:
    """Link the user's login with Google and the key, wherever it is; whether there is a login."""
    homes.link_login(home / "gemini-credentials.json", ".gemini/gemini-credentials.json", workspace)
    # From a folder that is not trusted Gemini looks for it one folder further up.
    homes.link_login(workspace.home / ".env", ".gemini/.env", workspace)
    return homes.link_login(home / "oauth_creds.json", ".gemini/oauth_creds.json", workspace)


def _sign_in(workspace: Workspace, *, signed_in: bool) -> str:
    """The way to sign in that the user chose, else the one there is something for.

    Without a login Google's way is never named: Gemini would ask for one on the process.
    """
    if workspace.rehearsal is not None:
        return _BY_KEY
    home, chosen = workspace.user_home, None
    if home is not None:
        settings = home / ".gemini" / "settings.json"
        chosen = homes.text_in(settings, "security", "auth", "selectedType")
    if chosen is not None and (chosen != _OAUTH or signed_in):
        return chosen
    if workspace.env.get("GOOGLE_GENAI_USE_VERTEXAI") == "true":
        return _VERTEX
    return _OAUTH if signed_in and "GEMINI_API_KEY" not in workspace.env else _BY_KEY


def _environment(workspace: Workspace) -> dict[str, str]:
    env = dict(workspace.env)
    if workspace.rehearsal is not None:
        key, url = homes.REHEARSAL_KEY, workspace.rehearsal
        login = {"GEMINI_API_KEY": key, "GOOGLE_GEMINI_BASE_URL": url}
        env = homes.rehearsal_env(env, _REAL, login)
    return {
        # Else it starts itself a second time: twice the memory, half the speed.
        "GEMINI_CLI_NO_RELAUNCH": "true",
        **UNATTENDED,
        **env,
        "GEMINI_CLI_TRUST_WORKSPACE": "false",
    }
