"""A member's CLI, opened by hand: for a person, who then speaks to it without Coterie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from coterie.agents.table import KNOWN_AGENTS, interactive_start
from coterie.app.run import Members
from coterie.errors import AgentMissing, UsageError
from coterie.model.team import Member
from coterie.process.launch import exec_program


@dataclass(frozen=True)
class ByHand:
    """A member's CLI as a person starts it."""

    member: str
    words: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    folder: Path
    instruction: str
    """The file in its folder that says its role."""
    is_told: bool
    """Whether the CLI itself is told the role."""


def by_hand(members: Members, member: Member) -> ByHand:
    """How a member's CLI is started by hand, with its role, model, arguments, folder, home and
    environment.  Blocks."""
    agent = members.adapters.agents.get(member.agent or "")
    if agent is None or KNOWN_AGENTS.is_part_of_coterie(agent):
        raise UsageError(
            f"{member.id} has no program to open.", f'coterie do --as {member.id} "what to do"'
        )
    workspace = members.workspace(member)
    start = interactive_start(agent, member, workspace)
    return ByHand(
        member.id,
        (agent.command, *start.words),
        workspace.execution_dir,
        start.env,
        workspace.folder,
        KNOWN_AGENTS.instruction_file(agent).name,
        start.is_told or not member.system_instruction.strip(),
    )


def open_by_hand(started: ByHand) -> NoReturn:
    """Replace this process by a member's CLI; raises AgentMissing if it cannot be started."""
    try:
        exec_program(started.words, started.cwd, started.env)
    except OSError as error:
        program = started.words[0]
        raise AgentMissing(started.member, str(started.cwd), program, str(error)) from None
