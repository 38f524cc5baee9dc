"""What git tracks below a folder, in every index format that git writes and in broken ones."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from coterie.config.git_index import tracked_below


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=You", "-c", "user.email=you@example.com")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def filled(root: Path) -> None:
    """Write files that are not in `.coterie` but whose names resemble it."""
    for name in ("a", ".coteri", ".coterie-not", "z/.coterie/x", "symlink", "n" * 200):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


@pytest.mark.parametrize("ids", ["sha1", "sha256"])
@pytest.mark.parametrize("version", ["2", "3", "4"])
@pytest.mark.parametrize("split", [False, True])
def test_every_format(tmp_path: Path, ids: str, version: str, *, split: bool) -> None:
    git(tmp_path, "init", "-q", f"--object-format={ids}")
    filled(tmp_path)
    git(tmp_path, "add", "-f", ".")
    if version == "3":  # git writes it only if an entry needs it
        (tmp_path / "later").touch()
        git(tmp_path, "add", "-N", "later")
    git(tmp_path, "update-index", "--index-version", version)
    if split:
        git(tmp_path, "update-index", "--split-index")
    assert (tmp_path / ".git" / "index").read_bytes()[7] == int(version) or split
    folder = tmp_path / ".coterie"
    assert tracked_below(folder) is None
    seen: set[str] = set()
    for content in ("one", "two"):
        folder.mkdir(exist_ok=True)
        (folder / "rules.json").write_text(content)
        git(tmp_path, "add", "-f", ".coterie")
        found = tracked_below(folder)
        assert found is not None
        assert found.names == ("rules.json",)
        seen.add(found.digest)
    assert len(seen) == 2
    (folder / "rules.json").unlink()
    assert tracked_below(folder) is None, "what is not there cannot be believed"
    nested = tracked_below(tmp_path / "z" / ".coterie")
    assert nested is not None
    assert nested.names == ("x",)


def test_the_folder_itself_is_tracked(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / ".coterie").symlink_to("elsewhere")
    git(tmp_path, "add", "-f", ".")
    found = tracked_below(tmp_path / ".coterie")
    assert found is not None
    assert found.names == (".",)


def test_of_every_repository_around_it(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    folder = tmp_path / "inner" / ".coterie"
    folder.mkdir(parents=True)
    (folder / "x").touch()
    git(tmp_path, "add", "-f", ".")
    git(tmp_path / "inner", "init", "-q")
    found = tracked_below(folder)
    assert found is not None
    assert found.names == ("x",)


@pytest.mark.parametrize("index", [b"", b"DIRC", b"DIRC\0\0\0\x05\0\0\0\x01.coterie/x", b"\0" * 80])
def test_an_index_that_cannot_be_read_might_track_it(tmp_path: Path, index: bytes) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".coterie").mkdir()
    (tmp_path / ".git" / "index").write_bytes(index + b".coterie")
    found = tracked_below(tmp_path / ".coterie")
    assert found is not None
    assert found.names == (".",)


def test_a_pipe_holds_nobody_up(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".coterie").mkdir()
    os.mkfifo(tmp_path / ".git" / "index")
    assert tracked_below(tmp_path / ".coterie") is not None


@pytest.mark.parametrize("said", ["", "gitdir: nowhere", "\xff", "gitdir: .git"])
def test_a_git_file_that_leads_nowhere(tmp_path: Path, said: str) -> None:
    (tmp_path / ".git").write_text(said, encoding="latin-1")
    (tmp_path / ".coterie").mkdir()
    assert tracked_below(tmp_path / ".coterie") is None
