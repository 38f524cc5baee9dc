"""What a command of a member may see and change: the data that every sandbox is built from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from coterie.model.workspace import Workspace
from coterie.tools.ground import COTERIE, GIT
from coterie.workspace.worktree import Worktree

TOOLCHAINS = (
    ".asdf",
    ".bun",
    ".cargo/bin",
    ".deno",
    ".local/bin",
    ".local/lib",
    ".local/share/mise/installs",
    ".local/share/mise/shims",
    ".local/share/pnpm",
    ".local/share/uv/python",
    ".local/share/uv/tools",
    ".nvm",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".sdkman",
    ".volta",
    "go",
)
"""Where people keep compilers and interpreters below their home; none of them holds a secret."""
BESIDE_PROGRAMS = ("lib", "lib64", "libexec")
RUN_BY_GIT = ("config", "hooks")
"""What git would run or obey later, outside any sandbox."""


@dataclass(frozen=True)
class Confines:
    """Folders and files by what may be done with them; of two that contain each other the inner
    counts.  What is in none of them may be read."""

    writable: tuple[Path, ...]
    hidden: tuple[Path, ...] = ()
    read_only: tuple[Path, ...] = ()
    tmp: Path | None = None
    """What `/tmp` is, where that can be arranged."""


def confines(root: Path, workspace: Workspace) -> Confines:
    """The confines of a member whose work folder, without links, is `root`; blocks.

    It writes in its work folder, its home and its folder for temporary files.  It sees neither
    the user's home nor what is Coterie's, but for what it needs of them to work.
    """
    tmp = workspace.tmp.resolve()
    folder = workspace.folder.resolve()
    shared = folder.parent / "_shared_assets"
    return Confines(
        writable=_present(root, workspace.home, tmp, *_git_writes(root)),
        hidden=_present(*_homes(workspace), *_coterie_folders(root, folder)),
        read_only=_present(folder, shared, *_git_runs(root), *_programs(workspace)),
        tmp=tmp,
    )


def _present(*paths: Path) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(path.resolve() for path in paths if path.exists()))


def _homes(workspace: Workspace) -> Iterator[Path]:
    home = workspace.user_home
    if home is not None and home.resolve() != Path("/"):
        yield home


def _coterie_folders(root: Path, folder: Path) -> Iterator[Path]:
    yield root / COTERIE
    yield from (above for above in folder.parents if above.name == COTERIE)


def _git_writes(root: Path) -> Iterator[Path]:
    """What `git commit` needs to write, where that is not simply in the work folder."""
    worktree = Worktree.around(root)
    if worktree is not None:
        yield from worktree.changed_by_commits
    elif (root / GIT).is_dir():
        yield root / GIT  # named by itself, so that it cannot be moved away with what it guards


def _git_runs(root: Path) -> Iterator[Path]:
    yield from (root / GIT / name for name in RUN_BY_GIT)


def _programs(workspace: Workspace) -> Iterator[Path]:
    """What is needed of the user's home to run programs that are installed there."""
    home = workspace.user_home
    if home is None:
        return
    yield from (home / name for name in TOOLCHAINS)
    for place in map(Path, workspace.env.get("PATH", "").split(":")):
        if place.is_absolute() and place.is_relative_to(home) and place != home:
            yield place
            yield from (place.parent / name for name in BESIDE_PROGRAMS)
