"""The folders of a project and its members: where they are and what a member's process sees."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


def shown(path: Path) -> str:
    """A path as a person would type it in the current folder."""
    for base, prefix in ((Path.cwd, ""), (Path.home, "~/")):
        with contextlib.suppress(ValueError, RuntimeError, OSError):
            inside = path.relative_to(base())
            return f"{prefix}{inside}" if inside.parts else str(path)
    return str(path)


def branch_of(session: str, name: str) -> str:
    """A branch of a session: of a ticket, of its approved work, or of a build's change."""
    return f"coterie/{session}/{name}"


def dropped_ref(session: str, number: int | str = "") -> str:
    """The ref of a build's work that was reverted before it was accepted, by the number of the
    revert; without it, what such refs begin with."""
    return f"refs/coterie/dropped/{session}/{number}"


TEAM_INSTRUCTION = "team_instruction.md"
"""The file with the team's instruction, next to the members' folders."""
SHARED_ASSETS = "_shared_assets"
"""The folder, also next to them, with files that all members may read."""
OURS = "<!-- Written by Coterie from the team file. Without this line it is yours and is kept. -->"
"""The first line of a generated instruction file; a file without it is never overwritten."""
UNWRITTEN = "<!-- What every member of this team is told: write it below this line. -->"
"""The first line of a team instruction that nobody has written yet."""

START_FILES = (
    ".bash_aliases .bash_login .bash_logout .bash_profile .bashrc .cshrc .env .exrc .gdbinit "
    ".gitattributes .gitconfig .inputrc .kshrc .login .logout .mkshrc .npmrc .pam_environment "
    ".pdbrc .profile .pythonrc .shrc .tcshrc .vimrc .xonshrc .yarnrc .yarnrc.yml .zlogin .zlogout "
    ".zprofile .zshenv .zshrc .config/environment.d .config/fish .config/git .config/nushell "
    ".config/powershell .config/xonsh .local/share/fish .oh-my-zsh .ssh/config .ssh/rc"
)
"""Files in a home folder that shells, git and other programs run or obey when they start."""

UNFINISHED = ".coterie-" + "[0-9a-f]" * 12
"""A glob for temporary files that are about to be renamed into place; one left behind by a crash is
not part of anybody's work."""


def unfinished_name() -> str:
    """A new name that matches UNFINISHED."""
    return f".coterie-{secrets.token_hex(6)}"


@dataclass(frozen=True)
class ToolCommands:
    """Coterie's tools, for agents that use tools as commands."""

    listing: str
    """A command line that lists the tools."""
    calling: str
    """A program that calls the tool whose name it is given."""


@dataclass(frozen=True)
class Workspace:
    """Where a member lives and works; created by `workspace.folder`."""

    folder: Path
    home: Path
    tmp: Path
    execution_dir: Path
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """The complete environment of the member's process; it inherits nothing else."""
    others: Mapping[str, str] = field(default_factory=dict[str, str])
    """The other members of the team, by id, each with its role."""
    team_instruction: str = ""
    """The instruction for every member of the team, in addition to its own role."""
    trusted: bool = False
    """Whether the user trusts the material: its instruction files are then passed on as text."""
    user_home: Path | None = None
    """The user's own home, with the login; credentials are linked, never copied."""
    rehearsal: str | None = None
    """The address of a stand-in for the model, if this is a rehearsal."""
    model_variables: tuple[str, ...] = ()
    """Prefixes of variables hidden from the member's commands: keys and addresses of models."""
    tools: ToolCommands | None = None
    """How its agent finds Coterie's tools when Coterie runs it."""


@dataclass(frozen=True)
class InteractiveStart:
    """How to start a member's CLI for a person, who then uses it without Coterie."""

    words: tuple[str, ...]
    """The arguments of the program."""
    env: Mapping[str, str]
    has_role: bool = True
    """Whether these, or the files in its home, state the member's role."""
