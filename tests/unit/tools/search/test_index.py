"""The index tracks file changes, survives damage, and is shared by processes."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from coterie.tools.search import index as index_module
from coterie.tools.search.index import CodeIndex, Hit
from coterie.tools.workspace_files import ToolError
from tests.unit.tools.member_project import MemberProject, member_project

PAINT = '"""Mixes colours."""\n\n\ndef blend(one, other):\n    return one + other\n'
MAIL = '"""Sends letters to people."""\n\n\ndef deliver(letter):\n    letter.post()\n'


@pytest.fixture
def shop(tmp_path: Path) -> MemberProject:
    made = member_project(tmp_path, git=True)
    made.write("paint.py", PAINT)
    made.write("post/mail.py", MAIL)
    return made


def index_of(shop: MemberProject) -> CodeIndex:
    return CodeIndex(shop.workspace.tmp / "search.db", shop.root)


def hits(index: CodeIndex, question: str) -> list[str]:
    return [hit.path for hit in index.search(question)]


def test_a_hit_says_where_and_shows_the_lines(shop: MemberProject) -> None:
    index = index_of(shop)
    assert index.refresh() == (2, 0, 0)
    (hit,) = index.search("How do I mix colors?")
    assert hit == Hit("paint.py", 1, 6, hit.score, PAINT.rstrip("\n"))
    assert index.search("kubernetes") == []
    assert index.search("") == []
    assert index.search('" OR * NEAR( ^') == []


def test_only_what_changed_is_read_again(shop: MemberProject) -> None:
    index = index_of(shop)
    index.refresh()
    assert index.refresh() == (0, 0, 0)
    shop.write("paint.py", MAIL.replace("letters", "parcels"))
    shop.write("new.py", "# how the engine starts\n")
    (shop.project / "post" / "mail.py").unlink()
    assert index.refresh() == (1, 1, 1)
    assert hits(index, "mixing colours") == []
    assert hits(index, "parcels") == ["paint.py"]
    assert hits(index, "engine start") == ["new.py"]


def test_a_change_that_keeps_size_and_time_is_seen(shop: MemberProject) -> None:
    index = index_of(shop)
    index.refresh()
    file = shop.project / "paint.py"
    state = file.stat()
    file.write_text(PAINT.replace("colours", "flavour"))
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert file.stat().st_size == state.st_size
    assert index.refresh() == (0, 1, 0)


def test_what_nobody_wrote_or_may_see_is_left_out(shop: MemberProject) -> None:
    shop.write(".gitignore", "made/\n")
    shop.write("made/zebra.py", "# zebra\n")
    shop.write("zebra.bin", b"zebra\0zebra")
    shop.write("zebra.min.js", "zebra();" * 1000)
    shop.write("zebra.log", "zebra\n" * 200_000)
    shop.write(".coterie/zebra.py", "# zebra\n")
    (shop.outside / "zebra.py").write_text("# zebra\n")
    (shop.project / "link.py").symlink_to(shop.outside / "zebra.py")
    index = index_of(shop)
    index.refresh()
    # Found by name alone: the contents of these files are not indexed.
    assert sorted(hits(index, "zebra")) == ["zebra.bin", "zebra.log", "zebra.min.js"]
    assert all(hit.snippet == "" for hit in index.search("zebra"))


@pytest.mark.parametrize("damage", ["rubbish", "cut", "flipped", "table", "version"])
def test_a_damaged_index_is_rebuilt(shop: MemberProject, damage: str) -> None:
    index_of(shop).refresh()
    file = shop.workspace.tmp / "search.db"
    data = file.read_bytes()
    if damage in ("table", "version"):
        with closing(sqlite3.connect(file)) as connection:
            sql = "DROP TABLE places" if damage == "table" else "PRAGMA user_version=99"
            connection.execute(sql)
    else:
        half = len(data) // 2
        file.write_bytes(
            {
                "rubbish": b"rubbish" * 1000,
                "cut": data[:half],
                "flipped": data[:4096] + bytes(255 - one for one in data[4096:]),
            }[damage]
        )
    index = index_of(shop)
    assert hits(index, "mixing colours") == ["paint.py"]
    assert index.refresh() == (0, 0, 0)
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_one_index_outlives_the_removal_of_its_file(shop: MemberProject) -> None:
    index = index_of(shop)
    index.refresh()
    (shop.workspace.tmp / "search.db").unlink()
    assert index.refresh() == (2, 0, 0)


def test_an_index_that_is_held_too_long_is_refused(
    shop: MemberProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "LOCK_TIMEOUT", 0.0)
    index = index_of(shop)
    with index._locked(), pytest.raises(ToolError, match="Use grep"):
        index.refresh()


SHARER = """
import sys
from pathlib import Path
from coterie.tools.workspace_files import WorkspaceRoot
from coterie.tools.search.index import CodeIndex
index = CodeIndex(Path(sys.argv[1]), WorkspaceRoot.at(Path(sys.argv[2])))
sys.stdin.readline()
for _ in range(10):
    index.refresh()
    assert [hit.path for hit in index.search("mixing colours")] == ["paint.py"]
"""


def test_processes_share_an_index(shop: MemberProject) -> None:
    words = [sys.executable, "-c", SHARER, shop.workspace.tmp / "search.db", shop.project]
    children = [subprocess.Popen(words, stdin=subprocess.PIPE, text=True) for _ in range(3)]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.close()
    assert [child.wait() for child in children] == [0, 0, 0]
