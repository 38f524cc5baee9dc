"""Where tickets are worked on: a worktree and a branch each, and one branch for what is approved.

The user's own branch and tree are only ever read here.  All of it blocks.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from coterie.errors import GitFailed, UsageError
from coterie.workspace.git import CHECKOUT, Git, repository_of
from coterie.workspace.worktree import HEADS, Worktree

MERGED = "merged"
"""The branch of approved work, beside those of the tickets: `coterie/<session>/merged`."""
_TRAILER = "Coterie-Ticket"


@dataclass(frozen=True)
class Merge:
    """A ticket's work on top of all that is approved: a commit, or why there is none."""

    commit: str = ""
    tree: str = ""
    conflicts: tuple[str, ...] = ()


@dataclass(frozen=True)
class GitGround:
    """A session's worktrees below `.coterie` and its branches below `coterie/`."""

    git: Git
    root: Path
    """The project, which may be a folder inside the repository."""
    session: str
    base: str
    """The commit that the session began at."""

    @property
    def folder(self) -> Path:
        """Where the worktrees are."""
        return self.root / ".coterie" / "worktrees" / self.session

    @property
    def place(self) -> Path:
        """Where commands of the session are run: in one of the worktrees."""
        return self.folder

    @property
    def branch(self) -> str:
        """The branch of approved work."""
        return self._branch(MERGED)

    def _branch(self, name: str) -> str:
        return f"coterie/{self.session}/{name}"

    def head(self) -> str:
        """The newest approved commit."""
        return self.git.commit(f"{HEADS}{self.branch}") or self.base

    # -- a ticket's own tree -------------------------------------------------------------------

    def open(self, ticket: str) -> Path:
        """The ticket's worktree, on all that is approved when it is first opened."""
        return self._inside(self._worktree(ticket, self._branch(ticket), self.head()))

    def commit(self, ticket: str, message: str) -> str:
        """Commit all that is in the ticket's worktree; returns the tree's hash."""
        path = self.folder / ticket
        git = self._git_at(path)
        made = git.snapshot(f"{message}\n\n{_TRAILER}: {ticket}")
        # The branch moves to it; the index is set to agree, so that nobody sees phantom changes.
        git.run("update-ref", f"{HEADS}{self._branch(ticket)}", made)
        git.run("read-tree", made)
        return git.run("rev-parse", f"{made}^{{tree}}").strip()

    def changed(self, ticket: str) -> list[str]:
        """The files that the ticket's commits changed."""
        since = self.git.run("merge-base", self.head(), self._tip(ticket)).strip()
        listed = self.git.run("diff-tree", "-r", "-z", "--name-only", since, self._tip(ticket))
        return [name for name in listed.split("\0") if name]

    def diff(self, ticket: str) -> str:
        """What the ticket's commits changed, as a patch."""
        since = self.git.run("merge-base", self.head(), self._tip(ticket)).strip()
        return self.git.run("diff-tree", "-r", "-p", since, self._tip(ticket))

    def bring_up_to_date(self, ticket: str) -> tuple[str, ...]:
        """Put what was approved since below the ticket's work; the files that do not fit.

        Those hold both versions between conflict marks, for the author to settle.
        """
        tip, head = self._tip(ticket), self.head()
        tree, conflicts = self._merged_tree(tip, head)
        if head in self.git.run("rev-list", tip).split():
            return ()
        made = self._commit_tree(tree, (tip, head), f"Bring {ticket} up to date")
        git = self._git_at(self.folder / ticket)
        git.run("update-ref", f"{HEADS}{self._branch(ticket)}", made)
        git.run("reset", "--quiet", "--hard", made, patience=CHECKOUT)
        return conflicts

    def unsettled(self, ticket: str) -> tuple[str, ...]:
        """The files of the ticket that hold both sides of a conflict between its marks."""
        changed = self.changed(ticket)
        # More names than these make too long a command: then all files are looked at.
        named = [f":(literal){name}" for name in changed] if len(changed) <= 500 else []
        both = set(changed)
        for mark in ("^<<<<<<< ", "^>>>>>>> ") if changed else ():
            words = ("grep", "-l", "-z", "-I", "-e", mark, self._tip(ticket), "--", *named)
            listed = self.git.run(*words, accept=(0, 1)).split("\0")
            both &= {name.partition(":")[2] for name in listed}
        return tuple(sorted(both))

    # -- the queue -----------------------------------------------------------------------------

    def merge(self, ticket: str, title: str) -> Merge:
        """The ticket's work merged with all that is approved; no branch moves yet."""
        head, tip = self.head(), self._tip(ticket)
        tree, conflicts = self._merged_tree(head, tip)
        if conflicts:
            return Merge(conflicts=conflicts)
        made = self._commit_tree(tree, (head, tip), f"{ticket}: {title}\n\n{_TRAILER}: {ticket}")
        return Merge(made, tree)

    def check_out(self, commit: str) -> Path:
        """The folder that checks are run in, with exactly this commit in it."""
        path = self._worktree(MERGED, self.branch, self.base)
        git = self._git_at(path)
        git.run("checkout", "--quiet", "--detach", "--force", commit, patience=CHECKOUT)
        git.run("clean", "-dffq")
        return self._inside(path)

    def land(self, ticket: str, commit: str) -> None:
        """Approve a merge: the branch moves to it, if it still is where the merge began."""
        if self.head() == commit:
            return  # a run before this one was cut right here
        ref = f"{HEADS}{self.branch}"
        before = self.git.run("rev-parse", f"{commit}^1").strip()
        if before == self.base and self.git.commit(ref) is None:
            before = "0" * len(before)  # the first one makes the branch
        self.git.run("update-ref", ref, commit, before)

    def landed(self, ticket: str) -> str | None:
        """The merge of a ticket that is on the branch already."""
        pattern = f"--grep=^{_TRAILER}: {ticket}$"
        found = self.git.run(
            "log",
            "--first-parent",
            "--merges",
            "--format=%H",
            pattern,
            f"{self.base}..{self.head()}",
        )
        return found.split("\n", 1)[0].strip() or None

    # -- parts ---------------------------------------------------------------------------------

    def _tip(self, ticket: str) -> str:
        found = self.git.commit(f"{HEADS}{self._branch(ticket)}")
        if found is None:
            raise GitFailed("rev-parse", str(self.folder), f"no branch {self._branch(ticket)}")
        return found

    def _worktree(self, name: str, branch: str, at: str) -> Path:
        path = self.folder / name
        found = Worktree.at(path)
        if found is None:
            for linked in self.git.worktrees():
                if linked.path == path.resolve() and not linked.alive:
                    self.git.forget(linked)
            path.parent.mkdir(parents=True, exist_ok=True)
            self.git.add_worktree(path, branch, at)
        return path

    def _git_at(self, path: Path) -> Git:
        found = Worktree.at(path)
        if found is None:
            raise GitFailed("worktree", str(path), "this worktree was taken away or changed")
        return Git(path, found)

    def _inside(self, path: Path) -> Path:
        """The project inside a worktree of its repository."""
        return path / self.root.resolve().relative_to(self.git.folder.resolve())

    def _merged_tree(self, ours: str, theirs: str) -> tuple[str, tuple[str, ...]]:
        self._refuse_drivers()
        words = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", ours, theirs)
        tree, *names = self.git.run(*words, accept=(0, 1)).split("\0")
        return tree.strip(), tuple(sorted({name for name in names if name}))

    def _refuse_drivers(self) -> None:
        """A merge driver is a program; of the repository's own configuration nothing is run."""
        words = ("config", "--show-scope", "--name-only", "--get-regexp", r"^merge\..*\.driver$")
        for line in self.git.run(*words, accept=(0, 1)).splitlines():
            scope, _, name = line.partition("\t")
            if scope not in ("system", "global"):
                said = f"its config has {name}; take it out, or put it into your own configuration"
                raise GitFailed("merge", str(self.git.folder), said)

    def _commit_tree(self, tree: str, parents: Sequence[str], message: str) -> str:
        words = [word for parent in parents for word in ("-p", parent)]
        return self.git.run(
            "commit-tree", tree, *words, "-m", message, env=self.git.identity()
        ).strip()


@dataclass(frozen=True)
class SharedGround:
    """One folder for everybody, where there is no git: nothing to merge, nothing to land."""

    root: Path
    session: str
    base: str = ""

    branch = ""

    @property
    def place(self) -> Path:
        """Where commands of the session are run."""
        return self.root

    def head(self) -> str:
        """Nothing is committed."""
        return ""

    def open(self, ticket: str) -> Path:
        """The project itself."""
        return self.root

    def commit(self, ticket: str, message: str) -> str:
        """Nothing can be committed; nobody can say on which tree a check is run."""
        return ""

    def changed(self, ticket: str) -> list[str]:
        """Nobody can say."""
        return []

    def diff(self, ticket: str) -> str:
        """Nobody can say."""
        return ""

    def bring_up_to_date(self, ticket: str) -> tuple[str, ...]:
        """It always is."""
        return ()

    def unsettled(self, ticket: str) -> tuple[str, ...]:
        """Nothing conflicts where nothing is merged."""
        return ()

    def merge(self, ticket: str, title: str) -> Merge:
        """It is merged as it is written."""
        return Merge()

    def check_out(self, commit: str) -> Path:
        """The project itself."""
        return self.root

    def land(self, ticket: str, commit: str) -> None:
        """It already has."""

    def landed(self, ticket: str) -> str | None:
        """Nobody can say."""
        return None


Ground = GitGround | SharedGround


def ground_for(root: Path, session: str, base: str | None) -> Ground:
    """Where a session's tickets are worked on.  `base` is None when the session begins."""
    git = repository_of(root)
    if base == "" or (git is None and base is None):
        return SharedGround(root, session)
    head = base or (git.head() if git else None)
    if git is None or head is None:
        raise UsageError(
            "This repository has no commit yet, and work on tickets begins at one.",
            'git commit --allow-empty -m "Begin"',
            str(root),
        )
    return GitGround(git, root, session, head)


def fingerprint(root: Path) -> frozenset[str]:
    """What in a git tree differs from its last commit, closely enough to see a change of it."""
    git = repository_of(root)
    if git is None:
        return frozenset()
    listed = git.run("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames")
    found: set[str] = set()
    for entry in listed.split("\0"):
        facts = ""
        with suppress(OSError):
            seen = os.lstat(git.folder / entry[3:])
            facts = f"{seen.st_mtime_ns}.{seen.st_size}"
        if entry:
            found.add(f"{entry} {facts}")
    return frozenset(found)
