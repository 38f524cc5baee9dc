"""Reading and writing: never half a file, never an endless wait."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.config.files import keep_copy, locked, read_bytes, write_atomically
from coterie.config.project import coterie_home, expanded, find_project
from coterie.errors import ConfigError, StorageError, StorageLocked, UsageError
from coterie.model.workspace import shown
from tests.conftest import IsolatedUser


def test_a_writer_that_never_lets_go(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with locked(path), pytest.raises(StorageLocked) as caught, locked(path, timeout=0.05):
        pass
    assert str(caught.value) == f"Another process is writing it ({path})."
    with locked(path, timeout=0.05):
        pass


WRITER = """
import resource, sys
from pathlib import Path
from coterie.config.files import write_atomically
from coterie.errors import StorageFull
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    write_atomically(Path(sys.argv[1]), "x" * 200_000)
except StorageFull as error:
    print(error, error.hint)
"""


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("old")
    done = subprocess.run(
        [sys.executable, "-c", WRITER, str(path)], check=True, capture_output=True, text=True
    )
    assert done.stdout == f"The disk is full ({tmp_path}). Free some space, then try again.\n"
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("x.json", "old")]


def test_a_file_where_a_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="Writing failed: Not a directory"):
        write_atomically(tmp_path / "file" / "x.json", "{}")


def test_a_folder_is_no_file_and_leaves_nothing_open(tmp_path: Path) -> None:
    before = set(os.listdir("/dev/fd"))  # noqa: PTH208 - names are wanted
    with pytest.raises(ConfigError, match=r"is a folder; expected a file\.$"):
        read_bytes(tmp_path)
    assert set(os.listdir("/dev/fd")) <= before  # noqa: PTH208


def test_copies_are_numbered(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for text in ("1", "2", "2", "3"):
        path.write_text(text)
        keep_copy(path, "x.bak")
    copies = {one.name: one.read_text() for one in tmp_path.glob("x.bak*")}
    assert copies == {"x.bak": "1", "x.bak.2": "2", "x.bak.3": "3"}


def test_paths_as_people_type_them(user: IsolatedUser) -> None:
    assert shown(user.project / "a" / "b") == "a/b"
    assert shown(user.home / "x") == "~/x"
    assert shown(Path("/etc/x")) == "/etc/x"
    assert shown(user.project) == str(user.project)
    assert expanded("~/x") == user.home / "x"
    assert expanded("~no-such-user-here/x") == Path("~no-such-user-here/x")


def test_a_folder_that_was_deleted_under_us(user: IsolatedUser) -> None:
    user.project.rmdir()
    assert shown(Path("/etc/x")) == "/etc/x"
    assert coterie_home() == user.coterie_home
    with pytest.raises(UsageError, match=r"^The current folder is gone\.$"):
        find_project()
