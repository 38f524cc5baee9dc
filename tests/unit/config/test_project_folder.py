"""Finding the project folder, its `.coterie`, and the list of known projects."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.config.project import (
    Project,
    coterie_home,
    find_project,
    known_projects,
    make_project,
    network_type,
    passthrough,
)
from coterie.errors import StorageError, StorageReadOnly, UsageError
from tests.conftest import IsolatedUser

Write = Callable[[Path, str], Path]


# -- finding -----------------------------------------------------------------------------------


def test_the_nearest_parent_with_a_coterie_folder(user: IsolatedUser) -> None:
    deep = user.project / "a" / "b"
    deep.mkdir(parents=True)
    (user.project / ".git").mkdir()
    assert find_project(start=deep).root == user.project
    (user.project / "a" / ".coterie").mkdir()
    assert find_project(start=deep).root == user.project / "a"


def test_else_the_git_root_else_here(user: IsolatedUser) -> None:
    deep = user.project / "a" / "b"
    deep.mkdir(parents=True)
    assert find_project(start=deep).root == deep
    (user.project / ".git").write_text("gitdir: elsewhere")  # a worktree
    assert find_project(start=deep).root == user.project


def test_the_chosen_folder_is_taken_as_it_is(user: IsolatedUser) -> None:
    (user.project / ".git").mkdir()
    inner = user.project / "inner"
    inner.mkdir()
    assert find_project("inner").root == inner
    assert find_project(inner / "..").root == user.project


def test_the_users_own_folder_makes_no_project(
    user: IsolatedUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = user.home / "code" / "x"
    work.mkdir(parents=True)
    user.coterie_home.mkdir()
    assert find_project(start=work).root == work
    (user.home / ".git").mkdir()  # people keep their dotfiles in git
    assert find_project(start=work).root == work
    monkeypatch.setenv("COTERIE_HOME", str(user.home / "code" / ".coterie"))
    (user.home / "code" / ".coterie").mkdir()
    assert find_project(start=work).root == work


@pytest.mark.parametrize("chosen", ["~", "/", None])
def test_home_and_root_are_refused(user: IsolatedUser, chosen: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        find_project(chosen, user.home)
    assert str(caught.value) in (
        "A project cannot be your home folder.",
        "A project cannot be /.",
    )
    assert caught.value.hint == "cd into a project, or name one: -C DIR"


def test_a_folder_that_is_none(user: IsolatedUser) -> None:
    with pytest.raises(UsageError, match=r"^nowhere is not a folder\.$"):
        find_project("nowhere")


# -- making ------------------------------------------------------------------------------------


def test_the_folder_is_private_and_ignored_by_git(user: IsolatedUser) -> None:
    project = Project(user.project)
    assert not project.exists
    assert make_project(project).is_new
    assert stat.S_IMODE(project.folder.stat().st_mode) == 0o700
    assert (project.folder / ".gitignore").read_text() == "*\n"
    assert stat.S_IMODE((project.folder / "identity").stat().st_mode) == 0o600
    assert [path.name for path in user.project.iterdir()] == [".coterie"]
    (project.folder / ".gitignore").write_text("*\n!mine\n")
    assert not make_project(project).is_new
    assert (project.folder / ".gitignore").read_text() == "*\n!mine\n"


def test_a_folder_that_cannot_be_written(user: IsolatedUser) -> None:
    with pytest.raises(StorageReadOnly) as caught:
        make_project(Project(Path("/sys/kernel")))
    assert str(caught.value) == "The folder cannot be written (/sys/kernel)."
    assert caught.value.hint == "Make /sys/kernel writable, or work elsewhere: -C DIR"
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("kind", ["file", "link"])
def test_something_else_in_its_place(user: IsolatedUser, tmp_path: Path, kind: str) -> None:
    place = user.project / ".coterie"
    if kind == "file":
        place.touch()
    else:
        place.symlink_to(tmp_path)
    with pytest.raises(UsageError, match=r"/\.coterie is not a folder\."):
        make_project(Project(user.project))


MOUNTS = r"""
/dev/sda1 / ext4 rw 0 0
server:/export /net/home nfs4 rw 0 0
/dev/sdb1 /net/home/disk ext4 rw 0 0
me@host: /mnt/my\040files fuse.sshfs rw 0 0
drvfs /mnt/c 9p rw 0 0
//nas/x /mnt/nas cifs rw 0 0
tmpfs /tmp tmpfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/home/ann", None),
        ("/net/home/ann", "nfs4"),
        ("/net/homely", None),
        ("/net/home/disk/ann", None),
        ("/mnt/my files/x", "fuse.sshfs"),
        ("/mnt/c/Users/ann", "9p"),
        ("/mnt/nas", "cifs"),
        ("/tmp/x", None),
    ],
)
def test_network_file_systems_are_known(path: str, found: str | None) -> None:
    assert network_type(Path(path), MOUNTS) == found


def test_a_sandbox_whose_only_disk_is_9p() -> None:
    assert network_type(Path("/home/ann"), "none / 9p rw 0 0\n") is None


def test_a_network_file_system_is_refused(user: IsolatedUser) -> None:
    with pytest.raises(StorageError) as caught:
        make_project(Project(user.project), "x / nfs rw 0 0\n")
    assert str(caught.value) == (
        f"Coterie's locks cannot be trusted on a network file system (nfs) "
        f"({user.project}/.coterie)."
    )
    assert caught.value.hint == "Work on a copy on a local disk: -C DIR"
    assert not (user.project / ".coterie").exists()


# -- known projects ----------------------------------------------------------------------------


def make(root: Path) -> Project:
    root.mkdir(parents=True, exist_ok=True)
    assert make_project(Project(root)).notice is None
    return Project(root)


def test_projects_are_remembered_once_and_in_order(user: IsolatedUser, tmp_path: Path) -> None:
    assert known_projects().projects == ()
    one, two = make(tmp_path / "one"), make(tmp_path / "two")
    make(tmp_path / "one")
    assert known_projects().projects == (one, two)
    assert stat.S_IMODE((user.coterie_home / "projects.json").stat().st_mode) == 0o600


def test_projects_that_are_gone_are_skipped(user: IsolatedUser, tmp_path: Path) -> None:
    one, two = make(tmp_path / "one"), make(tmp_path / "two")
    (tmp_path / "one").rename(tmp_path / "gone")
    assert known_projects().projects == (two,)
    (tmp_path / "gone").rename(tmp_path / "one")
    assert known_projects().projects == (one, two)


def test_one_that_is_not_ours_any_more_is_left_out(user: IsolatedUser, tmp_path: Path) -> None:
    one, two = make(tmp_path / "one"), make(tmp_path / "two")
    (one.folder / "identity").write_text("0" * 32 + "\n")
    (one.folder / "coterie.db").touch()
    found = known_projects()
    assert found.projects == (two,)
    (notice,) = found.notices
    assert notice.message == (
        f"{one.place} came with this folder: it was not made by your Coterie. It is skipped."
    )
    assert notice.hint == f"coterie project -C {one.root}"


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"projects": 3}', "\0" * 40])
def test_a_damaged_list_is_set_aside(
    user: IsolatedUser, write: Write, tmp_path: Path, damage: str
) -> None:
    path = write(user.coterie_home / "projects.json", damage)
    found = known_projects()
    assert found.projects == ()
    (notice,) = found.notices
    assert notice.message.endswith(
        " It was renamed to ~/.coterie/projects.json.damaged.1; a new project list was started."
    )
    assert path.with_name("projects.json.damaged.1").read_text() == damage
    one = make(tmp_path / "one")
    assert known_projects().projects == (one,)
    write(path, damage)
    (tmp_path / "two").mkdir()
    assert make_project(Project(tmp_path / "two")).notice is not None
    assert path.with_name("projects.json.damaged.2").read_text() == damage
    assert known_projects().projects == (Project(tmp_path / "two"),)


def test_a_list_that_another_process_repairs_meanwhile_is_used(
    user: IsolatedUser, tmp_path: Path
) -> None:
    one = make(tmp_path / "one")
    path = user.coterie_home / "projects.json"
    path.rename(repaired := path.with_name("repaired.json"))
    os.mkfifo(path)  # read to EOF only after the good list has replaced it

    def repair() -> None:
        with path.open("w") as damaged:
            damaged.write("{")
            repaired.rename(path)

    other = threading.Thread(target=repair)
    other.start()
    found = known_projects()
    other.join()
    assert (found.projects, found.notices) == ((one,), ())


def test_strange_entries_are_passed_over(user: IsolatedUser, write: Write, tmp_path: Path) -> None:
    one = tmp_path / "one"
    (one / ".coterie").mkdir(parents=True)
    entries = [
        3,
        {},
        {"path": 5},
        {"path": "not/absolute"},
        {"path": "/\0"},
        {"path": str(one), "id": 3, "owner": "me", "tracked": []},
    ]
    write(user.coterie_home / "projects.json", json.dumps({"projects": entries}))
    assert known_projects().projects == (Project(one),)


def test_a_home_that_cannot_be_written_is_no_failure(user: IsolatedUser, tmp_path: Path) -> None:
    project = Project(tmp_path / "one", Path("/sys/nowhere"))
    project.root.mkdir()
    notice = make_project(project).notice
    assert notice is not None
    assert notice.message.startswith("This project is not in the list of known projects: ")
    (project.folder / "coterie.db").touch()
    assert not make_project(project).is_new  # this process made it and trusts it


WRITER = """
import sys
from pathlib import Path
from coterie.config.project import Project, make_project
for number in range(10):
    root = Path(sys.argv[1]) / f"{int(sys.argv[2]) // 2}-{number}"
    root.mkdir(exist_ok=True)
    make_project(Project(root))
"""


def test_writers_at_once_lose_nothing(user: IsolatedUser, tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    running = [subprocess.Popen([*command, str(writer)]) for writer in range(4)]
    assert [process.wait() for process in running] == [0, 0, 0, 0]
    found = known_projects()
    assert (len(found.projects), found.notices) == (20, ())


# -- environment -------------------------------------------------------------------------------


def test_where_the_users_folder_is(user: IsolatedUser, monkeypatch: pytest.MonkeyPatch) -> None:
    assert coterie_home() == user.coterie_home
    monkeypatch.delenv("COTERIE_HOME")
    assert coterie_home() == user.home / ".coterie"
    monkeypatch.setenv("COTERIE_HOME", "~/elsewhere")
    assert coterie_home() == user.home / "elsewhere"
    monkeypatch.setenv("COTERIE_HOME", "here")
    assert coterie_home() == user.project / "here"


def test_no_key_is_passed_through(user: IsolatedUser, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "LC_ALL",
        "https_proxy",
        "SSL_CERT_FILE",
        "TERM",
        "ANTHROPIC_API_KEY",
        "SSH_AUTH_SOCK",
    ):
        monkeypatch.setenv(name, "x")
    passed = passthrough()
    assert {"LC_ALL", "https_proxy", "SSL_CERT_FILE", "TERM", "PATH"} <= set(passed)
    assert not {"ANTHROPIC_API_KEY", "SSH_AUTH_SOCK", "HOME", "COTERIE_HOME"} & set(passed)
