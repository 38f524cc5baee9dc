"""Merging a session's approved work into the user's branch when the user says so, and reverting it.

Only this module writes the user's branch or tree, and always by fast-forward: git refuses one that
would lose anything.  The repository's hooks are not run (see `git`).  All calls block.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Set
from itertools import islice
from pathlib import Path, PurePosixPath

from coterie.errors import GitFailed, NotAccepted, UsageError
from coterie.workspace.git import CHECKOUT_TIMEOUT, FileDiffStat, Git, diff_trees
from coterie.workspace.snapshots.revert import RevertResult
from coterie.workspace.ticket_worktrees import Merge, TicketWorktrees

_REFS = "refs/coterie"
_SHORT = 7
_SWITCH = "git switch BRANCH"
_GIT_OPERATIONS = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "BISECT_LOG": "a bisection",
}
_PLAIN = ("--quiet", "--no-stat", "--no-verify-signatures", "--no-autostash")


class Acceptance:
    """A session's work, and the branch that it may be merged into."""

    def __init__(self, worktrees: TicketWorktrees) -> None:
        self.worktrees = worktrees
        self.git: Git = worktrees.git
        """The user's repository, where they work."""
        self.task: str = worktrees.session
        """The session, by its root task."""

    @property
    def accepted(self) -> tuple[str, str] | None:
        """The user's branch before and after accepting the work; None if it was never accepted."""
        before, after = self._ref("before"), self._reached("accepted", "taking")
        return (before, after) if before and after else None

    @property
    def reverted(self) -> str | None:
        """The commit that reverted the work, or the work's own if it was never accepted."""
        back = self._ref("restoring")
        if back is not None and self.contains(self.head(), back):
            self._unmark_reverted()  # a run was killed just before that
        return self._reached("reverted", "reverting")

    def _reached(self, done: str, under_way: str) -> str | None:
        """Return the commit recorded as `done`, even if a run was killed just before that: the
        branch has the commit that was `under_way`."""
        commit, moving = self._ref(done), self._ref(under_way)
        if commit is None and moving is not None and self.contains(self.head(), moving):
            self._set(done, moving)
            commit = moving
        return commit

    def head(self) -> str:
        """The commit that the user has checked out."""
        commit = self.git.head()
        if commit is None:
            raise NotAccepted(self.task, "there is no commit here")
        return commit

    def branch(self) -> str:
        """The branch that the user has checked out."""
        name = self.git.run("symbolic-ref", "--quiet", "--short", "HEAD", accept=(0, 1)).strip()
        if not name:
            raise NotAccepted(self.task, "no branch is checked out here", _SWITCH)
        return name

    def differs(self, before: str, after: str) -> list[str]:
        """The files that differ between two commits."""
        words = ("diff-tree", "-r", "-z", "--no-renames", "--name-only")
        return self.git.run(*words, before, after).split("\0")[:-1]

    def files_of(self, commit: str) -> list[str]:
        return self.git.run("ls-tree", "-r", "-z", "--name-only", commit).split("\0")[:-1]

    def patch(self, before: str, after: str) -> tuple[str, tuple[FileDiffStat, ...]]:
        """Return the diff between two commits: the patch and its statistics."""
        return diff_trees(self.git.run, before, after)

    def check_no_operation_in_progress(self) -> None:
        """Raise NotAccepted if a merge, rebase or the like is unfinished."""
        folder = Path(self.git.run("rev-parse", "--absolute-git-dir").strip())
        for name, what in _GIT_OPERATIONS.items():
            if (folder / name).exists():
                problem = f"{self.git.folder} is in the middle of {what}"
                raise NotAccepted(self.task, problem, "Finish or abort it first.")

    def merged_with(self, head: str, work: str, message: str) -> str:
        """Return the work merged with a branch that has moved on: a commit on no branch yet."""
        if self.contains(work, head):
            return work
        merge = self.worktrees.merge_commits(head, work, message)
        if merge.conflicts:
            files = ", ".join(merge.conflicts)
            raise NotAccepted(
                self.task,
                f"it conflicts with your branch in {files}",
                f"git merge {self.worktrees.branch}, and resolve the conflicts by hand",
            )
        return merge.commit

    def accept(self, commit: str) -> None:
        """Fast-forward the user's branch and tree to a commit that contains the work, and record
        it.

        Of several concurrent callers only one succeeds.
        """
        with self.worktrees.exclusive():
            self.check_not_accepted()
            before = self.head()
            self._check_clean(before, commit)
            self._set("before", before)
            self._set("taking", commit)
            self._forward(commit)
            self._set("accepted", commit)
            self._drop("taking")

    def check_not_accepted(self) -> None:
        """Raise NotAccepted if the work was accepted already."""
        taken = self.accepted
        if taken is not None:
            why = f"{self.task} was already accepted, as {taken[1][:_SHORT]}"
            raise NotAccepted(self.task, why, f"coterie diff {self.task}")

    def _check_clean(self, before: str, after: str) -> None:
        """Raise NotAccepted if files that would change have uncommitted changes."""
        files = self.differs(before, after)
        listed = self.git.run("status", "--porcelain=v1", "-z", "-uall", "--no-renames").split("\0")
        changed = {entry[3:] for entry in listed if entry}
        known = set(self.files_of(before))
        new = [PurePosixPath(name) for name in files if name not in known]
        # Git would silently overwrite files that it ignores.
        ignored = _in_the_way(self.git.folder, new, known)
        edited = sorted(changed & set(files))
        if edited:
            problem = f"you have uncommitted changes in {', '.join(edited)}"
            raise NotAccepted(self.task, problem, "Commit them, or stash them: git stash -u")
        if ignored:
            problem = f"files of yours are in the way: {', '.join(sorted(ignored))}"
            raise NotAccepted(self.task, problem, "Move them away.")

    def _advance(self, commit: str) -> None:
        self._check_clean(self.head(), commit)
        self._forward(commit)

    def _forward(self, commit: str) -> None:
        try:
            self.git.run("merge", "--ff-only", *_PLAIN, commit, timeout=CHECKOUT_TIMEOUT)
        except GitFailed as failed:
            raise NotAccepted(self.task, f"git says: {failed.output}") from failed

    def rebased_onto(self, head: str, work: str, message: str, *, marked: bool = False) -> str:
        """Return the work as if it had started from another commit: a commit with both as parents.

        Only the work's own changes are carried over: what the user has removed from their branch
        since does not come back.  Conflicts are refused, or if `marked` left as markers in the
        files.
        """
        merge = self._merge_with_base(self.worktrees.base, head, work)
        if merge.conflicts and not marked:
            files = ", ".join(merge.conflicts)
            by_hand = f"git merge {self.worktrees.branch}"
            why = f"it conflicts with your branch in {files}: resolve this by hand with {by_hand}"
            raise NotAccepted(self.task, why, by_hand)
        return self.worktrees.commit_tree(merge.tree, (work, head), message)

    def _merge_with_base(self, start: str, ours: str, theirs: str) -> Merge:
        """Merge two commits, with a third as their merge base."""
        # Copies of the commits, so that their common ancestor, git's merge base, is `start`.
        begin = self._detached_copy(start)
        sides = self._detached_copy(ours, begin), self._detached_copy(theirs, begin)
        return self.worktrees.merge_commits(*sides, "For a merge")

    def revert(self, *, dry_run: bool) -> RevertResult:
        """Undo the work in the user's branch; work that was never accepted is only marked."""
        if self.reverted is not None:
            hint = f"coterie revert {self.task} --undo"
            raise UsageError(f"{self.task} was reverted already.", hint)
        taken = self.accepted
        if taken is None:  # the user's branch needs no change
            if not dry_run:
                self._set("reverted", self.worktrees.head())
            return RevertResult()
        commit, done = self._undone(*taken, f"Revert {self.task}")
        if done is None:
            text = f"This would change nothing in {self.branch()}"
            raise UsageError(f"{text}: is the work of {self.task} in another one?", _SWITCH)
        if not dry_run:
            self._set("reverting", commit)
            self._advance(commit)
            self._set("reverted", commit)
        return done

    def undo_revert(self, *, dry_run: bool) -> RevertResult:
        """Bring the work back that was reverted; only unmark it if nothing has to change, as it was
        never accepted or somebody has brought it back by hand."""
        taken, reverted = self.accepted, self.reverted
        if reverted is None:
            raise UsageError(f"{self.task} was not reverted.", f"coterie diff {self.task}")
        commit, done = "", None
        if taken is not None:
            span = self.git.run("rev-parse", f"{reverted}^1").strip(), reverted
            commit, done = self._undone(*span, f"Bring {self.task} back")
        if done is not None and not dry_run:
            self._set("restoring", commit)
            self._advance(commit)
        if not dry_run:
            self._unmark_reverted()
        return done or RevertResult()

    def _undone(self, before: str, after: str, message: str) -> tuple[str, RevertResult | None]:
        """Return a commit on the user's branch that undoes the changes between two commits, and
        what that would do; None if nothing.  Later work of others stays."""
        self.check_no_operation_in_progress()
        self.branch()
        head = self.head()
        merge = self._merge_with_base(after, head, before)
        if merge.conflicts:
            problem = f"others changed the same lines since, in {', '.join(merge.conflicts)}"
            text = f"{self.task}: {problem}. Nothing was changed."
            raise UsageError(text, f"coterie diff {self.task}")
        commit = self.worktrees.commit_tree(merge.tree, (head,), message)
        files = self.differs(head, commit)
        remaining, others = set(self.files_of(commit)), set(self.differs(after, head))
        done = RevertResult(
            restored=tuple(one for one in files if one in remaining and one not in others),
            merged=tuple(one for one in files if one in remaining and one in others),
            removed=tuple(one for one in files if one not in remaining),
        )
        return commit, done if files else None

    def forget(self) -> None:
        """Forget what was accepted and reverted so far; the branch keeps its commits."""
        for what in ("before", "taking", "accepted"):
            self._drop(what)
        self._unmark_reverted()

    def _unmark_reverted(self) -> None:
        for what in ("reverting", "reverted", "restoring"):
            self._drop(what)

    def _detached_copy(self, commit: str, *parents: str) -> str:
        tree = self.git.run("rev-parse", f"{commit}^{{tree}}").strip()
        return self.worktrees.commit_tree(tree, parents, "For a merge")

    def contains(self, commit: str, other: str) -> bool:
        return self.git.run("merge-base", other, commit, accept=(0, 1)).strip() == other

    def _name(self, what: str) -> str:
        return f"{_REFS}/{what}/{self.task}"

    def _ref(self, what: str) -> str | None:
        return self.git.commit(self._name(what))

    def _set(self, what: str, commit: str) -> None:
        self.git.run("update-ref", self._name(what), commit)

    def _drop(self, what: str) -> None:
        self.git.run("update-ref", "-d", self._name(what))


def _in_the_way(top: Path, new: Iterable[PurePosixPath], known: Set[str]) -> set[str]:
    """Return the files outside git's keeping that new files would replace; `known` are those that
    git keeps."""
    taken: set[str] = set()
    for name in new:
        above = name.parents[:-1]
        if not known.isdisjoint(map(str, above)):
            continue  # a file that git keeps becomes this folder
        taken.update(str(one) for one in above if not _is_missing_or_folder(top / one))
        taken.update(islice((one for one in _files_at(top, name) if one not in known), 1))
    return taken


def _is_missing_or_folder(place: Path) -> bool:
    return not os.path.lexists(place) or (place.is_dir() and not place.is_symlink())


def _files_at(top: Path, name: PurePosixPath) -> Iterator[str]:
    """Yield what is at this place: a file, or the files below a folder, however deep."""
    pending = [name]
    while pending:
        one = pending.pop()
        place = top / one
        if not os.path.lexists(place):
            continue
        if place.is_symlink() or not place.is_dir():
            yield str(one)
            continue
        try:
            pending += (one / inner.name for inner in sorted(place.iterdir(), reverse=True))
        except OSError:
            yield str(one)  # whatever is in there


def busy_elsewhere(task: str, pid: int | None) -> NotAccepted:
    """Return the error for a session that another terminal is accepting or reverting."""
    why = f"another terminal is accepting or reverting {task} (pid {pid or 'unknown'})"
    return NotAccepted(task, why, f"coterie show {task}")
