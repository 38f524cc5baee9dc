"""Searching a folder for what is private: however deep or large it is, and only if it matters."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import accumulate, repeat
from pathlib import Path

import pytest

from coterie.model.team import Permissions
from coterie.model.tool_call import Action
from coterie.tools.permission import decide
from coterie.tools.permission.allow import AllowRules, parts_of
from coterie.tools.permission.paths import MAX_ENTRIES, PRIVATE, FolderWalk

SEARCHES = ("grep -r x .", "rg -uu x", "diff a a", "git grep --no-index x")


def verdict(command: str, folder: Path) -> str:
    action = Action("run", "Bash", str(folder), command=command, read_only_sandbox=True)
    return decide(action, Permissions(), None, folder).verdict


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A folder with more nested folders than Python has stack; it could not remove them either."""
    folders = [Path(each) for each in accumulate(repeat("/a", 1_100), initial=str(tmp_path))][1:]
    for folder in folders:
        folder.mkdir()
    yield tmp_path
    for folder in reversed(folders):
        folder.rmdir()


@pytest.mark.parametrize("command", SEARCHES)
def test_a_deep_folder(deep: Path, command: str) -> None:
    assert verdict(command, deep) in ("allow", "allow_read_only")
    private = Path(f"{deep}{'/a' * 1_050}/.coterie")
    private.mkdir()
    try:
        assert verdict(command, deep) == "ask"
    finally:
        private.rmdir()


@pytest.mark.parametrize("command", SEARCHES)
def test_a_path_that_is_too_long_for_us(tmp_path: Path, command: str) -> None:
    """Programs that enter one folder after the other get there all the same."""
    (tmp_path / "a").mkdir()
    opened = os.open(tmp_path / "a", os.O_RDONLY)
    for _ in range(20):
        name = "b" * 250
        os.mkdir(name, dir_fd=opened)
        above, opened = opened, os.open(name, os.O_RDONLY, dir_fd=opened)
        os.close(above)
    os.close(opened)
    assert verdict(command, tmp_path) == "ask"


def test_it_gives_up(tmp_path: Path) -> None:
    for name in ("a/b", "c"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "a" / "file").write_text("")
    (tmp_path / "a" / "up").symlink_to("..")
    folder = str(tmp_path)
    assert not FolderWalk(5).may_find(PRIVATE, folder)
    assert FolderWalk(4).may_find(PRIVATE, folder)
    walk = FolderWalk(9)  # of all folders together
    assert [walk.may_find(PRIVATE, folder) for _ in range(2)] == [False, True]
    assert FolderWalk(5).may_find(frozenset({"file"}), folder)
    assert not FolderWalk(0).may_find(PRIVATE, f"{folder}/a/file")
    assert not FolderWalk(0).may_find(PRIVATE, f"{folder}/not/there")
    (tmp_path / "c" / ".Coterie").mkdir()
    assert FolderWalk().may_find(PRIVATE, folder)


@pytest.mark.parametrize(
    ("command", "unasked", "searched"),
    [
        ("grep -rn x .", False, True),
        ("rg -uu x", False, True),
        ("grep -rn x ..", False, False),
        ("grep -rn x . ..", False, False),
        ("grep -rn x /", False, False),
        ("rg -uu x . /usr", False, False),
        ("diff -N / .", False, False),
        ("grep -rn x .", True, False),
        ("rg -uu x", True, False),
    ],
)
def test_it_searches_only_where_that_decides(
    tmp_path: Path, command: str, unasked: bool, searched: bool
) -> None:
    root = tmp_path / "root"
    (root / "src").mkdir(parents=True)
    allowed = AllowRules(str(root), str(root), (), (), unasked=unasked)
    parts_of(Action("run", "Bash", str(root), command=command), allowed)
    assert (allowed.walk.left < MAX_ENTRIES) == searched
