"""The change of one pipeline, made in a worktree of its own and committed after every turn.

Its files are named relative to the project, which may be a folder inside the repository.

Work that is reverted before it is accepted is kept under a ref, and the next attempt gets a new
branch, so a kill in between can never mix the two.  All calls block.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from coterie.errors import GitFailed, NotAccepted, UsageError
from coterie.model.artifact import FileOperation
from coterie.model.workspace import dropped_ref
from coterie.workspace.acceptance import Acceptance
from coterie.workspace.git import FileDiffStat, repository_of
from coterie.workspace.leftovers import SessionLeftovers
from coterie.workspace.ticket_worktrees import TicketWorktrees, open_ticket_worktrees
from coterie.workspace.worktree import HEADS, Worktree, checkout_at

_ONTO = "refs/coterie/onto"
"""Prefix of refs to the commit of the user's branch that the work was last moved onto."""
_SHORT = 7
_OPERATIONS: dict[str, FileOperation] = {"A": "create", "D": "delete"}


@dataclass(frozen=True)
class ChangedFile(FileDiffStat):
    """A file that a change touches."""

    operation: FileOperation
    in_repository: str
    """Its path in the repository."""


def reverts_of(root: Path, session: str) -> int:
    """Return how often the work of a session was reverted before it was accepted."""
    git = repository_of(root)
    place = None if git is None else checkout_at(git.folder)
    if git is None or (place and not place.may_have(dropped_ref(session))):
        return 0
    listed = git.run("for-each-ref", "--format=%(refname)", dropped_ref(session))
    return len(listed.split())


def work_name(reverts: int) -> str:
    """Return the name of the work's branch after this many reverts."""
    return f"work-{reverts + 1}" if reverts else "work"


def starting_commit(root: Path, session: str = "", base: str | None = None) -> str:
    """Return the commit that the work of a session starts from; raises UsageError if none can."""
    worktrees = open_ticket_worktrees(root, session, base)
    if worktrees is None:
        raise UsageError(
            f"{root} is not in a git repository; a build ends with a commit.",
            'git init, then git commit --allow-empty -m "Begin"',
            str(root),
        )
    return worktrees.base


def open_work(root: Path, session: str, base: str, reverts: int | None = None) -> PipelineWork:
    """Open the work of a session, which started from this commit, since the last revert."""
    number = reverts_of(root, session) if reverts is None else reverts
    worktrees = open_ticket_worktrees(root, session, base, work_name(number))
    assert worktrees is not None, "it began at a commit"
    return PipelineWork(worktrees).current()


@dataclass(frozen=True)
class PipelineWork:
    """The work of one pipeline since the last revert."""

    worktrees: TicketWorktrees
    """The session's worktrees, with the branch of this work as the approved one."""

    @cached_property
    def acceptance(self) -> Acceptance:
        return Acceptance(self.worktrees)

    @property
    def _name(self) -> str:
        return self.worktrees.approved

    @property
    def base(self) -> str:
        """The commit that the change starts from."""
        return self.worktrees.base

    @property
    def _onto(self) -> str:
        return f"{_ONTO}/{self.worktrees.session}/{self._name}"

    def current(self) -> PipelineWork:
        """Return the same work, starting from where it was last moved onto the user's branch."""
        base = self.worktrees.git.commit(self._onto)
        return PipelineWork(replace(self.worktrees, base=base)) if base else self

    def open(self) -> Path:
        """Return the project's folder to work in."""
        return self.worktrees.open(self._name)

    def _tracked(self, path: str) -> str:
        """Return the path in the repository of a file of the project."""
        return posixpath.normpath(posixpath.join(self.worktrees.inside, path))

    def _own(self, tracked: str) -> str:
        """Return the path relative to the project of a file in the repository."""
        return posixpath.relpath(f"/{tracked}", f"/{self.worktrees.inside}")

    def commit(self, message: str) -> str:
        """Commit everything in the folder; return the tree's hash."""
        self.open()
        return self.worktrees.commit(self._name, message)

    def restore(self) -> None:
        """Restore the files of the last commit: what a test left behind is not part of the work."""
        self.open()
        self.worktrees.restore(self._name)

    @property
    def tip(self) -> str:
        """The last commit."""
        return self.worktrees.head()

    @property
    def tree(self) -> str:
        """The tree hash of the last commit."""
        return self._tree_of(self.tip)

    def _tree_of(self, commit: str) -> str:
        return self.worktrees.git.run("rev-parse", f"{commit}^{{tree}}").strip()

    def diff(self) -> str:
        """Return the change as a patch."""
        return self.acceptance.patch(self.base, self.tip)[0]

    def changed(self, since: str | None = None) -> list[ChangedFile]:
        """Return the files that the change touches, or those that differ from the tree `since`."""
        words = ("diff-tree", "-r", "-z", "--no-renames", "--raw", "--numstat")
        listed = self.worktrees.git.run(*words, since or self.base, self.tip).split("\0")[:-1]
        entries, operations = iter(listed), dict[str, FileOperation]()
        changes: list[ChangedFile] = []
        for entry in entries:
            if entry.startswith(":"):  # these come first
                operations[next(entries)] = _OPERATIONS.get(entry[-1], "modify")
                continue
            *counts, path = entry.split("\t", 2)
            added, removed = (None if count == "-" else int(count) for count in counts)
            changes.append(ChangedFile(self._own(path), added, removed, operations[path], path))
        return changes

    def has(self, path: str) -> bool:
        """Whether the file existed before the change."""
        words = ("ls-tree", "--full-tree", "--name-only", "-z", self.base, "--")
        return bool(self.worktrees.git.run(*words, self._tracked(path)))

    def files(self) -> list[str]:
        """List all files of the project in the last commit."""
        names = map(self._own, self.acceptance.files_of(self.tip))
        return [name for name in names if not name.startswith("../")]

    def content(self, file: ChangedFile) -> bytes:
        """Return a file's content in the last commit."""
        text = self.worktrees.git.run("cat-file", "blob", f"{self.tip}:{file.in_repository}")
        return text.encode("utf-8", "surrogateescape")

    def put_back(self, paths: Sequence[str], message: str, tree: str | None = None) -> str:
        """Restore files from a tree, by default the one before the change; return the hash of the
        resulting tree."""
        self.open()
        names = [self._tracked(path) for path in paths]
        self.worktrees.put_back(self._name, names, tree or self.base)
        return self.commit(message)

    # -- the user's own branch -----------------------------------------------------------------

    def check_unmoved(self, tree: str) -> None:
        """Raise NotAccepted if anything has moved since the gates decided about a tree."""
        task, acceptance = self.worktrees.session, self.acceptance
        acceptance.check_no_operation_in_progress()
        branch, head = acceptance.branch(), acceptance.head()
        if head != self.base:
            commits = f"{self.base[:_SHORT]}, now {head[:_SHORT]}"
            why = f"{branch} has moved since the work began ({commits})"
            raise NotAccepted(task, why, f"coterie accept {task} --recheck")
        self._check_folder(tree)

    def _check_folder(self, tree: str) -> None:
        task, now = self.worktrees.session, self._folder_tree()
        if now != tree:
            why = f"the work has changed since the gates ran ({tree[:_SHORT]}, now {now[:_SHORT]})"
            raise NotAccepted(task, why, f"coterie resume {task}, to test it again")

    def _folder_tree(self) -> str:
        """Return the tree of the folder's current files, committed or not; the last commit's if it
        is gone."""
        folder = self.worktrees.folder / self._name
        worktree = Worktree.at(folder)
        if worktree is None:
            return self.tree
        git = replace(self.worktrees.git, folder=folder, worktree=worktree)
        return self._tree_of(git.snapshot("As it is"))

    def accept(self, message: str, tree: str) -> str:
        """Commit the change to the user's branch as a single commit; return that of an earlier
        call for the same change.

        Raises NotAccepted, having changed nothing.
        """
        taken = self.acceptance.accepted
        if taken is not None and self._tree_of(taken[1]) == tree:
            return taken[1]
        self.check_unmoved(tree)
        commit = self.worktrees.commit_tree(tree, (self.base,), message)
        self.acceptance.accept(commit)
        return commit

    @property
    def is_behind(self) -> bool:
        """Whether the user's branch has moved since the work began, so that it would be refused."""
        return self.worktrees.git.head() not in (None, self.base)

    def bring_onto_branch(self, tree: str, *, marked: bool = False) -> None:
        """Move the work onto the user's branch as it is now; `tree` is the work's current tree.

        Raises NotAccepted, having changed nothing; conflicts do not count if they may be `marked`
        in the files.  Safe to repeat after an interruption at any point.
        """
        acceptance, task = self.acceptance, self.worktrees.session
        acceptance.check_no_operation_in_progress()
        branch, head = acceptance.branch(), acceptance.head()
        if self._tree_of(head) == tree:
            raise NotAccepted(task, f"{branch} has all of it already", f"coterie diff {task}")
        self.open()
        if not acceptance.contains(self.tip, head):
            self._check_folder(tree)
            message = f"Merge {branch}"
            commit = acceptance.rebased_onto(head, self.tip, message, marked=marked)
            self.worktrees.move_to(self._name, commit)
        self.restore()
        self.worktrees.git.run("update-ref", self._onto, head)

    def unresolved(self) -> tuple[str, ...]:
        """Return the files with both sides of a conflict between conflict markers."""
        names = [one.in_repository for one in self.changed()]
        return tuple(map(self._own, self.worktrees.unresolved(self._name, names)))

    def clear(self) -> None:
        """Remove the folder of the work, which is in the user's branch or kept under a ref."""
        SessionLeftovers(self.worktrees).remove_worktrees()

    def drop(self, number: int) -> str:
        """Drop work that was not accepted, keeping it under a ref with the number of this revert.

        A folder that cannot be committed stays.  Doing it again has no effect.
        """
        git, session = self.worktrees.git, self.worktrees.session
        ref, branch = dropped_ref(session, number), f"{HEADS}{self.worktrees.branch}"
        kept = git.commit(ref)
        if kept is None:
            if git.commit(branch) is not None:
                with suppress(GitFailed):
                    self.commit("Reverted before it was accepted")
            kept = self.tip
            git.run("update-ref", ref, kept)
        self.acceptance.forget()  # it would be taken for that of the next attempt
        self.clear()
        if git.commit(branch) is not None and not self.worktrees.is_open(self._name):
            git.run("update-ref", "-d", branch)
        return kept
