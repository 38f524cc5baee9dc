"""Open a member's CLI for a person, who then talks to it without Coterie."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from coterie.agents.table import KNOWN_AGENTS, interactive_start
from coterie.app.run import Members
from coterie.errors import AgentMissing, UsageError
from coterie.model.team import Member
from coterie.process.launch import Spawn, exec_program


def by_hand(members: Members, member: Member) -> tuple[Spawn, Path | None]:
    """Return how to start a member's CLI by hand, with its role, model, arguments, folder, home and
    environment; and the file that states its role, if the CLI cannot be given it.  Blocks."""
    agent = members.adapters.agents.get(member.agent or "")
    if agent is None or KNOWN_AGENTS.is_part_of_coterie(agent):
        raise UsageError(
            f"{member.id} has no program to open.", f'coterie do --as {member.id} "what to do"'
        )
    workspace = members.workspace(member)
    start = interactive_start(agent, member, workspace)
    cwd, folder = str(workspace.execution_dir), workspace.folder
    spawn = Spawn(agent.command, start.words, cwd, start.env, member.id, str(folder))
    knows_role = start.has_role or not member.system_instruction.strip()
    return spawn, None if knows_role else folder / KNOWN_AGENTS.instruction_file(agent).name


def open_by_hand(spawn: Spawn) -> NoReturn:
    """Replace this process with a member's CLI; raises AgentMissing if it cannot be started."""
    try:
        exec_program(spawn)
    except OSError as error:
        raise AgentMissing(spawn.member, spawn.cwd, spawn.command, str(error)) from None
