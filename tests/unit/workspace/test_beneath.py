"""Files below a `.coterie` are reached without following a link, and nothing outside is touched."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.engine.lease import Owner, facts, living, sweep
from coterie.errors import EnvelopeForged, NotOurs
from coterie.model.workspace import unfinished_name
from coterie.stores.sqlite.database import open_database
from coterie.workspace import session_files
from coterie.workspace.beneath import (
    open_file,
    open_folder,
    read_file,
    read_regular,
    real_folder,
    remove_tree,
    walk,
    write_file,
)
from coterie.workspace.folder import save_identity
from coterie.workspace.leftovers import abandoned_temp_files
from coterie.workspace.snapshots.repository import SnapshotRepository
from tests.unit.workspace.test_member_folder import ANN


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "project" / ".coterie"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    (folder / "in").mkdir(parents=True)
    (folder / "canary").write_text("mine")
    (folder / "in" / "canary").write_text("mine")
    return folder


def is_untouched(outside: Path) -> bool:
    found = {str(path.relative_to(outside)) for path in outside.rglob("*")}
    texts = {path.read_text() for path in outside.rglob("canary")}
    return (found, texts) == ({"canary", "in", "in/canary"}, {"mine"})


def test_folders_are_made_and_files_replaced(base: Path) -> None:
    assert write_file(base, ("a", "b", "c"), b"one") == base / "a" / "b" / "c"
    assert write_file(base, ("a", "b", "c"), b"two", durable=True).read_bytes() == b"two"
    assert read_file(base, "a", "b", "c") == b"two"
    assert [path.name for path in (base / "a" / "b").iterdir()] == ["c"]
    assert (base / "a").stat().st_mode & 0o777 == 0o700
    with pytest.raises(FileNotFoundError):
        read_file(base, "a", "x")


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_no_folder_is_reached_through_a_link(base: Path, outside: Path, depth: int) -> None:
    names = ("in", "in", "in")
    if depth == 0:
        base.rmdir()
        base.symlink_to(outside)
    else:
        above = base.joinpath(*names[: depth - 1])
        above.mkdir(exist_ok=True, parents=True)
        (above / "in").symlink_to(outside / "in" if depth == 2 else outside)
    for attempt in (
        lambda: read_file(base, *names[:depth], "canary"),
        lambda: write_file(base, (*names[:depth], "canary"), b"theirs"),
        lambda: real_folder(base, *names, make=True),
    ):
        with pytest.raises(NotOurs, match="is a link: Coterie did not create it"):
            attempt()
    assert is_untouched(outside)


def test_no_file_is_reached_through_a_link(base: Path, outside: Path) -> None:
    (base / "x").symlink_to(outside / "canary")
    (base / "hard").hardlink_to(outside / "canary")
    os.mkfifo(base / "pipe")
    with pytest.raises(NotOurs, match="is a link"):
        read_file(base, "x")
    with pytest.raises(NotOurs, match="is not a regular file"):
        read_file(base, "pipe")
    with open_folder(base) as folder, pytest.raises(NotOurs, match="more than one hard link"):
        open_file(folder, base / "hard", os.O_WRONLY | os.O_APPEND)
    write_file(base, ("x",), b"ours")  # replaces the link, not its target
    assert (base / "x").read_bytes() == b"ours"
    assert is_untouched(outside)


def test_nothing_of_another_users_is_read(base: Path) -> None:
    if os.geteuid() != 0:  # non-root cannot chown, but /proc has folders of root
        with pytest.raises(NotOurs, match="belongs to another user"):
            real_folder(Path("/proc"), str(os.getpid()))
        return
    write_file(base, ("a", "b"), b"ours")
    os.chown(base / "a" / "b", 12345, 12345)
    with pytest.raises(NotOurs, match="belongs to another user"):
        read_file(base, "a", "b")
    os.chown(base / "a", 12345, 12345)
    with pytest.raises(NotOurs, match="belongs to another user"):
        real_folder(base, "a")


def test_a_tree_of_any_depth_is_walked_and_removed(
    tmp_path: Path, outside: Path, nest: Callable[..., None]
) -> None:
    top = tmp_path / "top"
    nest(top, 1100)
    (top / "b").symlink_to(outside)
    (top / "c").mkdir()
    (top / "c" / "a").mkdir()
    (top / "c" / "x").write_text("")
    names = [name for name, _ in walk(top, lambda name: name != "c/a")]
    assert names[-4:] == ["b", "c", "c/a", "c/x"]
    assert names[1099:1101] == ["a/" * 1099 + "a", "a/" * 1100 + "last.txt"]
    remove_tree(top)
    assert not top.exists()
    with pytest.raises(FileNotFoundError):
        remove_tree(top)
    top.symlink_to(outside)
    with pytest.raises(OSError, match=r"top"):
        remove_tree(top)
    assert is_untouched(outside)


def test_unfinished_files_are_found_beside_a_folder_of_any_depth(
    tmp_path: Path, nest: Callable[..., None]
) -> None:
    nest(tmp_path / "deep")
    names = [unfinished_name(), f"node_modules/{unfinished_name()}"]
    (tmp_path / "node_modules").mkdir()
    for name in names:
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (0, 0))
    assert [one.name for one in abandoned_temp_files(tmp_path)] == names[:1]


def test_only_regular_files_of_a_bounded_size_are_read(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    (tmp_path / "link").symlink_to(file)
    os.mkfifo(tmp_path / "pipe")
    assert read_regular(file, 5) == b"12345"
    assert read_regular(tmp_path / "link", 5, follow=True) == b"12345"
    for path, most in ((file, 4), (tmp_path / "link", 5), (tmp_path / "pipe", 5), (tmp_path, 5)):
        with pytest.raises(OSError, match=r"too large|symbolic|regular|directory"):
            read_regular(path, most)


# -- callers -----------------------------------------------------------------------------------


def _owners(base: Path) -> None:
    with pytest.raises(NotOurs):
        Owner(base / "owners", "here")
    with pytest.raises(NotOurs):
        sweep(base / "owners", frozenset())
    with pytest.raises(NotOurs):
        living(base / "owners", "canary")
    with pytest.raises(NotOurs):
        facts(base / "owners", "canary")


def _key(base: Path) -> None:
    with pytest.raises(NotOurs):
        session_files.make_session_key(base, "k3f9")
    with pytest.raises(EnvelopeForged):
        session_files.session_key(base, "k3f9")


def _artifact(base: Path) -> None:
    made = base.parent / "made"
    made.write_text("made")
    with pytest.raises(NotOurs):
        session_files.store_artifact(base.parent, "k3f9", "T1", base.parent, made)


def _head(base: Path) -> None:
    with pytest.raises(NotOurs):
        open_database(base / "coterie.db", 1.0)


def _snapshots(base: Path) -> None:
    with pytest.raises(NotOurs):
        SnapshotRepository(base.parent, base / "snapshots.git").exclusive().__enter__()


USERS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "owners": ("owners", _owners),
    "keys": ("sessions", _key),
    "a session's key": ("sessions/k3f9", _key),
    "artifacts": ("sessions/k3f9/artifacts", _artifact),
    "a ticket's artifacts": ("sessions/k3f9/artifacts/T1", _artifact),
    "the head": ("logs", _head),
    "the head's file": ("logs/head.json", _head),
    "the database": ("coterie.db", _head),
    "its log": ("coterie.db-wal", _head),
    "snapshots": ("snapshots.git", _snapshots),
    "their objects": ("snapshots.git/objects", _snapshots),
}


@pytest.mark.parametrize("name", USERS)
def test_a_link_where_we_keep_something(base: Path, outside: Path, name: str) -> None:
    place, use = USERS[name]
    link = base / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside)
    use(base)
    assert is_untouched(outside)


def test_a_link_in_place_of_a_members_prompt(base: Path, outside: Path) -> None:
    folder = base / "teams" / "pair" / "ann"
    folder.mkdir(parents=True)
    for name in ("identity.json", "identity.new"):
        (folder / name).symlink_to(outside / "canary")
    save_identity(base.parent, "pair", ANN)
    assert not (folder / "identity.json").is_symlink()
    assert is_untouched(outside)
