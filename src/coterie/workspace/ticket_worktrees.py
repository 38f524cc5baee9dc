"""Where tickets are worked on: a worktree and a branch each, and one branch for what is approved.

The user's own branch and tree are only ever read here.  All of it blocks.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from coterie.errors import GitFailed, UsageError
from coterie.workspace.beneath import real_folder
from coterie.workspace.git import CHECKOUT, Git, locked, repository_of
from coterie.workspace.own_worktree import own_worktree
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
class TicketWorktrees:
    """A session's worktrees below `.coterie` and its branches below `coterie/`."""

    git: Git
    root: Path
    """The project, which may be a folder inside the repository."""
    session: str
    base: str
    """The commit that the session began at."""
    approved: str = MERGED
    """The branch of approved work, among those of the session."""

    @property
    def folder(self) -> Path:
        """Where the worktrees are."""
        return self.root / ".coterie" / "worktrees" / self.session

    @property
    def branch(self) -> str:
        """The branch of approved work."""
        return self._branch(self.approved)

    def ref_of(self, name: str) -> str:
        """The ref of a branch of the session."""
        return f"{HEADS}{self._branch(name)}"

    def _branch(self, name: str) -> str:
        return f"coterie/{self.session}/{name}"

    def head(self) -> str:
        """The newest approved commit."""
        return self.git.commit(f"{HEADS}{self.branch}") or self.base

    def open(self, ticket: str) -> Path:
        """The ticket's worktree, on all that is approved when it is first opened."""
        is_there = Worktree.at(self.folder / ticket) is not None
        return self._worktree(ticket, self.base if is_there else self.head())

    def commit(self, ticket: str, message: str) -> str:
        """Commit all that is in the ticket's worktree; returns the tree's hash."""
        with self._alone_in(ticket) as git:
            made = git.snapshot(f"{message}\n\n{_TRAILER}: {ticket}")
            # The branch moves to it; the index agrees, so that nobody sees phantom changes.
            git.run("update-ref", self.ref_of(ticket), made)
            git.run("read-tree", made)
        return self.tree(ticket)

    def tree(self, ticket: str) -> str:
        """The hash of what was last committed for the ticket."""
        return self.git.run("rev-parse", f"{self.ref_of(ticket)}^{{tree}}").strip()

    def changed(self, ticket: str) -> list[str]:
        """The files that the ticket's commits changed."""
        return self._difference(ticket, "-z", "--name-only").split("\0")[:-1]

    def uncommitted(self, ticket: str, names: Iterable[str]) -> list[Path]:
        """Files of these names that the ticket has made and that no commit of it holds."""
        folder = self.open(ticket).resolve()
        held = self.git.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", self._tip(ticket))
        top = (self.folder / ticket).resolve()
        kept = {top / name for name in held.split("\0") if name}
        named = (name for name in names if "\0" not in name)
        made = dict.fromkeys((folder / name).resolve() for name in named)
        return [path for path in made if path.is_relative_to(top) and path not in kept]

    def diff(self, ticket: str) -> str:
        """What the ticket's commits changed, as a patch."""
        return self._difference(ticket, "-p")

    def bring_up_to_date(self, ticket: str) -> tuple[str, ...]:
        """Put what was approved since below the ticket's work; the files that do not fit.

        Those hold both versions between conflict marks, for the author to settle.
        """
        tip, head = self._tip(ticket), self.head()
        if self.git.run("merge-base", tip, head).strip() == head:
            return ()
        tree, conflicts = self._merged_tree(tip, head)
        self.move_to(ticket, self.commit_tree(tree, (tip, head), f"Bring {ticket} up to date"))
        return conflicts

    def move_to(self, ticket: str, made: str) -> None:
        """Move the ticket's branch and files on to a commit that holds its work."""
        with self._alone_in(ticket) as git:
            # The files first: a branch ahead of them would say that the ticket takes it all back.
            git.run("reset", "--quiet", "--hard", made, patience=CHECKOUT)
            git.run("update-ref", self.ref_of(ticket), made)

    def bring_to(self, name: str, commit: str, *, files: bool = False) -> None:
        """Have a branch of the session at a commit that was sent, unless it is further already; a
        worktree of it is moved with it, and made if `files`."""
        ref = self.ref_of(name)
        now = self.git.commit(ref)
        if now is None or not self._is_ancestor(commit, now):
            if name != MERGED and self.is_open(name):
                self.move_to(name, commit)
            else:
                with self.alone() as git:
                    git.run("update-ref", ref, commit)
        if files:
            self.open(name)

    def is_open(self, name: str) -> bool:
        """Whether there is a worktree of a branch of the session."""
        return Worktree.at(self.folder / name) is not None

    def _is_ancestor(self, commit: str, of: str) -> bool:
        return self.git.run("merge-base", commit, of, accept=(0, 1)).strip() == commit

    def restore(self, ticket: str) -> None:
        """Put the worktree's files back to what was last committed; what git ignores stays."""
        with self._alone_in(ticket) as git:
            git.run("reset", "--quiet", "--hard", patience=CHECKOUT)
            git.run("clean", "-dffq")

    def put_back(self, ticket: str, names: Sequence[str], tree: str) -> None:
        """Put files back to how they are in a tree; those that it does not have are gone."""
        with self._alone_in(ticket) as git:
            git.run("reset", "--quiet", "--hard", patience=CHECKOUT)
            listed = git.run("ls-tree", "-r", "-z", "--full-tree", "--name-only", tree)
            before = set(listed.split("\0"))
            known = [f":(literal){name}" for name in names if name in before]
            made = [f":(literal){name}" for name in names if name not in before]
            if known:
                git.run("checkout", "--quiet", tree, "--", *known)
            if made:
                git.run("rm", "--quiet", "--", *made)

    def unresolved(self, ticket: str, changed: Sequence[str] | None = None) -> tuple[str, ...]:
        """The files that the ticket changed, else these, that hold both sides of a conflict between
        its marks."""
        changed = self.changed(ticket) if changed is None else changed
        # More names than these make too long a command: then all files are looked at.
        named = [f":(literal){name}" for name in changed] if len(changed) <= 500 else []
        both = set(changed)
        for mark in ("^<<<<<<< ", "^>>>>>>> ") if changed else ():
            words = ("grep", "-l", "-z", "-I", "-e", mark, self._tip(ticket), "--", *named)
            listed = self.git.run(*words, accept=(0, 1)).split("\0")
            both &= {name.partition(":")[2] for name in listed}
        return tuple(sorted(both))

    def merge(self, ticket: str, title: str) -> Merge:
        """The ticket's work merged with all that is approved; no branch moves yet."""
        message = f"{ticket}: {title}\n\n{_TRAILER}: {ticket}"
        return self.merge_commits(self.head(), self._tip(ticket), message)

    def merge_commits(self, ours: str, theirs: str, message: str) -> Merge:
        """Two commits merged; no branch moves.  Where they conflict there is no commit, and the
        tree has both versions between conflict marks."""
        tree, conflicts = self._merged_tree(ours, theirs)
        if conflicts:
            return Merge(tree=tree, conflicts=conflicts)
        return Merge(self.commit_tree(tree, (ours, theirs), message), tree)

    def check_out(self, commit: str) -> Path:
        """The folder that checks are run in, with exactly this commit in it."""
        inside = self._worktree(MERGED, self.base)
        with self._alone_in(MERGED) as git:
            git.run("checkout", "--quiet", "--detach", "--force", commit, patience=CHECKOUT)
            git.run("clean", "-dffq")
        return inside

    def land(self, commit: str) -> None:
        """Approve a merge: the branch moves to it, if it still is where the merge began."""
        with self.alone() as git:
            if self.head() == commit:
                return  # a run before this one was cut right here
            ref = f"{HEADS}{self.branch}"
            before = git.run("rev-parse", f"{commit}^1").strip()
            if before == self.base and git.commit(ref) is None:
                before = "0" * len(before)  # the first one makes the branch
            git.run("update-ref", ref, commit, before)

    def landed(self, ticket: str) -> str | None:
        """The merge of the ticket's work as it is now, if it is on the branch already."""
        with self.alone() as git:
            onward = f"{self.base}..{self.head()}"
            log = git.run("log", "--first-parent", "--merges", "--format=%H %P", onward)
        tip = self._tip(ticket)
        merges = (line.split() for line in log.splitlines())
        return next((merge for merge, *parents in merges if tip in parents[1:]), None)

    def span(self, ticket: str) -> tuple[str, str] | None:
        """The commits between which a ticket's work lies: those of its branch, or of the merge that
        has taken it in; None where it has not begun."""
        tip = self.git.commit(self.ref_of(ticket))
        if tip is None:
            return None
        if merge := self.landed(ticket):
            return f"{merge}^1", merge
        return self.git.run("merge-base", self.head(), tip).strip(), tip

    def _difference(self, ticket: str, *how: str) -> str:
        ours, theirs = self.head(), self.ref_of(ticket)
        return self.git.run("diff-tree", "-r", "--merge-base", *how, ours, theirs)

    def _tip(self, ticket: str) -> str:
        tip = self.git.commit(self.ref_of(ticket))
        if tip is None:
            raise GitFailed("rev-parse", str(self.folder), f"no branch {self._branch(ticket)}")
        return tip

    def _worktree(self, name: str, at: str) -> Path:
        """The project inside a worktree of the session, made whole if there is none."""
        self._make()
        return own_worktree(self.root, self.folder / name, f"{self.session}/{name}", at)

    def _make(self) -> None:
        """Make the folder of the worktrees, which is reached through no link."""
        real_folder(self.root / ".coterie", "worktrees", self.session, make=True)

    @contextmanager
    def alone(self) -> Generator[Git]:
        """Git under the session's lock: another may have outlived the run that started it."""
        self._make()
        with locked(self.folder) as lock:
            yield replace(self.git, held=(lock,))

    @contextmanager
    def _alone_in(self, name: str) -> Generator[Git]:
        """The same in one of the worktrees."""
        path = self.folder / name
        with self.alone() as git:
            found = Worktree.at(path)
            if found is None or found.common != git.common_dir:
                raise GitFailed("worktree", str(path), "this worktree was taken away or changed")
            yield replace(git, folder=path, worktree=found)

    def _merged_tree(self, ours: str, theirs: str) -> tuple[str, tuple[str, ...]]:
        words = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", ours, theirs)
        tree, *names = self.git.run(*words, accept=(0, 1)).split("\0")
        return tree.strip(), tuple(sorted({name for name in names if name}))

    def commit_tree(self, tree: str, parents: Sequence[str], message: str) -> str:
        """A tree as a commit that no branch has."""
        words = [word for parent in parents for word in ("-p", parent)]
        return self.git.run(
            "commit-tree", tree, *words, "-m", message, env=self.git.identity()
        ).strip()


def open_ticket_worktrees(
    root: Path, session: str, base: str | None, approved: str = MERGED
) -> TicketWorktrees | None:
    """The worktrees of a session; `base` is None when it begins.

    None where there is no git: then everybody works in the project's own folder.
    """
    git = repository_of(root)
    if base == "" or (git is None and base is None):
        return None
    head = base or (git.head() if git else None)
    if git is None or head is None:
        raise UsageError(
            "This repository has no commit yet, and work in worktrees begins at one.",
            'git commit --allow-empty -m "Begin"',
            str(root),
        )
    return TicketWorktrees(git, root, session, head, approved)


def fingerprint(root: Path) -> dict[str, str]:
    """By file of a git tree that differs from its last commit: what changes when the file does."""
    git = repository_of(root)
    if git is None:
        return {}
    listed = git.run("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames")
    found: dict[str, str] = {}
    for entry in listed.split("\0")[:-1]:
        status, path = entry[:2], entry[3:]
        found[path] = status
        with suppress(OSError):
            seen = os.lstat(git.folder / path)
            found[path] = f"{status} {seen.st_mtime_ns}.{seen.st_size}"
    return found
