"""Where tickets are worked on: a worktree and a branch each, and one branch of approved work.

The user's own branch and tree are only ever read here.  All calls block.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.errors import GitFailed, NotOurs, UsageError
from coterie.model.workspace import branch_of
from coterie.workspace.beneath import real_folder
from coterie.workspace.git import CHECKOUT_TIMEOUT, Git, locked, repository_of
from coterie.workspace.own_worktree import own_worktree
from coterie.workspace.session_files import SessionScoped, store_artifact
from coterie.workspace.worktree import HEADS, Worktree

if TYPE_CHECKING:
    from coterie.model.envelope import ArtifactRef

MERGED = "merged"
"""The branch of approved work, next to those of the tickets: `coterie/<session>/merged`."""
_TRAILER = "Coterie-Ticket"


@dataclass(frozen=True)
class Merge:
    """A ticket's work merged with the approved work: a commit, or what prevents one."""

    commit: str = ""
    tree: str = ""
    conflicts: tuple[str, ...] = ()


@dataclass(frozen=True)
class TicketWorktrees(SessionScoped):
    """A session's worktrees below `.coterie` and its branches below `coterie/`."""

    git: Git
    base: str
    """The commit that the session started from."""
    approved: str = MERGED
    """The name of the branch of approved work, among those of the session."""

    @property
    def folder(self) -> Path:
        """Where the worktrees are."""
        return self.root / ".coterie" / "worktrees" / self.session

    @property
    def branch(self) -> str:
        """The branch of approved work."""
        return self.branch_of(self.approved)

    def ref_of(self, name: str) -> str:
        """Return the ref of a branch of the session."""
        return f"{HEADS}{self.branch_of(name)}"

    def branch_of(self, name: str) -> str:
        """Return the name of a branch of the session."""
        return branch_of(self.session, name)

    def head(self) -> str:
        """Return the newest approved commit."""
        return self.git.commit(f"{HEADS}{self.branch}") or self.base

    def open(self, ticket: str) -> Path:
        """Open the ticket's worktree; a new one starts from the approved work."""
        is_there = Worktree.at(self.folder / ticket) is not None
        return self._worktree(ticket, self.base if is_there else self.head())

    def commit(self, ticket: str, message: str) -> str:
        """Commit everything in the ticket's worktree; return the tree's hash."""
        with self._exclusive_in(ticket) as git:
            commit = git.snapshot(f"{message}\n\n{_TRAILER}: {ticket}")
            # The branch moves, and the index with it, so that nobody sees phantom changes.
            git.run("update-ref", self.ref_of(ticket), commit)
            git.run("read-tree", commit)
        return self.tree(ticket)

    def tree(self, ticket: str) -> str:
        """Return the tree hash of the ticket's last commit."""
        return self.git.run("rev-parse", f"{self.ref_of(ticket)}^{{tree}}").strip()

    def changed(self, ticket: str) -> list[str]:
        """Return the files that the ticket's commits changed."""
        return self._difference(ticket, "-z", "--name-only").split("\0")[:-1]

    def store_uncommitted(self, ticket: str, names: Iterable[str]) -> list[ArtifactRef]:
        """Store files of these names that the ticket has created but not committed, as artifacts:
        they would be lost with the worktree."""
        folder = self.open(ticket).resolve()
        tracked = self.git.run(
            "ls-tree", "-r", "-z", "--name-only", "--full-tree", self._tip(ticket)
        )
        top = (self.folder / ticket).resolve()
        committed = {top / name for name in tracked.split("\0") if name}
        named = (name for name in names if "\0" not in name)
        # Unlike `resolve`, this tolerates links in a loop.
        paths = dict.fromkeys(Path(os.path.realpath(folder / name)) for name in named)
        new = [path for path in paths if path not in committed]
        kept = (store_artifact(self.root, self.session, ticket, top, path) for path in new)
        return [one for one in kept if one is not None]

    def diff(self, ticket: str) -> str:
        """Return what the ticket's commits changed, as a patch."""
        return self._difference(ticket, "-p")

    def merge_approved(self, ticket: str) -> tuple[str, ...]:
        """Merge what has been approved since into the ticket's work; return the conflicting files.

        They contain both versions between conflict markers, for the author to resolve.
        """
        tip, head = self._tip(ticket), self.head()
        if self.git.run("merge-base", tip, head).strip() == head:
            return ()
        tree, conflicts = self._merged_tree(tip, head)
        self.move_to(ticket, self.commit_tree(tree, (tip, head), f"Bring {ticket} up to date"))
        return conflicts

    def move_to(self, ticket: str, commit: str) -> None:
        """Move the ticket's branch and files to a commit that contains its work."""
        with self._exclusive_in(ticket) as git:
            # Files first: with the branch ahead of them, the ticket would seem to undo the new
            # commits.
            git.run("reset", "--quiet", "--hard", commit, timeout=CHECKOUT_TIMEOUT)
            git.run("update-ref", self.ref_of(ticket), commit)

    def advance_to(self, name: str, commit: str, *, files: bool = False) -> None:
        """Move a branch of the session to a commit that was sent, unless it contains it already.

        An existing worktree of the branch moves along; with `files` a missing one is created.
        """
        ref = self.ref_of(name)
        now = self.git.commit(ref)
        if now is None or not self._is_ancestor(commit, now):
            if name != MERGED and self.is_open(name):
                self.move_to(name, commit)
            else:
                with self.exclusive() as git:
                    git.run("update-ref", ref, commit)
        if files:
            self.open(name)

    def is_open(self, name: str) -> bool:
        """Whether a branch of the session has a worktree."""
        return Worktree.at(self.folder / name) is not None

    def _is_ancestor(self, commit: str, of: str) -> bool:
        return self.git.run("merge-base", commit, of, accept=(0, 1)).strip() == commit

    def restore(self, ticket: str) -> None:
        """Restore the worktree's files from the last commit; files that git ignores stay."""
        with self._exclusive_in(ticket) as git:
            git.run("reset", "--quiet", "--hard", timeout=CHECKOUT_TIMEOUT)
            git.run("clean", "-dffq")

    def put_back(self, ticket: str, names: Sequence[str], tree: str) -> None:
        """Restore files from a tree, and remove those that it does not have."""
        with self._exclusive_in(ticket) as git:
            git.run("reset", "--quiet", "--hard", timeout=CHECKOUT_TIMEOUT)
            listed = git.run("ls-tree", "-r", "-z", "--full-tree", "--name-only", tree)
            before = set(listed.split("\0"))
            known = [f":(literal){name}" for name in names if name in before]
            new = [f":(literal){name}" for name in names if name not in before]
            if known:
                git.run("checkout", "--quiet", tree, "--", *known)
            if new:
                git.run("rm", "--quiet", "--", *new)

    def conflicted(self, ticket: str) -> tuple[str, ...]:
        """Return the files in which approved work that was merged into the ticket's conflicted."""
        own = f"{self.head()}..{self._tip(ticket)}"
        merges = self.git.run("log", "--first-parent", "--merges", "--format=%P", own)
        parents = (line.split()[:2] for line in merges.splitlines())
        return tuple(sorted({name for pair in parents for name in self._merged_tree(*pair)[1]}))

    def unresolved(self, ticket: str, names: Sequence[str]) -> tuple[str, ...]:
        """Return which of these files contain both sides of a conflict between markers."""
        # More names would make the command too long: then search all files.
        named = [f":(literal){name}" for name in names] if len(names) <= 500 else []
        both = set(names)
        for mark in ("^<<<<<<< ", "^>>>>>>> ") if names else ():
            words = ("grep", "-l", "-z", "-I", "-e", mark, self._tip(ticket), "--", *named)
            listed = self.git.run(*words, accept=(0, 1)).split("\0")
            both &= {line.partition(":")[2] for line in listed}
        return tuple(sorted(both))

    def merge(self, ticket: str, title: str) -> Merge:
        """Merge the ticket's work with the approved work; no branch moves yet."""
        message = f"{ticket}: {title}\n\n{_TRAILER}: {ticket}"
        return self.merge_commits(self.head(), self._tip(ticket), message)

    def merge_commits(self, ours: str, theirs: str, message: str) -> Merge:
        """Merge two commits; no branch moves.  If they conflict there is no commit, and the tree
        has both versions between conflict markers."""
        tree, conflicts = self._merged_tree(ours, theirs)
        if conflicts:
            return Merge(tree=tree, conflicts=conflicts)
        return Merge(self.commit_tree(tree, (ours, theirs), message), tree)

    def check_out(self, commit: str) -> Path:
        """Check out exactly this commit in the folder where checks run."""
        self._worktree(MERGED, self.base)
        with self._exclusive_in(MERGED) as git:
            git.run("checkout", "--quiet", "--detach", "--force", commit, timeout=CHECKOUT_TIMEOUT)
            git.run("clean", "-dffq")
        return self._project_in(MERGED)

    def land(self, commit: str) -> None:
        """Approve a merge: move the branch to it, if it is still where the merge began."""
        with self.exclusive() as git:
            if self.head() == commit:
                return  # an earlier run was interrupted right here
            ref = f"{HEADS}{self.branch}"
            before = git.run("rev-parse", f"{commit}^1").strip()
            if before == self.base and git.commit(ref) is None:
                before = "0" * len(before)  # the first merge creates the branch
            git.run("update-ref", ref, commit, before)

    def landed(self, ticket: str) -> str | None:
        """Return the merge of the ticket's current work, if it is on the branch already."""
        with self.exclusive() as git:
            onward = f"{self.base}..{self.head()}"
            log = git.run("log", "--first-parent", "--merges", "--format=%H %P", onward)
        tip = self._tip(ticket)
        merges = (line.split() for line in log.splitlines())
        return next((merge for merge, *parents in merges if tip in parents[1:]), None)

    def span(self, ticket: str) -> tuple[str, str] | None:
        """Return the commits between which a ticket's work lies: those of its branch, or of the
        merge that includes it; None if it has not begun."""
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
            raise GitFailed("rev-parse", str(self.folder), f"no branch {self.branch_of(ticket)}")
        return tip

    def _worktree(self, name: str, at: str) -> Path:
        """Return the project's folder in a worktree of the session, creating that if needed."""
        self._make()
        own_worktree(self.root, self.folder / name, f"{self.session}/{name}", at)
        return self._project_in(name)

    def _project_in(self, name: str) -> Path:
        """Return the project's folder in a worktree; git has none while no file is committed."""
        top = self.folder / name
        with suppress(NotOurs):  # something else has its name there
            return real_folder(top, *self.inside.parts, make=True)
        return top

    @property
    def inside(self) -> Path:
        """The project's folder relative to the repository."""
        return self.root.resolve().relative_to(self.git.folder)

    def _make(self) -> None:
        """Create the folder of the worktrees, without following links."""
        real_folder(self.root / ".coterie", "worktrees", self.session, make=True)

    @contextmanager
    def exclusive(self) -> Generator[Git]:
        """Yield git under the session's lock: another may have outlived its run."""
        self._make()
        with locked(self.folder) as lock:
            yield replace(self.git, pass_fds=(lock,))

    @contextmanager
    def _exclusive_in(self, name: str) -> Generator[Git]:
        """Yield git, under the same lock, in one of the worktrees."""
        path = self.folder / name
        with self.exclusive() as git:
            worktree = Worktree.at(path)
            if worktree is None or worktree.common != git.common_dir:
                raise GitFailed("worktree", str(path), "this worktree was removed or changed")
            yield replace(git, folder=path, worktree=worktree)

    def _merged_tree(self, ours: str, theirs: str) -> tuple[str, tuple[str, ...]]:
        words = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", ours, theirs)
        tree, *names = self.git.run(*words, accept=(0, 1)).split("\0")
        return tree.strip(), tuple(sorted({name for name in names if name}))

    def commit_tree(self, tree: str, parents: Sequence[str], message: str) -> str:
        """Commit a tree, on no branch."""
        words = [word for parent in parents for word in ("-p", parent)]
        return self.git.run(
            "commit-tree", tree, *words, "-m", message, env=self.git.identity()
        ).strip()


def open_ticket_worktrees(
    root: Path, session: str, base: str | None, approved: str = MERGED
) -> TicketWorktrees | None:
    """Return the worktrees of a session; `base` is None when it begins.

    None without git: then everybody works in the project's own folder.
    """
    git = repository_of(root)
    if base == "" or (git is None and base is None):
        return None
    head = base or (git.head() if git else None)
    if git is None:
        problem = f"{root} is in no git repository any more, but {session} began in one."
        raise UsageError(problem, "Bring .git back.", str(root))
    if head is None:
        raise UsageError(
            "This repository has no commit yet, and worktrees need one to start from.",
            'git commit --allow-empty -m "Begin"',
            str(root),
        )
    return TicketWorktrees(root, session, git, head, approved)


def fingerprint(root: Path) -> dict[str, str]:
    """Return a value for each uncommitted file of a git tree, which changes when the file does."""
    git = repository_of(root)
    if git is None:
        return {}
    listed = git.run("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames")
    values: dict[str, str] = {}
    for entry in listed.split("\0")[:-1]:
        status, path = entry[:2], entry[3:]
        values[path] = status
        with suppress(OSError):
            seen = os.lstat(git.folder / path)
            values[path] = f"{status} {seen.st_mtime_ns}.{seen.st_size}"
    return values
