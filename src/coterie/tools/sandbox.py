"""What a command may see and change, and what enforces it: bubblewrap, else Landlock, else nothing.

Neither blocks the network: projects could not be built without it.  What keeps secrets from leaking
through it is that they cannot be read in the first place.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import anyio.to_thread

from coterie.model.workspace import SHARED_ASSETS, Workspace
from coterie.process.launch import succeeds
from coterie.tools import landlock
from coterie.tools.workspace_files import COTERIE, GIT
from coterie.workspace.git_guard import protected_paths
from coterie.workspace.worktree import Worktree

_TOOLCHAINS = (
    ".asdf .bun .cargo/bin .deno .local/bin .local/lib .local/share/mise/installs "
    ".local/share/mise/shims .local/share/pnpm .local/share/uv/python .local/share/uv/tools "
    ".nvm .pyenv .rbenv .rustup .sdkman .volta go"
)
"""Where compilers and interpreters are installed below a home; none of them holds a secret."""
BESIDE_PROGRAMS = ("lib", "lib64", "libexec")


@dataclass(frozen=True)
class SandboxPolicy:
    """Which folders and files a command may write, read or not see; the innermost entry wins.
    Everything else may be read."""

    writable: tuple[Path, ...]
    hidden: tuple[Path, ...] = ()
    read_only: tuple[Path, ...] = ()
    tmp: Path | None = None
    """Mounted as `/tmp`, where the sandbox can mount."""


def sandbox_policy(root: Path, workspace: Workspace) -> SandboxPolicy:
    """Return the policy of a member whose work folder, with links resolved, is `root`; blocks.

    Its commands write to its work folder, its home and its folder for temporary files.  They see
    neither the user's home nor Coterie's folders, except for what they need to run.
    """
    tmp, folder, home = workspace.tmp.resolve(), workspace.folder.resolve(), workspace.user_home
    hidden = [root / COTERIE, *(above for above in folder.parents if above.name == COTERIE)]
    if home is not None and home.resolve() != Path("/"):
        hidden.append(home)
    shared = folder.parent / SHARED_ASSETS
    return SandboxPolicy(
        writable=_present(root, workspace.home, tmp, *_git_writes(root)),
        hidden=_present(*hidden),
        read_only=_present(folder, shared, *protected_paths(root), *_programs(workspace)),
        tmp=tmp,
    )


def _present(*paths: Path) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(path.resolve() for path in paths if path.exists()))


def _git_writes(root: Path) -> Iterator[Path]:
    """Yield the paths that `git commit` writes and that need a mount of their own."""
    worktree = Worktree.around(root)
    if worktree is not None:
        yield from worktree.changed_by_commits
    elif (root / GIT).is_dir():
        yield root / GIT  # mounted by itself, it cannot be moved away along with its hooks


def _programs(workspace: Workspace) -> Iterator[Path]:
    """Yield what programs need that are installed where commands see nothing else: in the user's
    home or below `/tmp`."""
    unseen = [Path(_TMP)]
    if workspace.user_home is not None:
        unseen.append(workspace.user_home)
        yield from (workspace.user_home / name for name in _TOOLCHAINS.split())
    for place in map(Path, workspace.env.get("PATH", "").split(":")):
        if place not in unseen and any(place.is_relative_to(one) for one in unseen):
            yield place
            yield from (place.parent / name for name in BESIDE_PROGRAMS)
            if place.name == _NPM_BIN:
                yield place.parent


Kind = Literal["bubblewrap", "landlock", "none"]

BWRAP = "bwrap"
SHELL = "/bin/sh"
_TMP = "/tmp"  # noqa: S108 - a mount point in the sandbox
_NPM_BIN = ".bin"
"""A folder of links to the packages beside it."""
_LANDLOCK = (sys.executable, "-I", "-S", str(Path(landlock.__file__)))
_NAMESPACES = ("--unshare-pid", "--unshare-ipc", "--cap-drop", "ALL")
# Without --die-with-parent: the keeper counts what is left, then ends it.
_FILES = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
KERNEL = tuple(f"/proc/{name}" for name in ("acpi", "fs", "scsi", "sys", "sysrq-trigger"))
"""Where root could alter the machine even without capabilities."""
_RUN = "/run"
_RUN_FOLDERS = ("NetworkManager", "current-system", "resolvconf", "systemd/resolve")
"""Needed to find hosts and programs; the rest of /run is sockets of the user's services."""

_DESCRIPTIONS: Mapping[Kind, str] = {
    "bubblewrap": (
        "Confined by bubblewrap: it can write only to the work folder, its own home and /tmp; it "
        "cannot see your home folder or your other processes; the network is open."
    ),
    "landlock": (
        "Confined by Landlock: it can write only to the work folder (including .coterie and .git; "
        "anything there that git would run is reverted when the command ends), its own home and "
        "TMPDIR; it cannot read your home folder; local services and the network are open."
    ),
    "none": "Not confined: it can do anything that you can.",
}


@dataclass(frozen=True)
class Sandbox:
    """One way to confine a command."""

    kind: Kind
    problem: str = ""
    """Why no better sandbox is available here."""

    @property
    def confines(self) -> bool:
        return self.kind != "none"

    @property
    def description(self) -> str:
        """What it means, for a person who has to approve a command."""
        return _DESCRIPTIONS[self.kind]

    def words(self, policy: SandboxPolicy, cwd: Path) -> tuple[str, ...]:
        """Return the words to prefix to a command to confine it; blocks."""
        if self.kind == "bubblewrap":
            return tuple(_bubblewrap(policy, cwd))
        return tuple(_landlock(policy)) if self.kind == "landlock" else ()


async def best() -> Sandbox:
    """Return the best sandbox that works on this machine; each kind is tried only once."""
    problems: list[str] = []
    for kind in ("bubblewrap", "landlock"):
        problem = await problem_of(kind)
        if problem is None:
            return Sandbox(kind, "; ".join(problems))
        problems.append(problem)
    return Sandbox("none", "; ".join(problems))


_problems: dict[Kind, str | None] = {}


async def problem_of(kind: Kind) -> str | None:
    """Return why this kind cannot be used here; None if it can."""
    if kind not in _problems:
        _problems[kind] = await anyio.to_thread.run_sync(_try, kind)
    return _problems[kind]


_TRIAL = """
echo new > "$1/new" || exit 1
(echo new > "$2/new") 2> /dev/null && exit 1
cat "$3/secret" 2> /dev/null && exit 1
exit 0
"""


def _try(kind: Kind) -> str | None:
    if sys.platform != "linux":
        return f"{kind}: only on Linux"
    if kind == "bubblewrap" and shutil.which(BWRAP) is None:
        return f"{kind}: not installed"
    with tempfile.TemporaryDirectory() as name:
        inside, outside, hidden = (Path(name).resolve() / one for one in ("in", "out", "hidden"))
        for folder in (inside, outside, hidden):
            folder.mkdir()
        (hidden / "secret").write_text("secret")
        held = Sandbox(kind).words(SandboxPolicy((inside,), (hidden,)), inside)
        trial = (SHELL, "-c", _TRIAL, "trial", str(inside), str(outside), str(hidden))
        works = succeeds([*held, *trial]) and (inside / "new").exists()
    return None if works else f"{kind}: does not work here"


@cache
def _scope_launcher() -> tuple[str, ...]:
    """Return the words that block abstract sockets and outgoing signals, if the kernel can."""
    words = (*_LANDLOCK, "--scope", "--")
    trial = (shutil.which(BWRAP) or BWRAP, *_NAMESPACES, *_FILES, SHELL, "-c", "exit 0")
    return words if succeeds([*words, *trial]) else ()


def _bubblewrap(policy: SandboxPolicy, cwd: Path) -> Iterator[str]:
    yield from (*_scope_launcher(), shutil.which(BWRAP) or BWRAP)
    yield from (*_NAMESPACES, *_FILES, "--tmpfs", _RUN)
    for path in (*KERNEL, *(f"{_RUN}/{name}" for name in _RUN_FOLDERS)):
        yield from ("--ro-bind-try", path, path)
    if policy.tmp is not None:
        yield from ("--bind", str(policy.tmp), _TMP)
    # Outer paths are mounted first, so that the innermost one wins.
    mounts = dict.fromkeys(policy.hidden, "--tmpfs")
    mounts |= dict.fromkeys(policy.read_only, "--ro-bind")
    mounts |= dict.fromkeys(policy.writable, "--bind")
    for path, option in sorted(mounts.items(), key=lambda mount: len(mount[0].parts)):
        yield from (option, str(path)) if option == "--tmpfs" else (option, str(path), str(path))
    yield from ("--chdir", str(cwd), "--")


def _landlock(policy: SandboxPolicy) -> Iterator[str]:
    yield from _LANDLOCK
    yield from (f"--write={path}" for path in policy.writable)
    yield from (f"--read={path}" for path in policy.read_only)
    yield from (f"--hide={path}" for path in ("/dev", *policy.hidden))
    yield "--"
