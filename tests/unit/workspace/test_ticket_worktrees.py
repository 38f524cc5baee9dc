"""Ticket worktrees and the branch of approved work, with real git."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coterie.errors import GitFailed, UsageError
from coterie.workspace.git import Git
from coterie.workspace.ticket_worktrees import (
    TicketWorktrees,
    fingerprint,
    open_ticket_worktrees,
)


def git(folder: Path, *words: str) -> str:
    run = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return run.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.email", "you@example.com")
    git(root, "config", "user.name", "You")
    (root / ".coterie").mkdir()
    (root / ".coterie" / ".gitignore").write_text("*\n")
    (root / "cart.py").write_text("a = 1\nb = 2\nc = 3\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", "begin")
    return root


def worktrees_of(project: Path, base: str | None = None) -> TicketWorktrees:
    worktrees = open_ticket_worktrees(project, "k3f9", base)
    assert worktrees is not None
    return worktrees


def test_two_tickets_are_merged_one_after_the_other(project: Path) -> None:
    worktrees = worktrees_of(project)
    first, second = worktrees.open("T1"), worktrees.open("T2")
    (first / "cart.py").write_text("a = 10\nb = 2\nc = 3\n")
    (second / "new.py").write_text("d = 4\n")
    worktrees.commit("T1", "work of wren")
    worktrees.commit("T2", "work of finn")
    assert worktrees.changed("T1") == ["cart.py"]
    for ticket in ("T1", "T2"):
        merge = worktrees.merge(ticket, "a title")
        assert merge.conflicts == ()
        checked = worktrees.check_out(merge.commit)
        assert git(checked, "status", "--porcelain") == ""
        worktrees.land(merge.commit)
        worktrees.land(merge.commit)  # repeated, as after a crash
        assert worktrees.landed(ticket) == merge.commit
    folder = worktrees.check_out(worktrees.head())
    assert (folder / "cart.py").read_text().startswith("a = 10")
    assert (folder / "new.py").read_text() == "d = 4\n"
    assert git(project, "status", "--porcelain") == ""
    assert git(project, "branch", "--show-current").strip() == "main"
    assert (project / "cart.py").read_text().startswith("a = 1\n")


def test_a_conflict_goes_back_to_its_author_with_both_versions(project: Path) -> None:
    worktrees = worktrees_of(project)
    for ticket, line in (("T1", "a = 10"), ("T2", "a = 20")):
        folder = worktrees.open(ticket)
        (folder / "cart.py").write_text(f"{line}\nb = 2\nc = 3\n")
        worktrees.commit(ticket, "work")
    worktrees.land(worktrees.merge("T1", "one").commit)
    assert worktrees.merge("T2", "two").conflicts == ("cart.py",)
    assert worktrees.merge_approved("T2") == ("cart.py",)
    mine = worktrees.open("T2") / "cart.py"
    assert "<<<<<<<" in mine.read_text()
    assert worktrees.merge_approved("T2") == ()
    mine.write_text("a = 30\nb = 2\nc = 3\n")
    worktrees.commit("T2", "settled")
    merge = worktrees.merge("T2", "two")
    assert merge.conflicts == ()
    worktrees.land(merge.commit)
    assert (
        worktrees.check_out(worktrees.head()) / "cart.py"
    ).read_text() == "a = 30\nb = 2\nc = 3\n"


class Cut(Exception):
    """The process was killed."""


def cut_at(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Raise `Cut` once this many git commands have run."""
    left = [number]
    run = Git.run

    def mortal(git: Git, *words: str, **more: object) -> str:
        if not left[0]:
            raise Cut
        left[0] -= 1
        return run(git, *words, **more)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(Git, "run", mortal)


def test_cut_while_a_ticket_is_brought_up_to_date(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However far it got, nobody's work is undone."""
    worktrees = worktrees_of(project)
    for ticket in ("T1", "T2"):
        (worktrees.open(ticket) / f"{ticket}.py").write_text("x = 1\n")
        worktrees.commit(ticket, "work")
    worktrees.land(worktrees.merge("T1", "one").commit)
    tip = git(project, "rev-parse", "coterie/k3f9/T2").strip()
    was_cut, commands = True, 0
    while was_cut:
        with monkeypatch.context() as patch:
            cut_at(patch, commands)
            try:
                worktrees.merge_approved("T2")
                was_cut = False
            except Cut:
                commands += 1
        worktrees.commit("T2", "what is there")
        worktrees.merge_approved("T2")
        listed = git(project, "ls-tree", "--name-only", "coterie/k3f9/T2").split()
        assert listed == ["T1.py", "T2.py", "cart.py"], commands
        assert git(worktrees.open("T2"), "status", "--porcelain") == ""
        git(worktrees.open("T2"), "reset", "-q", "--hard", tip)
    assert commands > 4


def test_what_is_done_after_it_landed_has_not_landed(project: Path) -> None:
    worktrees = worktrees_of(project)
    folder = worktrees.open("T1")
    (folder / "x.py").write_text("x = 1\n")
    worktrees.commit("T1", "work")
    assert worktrees.landed("T1") is None
    worktrees.land(worktrees.merge("T1", "one").commit)
    assert worktrees.landed("T1") == worktrees.head()
    (folder / "x.py").write_text("x = 2\n")
    worktrees.commit("T1", "more work")
    assert worktrees.landed("T1") is None


def test_worktrees_are_made_side_by_side(project: Path) -> None:
    worktrees = worktrees_of(project)
    names = [f"T{number}" for number in range(1, 7)]
    with ThreadPoolExecutor(6) as pool:
        folders = list(pool.map(worktrees.open, names))
    assert [(folder / "cart.py").exists() for folder in folders] == [True] * 6


def test_a_worktree_is_found_again_also_after_it_was_deleted(project: Path) -> None:
    worktrees = worktrees_of(project)
    folder = worktrees.open("T1")
    (folder / "cart.py").write_text("a = 5\n")
    worktrees.commit("T1", "work")
    assert worktrees.open("T1") == folder
    subprocess.run(["rm", "-rf", str(folder)], check=True)
    again = worktrees_of(project, worktrees.base).open("T1")
    assert (again / "cart.py").read_text() == "a = 5\n"


def test_the_branch_does_not_move_where_another_merge_was_quicker(project: Path) -> None:
    worktrees = worktrees_of(project)
    for ticket in ("T1", "T2"):
        (worktrees.open(ticket) / f"{ticket}.py").write_text("x = 1\n")
        worktrees.commit(ticket, "work")
    stale = worktrees.merge("T2", "two")
    worktrees.land(worktrees.merge("T1", "one").commit)
    with pytest.raises(GitFailed):
        worktrees.land(stale.commit)


def test_a_merge_driver_of_the_repository_is_unknown_to_us(project: Path) -> None:
    (project / ".gitattributes").write_text("* merge=evil\n")
    git(project, "add", ".gitattributes")
    git(project, "commit", "-qm", "attributes")
    ran = project / "ran"
    git(project, "config", "merge.evil.driver", f"touch {ran}")
    worktrees = worktrees_of(project)
    for ticket in ("T1", "T2"):
        (worktrees.open(ticket) / "cart.py").write_text(f"a = '{ticket}'\n")
        worktrees.commit(ticket, "work")
    worktrees.land(worktrees.merge("T1", "one").commit)
    assert worktrees.merge("T2", "two").conflicts == ("cart.py",)
    assert not ran.exists()
    git(project, "merge-tree", "--write-tree", "coterie/k3f9/T1", "coterie/k3f9/T2")
    assert ran.exists()  # plain git obeys it


def test_a_project_inside_a_repository(project: Path) -> None:
    (project / "app" / "src").mkdir(parents=True)
    (project / "app" / ".coterie").mkdir()
    (project / "app" / "src" / "a.py").write_text("a\n")
    git(project, "add", "app")
    git(project, "commit", "-qm", "more")
    worktrees = worktrees_of(project / "app")
    assert (worktrees.open("T1") / "src" / "a.py").read_text() == "a\n"
    (project / "new" / ".coterie").mkdir(parents=True)
    worktrees = worktrees_of(project / "new")
    for folder in (worktrees.open("T2"), worktrees.check_out(worktrees.head())):
        assert (folder.name, list(folder.iterdir())) == ("new", []), "git has nothing of it yet"


def test_without_git_there_are_no_worktrees(tmp_path: Path) -> None:
    assert open_ticket_worktrees(tmp_path, "k3f9", None) is None
    assert open_ticket_worktrees(tmp_path, "k3f9", "") is None


def test_a_repository_without_a_commit_says_what_to_do(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    with pytest.raises(UsageError, match="no commit yet"):
        open_ticket_worktrees(tmp_path, "k3f9", None)


def test_a_change_of_the_users_tree_is_seen(project: Path) -> None:
    before = fingerprint(project)
    (project / "cart.py").write_text("a = 2\n")
    middle = fingerprint(project)
    (project / "cart.py").write_text("a = 22\n")
    last = fingerprint(project)
    assert before != middle != last != before
