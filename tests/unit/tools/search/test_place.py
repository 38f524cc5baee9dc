"""Where the index is stored: never in a user's file, whatever is found at its path."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from coterie.tools.search.index import CodeIndex
from coterie.tools.workspace_files import WorkspaceRoot


@pytest.fixture
def root(tmp_path: Path) -> WorkspaceRoot:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.py").write_text("def total(): ...\n")
    return WorkspaceRoot.at(tmp_path / "work")


def test_a_link_in_its_place_is_not_followed(tmp_path: Path, root: WorkspaceRoot) -> None:
    theirs, path = tmp_path / "theirs.db", tmp_path / "code.db"
    with closing(sqlite3.connect(theirs)) as database:
        database.execute("CREATE TABLE kept (x)")
    before = theirs.read_bytes()
    path.symlink_to(theirs)
    index = CodeIndex(path, root)
    assert index.refresh() == (1, 0, 0)
    assert [hit.path for hit in index.search("total")] == ["a.py"]
    assert theirs.read_bytes() == before
    assert not path.is_symlink()


def test_a_link_to_nothing_makes_nothing(tmp_path: Path, root: WorkspaceRoot) -> None:
    (tmp_path / "code.db").symlink_to(tmp_path / "new")
    (tmp_path / ".code.db.lock").symlink_to(tmp_path / "locked")
    os.mkfifo(tmp_path / "pipe.db")
    for name in ("code.db", "pipe.db"):
        CodeIndex(tmp_path / name, root).refresh()
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "locked").exists()
