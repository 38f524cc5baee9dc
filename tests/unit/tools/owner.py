"""A minimal Coterie to be killed or measured: runs one command of a member.

    owner.py FOLDER KIND MARK COMMAND

When the command has ended, prints the growth in peak memory in KiB and the number of characters
of output.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import anyio

from coterie.tools.run_command import CommandRunner
from coterie.tools.sandbox import Sandbox
from tests.unit.tools.member_project import Log, member_project


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


async def main(commands: CommandRunner, command: str) -> None:
    await commands.run("true", 60)
    before = peak()
    ran = await commands.run(command, 60)
    print(peak() - before, len(ran.output), flush=True)


if __name__ == "__main__":
    folder, kind, mark, command = sys.argv[1:]
    shop = member_project(Path(folder))
    held = Sandbox(kind)  # type: ignore[arg-type]
    commands = CommandRunner("ann", shop.root.path, shop.workspace, Log(mark=mark), held)
    anyio.run(main, commands, command)
