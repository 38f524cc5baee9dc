"""Folders of a project and of its members: where they are and what a member's process sees."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


def shown(path: Path) -> str:
    """A path as a person would type it from here."""
    for base, prefix in ((Path.cwd, ""), (Path.home, "~/")):
        with contextlib.suppress(ValueError, RuntimeError, OSError):
            inside = path.relative_to(base())
            return f"{prefix}{inside}" if inside.parts else str(path)
    return str(path)


TEAM_INSTRUCTION = "team_instruction.md"
"""The team's text, beside the members' folders."""
SHARED_ASSETS = "_shared_assets"
"""The folder beside them with files that all of them may look at."""
OURS = "<!-- Written by Coterie from the team file. Without this line it is yours and is kept. -->"
"""The first line of an instruction file that is written anew; one without it is a person's."""
UNWRITTEN = "<!-- What every member of this team is told: write it below this line. -->"
"""The first line of a team's text that nobody has written yet."""

START_FILES = (
    ".bash_aliases .bash_login .bash_logout .bash_profile .bashrc .cshrc .env .exrc .gdbinit "
    ".gitattributes .gitconfig .inputrc .kshrc .login .logout .mkshrc .npmrc .pam_environment "
    ".pdbrc .profile .pythonrc .shrc .tcshrc .vimrc .xonshrc .yarnrc .yarnrc.yml .zlogin .zlogout "
    ".zprofile .zshenv .zshrc .config/environment.d .config/fish .config/git .config/nushell "
    ".config/powershell .config/xonsh .local/share/fish .oh-my-zsh .ssh/config .ssh/rc"
)
"""What shells, git and other programs run or obey as they start, below a home."""

UNFINISHED = ".coterie-" + "[0-9a-f]" * 12
"""Matches the names of files that are about to be put in place; one that a crash left behind is
nobody's work."""


def unfinished_name() -> str:
    """A new name of that kind."""
    return f".coterie-{secrets.token_hex(6)}"


@dataclass(frozen=True)
class ToolCommands:
    """Tools of ours, for agents that know tools as commands."""

    listing: str
    """A command line that prints which there are."""
    calling: str
    """A program that calls the one it is given the name of."""


@dataclass(frozen=True)
class Workspace:
    """Where a member lives and works; made by `workspace.folder`."""

    folder: Path
    home: Path
    tmp: Path
    execution_dir: Path
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """The whole environment of the member's process; nothing is inherited besides."""
    others: Mapping[str, str] = field(default_factory=dict[str, str])
    """The other members of the team, by id, each with its role."""
    team_instruction: str = ""
    """What every member of the team is told, besides its own role."""
    trusted: bool = False
    """Whether the user has trusted the material: then its own instruction files count as text."""
    user_home: Path | None = None
    """The user's own home, where signing in was done; credentials are linked, never copied."""
    rehearsal: str | None = None
    """The address of a stand-in for the model, where this is only a rehearsal."""
    model_variables: tuple[str, ...] = ()
    """How variables begin that the member's commands do not see: keys and addresses of models."""
    tools: ToolCommands | None = None
    """What its agent finds tools of ours by, where it is spoken to by Coterie."""


@dataclass(frozen=True)
class InteractiveStart:
    """How a member's CLI is started for a person, who then speaks to it without Coterie."""

    words: tuple[str, ...]
    """What follows the program."""
    env: Mapping[str, str]
    is_told: bool = True
    """Whether it is told the member's role by these, or by what is in its home."""
