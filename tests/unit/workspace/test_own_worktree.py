"""A member's own worktree: made once, always found again, never overwritten by a checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from coterie.errors import GitFailed, StorageReadOnly, UsageError
from coterie.model.team import Member
from coterie.workspace.folder import make_folder
from coterie.workspace.git import Git, LinkedWorktree
from coterie.workspace.worktree import Worktree
from tests.conftest import IsolatedUser
from tests.unit.workspace.repository import bare_git, commit, new_repository

ANN = Member(id="ann", name="ann", display_name="Ann", agent="x", work="worktree")
BRANCH = "coterie/pair/ann"


@pytest.fixture
def repository(user: IsolatedUser) -> Git:
    return new_repository(user.project)


def make_work(project: Path, member: Member = ANN) -> Path:
    return make_folder(project, "pair", member).execution_dir


def work_of(project: Path) -> Path:
    return project / ".coterie" / "teams" / "pair" / "ann" / "work"


def begin_work(project: Path) -> Path:
    """Create a worktree with its own commit, a staged file and an unstaged change."""
    work = make_work(project)
    (work / "done.txt").write_text("done\n")
    commit(work, "done")
    (work / "staged.txt").write_text("staged\n")
    bare_git(work, "add", "staged.txt")
    (work / "file.txt").write_text("changed\n")
    return work


STAGED = "M file.txt\nA  staged.txt"
UNSTAGED = "M file.txt\n?? staged.txt"


def check(project: Path, status: str) -> None:
    """Check that the work is intact and the worktree belongs to this repository."""
    work = work_of(project)
    assert bare_git(work, "status", "--porcelain") == status
    assert bare_git(work, "log", "--format=%s %D") == f"done HEAD -> {BRANCH}\nfirst main"
    linked = [one for one in Git(project).worktrees() if one.branch == BRANCH]
    place = project / ".git" / "worktrees" / "coterie.pair.ann"
    head = bare_git(work, "rev-parse", "HEAD")
    assert linked == [LinkedWorktree(work, place, head, BRANCH)]
    assert Worktree.at(work) == Worktree(work, place, project / ".git")
    assert sorted(path.name for path in work.parent.iterdir()) == ["home", "tmp", "work"]


# -- making ------------------------------------------------------------------------------------


def test_a_worktree_is_made_from_head(user: IsolatedUser, repository: Git) -> None:
    head = repository.head()
    (user.project / "file.txt").write_text("not committed\n")
    work = make_work(user.project)
    assert (work, work.is_symlink()) == (work_of(user.project), False)
    assert (work / "file.txt").read_text() == "first\n"
    assert bare_git(work, "symbolic-ref", "HEAD") == f"refs/heads/{BRANCH}"
    assert bare_git(user.project, "for-each-ref", "--format=%(refname) %(objectname)") == (
        f"refs/heads/{BRANCH} {head}\nrefs/heads/main {head}"
    )
    assert bare_git(user.project, "symbolic-ref", "HEAD") == "refs/heads/main"
    status = bare_git(user.project, "status", "--porcelain", "--", ":!.coterie")
    assert status == "M file.txt"


def test_it_is_found_again(user: IsolatedUser, repository: Git) -> None:
    begin_work(user.project)
    assert make_work(user.project) == work_of(user.project)
    check(user.project, STAGED)


def test_it_stays_where_the_member_has_gone(user: IsolatedUser, repository: Git) -> None:
    work = begin_work(user.project)
    bare_git(work, "switch", "-q", "-c", "another")
    bare_git(user.project, "switch", "-q", "--orphan", "without-a-commit")
    make_work(user.project)
    assert bare_git(work, "symbolic-ref", "--short", "HEAD") == "another"


def test_a_part_of_a_repository(user: IsolatedUser, repository: Git) -> None:
    part = user.project / "part"
    part.mkdir()
    (part / "inner.txt").write_text("inner\n")
    commit(user.project, "a part")
    assert make_work(part) == work_of(part) / "part"
    assert (work_of(part) / "part" / "inner.txt").exists()
    later = user.project / "later"
    later.mkdir()
    bob = ANN.model_copy(update={"id": "bob"})
    assert make_work(later, bob) == later / ".coterie" / "teams" / "pair" / "bob" / "work"


@pytest.mark.parametrize("is_of_earlier_release", [False, True])
def test_a_member_that_worked_in_the_project(
    user: IsolatedUser, repository: Git, is_of_earlier_release: bool
) -> None:
    make_work(user.project, ANN.model_copy(update={"work": "link"}))
    assert work_of(user.project).is_symlink()
    if is_of_earlier_release:  # whose links led to the worktree of the last ticket
        work_of(user.project).unlink()
        work_of(user.project).symlink_to(user.project / ".coterie" / "worktrees" / "k3f9" / "T1")
    assert not make_work(user.project).is_symlink()
    assert make_work(user.project, ANN.model_copy(update={"work": "link"})) == work_of(user.project)
    assert not work_of(user.project).is_symlink()


def test_two_at_once(user: IsolatedUser, repository: Git) -> None:
    found: list[Path] = []
    both = [
        threading.Thread(target=lambda: found.append(make_work(user.project))) for _ in range(2)
    ]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert found == [work_of(user.project)] * 2


def test_folders_that_a_sandbox_could_not_make(user: IsolatedUser, repository: Git) -> None:
    make_work(user.project)
    git = user.project / ".git"
    bare_git(user.project, "pack-refs", "--all")
    assert not (git / "refs" / "heads" / "coterie").exists()
    make_work(user.project)
    tree = Worktree.at(work_of(user.project))
    assert tree is not None
    assert tree.changed_by_commits == [
        git / "worktrees" / "coterie.pair.ann",
        git / "objects",
        git / "refs" / "heads" / "coterie" / "pair",
        git / "logs" / "refs" / "heads" / "coterie" / "pair",
    ]


@pytest.mark.parametrize("head", ["ref: refs/heads/main", "ref: refs/heads/coterie/../x", "0" * 40])
def test_a_member_that_points_elsewhere_gets_no_branch(
    user: IsolatedUser, repository: Git, head: str
) -> None:
    make_work(user.project)
    git = user.project / ".git"
    place = git / "worktrees" / "coterie.pair.ann"
    (place / "HEAD").write_text(f"{head}\n")
    assert Worktree(work_of(user.project), place, git).changed_by_commits == [
        place,
        git / "objects",
    ]


# -- what may have happened since --------------------------------------------------------------


def test_the_project_was_moved(user: IsolatedUser, repository: Git) -> None:
    begin_work(user.project)
    moved = user.project.rename(user.project.with_name("moved"))
    assert make_work(moved) == work_of(moved)
    check(moved, STAGED)


def test_the_project_was_moved_and_git_has_cleaned_up(user: IsolatedUser, repository: Git) -> None:
    begin_work(user.project)
    moved = user.project.rename(user.project.with_name("moved"))
    bare_git(moved, "worktree", "prune")
    assert make_work(moved) == work_of(moved)
    check(moved, UNSTAGED)


def test_the_project_was_copied(user: IsolatedUser, repository: Git) -> None:
    begin_work(user.project)
    copy = user.project.with_name("copy")
    shutil.copytree(user.project, copy, symlinks=True)
    (work_of(copy) / "file.txt").write_text("changed\n")  # only in the copy
    assert make_work(copy) == work_of(copy)
    check(copy, STAGED)
    check(user.project, STAGED)
    commit(work_of(copy), "only here")
    check(user.project, STAGED)


def test_the_project_was_copied_without_the_folder(user: IsolatedUser, repository: Git) -> None:
    begin_work(user.project)
    copy = user.project.with_name("copy")
    shutil.copytree(user.project, copy, symlinks=True)
    shutil.rmtree(work_of(copy))
    make_work(copy)
    check(copy, "")
    check(user.project, STAGED)


@pytest.mark.parametrize("emptied", [True, False])
def test_the_folder_was_deleted(user: IsolatedUser, repository: Git, *, emptied: bool) -> None:
    work = begin_work(user.project)
    shutil.rmtree(work)
    if emptied:
        work.mkdir()
    make_work(user.project)
    check(user.project, "")


def test_the_branch_was_deleted_with_it(user: IsolatedUser, repository: Git) -> None:
    shutil.rmtree(begin_work(user.project))
    bare_git(user.project, "worktree", "prune")
    bare_git(user.project, "branch", "-q", "-D", BRANCH)
    assert bare_git(make_work(user.project), "log", "--format=%s") == "first"


KILLED = """
import os, sys
from pathlib import Path
from coterie.model.team import Member
from coterie.workspace import own_worktree
from coterie.workspace.folder import make_folder

project, instant = sys.argv[1:]
Git = own_worktree.Git

def die(*given, **more):
    os._exit(9)

def die_in_checkout(self, path, branch, at, *, checkout=True):
    added(self, path, branch, at, checkout=False)
    (path / "file.txt").write_text("half")
    os._exit(9)

added = Git.add_worktree
if instant == "before":
    Git.add_worktree = die
elif instant == "checkout":
    Git.add_worktree = die_in_checkout
elif instant == "moving":
    Path.rename = die
elif instant == "pointing":
    replaced = Path.replace
    Path.replace = lambda self, to: die() if to.name == ".git" else replaced(self, to)
else:
    own_worktree.worktree.connect = die
ann = Member(id="ann", name="ann", display_name="Ann", work="worktree")
make_folder(Path(project), "pair", ann)
"""


@pytest.mark.parametrize("instant", ["before", "checkout", "moving", "connecting", "pointing"])
@pytest.mark.parametrize("linked", [True, False])
def test_killed_while_it_was_made(
    user: IsolatedUser, repository: Git, instant: str, *, linked: bool
) -> None:
    if linked:
        make_work(user.project, ANN.model_copy(update={"work": "link"}))
    command = [sys.executable, "-c", KILLED, str(user.project), instant]
    assert subprocess.run(command, check=False).returncode == 9
    begin_work(user.project)
    place = user.project / ".git" / "worktrees" / "coterie.pair.ann"
    assert (work_of(user.project) / ".git").read_text() == f"gitdir: {place}\n"
    check(user.project, STAGED)


def test_git_was_killed_while_it_made_it(user: IsolatedUser, repository: Git) -> None:
    """What git itself leaves behind: a locked entry without a HEAD, and half a folder."""
    work = work_of(user.project)
    half = work.with_name("coterie.pair.ann")
    half.mkdir(parents=True)
    place = user.project / ".git" / "worktrees" / half.name
    place.mkdir(parents=True)
    (place / "locked").write_text("initializing")
    (place / "gitdir").write_text(f"{half}/.git\n")
    (half / ".git").write_text(f"gitdir: {place}\n")
    bare_git(user.project, "branch", BRANCH)
    begin_work(user.project)
    check(user.project, STAGED)


# -- refusals ----------------------------------------------------------------------------------


def refusal(project: Path, member: Member = ANN) -> tuple[str, str | None, str | None]:
    with pytest.raises(UsageError) as caught:
        make_work(project, member)
    return str(caught.value), caught.value.hint, caught.value.where


def test_a_folder_without_git(user: IsolatedUser) -> None:
    assert refusal(user.project) == (
        f"{user.project} is not in a git repository, so it cannot have worktrees.",
        'git init, or leave out "work": "worktree"',
        str(user.project),
    )


def test_a_repository_without_a_commit(user: IsolatedUser) -> None:
    bare_git(user.project, "init", "-q")
    assert refusal(user.project) == (
        f"{user.project} has no commit yet, so a worktree has nothing to start from.",
        'git commit, or leave out "work": "worktree"',
        str(user.project),
    )


def test_a_name_that_is_no_branch(user: IsolatedUser, repository: Git) -> None:
    ann = ANN.model_copy(update={"id": "ann.lock"})
    message, hint, _ = refusal(user.project, ann)
    assert message == (
        "coterie/pair/ann.lock cannot be the name of a branch, which a worktree needs."
    )
    assert hint == 'Give the team or the member another name, or leave out "work": "worktree"'


def test_a_folder_to_work_in_besides(user: IsolatedUser, repository: Git) -> None:
    ann = ANN.model_copy(update={"execution_dir": str(user.project)})
    assert refusal(user.project, ann)[:2] == (
        f"ann has a worktree of its own, so it cannot work in {user.project}.",
        'Leave out "workDir", or "work": "worktree".',
    )


@pytest.mark.parametrize("kind", ["folder", "link", "file", "stranger", "another's"])
def test_what_is_in_the_way_is_left_alone(user: IsolatedUser, repository: Git, kind: str) -> None:
    work = work_of(user.project)
    work.parent.mkdir(parents=True, mode=0o700)
    bare_git(user.project, "worktree", "add", "-q", str(user.home / "theirs"))
    match kind:
        case "folder":
            work.mkdir()
            (work / "mine.txt").touch()
        case "link":
            work.symlink_to(user.home)
        case "file":
            work.touch()
        case "stranger":
            new_repository(work)
        case _:
            work.mkdir()
            shutil.copy(user.home / "theirs" / ".git", work / ".git")
    before = sorted(work.parent.rglob("*"))
    assert refusal(user.project) == (
        f"{work} is in the way: it is not a worktree of {user.project}.",
        "Move it away: a worktree is then created in its place.",
        str(work),
    )
    after = [path for path in sorted(work.parent.rglob("*")) if path.name not in ("home", "tmp")]
    assert after == before
    assert Git(user.project).worktrees()[0].alive


def test_a_branch_that_is_in_use_elsewhere(user: IsolatedUser, repository: Git) -> None:
    bare_git(user.project, "switch", "-q", "-c", BRANCH)
    with pytest.raises(GitFailed) as caught:
        make_work(user.project)
    assert caught.value.command == "worktree add"
    assert BRANCH in caught.value.output
    assert not work_of(user.project).exists()


def test_a_folder_that_cannot_be_written(user: IsolatedUser) -> None:
    with pytest.raises(StorageReadOnly):
        make_work(Path("/sys/kernel"))
