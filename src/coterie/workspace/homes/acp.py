"""The homes of agents that are spoken to by the Agent Client Protocol.

Of a program nobody here knows, nothing can be written: it gets an empty home, an environment
without keys, and who it is in front of its first message.  A few are known, and without a word
of ours would run what a repository brings along: measured with Qwen Code 0.15.10 and OpenCode
1.18.33.  All of it blocks: not for the event loop.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from coterie.model.agent import AgentDefinition
from coterie.model.team import Member
from coterie.model.workspace import Workspace
from coterie.workspace.homes.files import (
    TEAM_INSTRUCTION,
    instruction_text,
    link_private,
    private_folder,
    remove_private,
    write_instruction,
    write_private,
)
from coterie.workspace.worktree import top_of

KEY = "rehearsal"
"""Stands where an API key would, in a rehearsal."""
_MODEL = "rehearsal"
_DOCUMENT = 32 * 1024
"""So much of the material's own instructions is read."""
_REHEARSING = ("OPENAI", "ANTHROPIC", "GEMINI", "GOOGLE", "OPENROUTER", "DASHSCOPE")
"""Whose variables might lead a rehearsal to a real model."""


@dataclass(frozen=True)
class AcpHome:
    """What an agent's process is started with."""

    cwd: Path
    """Where it works, without links."""
    env: Mapping[str, str]
    args: tuple[str, ...] = ()
    introduction: str = ""
    """What stands in front of the first message of a thread."""
    reads_only: bool = False
    """Whether it has no tool that writes."""
    takes_commands: bool = False
    """Whether its home says how to call our tools, as it would start no server for them."""
    problem: str | None = None
    """Why it must not be started here."""


@dataclass(frozen=True)
class _Known:
    """What is peculiar to one program, for one member."""

    env: Mapping[str, str] = field(default_factory=dict[str, str])
    args: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    """Instructions of the material that it was kept from reading by itself."""
    reads_only: bool = False
    takes_commands: bool = False
    problem: str | None = None


def prepare(agent: AgentDefinition, member: Member, workspace: Workspace) -> AcpHome:
    """Write what the agent is to find, each time anew, so that edits of the team reach it."""
    cwd = workspace.execution_dir.resolve()
    reference = f"What everyone in the team is told stands in {TEAM_INSTRUCTION}: read it first."
    write_instruction(workspace.folder / "AGENTS.md", instruction_text(member, reference))
    know = _KNOWN.get(PurePath(agent.command).stem.lower()) or _KNOWN.get(agent.name)
    known = know(member, workspace, cwd) if know else _Known()
    return AcpHome(
        cwd=cwd,
        env={**_environment(workspace), **known.env},
        args=known.args,
        introduction=_introduction(member, workspace, documents_of(cwd, known.documents)),
        reads_only=known.reads_only,
        takes_commands=known.takes_commands,
        problem=known.problem,
    )


def _introduction(member: Member, workspace: Workspace, documents: str) -> str:
    parts = [member.system_instruction.strip(), workspace.team_instruction.strip()]
    if workspace.trusted and documents:
        parts.append(f"The project's own instructions:\n\n{documents}")
    said = "\n\n".join(part for part in parts if part)
    return f"[SYSTEM]\n{said}\n\n" if said else ""


def _environment(workspace: Workspace) -> dict[str, str]:
    if workspace.rehearsal is None:
        return dict(workspace.env)
    kept = {
        name: value for name, value in workspace.env.items() if not name.startswith(_REHEARSING)
    }
    url, direct = workspace.rehearsal, "127.0.0.1,localhost"
    return {
        **kept,
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": KEY,
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": KEY,
        "NO_PROXY": direct,
        "no_proxy": direct,
    }


def link_login(link: Path, place: str, workspace: Workspace) -> bool:
    """Let what stands at this place of the user's home serve this member; whether there is one.

    For programs that write a renewed login into the file itself: it goes through the link.
    """
    login = None
    if workspace.user_home is not None and workspace.rehearsal is None:
        login = workspace.user_home / place
    if login is not None and login.is_file():
        link_private(link, login)
    elif link.is_symlink():
        remove_private(link)
    return link.exists()


# -- the material's own instructions -----------------------------------------------------------


def documents_of(cwd: Path, names: Sequence[str]) -> str:
    """What files of these names say, from the root of the repository down to here."""
    up = [cwd, *cwd.parents]
    root = top_of(cwd) or cwd
    folders = reversed(up[: up.index(root) + 1])
    found = (_document(folder / name, root) for folder in folders for name in names)
    return "\n\n".join(said for said in found if said)[:_DOCUMENT]


def _document(path: Path, root: Path) -> str:
    found = path.resolve()
    # A link may lead to another file of the material, not to one of the user's.
    if not (found.is_file() and found.is_relative_to(root)):
        return ""
    with found.open(encoding="utf-8", errors="replace") as file:
        return file.read(_DOCUMENT).strip()


# -- Qwen Code ---------------------------------------------------------------------------------


_ASKED = ("Bash", "Edit", "Glob", "Grep", "ListFiles", "Monitor", "Read", "WebFetch", "Write")
"""It has to ask Coterie about these, also about what it takes for harmless."""


def _qwen(member: Member, workspace: Workspace, cwd: Path) -> _Known:
    """A folder that is not trusted has no settings, hooks, servers and variables of its own.

    It has none of ours either, so our tools are commands.
    """
    home = private_folder(workspace.home / ".qwen")
    # Agents and skills of a folder are told to the model all the same.
    without = ["agent", "skill"]
    reads_only = member.permissions.mode == "read"
    if reads_only:
        without += ["edit", "write_file", "run_shell_command", "monitor"]
    tools: dict[str, object] = {"exclude": without}
    asked: tuple[str, ...] = ()
    if workspace.tools is not None:
        ours, asked = workspace.tools, _ASKED
        tools |= {"discoveryCommand": ours.listing, "callCommand": ours.calling}
    settings = {
        "general": {"enableAutoUpdate": False},
        # Else a second conversation follows every turn, about what to remember.
        "memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False},
        "permissions": {"ask": list(asked)},
        "privacy": {"usageStatisticsEnabled": False},
        "security": {"folderTrust": {"enabled": True}},
        "telemetry": {"enabled": False},
        "tools": tools,
    }
    write_private(home / "settings.json", json.dumps(settings) + "\n")
    write_private(home / "trustedFolders.json", json.dumps({str(cwd): "DO_NOT_TRUST"}) + "\n")
    rehearsing = workspace.rehearsal is not None
    # It would start itself a second time.
    alone = {"QWEN_CODE_NO_RELAUNCH": "true"}
    return _Known(
        env={**alone, "OPENAI_MODEL": _MODEL} if rehearsing else alone,
        args=("--auth-type", "openai") if rehearsing else (),
        documents=("QWEN.md", "AGENTS.md"),
        reads_only=reads_only,
        takes_commands=True,
    )


# -- OpenCode ----------------------------------------------------------------------------------

_LOOKING = ("read", "glob", "grep", "list")
_HARMLESS = dict.fromkeys(("todoread", "todowrite", "coterie_*"), "allow")
"""They touch nothing but OpenCode itself, or are ours."""


def _opencode(member: Member, workspace: Workspace, cwd: Path) -> _Known:
    """It would run everything unasked, and does not ask about what a repository brings along."""
    home = private_folder(private_folder(workspace.home / ".config") / "opencode")
    write_private(home / "opencode.json", json.dumps(_opencode_settings(workspace)) + "\n")
    share = private_folder(private_folder(workspace.home / ".local") / "share")
    login = private_folder(share / "opencode") / "auth.json"
    link_login(login, ".local/share/opencode/auth.json", workspace)
    reads_only = member.permissions.mode == "read"
    others = {"*": "deny" if reads_only else "ask"}
    looking: dict[str, str] = dict.fromkeys(_LOOKING, "allow")
    if workspace.tools is not None:
        # It would ask about a folder besides what is done there, which is asked about anyway.
        looking = {**dict.fromkeys(_LOOKING, "ask"), "external_directory": "allow"}
    # What a helper of its own does, it does not tell.
    no_helpers = {"task": "deny", "skill": "deny"}
    allowed = {**others, **looking, "webfetch": "ask", **_HARMLESS, **no_helpers}
    env = {
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_CLAUDE_CODE": "1",
        "OPENCODE_DISABLE_EXTERNAL_SKILLS": "1",
        "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
        "OPENCODE_PERMISSION": json.dumps(allowed),
    }
    if workspace.rehearsal is not None:
        env |= {
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            # Else it fetches its plug-in package into every folder of settings.
            "npm_config_offline": "true",
        }
    return _Known(
        env=env,
        documents=("AGENTS.md",),
        reads_only=reads_only,
        problem=_plugins_of(cwd, workspace),
    )


def _opencode_settings(workspace: Workspace) -> Mapping[str, object]:
    settings: dict[str, object] = {"autoupdate": False, "share": "disabled"}
    if workspace.rehearsal is None:
        return settings
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Rehearsal",
        "options": {"baseURL": f"{workspace.rehearsal}/v1", "apiKey": KEY},
        "models": {_MODEL: {"name": "Rehearsal"}},
    }
    model = f"{_MODEL}/{_MODEL}"
    return {
        **settings,
        "model": model,
        "small_model": model,
        "enabled_providers": [_MODEL],
        "provider": {_MODEL: provider},
    }


def _plugins_of(cwd: Path, workspace: Workspace) -> str | None:
    """Why it cannot be started here: it imports a repository's plug-ins, whatever it is told."""
    root = top_of(cwd)
    up = [cwd, *cwd.parents]
    folders = up[: up.index(root) + 1] if root else up
    own = workspace.user_home.resolve() if workspace.user_home else None
    for folder in folders:
        for name in ("opencode.json", "opencode.jsonc", ".opencode"):
            # In the user's own home this is where the program itself is installed.
            if folder != own and (folder / name).exists():
                return (
                    f"it would run the plug-ins of {folder / name}, and nothing can keep it from "
                    "that; move it away, or give the member another agent"
                )
    return None


_KNOWN: Mapping[str, Callable[[Member, Workspace, Path], _Known]] = {
    "opencode": _opencode,
    "qwen": _qwen,
}
"""By the name of the program, else of the agent."""
