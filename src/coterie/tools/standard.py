"""The toolbox that a member of the built-in agent gets."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import anyio.to_thread

from coterie.model import instant
from coterie.model.workspace import SHARED_ASSETS, UNFINISHED, Workspace
from coterie.ports import ChildLog
from coterie.tools.edit_file import EditFile
from coterie.tools.read_only_sandbox import read_only_sandbox
from coterie.tools.read_tools import Grep, ListFiles, ReadFile
from coterie.tools.run_command import CommandRunner, RunCommand
from coterie.tools.toolbox import AnyTool, Toolbox
from coterie.tools.workspace_files import FileVersions, WorkspaceRoot

_LONG_AGO = 600.0
"""Seconds after which nobody is still writing a draft."""


async def open_toolbox(
    member: str,
    workspace: Workspace,
    children: ChildLog,
    more: Iterable[AnyTool] = (),
    versions: FileVersions | None = None,
) -> Toolbox:
    """Open the tools for the files and commands of a member's workspace, plus `more` tools.

    `versions` is what the member had already read, if it resumes after a restart.
    """
    root = await anyio.to_thread.run_sync(workspace_root_of, workspace)
    working = await CommandRunner.of(member, workspace, children)
    commands = replace(working, read_only_sandbox=await read_only_sandbox(working.root))
    known = FileVersions() if versions is None else versions
    tools: list[AnyTool] = [
        ReadFile(root, known),
        EditFile(root, known, await anyio.to_thread.run_sync(_drafts_of, workspace)),
        ListFiles(root),
        Grep(root, workspace.env.get("PATH", "")),
        RunCommand(commands),
        *more,
    ]
    return Toolbox(root.path, commands.sandbox, tools)


def _drafts_of(workspace: Workspace) -> Path | None:
    """Return the folder for drafts, after removing old ones that a kill left behind.  Blocks."""
    if not workspace.tmp.is_dir():
        return None
    for draft in workspace.tmp.glob(UNFINISHED):
        with suppress(OSError):
            if instant.seconds_since(draft.lstat().st_mtime) > _LONG_AGO:
                draft.unlink()
    return workspace.tmp


def workspace_root_of(workspace: Workspace) -> WorkspaceRoot:
    """Return where a member's tools may go: its work folder and its part of `.coterie`; blocks."""
    folder = workspace.folder
    return WorkspaceRoot.at(workspace.execution_dir, (folder, folder.parent / SHARED_ASSETS))
