"""A member's own worktree: created when first needed, and found again whatever happened since.

It is created in a folder next to `work` and then moved there, so `work` is never half a checkout:
nobody has worked in what a crash left in that folder, so it is removed.  An existing `work` is
never overwritten by a checkout, whatever the repository still records about it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from coterie.errors import GitFailed, UsageError
from coterie.workspace import worktree
from coterie.workspace.beneath import remove_tree
from coterie.workspace.git import Git, locked, repository_of


def own_worktree(root: Path, work: Path, owner: str, at: str | None = None) -> Path:
    """Return the project's folder in the worktree at `work`, creating that if needed; blocks.

    `owner` is `<team>/<member>` or `<session>/<ticket>`.  A new worktree starts from the commit
    `at`, by default the project's.  For a project that is a subfolder of its repository, the result
    is the same subfolder of the worktree.
    """
    git = _repository(root)
    with locked(work.parent) as lock:
        maker = _WorktreeMaker(
            replace(git, pass_fds=(lock,)), root.resolve(), work, f"{worktree.OURS}/{owner}", at
        )
        maker.remove_unfinished()
        if not maker.find():
            maker.make()
        maker.prepare_branch()
    inside = work / root.resolve().relative_to(git.folder)
    return inside if inside.is_dir() else work


def branching_point(root: Path) -> str:
    """Return the commit that a project's new worktrees start from; UsageError if there is none."""
    git = _repository(root)
    head = git.head()
    if head is None:
        raise UsageError(
            f"{git.folder} has no commit yet, so a worktree has nothing to start from.",
            f"git commit, or {_INSTEAD}",
            str(git.folder),
        )
    return head


_INSTEAD = 'leave out "work": "worktree"'


def _repository(root: Path) -> Git:
    git = repository_of(root)
    if git is None:
        raise UsageError(
            f"{root} is not in a git repository, so it cannot have worktrees.",
            f"git init, or {_INSTEAD}",
            str(root),
        )
    return git


@dataclass(frozen=True)
class _WorktreeMaker:
    """Finds or creates one worktree."""

    git: Git
    root: Path
    work: Path
    branch: str
    at: str | None = None

    @property
    def unfinished(self) -> Path:
        """Where it is created; git names a worktree after that folder."""
        return self.work.with_name(self.branch.replace("/", "."))

    def remove_unfinished(self) -> None:
        worktree.draft_of(self.work).unlink(missing_ok=True)
        if self.unfinished.is_symlink():
            self.unfinished.unlink()
        elif self.unfinished.exists():
            remove_tree(self.unfinished)

    def find(self) -> bool:
        """Whether it exists; if the repository has lost it, register it again."""
        if self._is_free():
            return False
        named = worktree.named_by(self.work / ".git")
        if named is None or named.parent.name != "worktrees":
            raise self._in_the_way()
        # By name only: a moved or copied project still names the old folder.
        git_dir = self.git.common_dir / "worktrees" / named.name
        if named == git_dir and worktree.folder_of(git_dir) == self.work.resolve():
            if not worktree.names(self.work, git_dir):
                worktree.connect(self.work, git_dir)
            return True
        if not git_dir.is_dir() and named.name.startswith(self.unfinished.name):
            self._register_again()
        elif self._is_ours(git_dir):
            worktree.connect(self.work, git_dir)
        else:
            raise self._in_the_way()
        return True

    def _is_free(self) -> bool:
        """Whether `work` is missing, an empty folder or our own link to the project."""
        if self.work.is_symlink():
            if self.work.resolve() != self.root:
                raise self._in_the_way()
            return True
        if not self.work.exists():
            return True
        return self.work.is_dir() and not any(self.work.iterdir())

    def _is_ours(self, git_dir: Path) -> bool:
        """Whether a worktree's `git_dir` belongs to this owner, and no other folder uses it."""
        head = worktree.line_of(git_dir / "HEAD")
        mine = git_dir.name == self.unfinished.name or head == f"ref: {worktree.HEADS}{self.branch}"
        other = worktree.folder_of(git_dir)
        return mine and (other is None or worktree.named_by(other / ".git") != git_dir)

    def _register_again(self) -> None:
        """Register an existing folder with work in it as a new worktree of the repository."""
        self._add(checkout=False)
        new = self._created()
        worktree.connect(self.work, new.git_dir)
        remove_tree(self.unfinished)
        tree = replace(new, folder=self.work)
        replace(self.git, folder=self.work, worktree=tree).run("read-tree", "HEAD")

    def make(self) -> None:
        self._add(checkout=True)
        new = self._created()
        if self.work.is_symlink():
            self.work.unlink()
        self.unfinished.rename(self.work)
        worktree.connect(self.work, new.git_dir)

    def prepare_branch(self) -> None:
        """Create the folders for its branch, since a sandbox cannot permit creating them."""
        common = self.git.common_dir
        if not (common / worktree.HEADS).is_dir():  # branches are stored in another format
            return
        for root in (common, common / "logs"):
            (root / worktree.HEADS / self.branch).parent.mkdir(parents=True, exist_ok=True)

    def _add(self, *, checkout: bool) -> None:
        try:
            self.git.run("check-ref-format", f"{worktree.HEADS}{self.branch}")
        except GitFailed:
            raise UsageError(
                f"{self.branch} cannot be the name of a branch, which a worktree needs.",
                f"Give the team or the member another name, or {_INSTEAD}",
            ) from None
        unfinished = self.unfinished.resolve()
        for linked in self.git.worktrees():
            # Git may not know the branch of a worktree whose creation was interrupted.
            mine = linked.branch == self.branch or linked.path == unfinished
            if mine and not linked.alive:
                self.git.forget(linked)
        at = self.at or branching_point(self.root)
        self.git.add_worktree(self.unfinished, self.branch, at, checkout=checkout)

    def _created(self) -> worktree.Worktree:
        new = worktree.Worktree.at(self.unfinished)
        assert new is not None, "git has just made it"
        return new

    def _in_the_way(self) -> UsageError:
        return UsageError(
            f"{self.work} is in the way: it is not a worktree of {self.git.folder}.",
            "Move it away: a worktree is then created in its place.",
            str(self.work),
        )
