"""The work of a pipeline in a real repository: committed, accepted, dropped and begun anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.errors import NotAccepted
from coterie.workspace.pipeline_work import PipelineWork, open_work, starting_commit
from tests.unit.workspace.repository import bare_git, new_repository


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
