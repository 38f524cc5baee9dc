"""What tasks leave behind when they have ended: worktrees, branches, homes, snapshots.

Everything is listed before anything is removed; work that exists nowhere else is kept, with the
reason.  Removing checks again, under the lock that anybody working there takes.  All calls block.
"""

from __future__ import annotations

import fnmatch
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from coterie.model import instant
from coterie.model.team import INSTANCE
from coterie.model.workspace import UNFINISHED
from coterie.workspace.beneath import open_folder, remove_tree, walk
from coterie.workspace.git import Git, LinkedWorktree, locked
from coterie.workspace.snapshots.folder_snapshots import FolderSnapshots
from coterie.workspace.ticket_worktrees import MERGED, TicketWorktrees
from coterie.workspace.worktree import HEADS, Worktree

LeftoverKind = Literal["worktree", "branch", "remote", "home", "snapshots", "draft"]


_REMOVING = ".going"
"""Suffix of a worktree that is being removed, or was when the process was killed."""
_NOT_SEARCHED = frozenset({".git", ".coterie", "node_modules"})
_ABANDONED_AFTER = 600.0
"""Seconds after which a temporary file is certainly abandoned."""


@dataclass(frozen=True)
class Leftover:
    """Something that an ended task has left."""

    kind: LeftoverKind
    task: str
    """The task; for a home, its team."""
    name: str
    """A path below the project, a branch, a ref on the remote, or the task that snapshots belong
    to."""
    bytes: int = 0
    kept: str = ""
    """Why it is kept; empty if it can be removed."""


@dataclass(frozen=True)
class SessionLeftovers:
    """The worktrees and branches of a session that has ended."""

    worktrees: TicketWorktrees

    def worktree_folders(self) -> Iterator[Leftover]:
        """Yield the worktrees; one with nothing beyond its branch can be removed."""
        with suppress(OSError):
            for folder in sorted(self.worktrees.folder.iterdir()):
                if folder.name.endswith(_REMOVING) or Worktree.at(folder) is not None:
                    yield self._worktree(folder)

    def branches(self) -> Iterator[Leftover]:
        """Yield the branches; one that is merged into the checked-out branch can be removed."""
        prefix = f"{HEADS}coterie/{self.worktrees.session}/"
        listed = self._git.run("for-each-ref", "--format=%(refname)", prefix).split()
        merged = self._merged(prefix)
        kept = {Path(one.name).name for one in self.worktree_folders() if one.kept}
        for ref in listed:
            name = ref.removeprefix(HEADS)
            why = "" if ref in merged else "not in your branch"
            why = why or ("its worktree is kept" if name.rpartition("/")[2] in kept else "")
            yield Leftover("branch", self.worktrees.session, name, kept=why)

    def remote_refs(self, there: Mapping[str, str]) -> Iterator[Leftover]:
        """Yield the session's refs on the remote, given with their commits; one that is merged into
        the checked-out branch can be removed."""
        for ref, commit in there.items():
            why = "" if self._is_merged(commit) else "not in your branch"
            yield Leftover("remote", self.worktrees.session, ref, kept=why)

    def _is_merged(self, commit: str) -> bool:
        head = self._git.head()
        if head is None or self._git.commit(commit) is None:
            return False
        return self._git.run("merge-base", commit, head, accept=(0, 1)).strip() == commit

    def remove_worktrees(self) -> tuple[Leftover, ...]:
        """Remove the worktrees that can be removed; return those that stay."""
        remaining = [one for one in self.worktree_folders() if not self.remove(one)]
        self.remove_folder()
        return tuple(remaining)

    def remove_folder(self) -> None:
        """Remove the folder of the worktrees if it is empty."""
        with suppress(OSError):
            self.worktrees.folder.rmdir()

    def remove(self, one: Leftover) -> bool:
        """Remove a worktree or branch, unless it must be kept by now; return whether it is gone."""
        if one.kind == "branch":
            return self._remove_branch(one.name)
        folder = self.worktrees.root / one.name
        with locked(self.worktrees.folder) as lock:
            if self._worktree(folder).kept:
                return False
            git = replace(self._git, pass_fds=(lock,))
            linked, going = _linked(git, folder), folder
            if not folder.name.endswith(_REMOVING):  # half-removed must not look complete
                going = folder.rename(folder.with_name(f".{folder.name}{_REMOVING}"))
            if linked is not None:
                # The worktree for checks is on no branch: its commits are on `merged`.
                with suppress(OSError):
                    remove_tree(linked.git_dir)
            remove_tree(going)
        return True

    def _remove_branch(self, name: str) -> bool:
        ref = f"{HEADS}{name}"
        tip = self._merged(ref).get(ref)
        in_use = any(one.branch == name and one.alive for one in self._git.worktrees())
        if in_use or tip is None:
            return False
        self._git.run("update-ref", "-d", ref, tip)  # fails if the branch has just moved
        return True

    @property
    def _git(self) -> Git:
        return self.worktrees.git

    def _worktree(self, folder: Path) -> Leftover:
        worktree = Worktree.at(folder)
        name = str(folder.relative_to(self.worktrees.root))
        leftover = Leftover("worktree", self.worktrees.session, name, _size(folder))
        if folder.name.endswith(_REMOVING):
            return leftover
        if worktree is None or worktree.common != self._git.common_dir:
            return replace(leftover, kept="no longer a worktree of this repository")
        git = replace(self._git, folder=folder, worktree=worktree)
        changed = git.run("status", "--porcelain=v1", "-z", "-uall", "--no-renames")
        if changed and folder.name != MERGED:
            return replace(leftover, kept="has uncommitted changes")
        return leftover

    def _merged(self, below: str) -> dict[str, str]:
        """Return the refs below a name that the checked-out branch contains, with their tips."""
        head = self._git.head()
        if head is None:
            return {}
        words = ("for-each-ref", "--format=%(refname) %(objectname)", f"--merged={head}", below)
        listed = (line.partition(" ") for line in self._git.run(*words).splitlines())
        return {ref: tip for ref, _, tip in listed}


def _linked(git: Git, folder: Path) -> LinkedWorktree | None:
    place = folder.resolve()
    return next((one for one in git.worktrees() if one.path.resolve() == place), None)


def unused_homes(root: Path, in_use: Collection[str]) -> Iterator[Leftover]:
    """Yield homes of members that can no longer be used, but none of a team with unfinished tasks.

    They are those of a team without a file (made up on the command line), and of a worker's
    further instances.
    """
    teams = root / ".coterie" / "teams"
    with suppress(OSError):
        for team in sorted(teams.iterdir()):
            has_file = any((team / name).exists() for name in ("team.json", "team.toml"))
            for home in sorted(team.glob("*/home")):
                if has_file and INSTANCE not in home.parent.name:
                    continue
                if not any(home.iterdir()):
                    continue
                why = "its team has unfinished tasks" if team.name in in_use else ""
                name = str(home.relative_to(root))
                yield Leftover("home", team.name, name, _size(home), why)


def remove_path(root: Path, one: Leftover) -> None:
    """Remove a member's home or a temporary file; raises if the path to a home contains a link."""
    if one.kind == "draft":
        (root / one.name).unlink(missing_ok=True)
        return
    project, *above, home = Path(one.name).parts
    with open_folder(root / project, *above) as folder:
        remove_tree(home, dir_fd=folder)


def abandoned_temp_files(root: Path) -> Iterator[Leftover]:
    """Yield temporary files among the user's that a kill left before they were renamed."""
    for name, entry in walk(root, lambda name: name.rpartition("/")[2] not in _NOT_SEARCHED):
        if not fnmatch.fnmatch(entry.name, UNFINISHED):
            continue
        with suppress(OSError):
            status = entry.stat(follow_symlinks=False)
            old = instant.seconds_since(status.st_mtime) > _ABANDONED_AFTER
            if stat.S_ISREG(status.st_mode) and old:
                yield Leftover("draft", "-", name, status.st_size)


def kept_snapshots(root: Path, tasks: Collection[str]) -> Iterator[Leftover]:
    """Yield the snapshots of these tasks, which are needed to show and revert their changes."""
    snapshots = FolderSnapshots(root)
    for task in tasks:
        if snapshots.has_kept(task) and snapshots.spans(task):
            yield Leftover("snapshots", task, task)


def remove_snapshots(root: Path, tasks: Collection[str]) -> None:
    """Remove the snapshots of these tasks, and note why for later requests for their changes."""
    FolderSnapshots(root).remove(tasks, f"its snapshots were removed at {instant.now()}")


def _size(folder: Path) -> int:
    total = 0
    for _, entry in walk(folder):
        with suppress(OSError):
            if not entry.is_dir(follow_symlinks=False):
                total += entry.stat(follow_symlinks=False).st_size
    return total
