"""The change of one pipeline: made in a worktree of its own, committed after every turn.

What is taken back before it is accepted is kept under a ref, and the next try has a branch of its
own: so a kill in between can never mix the two.  All of it blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from coterie.errors import NotAccepted
from coterie.model.artifact import FileOperation
from coterie.workspace.acceptance import Acceptance
from coterie.workspace.git import FileDiffStat, repository_of
from coterie.workspace.leftovers import SessionLeftovers
from coterie.workspace.ticket_worktrees import TicketWorktrees, open_ticket_worktrees
from coterie.workspace.worktree import HEADS, Worktree

_DROPPED = "refs/coterie/dropped"
_ONTO = "refs/coterie/onto"
"""Under this: the commit of the user's branch that the work was brought on to."""
_SHORT = 7
_OPERATIONS: dict[str, FileOperation] = {"A": "create", "D": "delete"}


@dataclass(frozen=True)
class ChangedFile:
    """One file that a change touches."""

    path: str
    operation: FileOperation
    stat: FileDiffStat


def reverts_of(root: Path, session: str) -> int:
    """How often the work of a session was taken back before it was accepted."""
    git = repository_of(root)
    if git is None:
        return 0
    listed = git.run("for-each-ref", "--format=%(refname)", f"{_DROPPED}/{session}/")
    return len(listed.split())


def branch_name(reverts: int) -> str:
    """What the branch of the work is called, after the work was taken back so often."""
    return f"work-{reverts + 1}" if reverts else "work"


def open_work(root: Path, session: str, base: str, reverts: int | None = None) -> PipelineWork:
    """The work of a session that began at a commit, since it was last taken back."""
    number = reverts_of(root, session) if reverts is None else reverts
    found = open_ticket_worktrees(root, session, base, branch_name(number))
    assert found is not None, "it began at a commit"
    return PipelineWork(found).current()


@dataclass(frozen=True)
class PipelineWork:
    """The work of one pipeline, since it was last taken back."""

    worktrees: TicketWorktrees
    """Those of the session, with the branch of this work as the approved one."""

    @cached_property
    def acceptance(self) -> Acceptance:
        return Acceptance(self.worktrees)

    @property
    def _name(self) -> str:
        return self.worktrees.approved

    @property
    def base(self) -> str:
        """The commit that the change begins with."""
        return self.worktrees.base

    @property
    def _onto(self) -> str:
        return f"{_ONTO}/{self.worktrees.session}/{self._name}"

    def current(self) -> PipelineWork:
        """The same, since it was last brought on to the user's branch."""
        base = self.worktrees.git.commit(self._onto)
        return PipelineWork(replace(self.worktrees, base=base)) if base else self

    def open(self) -> Path:
        """The folder that is worked in."""
        return self.worktrees.open(self._name)

    def commit(self, message: str) -> str:
        """Commit all that is in the folder; returns the tree's hash."""
        self.open()
        return self.worktrees.commit(self._name, message)

    def restore(self) -> None:
        """Put the files back to what was last committed: what a test left behind is no work."""
        self.open()
        self.worktrees.restore(self._name)

    @property
    def tip(self) -> str:
        """The last commit."""
        return self.worktrees.head()

    @property
    def tree(self) -> str:
        """The hash of the files that were last committed."""
        return self._tree_of(self.tip)

    def _tree_of(self, commit: str) -> str:
        return self.worktrees.git.run("rev-parse", f"{commit}^{{tree}}").strip()

    def diff(self) -> str:
        """The change as a patch."""
        return self.acceptance.patch(self.base, self.tip)[0]

    def changed(self, since: str | None = None) -> list[ChangedFile]:
        """The files that the change touches; those alone that differ from a tree."""
        before = since or self.base
        _, stats = self.acceptance.patch(before, self.tip)
        words = ("diff-tree", "-r", "-z", "--no-renames", "--name-status", before, self.tip)
        entries = iter(self.worktrees.git.run(*words).split("\0")[:-1])
        letters = {path: letter for letter, path in zip(entries, entries, strict=True)}
        return [
            ChangedFile(one.path, _OPERATIONS.get(letters.get(one.path, ""), "modify"), one)
            for one in stats
        ]

    def has(self, path: str) -> bool:
        """Whether the file was there before the change."""
        words = ("ls-tree", "--full-tree", "--name-only", "-z", self.base, "--", path)
        return bool(self.worktrees.git.run(*words))

    def files(self) -> list[str]:
        """Every file as it was last committed."""
        return self.acceptance.files_of(self.tip)

    def content(self, path: str) -> bytes:
        """A file as it was last committed."""
        text = self.worktrees.git.run("cat-file", "blob", f"{self.tip}:{path}")
        return text.encode("utf-8", "surrogateescape")

    def put_back(self, paths: Sequence[str], message: str, tree: str | None = None) -> str:
        """Put files back to how they are in a tree, else before the change; returns the hash of
        the tree that then is."""
        self.open()
        self.worktrees.put_back(self._name, paths, tree or self.base)
        return self.commit(message)

    # -- the user's own branch -----------------------------------------------------------------

    def check_unmoved(self, tree: str) -> None:
        """Raise NotAccepted where something moved since the gates were decided on a tree."""
        task, acceptance = self.worktrees.session, self.acceptance
        acceptance.check_place()
        branch, head = acceptance.branch(), acceptance.head()
        if head != self.base:
            said = (
                f"{branch} moved since the work began ({self.base[:_SHORT]}, now {head[:_SHORT]})"
            )
            raise NotAccepted(task, said, f"coterie accept {task} --recheck")
        self._check_folder(tree)

    def _check_folder(self, tree: str) -> None:
        task, now = self.worktrees.session, self._folder_tree()
        if now != tree:
            said = f"the work moved since the gates ran ({tree[:_SHORT]}, now {now[:_SHORT]})"
            raise NotAccepted(task, said, f"coterie resume {task}, and have it tested again")

    def _folder_tree(self) -> str:
        """What is in the folder now, committed or not; what is committed where it is gone."""
        folder = self.worktrees.folder / self._name
        found = Worktree.at(folder)
        if found is None:
            return self.tree
        git = replace(self.worktrees.git, folder=folder, worktree=found)
        return self._tree_of(git.snapshot("As it is"))

    def accept(self, message: str, tree: str) -> str:
        """One commit with the change on the user's branch; the same one where it was taken already.

        Raises NotAccepted, and then nothing was changed.
        """
        taken = self.acceptance.accepted
        if taken is not None:
            return taken[1]
        self.check_unmoved(tree)
        commit = self.worktrees.commit_tree(tree, (self.base,), message)
        self.acceptance.take(commit)
        return commit

    @property
    def is_behind(self) -> bool:
        """Whether the user's branch has moved since the work began, so that it would be refused."""
        return self.worktrees.git.head() not in (None, self.base)

    def bring_onto_branch(self, tree: str, *, marked: bool = False) -> None:
        """Bring the work on to the user's branch as it is now; `tree` is what it was before.

        Raises NotAccepted, and then nothing was changed; what conflicts is no reason where it may
        be `marked` in the files.  Cut anywhere, it can be done again.
        """
        acceptance, task = self.acceptance, self.worktrees.session
        acceptance.check_place()
        branch, head = acceptance.branch(), acceptance.head()
        if self._tree_of(head) == tree:
            raise NotAccepted(task, f"{branch} has all of it already", f"coterie diff {task}")
        self.open()
        if not acceptance.contains(self.tip, head):
            self._check_folder(tree)
            said = f"Bring it on to {branch}"
            made = acceptance.moved_onto(head, self.tip, said, marked=marked)
            self.worktrees.move_to(self._name, made)
        self.restore()
        self.worktrees.git.run("update-ref", self._onto, head)

    def unresolved(self) -> tuple[str, ...]:
        """The files that hold both sides of a conflict between its marks."""
        return self.worktrees.unresolved(self._name, [one.path for one in self.changed()])

    def clear(self) -> None:
        """Remove the folder of the work, which is in the user's branch or under a ref."""
        SessionLeftovers(self.worktrees).remove_worktrees()

    def drop(self, number: int) -> str:
        """Take the work back that was not accepted: for the how-manieth time.  It is kept under a
        ref; the same once more changes nothing."""
        git, session = self.worktrees.git, self.worktrees.session
        ref = f"{_DROPPED}/{session}/{number}"
        kept = git.commit(ref)
        if kept is None:
            if git.commit(f"{HEADS}{self.worktrees.branch}") is not None:
                self.commit("Taken back")
            kept = self.tip
            git.run("update-ref", ref, kept)
        self.clear()
        if git.commit(f"{HEADS}{self.worktrees.branch}") is not None:
            git.run("update-ref", "-d", f"{HEADS}{self.worktrees.branch}")
        return kept
