"""The work of a pipeline in a real repository: committed, accepted, dropped and begun anew."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.errors import NotAccepted
from coterie.workspace.pipeline_work import PipelineWork, open_work, starting_commit
from tests.unit.workspace.repository import bare_git, commit, new_repository


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    new_repository(root)
    (root / ".coterie").mkdir()
    (root / ".coterie" / ".gitignore").write_text("*\n")
    return root


def work_with(project: Path, base: str, **files: str) -> PipelineWork:
    """Open the work and commit these files in it."""
    work = open_work(project, "k3f9", base)
    folder = work.open()
    for name, text in files.items():
        (folder / name).write_text(text)
    work.commit("work")
    return work


def test_only_the_same_change_counts_as_accepted_before(project: Path) -> None:
    base = starting_commit(project)
    work = work_with(project, base, cart="one\n")
    first = work.accept("First", work.tree)
    assert work.accept("First", work.tree) == first, "as after a kill"
    work.drop(1)
    again = work_with(project, base, basket="two\n")
    assert again.acceptance.accepted is None
    with pytest.raises(NotAccepted, match="main has moved"):
        again.accept("Second", again.tree)
    again.bring_onto_branch(again.tree)
    again = again.current()
    assert again.accept("Second", again.tree) != first
    assert bare_git(project, "log", "--format=%s").split() == ["Second", "First", "first"]


def folder_into_file(folder: Path) -> None:
    shutil.rmtree(folder / "lib")
    (folder / "lib").write_text("one file\n")


def file_into_folder(folder: Path) -> None:
    (folder / "file.txt").unlink()
    (folder / "file.txt").mkdir()
    (folder / "file.txt" / "a.py").write_text("a\n")


def link_into_folder(folder: Path) -> None:
    (folder / "link").unlink()
    (folder / "link").mkdir()
    (folder / "link" / "a.py").write_text("mine\n")


def test_files_however_deep_in_the_way_are_named(project: Path, nest: Callable[..., None]) -> None:
    (project / "lib").mkdir()
    (project / "lib" / "a.py").write_text("text\n")
    commit(project, "more")
    (project / ".git" / "info" / "exclude").write_text("last.txt\n")
    work = open_work(project, "k3f9", starting_commit(project))
    folder_into_file(work.open())
    work.commit("work")
    nest(project / "lib" / "deep", 1100)
    with pytest.raises(NotAccepted, match=r"in the way: lib/deep/a/a/.*/a/last\.txt"):
        work.accept("Change", work.tree)


@pytest.mark.parametrize("change", [folder_into_file, file_into_folder, link_into_folder])
def test_files_folders_and_links_take_each_others_place(
    project: Path, change: Callable[[Path], None]
) -> None:
    (project / "lib" / "deep").mkdir(parents=True)
    for name in ("a.py", "deep/b.py"):
        (project / "lib" / name).write_text("text\n")
    (project / "lib" / "deep" / "up").symlink_to("..")
    (project / "link").symlink_to("lib")
    commit(project, "more")
    (project / ".git" / "info" / "exclude").write_text("*.log\n")
    base = starting_commit(project)
    work = open_work(project, "k3f9", base)
    change(work.open())
    work.commit("work")
    ignored = project / "lib" / "deep" / "my.log"
    ignored.write_text("mine\n")
    if change is folder_into_file:
        with pytest.raises(NotAccepted, match=r"files of yours are in the way: lib/deep/my\.log"):
            work.accept("Change", work.tree)
        assert ignored.read_text() == "mine\n"
        ignored.unlink()
    commit_made = work.accept("Change", work.tree)
    assert bare_git(project, "rev-parse", "HEAD") == commit_made
    assert bare_git(project, "status", "--porcelain") == ""
    in_the_way = project / "file.txt" / "my.log"
    if change is file_into_folder:
        in_the_way.write_text("mine\n")
        with pytest.raises(NotAccepted, match=r"in the way: file\.txt/my\.log"):
            work.acceptance.revert(dry_run=False)
        in_the_way.unlink()
    work.acceptance.revert(dry_run=False)
    assert bare_git(project, "diff", base, "HEAD") == ""
    assert bare_git(project, "status", "--porcelain") == ""
