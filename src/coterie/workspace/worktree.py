"""What makes a folder a git worktree: two files that point at each other, read and repaired here.

`.git` in the folder names the worktree's git directory, where `gitdir` names `.git`.  Agents can
write the former, so it counts only if the latter agrees.  All calls block.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from coterie.workspace.beneath import read_regular
from coterie.workspace.git_settings import repository_settings

POINTER = ".git"
HEADS = "refs/heads/"
_LONGEST_LINE = 2 * 4096
"""Bytes: a path, and what comes before it."""
OURS = "coterie"
"""Prefix of the names of our branches and of our worktrees' git directories."""
_PLAIN_REF = re.compile(rf"refs/(?:heads|{OURS})/(?!.*\.\.)[^~^:@{{]+")
"""Refs that all worktrees share and that name commits, never tags."""
_READ_BY_US = ("refs", "objects", "packed-refs")
_COMMIT_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_PACKED = 1 << 18  # bytes of refs that are searched faster than a git starts


@dataclass(frozen=True)
class Worktree:
    """A git worktree, and what it keeps outside its own folder."""

    folder: Path
    git_dir: Path
    common: Path
    """The `.git` of the repository it belongs to."""

    @classmethod
    def around(cls, cwd: Path) -> Worktree | None:
        """Return the worktree this folder is in; None in a plain checkout or outside git."""
        top = top_of(cwd)
        return None if top is None else cls.at(top)

    @classmethod
    def at(cls, folder: Path) -> Worktree | None:
        """Return the worktree at this folder; None unless its repository agrees."""
        git_dir = named_by(folder / POINTER)
        if git_dir is None or folder_of(git_dir) != folder.resolve():
            return None
        common = _common(git_dir)
        if common is None or git_dir.parent != common / "worktrees":
            return None
        return cls(folder, git_dir, common)

    def commit_of(self, name: str) -> str | None:
        """Return the commit that HEAD, a branch or a ref of ours names, None if there is none.

        Most of what Coterie asks git is this, and reading a file costs a fiftieth of a process.
        Raises LookupError if it takes git to tell.
        """
        if name == "HEAD":
            name = line_of(self.git_dir / name).removeprefix("ref: ")
            if not name.startswith("refs/"):
                return _existing(self.common, name)
        read = (self.common / shared for shared in _READ_BY_US)
        if not _PLAIN_REF.fullmatch(name) or any(path.is_symlink() for path in read):
            raise LookupError(name)
        try:
            return _existing(self.common, line_of(self.common / name))
        except LookupError:
            if self.may_have(name):
                raise
        return None

    def may_have(self, ref: str) -> bool:
        """Whether this ref, or one below it, may exist: False is certain."""
        # In this order: git that packs refs writes the pack before it removes their files.
        return os.path.lexists(self.common / ref) or _may_be_packed(self.common, ref)

    @property
    def changed_by_commits(self) -> list[Path]:
        """What `git commit` writes; not hooks and config, which would run commands later.

        For branches it is only the folder of its own branch, to exclude the user's.
        """
        shared = [self.common / "objects", self.common / "reftable"]
        return [self.git_dir, *(path for path in shared if path.is_dir()), *self._of_branch()]

    def _of_branch(self) -> Iterator[Path]:
        kind, _, name = line_of(self.git_dir / "HEAD").partition(": ")
        # Agents can write HEAD: a worktree whose branch we made stays limited to our branches.
        known = f"{HEADS}{OURS}/" if self.git_dir.name.startswith(f"{OURS}.") else HEADS
        if kind != "ref" or not name.startswith(known) or ".." in name:
            return
        for root in (self.common, self.common / "logs"):
            folder = (root / name).parent
            while not folder.is_dir() and folder != root / HEADS:  # git removes empty folders
                folder = folder.parent
            yield folder


def top_of(folder: Path) -> Path | None:
    """Return the closest folder, from this one up, that contains `.git`."""
    up = (folder, *folder.parents)
    return next((above for above in up if (above / POINTER).exists()), None)


def checkout_at(folder: Path) -> Worktree | None:
    """Return the repository of a folder that contains `.git`; None unless the repository agrees.

    A git directory elsewhere must name this folder, as those of worktrees and submodules do:
    otherwise a `.git` that came with the folder could make us write to any repository of the
    user's.
    """
    pointer = folder / POINTER
    if pointer.is_dir() and not pointer.is_symlink():
        git_dir = pointer.resolve()
        return Worktree(folder, git_dir, git_dir)
    linked = Worktree.at(folder)
    if linked is not None:
        return linked
    git_dir = pointer.resolve() if pointer.is_dir() else named_by(pointer)
    if git_dir is None or not git_dir.is_dir():
        return None
    named = _work_tree(git_dir)
    return Worktree(folder, git_dir, git_dir) if named == folder.resolve() else None


def _existing(common: Path, commit: str) -> str:
    if _COMMIT_ID.fullmatch(commit) and (common / "objects" / commit[:2] / commit[2:]).is_file():
        return commit
    raise LookupError(commit)


def _may_be_packed(common: Path, ref: str) -> bool:
    if (common / "reftable").exists():
        return True
    try:
        packed = read_regular(common / "packed-refs", _PACKED)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return os.fsencode(f" {ref}") in packed


def _work_tree(git_dir: Path) -> Path | None:
    try:
        named = repository_settings(git_dir, git_dir).get("core.worktree")
    except ValueError:
        return None
    return _real(git_dir / named) if named else None


def named_by(pointer: Path) -> Path | None:
    """Return the git directory that a `.git` file names, whether it exists or not."""
    kind, _, path = line_of(pointer).partition(": ")
    return _real(pointer.parent / path) if kind == "gitdir" and path else None


def folder_of(git_dir: Path) -> Path | None:
    """Return the folder that a worktree's git directory names, whether it exists or not."""
    path = line_of(git_dir / "gitdir")
    return _real(git_dir / path).parent if path else None


def names(folder: Path, git_dir: Path) -> bool:
    """Whether a folder's pointer is exactly this path.

    The pointer that git writes leads through the directory that we made for that git alone, and is
    useless once that is removed.
    """
    return line_of(folder / POINTER) == f"gitdir: {git_dir}"


def connect(folder: Path, git_dir: Path) -> None:
    """Point a folder and a worktree's git directory at each other.

    By hand: `git worktree repair` processes every worktree that the repository knows, and in a copy
    of a project would redirect those of the original to the copy.
    """
    _write(git_dir / "gitdir", f"{folder.resolve() / POINTER}\n", git_dir / "gitdir.draft")
    # Not in the folder: a file left there by a crash would be committed with the work.
    _write(folder / POINTER, f"gitdir: {git_dir}\n", draft_of(folder))


def draft_of(folder: Path) -> Path:
    """Return where a folder's pointer to its repository is written before it is moved in place."""
    return folder.with_name(f".{folder.name}.draft")


def _common(git_dir: Path | None) -> Path | None:
    if git_dir is None:
        return None
    path = line_of(git_dir / "commondir")
    if path:
        return _real(git_dir / path)
    return git_dir if (git_dir / "objects").is_dir() else None  # a submodule's


def line_of(path: Path) -> str:
    """Return the text of a one-line file; empty if it is missing, a link or anything else."""
    try:
        text = read_regular(path, _LONGEST_LINE).decode().strip()
    except (OSError, ValueError):
        return ""
    return "" if "\0" in text else text


def _real(path: Path) -> Path:
    """Resolve a path that agents can write; unlike `Path.resolve`, tolerates links in a loop."""
    return Path(os.path.realpath(path))


def _write(path: Path, text: str, draft: Path) -> None:
    draft.unlink(missing_ok=True)  # left by a crash
    with draft.open("x", encoding="utf-8") as file:
        file.write(text)
    draft.replace(path)
