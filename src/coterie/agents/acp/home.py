"""The home of an agent that is spoken to by the Agent Client Protocol.

Of a program nobody here knows, nothing can be written: it gets an empty home, an environment
without keys, and who it is in front of its first message.  A vendor whose program would run what
a repository brings along says in a package of its own how to keep it from that.  All of it
blocks: not for the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from coterie.model.team import Member
from coterie.model.workspace import Workspace
from coterie.workspace.homes import (
    REHEARSAL_KEY,
    TEAM_INSTRUCTION,
    briefing,
    instruction_text,
    write_instruction,
)

REHEARSAL_MODEL = "rehearsal"
_REHEARSING = ("OPENAI", "ANTHROPIC", "GEMINI", "GOOGLE", "OPENROUTER", "DASHSCOPE")
"""Whose variables might lead a rehearsal to a real model."""


@dataclass(frozen=True)
class ProgramSetup:
    """What is peculiar to one program, for one member."""

    env: Mapping[str, str] = field(default_factory=dict[str, str])
    args: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    """Instructions of the material that it was kept from reading by itself."""
    reads_only: bool = False
    """Whether it has no tool that writes."""
    takes_commands: bool = False
    """Whether its home says how to call our tools, as it would start no server for them."""
    problem: str | None = None
    """Why it must not be started here."""


SetUp = Callable[[Member, Workspace, Path], ProgramSetup]
"""Writes what a program is to find in a member's home; the path is where the member works."""


@dataclass(frozen=True)
class AcpHome:
    """What an agent's process is started with."""

    cwd: Path
    """Where it works, without links."""
    env: Mapping[str, str]
    setup: ProgramSetup
    introduction: str = ""
    """What stands in front of the first message of a thread."""


def nothing_known(_member: Member, _workspace: Workspace, _cwd: Path) -> ProgramSetup:
    """The setup of a program that nobody here knows."""
    return ProgramSetup()


def prepare(member: Member, workspace: Workspace, set_up: SetUp = nothing_known) -> AcpHome:
    """Write what the agent is to find, each time anew, so that edits of the team reach it."""
    cwd = workspace.execution_dir.resolve()
    reference = f"What everyone in the team is told stands in {TEAM_INSTRUCTION}: read it first."
    write_instruction(workspace.folder / "AGENTS.md", instruction_text(member, reference))
    setup = set_up(member, workspace, cwd)
    told = briefing(member, workspace, setup.documents)
    return AcpHome(
        cwd=cwd,
        env={**_environment(workspace), **setup.env},
        setup=setup,
        introduction=f"[SYSTEM]\n{told}\n\n" if told else "",
    )


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
        "OPENAI_API_KEY": REHEARSAL_KEY,
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": REHEARSAL_KEY,
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": REHEARSAL_KEY,
        "NO_PROXY": direct,
        "no_proxy": direct,
    }
