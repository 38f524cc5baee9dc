"""Taking a session's approved work into the user's branch, on the user's word, and back out of it.

Only here is the user's branch or tree written, and always by a fast-forward: git refuses it where
that would lose anything.  Hooks of the repository are not run (see `git`).  All of it blocks.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from coterie.errors import GitFailed, NotAccepted
from coterie.workspace.git import CHECKOUT, FileDiffStat, Git, diff_trees
from coterie.workspace.ticket_worktrees import Merge, TicketWorktrees

_REFS = "refs/coterie"
_SHORT = 7
_IN_THE_MIDDLE = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "BISECT_LOG": "a bisection",
}
_PLAIN = ("--quiet", "--no-stat", "--no-verify-signatures", "--no-autostash")


class Acceptance:
    """One session's work, and the branch that may take it."""

    def __init__(self, worktrees: TicketWorktrees) -> None:
        self.worktrees = worktrees
        self.git: Git = worktrees.git
        """The user's repository, where they work."""
        self.task: str = worktrees.session
        """The session, by its root task."""

    @property
    def accepted(self) -> tuple[str, str] | None:
        """The user's branch before and after the work was taken in; None where it never was."""
        before, after = self._ref("before"), self._ref("accepted")
        taking = self._ref("taking")
        if before and taking and after is None and self.contains(self.head(), taking):
            self._set("accepted", taking)  # cut after the branch had moved
            after = taking
        return (before, after) if before and after else None

    @property
    def reverted(self) -> str | None:
        """The commit that took the work back, or the work itself where it was never taken in."""
        return self._ref("reverted")

    def head(self) -> str:
        """The commit that the user has checked out."""
        found = self.git.head()
        if found is None:
            raise NotAccepted(self.task, "there is no commit here")
        return found

    def branch(self) -> str:
        """The branch that the user has checked out."""
        name = self.git.run("symbolic-ref", "--quiet", "--short", "HEAD", accept=(0, 1)).strip()
        if not name:
            hint = "git switch BRANCH"
            raise NotAccepted(self.task, "no branch is checked out here", hint)
        return name

    def differs(self, before: str, after: str) -> list[str]:
        """The files that differ between two commits."""
        words = ("diff-tree", "-r", "-z", "--no-renames", "--name-only")
        return self.git.run(*words, before, after).split("\0")[:-1]

    def files_of(self, commit: str) -> list[str]:
        return self.git.run("ls-tree", "-r", "-z", "--name-only", commit).split("\0")[:-1]

    def patch(self, before: str, after: str) -> tuple[str, tuple[FileDiffStat, ...]]:
        """What differs between two commits, as a patch and as its size."""
        return diff_trees(self.git.run, before, after)

    def check_place(self) -> None:
        """Raise NotAccepted in the middle of something that git was told to do."""
        folder = Path(self.git.run("rev-parse", "--absolute-git-dir").strip())
        for name, what in _IN_THE_MIDDLE.items():
            if (folder / name).exists():
                problem = f"{self.git.folder} is in the middle of {what}"
                raise NotAccepted(self.task, problem, "Finish it, or give it up, first.")

    def merged_with(self, head: str, work: str, message: str) -> str:
        """The work on top of a branch that went on: a commit that no branch has yet."""
        if self.contains(work, head):
            return work
        made = self.worktrees.merge_commits(head, work, message)
        if made.conflicts:
            files = ", ".join(made.conflicts)
            raise NotAccepted(
                self.task,
                f"it conflicts with your branch in {files}",
                f"git merge {self.worktrees.branch}, and settle it by hand",
            )
        return made.commit

    def take(self, commit: str) -> None:
        """Move the user's branch and tree on to a commit that contains it, and remember that; once,
        however many try it at the same moment."""
        with self.worktrees.alone():
            self.check_not_accepted()
            before = self.head()
            self._check_clean(before, commit)
            self._set("before", before)
            self._set("taking", commit)
            self._forward(commit)
            self._set("accepted", commit)
            self._drop("taking")

    def check_not_accepted(self) -> None:
        """Raise NotAccepted where the work was taken in already."""
        taken = self.accepted
        if taken is not None:
            said = f"{self.task} was accepted already, as {taken[1][:_SHORT]}"
            raise NotAccepted(self.task, said, f"coterie diff {self.task}")

    def _check_clean(self, before: str, after: str) -> None:
        """Raise NotAccepted where files that would change hold work that is not committed."""
        files = self.differs(before, after)
        listed = self.git.run("status", "--porcelain=v1", "-z", "-uall", "--no-renames").split("\0")
        changed = {entry[3:] for entry in listed if entry}
        known = set(self.files_of(before))
        there = (name for name in files if name not in known)
        # Files that git ignores it would overwrite without a word.
        changed |= {name for name in there if os.path.lexists(self.git.folder / name)}
        in_the_way = sorted(changed & set(files))
        if in_the_way:
            problem = f"you have changes of your own in {', '.join(in_the_way)}"
            raise NotAccepted(self.task, problem, "Commit them, or put them aside: git stash -u")

    def _advance(self, commit: str) -> None:
        self._check_clean(self.head(), commit)
        self._forward(commit)

    def _forward(self, commit: str) -> None:
        try:
            self.git.run("merge", "--ff-only", *_PLAIN, commit, patience=CHECKOUT)
        except GitFailed as failed:
            raise NotAccepted(self.task, f"git says: {failed.said}") from failed

    def undone(self, before: str, after: str, message: str) -> tuple[str, Sequence[str]]:
        """What the user's branch is without what came between two commits, as a commit on it.

        Work of others since stays; the files in which it cannot be told apart are named instead.
        """
        head = self.head()
        made = self._merged_from(after, head, before)
        if made.conflicts:
            return "", made.conflicts
        return self.worktrees.commit_tree(made.tree, (head,), message), ()

    def moved_onto(self, head: str, work: str, message: str, *, marked: bool = False) -> str:
        """The work as if it had begun at another commit: a commit that has both as parents.

        Only what the work changed is brought along: what the user has taken out of their branch
        since does not come back with it.  What conflicts is refused, or `marked` in the files.
        """
        made = self._merged_from(self.worktrees.base, head, work)
        if made.conflicts and not marked:
            files = ", ".join(made.conflicts)
            by_hand = f"git merge {self.worktrees.branch}"
            said = f"it conflicts with your branch in {files}: settle it by hand with {by_hand}"
            raise NotAccepted(self.task, said, by_hand)
        return self.worktrees.commit_tree(made.tree, (work, head), message)

    def _merged_from(self, start: str, ours: str, theirs: str) -> Merge:
        """What became of a commit in two others, put together."""
        # Git merges from where two commits part: with these made for it, that is `start`.
        begin = self._alone(start)
        sides = self._alone(ours, begin), self._alone(theirs, begin)
        return self.worktrees.merge_commits(*sides, "For a merge")

    def take_back(self, commit: str) -> None:
        """Move the user's branch and tree on to a commit that undoes the work."""
        self._advance(commit)
        self._set("reverted", commit)

    def bring_back(self, commit: str) -> None:
        """Move the user's branch and tree on to a commit that undoes the revert."""
        self._advance(commit)
        self.unmark_reverted()

    def mark_reverted(self) -> None:
        """Remember that the work is not wanted; its branch stays."""
        self._set("reverted", self.worktrees.head())

    def unmark_reverted(self) -> None:
        """Remember that it is wanted after all."""
        self._drop("reverted")

    def parent_of(self, commit: str) -> str:
        return self.git.run("rev-parse", f"{commit}^1").strip()

    def _alone(self, commit: str, *parents: str) -> str:
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


def held_elsewhere(task: str, pid: int | None) -> NotAccepted:
    """Another terminal is at it at this moment, so this one leaves it alone."""
    said = f"another terminal is accepting or reverting {task} (pid {pid or 'unknown'})"
    return NotAccepted(task, said, f"coterie show {task}")
