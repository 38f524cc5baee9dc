"""A Gemini member's home: its settings, its GEMINI.md, its rules and its login.

Eight properties of Gemini CLI 0.61 determine what is written here:

- Opening a folder that it trusts activates the folder's MCP servers, hooks, commands and variables,
  and its settings may let every tool run unasked.  So no folder is ever trusted, which also keeps
  Gemini from reading the project's GEMINI.md: if the user trusts the project, its text is copied.
- Even then it takes a key from an `.env` in the folder, unless `ignoreLocalEnv` is set, and uses
  the folder's subagents, unless subagents are disabled.
- A word that begins with @ in GEMINI.md is replaced by a file, or by a note that there is none.
  Only the flat format leaves the text as it was written.
- The protocol does not report what a subagent does: another reason to disable them.
- A failing model is retried up to ten times, for minutes, without any message.
- A command that it considers harmless runs unasked even if a rule says to ask, unless the rule
  has a pattern for its arguments.
- A rule of priority 950 is taken for the user's standing yes, and skipped.
- In an untrusted folder it starts no servers at all, so our tools are commands.

All of it blocks: do not call it on the event loop.
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
"""Not set for a person: then it may use colours, and open a browser to sign in."""
_ATTEMPTS = 2
"""The second comes after some five seconds; a third would come after twelve more, in silence,
whereas Coterie itself retries a failed turn and says so."""
_REAL = "GEMINI_API_|GOOGLE_|CODE_ASSIST_"
"""Variables that would lead a rehearsal to a real model."""
_OAUTH, _BY_KEY, _VERTEX = "oauth-personal", "gemini-api-key", "vertex-ai"
_WRITING = ("write_file", "replace")
_SHELL = "run_shell_command"
_HARMLESS = words(
    "update_topic write_todos list_background_processes read_background_output "
    "discovered_tool_ask_human discovered_tool_hand_over"
)
"""They affect only Gemini itself, or are ours."""


def prepare(member: Member, workspace: Workspace) -> AcpHome:
    """Rewrite the member's home on every start, so that edits to the team take effect."""
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
        # It starts no servers in an untrusted folder.
        tools_as_commands=True,
        sign_in="Start gemini in a terminal and sign in, or set GEMINI_API_KEY.",
    )


def _settings(sign_in: str, tools: ToolCommands | None) -> Mapping[str, object]:
    ours = {"discoveryCommand": tools.listing, "callCommand": tools.calling} if tools else {}
    return {
        "advanced": {"ignoreLocalEnv": True},
        "context": {
            "importFormat": "flat",
            # Outside git it would list our own folder, with the other members' names.
            "includeDirectoryTree": False,
            "memoryBoundaryMarkers": [],
        },
        "experimental": {"enableAgents": False},
        "general": {
            "enableAutoUpdate": False,
            "enableAutoUpdateNotification": False,
            "maxAttempts": _ATTEMPTS,
            # Its own planning mode, which it would ask to enter and to leave.
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
        # Otherwise it reports nothing of what a command printed.
        "tools": {"shell": {"enableInteractiveShell": False}, **ours},
    }


def _rules(mode: Mode, tools: ToolCommands | None) -> str:
    """Return the rules for what Gemini asks about: everything, if it can ask Coterie.

    Without the protocol nobody can be asked: then Gemini itself only has its read-only tools.
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
    # JSON and TOML agree on these values.
    lines = (f"{name} = {json.dumps(value)}" for name, value in given.items())
    return "\n".join(["[[rule]]", *lines]) + "\n"


def _link_logins(home: Path, workspace: Workspace) -> bool:
    """Link the user's Google login and key, wherever it is; return whether there is a login."""
    homes.link_login(home / "gemini-credentials.json", ".gemini/gemini-credentials.json", workspace)
    # In an untrusted folder Gemini looks for it one folder further up.
    homes.link_login(workspace.home / ".env", ".gemini/.env", workspace)
    return homes.link_login(home / "oauth_creds.json", ".gemini/oauth_creds.json", workspace)


def _sign_in(workspace: Workspace, *, signed_in: bool) -> str:
    """Return the sign-in method that the user chose, else one that there are credentials for.

    Google's method is never named without a login: Gemini would ask for one on the process.
    """
    if workspace.rehearsal is not None:
        return _BY_KEY
    home, chosen = workspace.user_home, None
    if home is not None:
        settings = home / ".gemini" / "settings.json"
        chosen = homes.read_json_string(settings, "security", "auth", "selectedType")
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
        # Otherwise it relaunches itself: twice the memory, half the speed.
        "GEMINI_CLI_NO_RELAUNCH": "true",
        **UNATTENDED,
        **env,
        "GEMINI_CLI_TRUST_WORKSPACE": "false",
    }
