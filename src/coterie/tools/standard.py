"""The toolbox that a member of the built-in agent gets."""

from __future__ import annotations

from collections.abc import Iterable

import anyio.to_thread

from coterie.model.workspace import Workspace
from coterie.ports import ChildLog
from coterie.tools.commands import Commands
from coterie.tools.edit_file import EditFile
from coterie.tools.grep import Grep
from coterie.tools.ground import Ground
from coterie.tools.list_files import ListFiles
from coterie.tools.read_file import ReadFile
from coterie.tools.run_command import RunCommand
from coterie.tools.seen import Seen
from coterie.tools.toolbox import Tool, Toolbox


async def open_toolbox(
    member: str,
    workspace: Workspace,
    children: ChildLog,
    more: Iterable[Tool] = (),
    seen: Seen | None = None,
) -> Toolbox:
    """The tools for the files and commands of a member's workspace, and more from elsewhere.

    `seen` is what the member has read before, where it goes on after a restart.
    """
    ground = await anyio.to_thread.run_sync(ground_of, workspace)
    commands = await Commands.of(member, workspace, children)
    known = Seen() if seen is None else seen
    tools: list[Tool] = [
        ReadFile(ground, known),
        EditFile(ground, known),
        ListFiles(ground),
        Grep(ground, workspace.env.get("PATH", "")),
        RunCommand(commands),
        *more,
    ]
    return Toolbox(ground.root, commands, tools)


def ground_of(workspace: Workspace) -> Ground:
    """Where a member's tools may go: its work folder, and its own part of `.coterie`; blocks."""
    folder = workspace.folder
    return Ground.at(workspace.execution_dir, (folder, folder.parent / "_shared_assets"))
