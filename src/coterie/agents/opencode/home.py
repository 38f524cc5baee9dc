"""An OpenCode member's home, based on how 1.18.33 behaves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from coterie.agents.acp.adapter import REHEARSAL_MODEL, AcpAdapter, AcpHome, SetUp
from coterie.model.team import Member
from coterie.model.workspace import Workspace
from coterie.workspace import homes
from coterie.workspace.worktree import top_of

_LOOKING = ("read", "glob", "grep", "list")
_HARMLESS = dict.fromkeys(("todoread", "todowrite", "coterie_*"), "allow")
"""They affect only OpenCode itself, or are ours."""


def set_up(member: Member, workspace: Workspace, cwd: Path) -> AcpHome:
    """Restrict OpenCode: by default it runs everything unasked, even what a repository contains."""
    home = homes.private_folder(homes.private_folder(workspace.home / ".config") / "opencode")
    homes.write_private(home / "opencode.json", json.dumps(_settings(workspace)) + "\n")
    share = homes.private_folder(homes.private_folder(workspace.home / ".local") / "share")
    login = homes.private_folder(share / "opencode") / "auth.json"
    homes.link_login(login, ".local/share/opencode/auth.json", workspace)
    reads_only = member.permissions.mode == "read"
    others = {"*": "deny" if reads_only else "ask"}
    looking: dict[str, str] = dict.fromkeys(_LOOKING, "allow")
    if workspace.tools is not None:
        # It would ask about the folder as well as the action there, which is asked about anyway.
        looking = {**dict.fromkeys(_LOOKING, "ask"), "external_directory": "allow"}
    # It does not report what its subagents do.
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
            # Otherwise it downloads its plug-in package into every settings folder.
            "npm_config_offline": "true",
        }
    return AcpHome(
        cwd,
        env=env,
        documents=("AGENTS.md",),
        reads_only=reads_only,
        problem=_plugins_of(cwd, workspace),
        memory=home / "AGENTS.md",
        model_flag="--model",
    )


def _settings(workspace: Workspace) -> Mapping[str, object]:
    settings: dict[str, object] = {"autoupdate": False, "share": "disabled"}
    if workspace.rehearsal is None:
        return settings
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Rehearsal",
        "options": {"baseURL": f"{workspace.rehearsal}/v1", "apiKey": homes.REHEARSAL_KEY},
        "models": {REHEARSAL_MODEL: {"name": "Rehearsal"}},
    }
    model = f"{REHEARSAL_MODEL}/{REHEARSAL_MODEL}"
    return {
        **settings,
        "model": model,
        "small_model": model,
        "enabled_providers": [REHEARSAL_MODEL],
        "provider": {REHEARSAL_MODEL: provider},
    }


def _plugins_of(cwd: Path, workspace: Workspace) -> str | None:
    """Return why it cannot be started here: it imports a repository's plug-ins regardless."""
    root = top_of(cwd)
    up = [cwd, *cwd.parents]
    folders = up[: up.index(root) + 1] if root else up
    own = workspace.user_home.resolve() if workspace.user_home else None
    for folder in folders:
        for name in ("opencode.json", "opencode.jsonc", ".opencode"):
            # In the user's own home this is where the program itself is installed.
            if folder != own and (folder / name).exists():
                return (
                    f"it would run the plug-ins of {folder / name}, and nothing can prevent that; "
                    "move it away, or give the member another agent"
                )
    return None


class OpencodeAdapter(AcpAdapter):
    """Opens members' channels to OpenCode."""

    set_up: ClassVar[SetUp] = staticmethod(set_up)
