"""A Qwen Code member's home, based on how 0.15.10 behaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

from coterie.agents.acp.adapter import REHEARSAL_MODEL, AcpAdapter, AcpHome, SetUp
from coterie.model.team import Member
from coterie.model.workspace import Workspace
from coterie.workspace import homes

_ASKED = ("Bash", "Edit", "Glob", "Grep", "ListFiles", "Monitor", "Read", "WebFetch", "Write")
"""It has to ask Coterie about these, even where it considers a call harmless."""


def set_up(member: Member, workspace: Workspace, cwd: Path) -> AcpHome:
    """Mark the folder as untrusted, so that its settings, hooks, servers and variables are ignored.

    Our own servers would be ignored too, so our tools are commands.
    """
    home = homes.private_folder(workspace.home / ".qwen")
    # The model is told about a folder's agents and skills all the same.
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
        # Otherwise a second conversation follows every turn, about what to remember.
        "memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False},
        "permissions": {"ask": list(asked)},
        "privacy": {"usageStatisticsEnabled": False},
        "security": {"folderTrust": {"enabled": True}},
        "telemetry": {"enabled": False},
        "tools": tools,
    }
    homes.write_private(home / "settings.json", json.dumps(settings) + "\n")
    homes.write_private(home / "trustedFolders.json", json.dumps({str(cwd): "DO_NOT_TRUST"}) + "\n")
    rehearsing = workspace.rehearsal is not None
    # Otherwise it relaunches itself.
    alone = {"QWEN_CODE_NO_RELAUNCH": "true"}
    return AcpHome(
        cwd,
        env={**alone, "OPENAI_MODEL": REHEARSAL_MODEL} if rehearsing else alone,
        args=("--auth-type", "openai") if rehearsing else (),
        documents=("QWEN.md", "AGENTS.md"),
        reads_only=reads_only,
        tools_as_commands=True,
        memory=home / "QWEN.md",
        model_flag="--model",
    )


class QwenAdapter(AcpAdapter):
    """Opens members' channels to Qwen Code."""

    set_up: ClassVar[SetUp] = staticmethod(set_up)
