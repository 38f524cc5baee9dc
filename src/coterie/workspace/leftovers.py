"""What tasks leave behind when they have ended: worktrees, branches, homes, snapshots.

Each is listed before anything is removed, and what holds work that is nowhere else is kept, with
why.  Removing takes the same look again, under the lock that whoever works there takes.  Blocks.
"""

from __future__ import annotations

import fnmatch
import os
import shutil
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from coterie.model import instant
from coterie.model.team import INSTANCE
from coterie.model.workspace import UNFINISHED
from coterie.workspace.beneath import opened_folder
from coterie.workspace.git import Git, LinkedWorktree, locked
from coterie.workspace.snapshots.folder_snapshots import FolderSnapshots
from coterie.workspace.ticket_worktrees import MERGED, TicketWorktrees
from coterie.workspace.worktree import HEADS, Worktree

LeftoverKind = Literal["worktree", "branch", "remote", "home", "snapshots", "draft"]


_GOING = ".going"
"""How the name of a worktree ends that is being removed, or was when a kill came."""
_LONG_AGO = 600.0
"""Seconds after which nobody is still writing a draft."""


@dataclass(frozen=True)
class Leftover:
    """One thing that an ended task has left."""

    kind: LeftoverKind
    task: str
    """The task; of a home, the team."""
    name: str
    """A path below the project, a branch, a ref on the remote, or the task whose snapshots they
    are."""
    bytes: int = 0
    kept: str = ""
    """Why it stays; empty: it can go."""


@dataclass(frozen=True)
class SessionLeftovers:
    """The worktrees and branches of a session that has ended."""

    worktrees: TicketWorktrees

    def worktree_folders(self) -> Iterator[Leftover]:
        """Those with nothing but what their branch has can go."""
        with suppress(OSError):
            for folder in sorted(self.worktrees.folder.iterdir()):
                if folder.name.endswith(_GOING) or Worktree.at(folder) is not None:
                    yield self._worktree(folder)

    def branches(self) -> Iterator[Leftover]:
        """Those that the branch which is checked out contains can go."""
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
        """Those of the session on the remote, by the commit of each; what the branch which is
        checked out contains can go."""
        for ref, commit in there.items():
            why = "" if self._is_merged(commit) else "not in your branch"
            yield Leftover("remote", self.worktrees.session, ref, kept=why)

    def _is_merged(self, commit: str) -> bool:
        head = self._git.head()
        if head is None or self._git.commit(commit) is None:
            return False
        return self._git.run("merge-base", commit, head, accept=(0, 1)).strip() == commit

    def remove_worktrees(self) -> tuple[Leftover, ...]:
        """Remove the worktrees that can go; returns those that stay."""
        left = [one for one in self.worktree_folders() if not self.remove(one)]
        self.remove_folder()
        return tuple(left)

    def remove_folder(self) -> None:
        """Remove the folder of the worktrees, once there are none in it."""
        with suppress(OSError):
            self.worktrees.folder.rmdir()

    def remove(self, one: Leftover) -> bool:
        """Remove a worktree or branch, unless it has got something to lose meanwhile."""
        if one.kind == "branch":
            return self._remove_branch(one.name)
        folder = self.worktrees.root / one.name
        with locked(self.worktrees.folder) as lock:
            if self._worktree(folder).kept:
                return False
            git = replace(self._git, held=(lock,))
            linked, going = _linked(git, folder), folder
            if not folder.name.endswith(_GOING):  # so that half of it is never taken for all
                going = folder.rename(folder.with_name(f".{folder.name}{_GOING}"))
            if linked is not None:
                # The folder of checks is on no branch: what it was at is on `merged`.
                shutil.rmtree(linked.git_dir, ignore_errors=True)
            shutil.rmtree(going)
        return True

    def _remove_branch(self, name: str) -> bool:
        ref = f"{HEADS}{name}"
        tip = self._merged(ref).get(ref)
        in_use = any(one.branch == name and one.alive for one in self._git.worktrees())
        if in_use or tip is None:
            return False
        self._git.run("update-ref", "-d", ref, tip)  # refused where it has moved on just now
        return True

    @property
    def _git(self) -> Git:
        return self.worktrees.git

    def _worktree(self, folder: Path) -> Leftover:
        found = Worktree.at(folder)
        name = str(folder.relative_to(self.worktrees.root))
        made = Leftover("worktree", self.worktrees.session, name, _size(folder))
        if folder.name.endswith(_GOING):
            return made
        if found is None or found.common != self._git.common_dir:
            return replace(made, kept="no worktree of this repository any more")
        git = replace(self._git, folder=folder, worktree=found)
        changed = git.run("status", "--porcelain=v1", "-z", "-uall", "--no-renames")
        if changed and folder.name != MERGED:
            return replace(made, kept="holds changes that no commit has")
        return made

    def _merged(self, below: str) -> dict[str, str]:
        """The refs below a name that the branch which is checked out contains, with their tips."""
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
    """Homes of members that nobody can call any more: of a team without a file (made up on the
    command line), and of a worker's further instances; none of a team with unfinished tasks."""
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
    """Remove a member's home or a draft; raises where a link has been put on the way to a home."""
    if one.kind == "draft":
        (root / one.name).unlink(missing_ok=True)
        return
    project, *above, home = Path(one.name).parts
    with opened_folder(root / project, *above) as folder:
        shutil.rmtree(home, dir_fd=folder)


def drafts(root: Path) -> Iterator[Leftover]:
    """Files among the user's that a kill left before they were put in place: nobody's work."""
    for place, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - {".git", ".coterie", "node_modules"})
        for name in fnmatch.filter(names, UNFINISHED):
            path = Path(place, name)
            with suppress(OSError):
                found = path.lstat()
                old = instant.seconds_since(found.st_mtime) > _LONG_AGO
                if stat.S_ISREG(found.st_mode) and old:
                    yield Leftover("draft", "-", str(path.relative_to(root)), found.st_size)


def kept_snapshots(root: Path, tasks: Collection[str]) -> Iterator[Leftover]:
    """The snapshots of these tasks: without them changes can be neither shown nor reverted."""
    snapshots = FolderSnapshots(root)
    for task in tasks:
        if snapshots.has_kept(task) and snapshots.spans(task):
            yield Leftover("snapshots", task, task)


def remove_snapshots(root: Path, tasks: Collection[str]) -> None:
    """Remove the snapshots of these tasks, and say so to whoever asks for their changes later."""
    FolderSnapshots(root).remove(tasks, f"its snapshots were removed at {instant.now()}")


def _size(folder: Path) -> int:
    total = 0
    with suppress(OSError):
        for place, _, names in os.walk(folder):
            for name in names:
                with suppress(OSError):
                    total += os.lstat(Path(place, name)).st_size
    return total
