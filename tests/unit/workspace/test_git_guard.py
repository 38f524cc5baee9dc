"""What is protected in git directories, and restored after a command."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coterie.workspace.durable_git_guard import DurableGitGuard, recover
from coterie.workspace.git_guard import (
    CommondirPlaceholder,
    GitGuard,
    GitRestored,
    protected_paths,
)
from coterie.workspace.snapshots.turn_snapshots import scan_folder
from coterie.workspace.worktree import Worktree, line_of


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    ran = subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)
    return ran.stdout.decode()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    git(made, "init", "-q", "-b", "main")
    git(made, "commit", "-q", "--allow-empty", "-m", "first")
    return made


def test_what_git_obeys_and_is_absent_is_there_while_a_command_runs(project: Path) -> None:
    common = project / ".git" / "commondir"
    works = [DurableGitGuard(project, "all") for _ in "ab"]
    for work in works:
        work.create_placeholders()
        work.begin()
    assert common in protected_paths(project)
    git(project, "commit", "-q", "--allow-empty", "-m", "second")  # git itself is unaffected
    assert works[0].end() == GitRestored()
    assert common.exists()  # the other command still needs it
    assert works[1].end() == GitRestored()
    assert not common.exists()
    assert git(project, "log", "--format=%s").split() == ["second", "first"]


def test_a_process_that_is_dying_is_waited_for(project: Path) -> None:
    dying, recovering = CommondirPlaceholder(project), CommondirPlaceholder(project)
    with ThreadPoolExecutor(1) as elsewhere:
        removed = elsewhere.submit(recovering.remove, 60.0)
        with pytest.raises(TimeoutError):
            removed.result(0.05)
        dying.remove()
    assert not (project / ".git" / "commondir").exists()


def test_a_hook_that_was_switched_off_stays_so(project: Path) -> None:
    hook = project / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o644)
    guard = GitGuard.before(project, "none")
    hook.chmod(0o755)
    assert guard.restore() == GitRestored((".git/hooks/pre-commit",))
    assert hook.stat().st_mode & 0o777 == 0o644
    hook.chmod(0o755)
    guard = GitGuard.before(project, "none")
    hook.unlink()
    guard.restore()
    assert hook.stat().st_mode & 0o777 == 0o755


def test_nothing_is_written_through_a_link(project: Path) -> None:
    outside = project.parent / "outside"
    outside.mkdir()
    (outside / "config").write_text("theirs")
    guard = GitGuard.before(project, "none")
    new = project / "new"
    git(project, "init", "-q", "new")
    (new / ".git" / "config").unlink()
    (new / ".git" / "config").symlink_to(outside / "config")
    (new / ".git" / "logs").symlink_to(outside)
    (project / "linked").symlink_to(outside)
    guard.restore()
    assert (outside / "config").read_text() == "theirs"
    assert [path.name for path in outside.iterdir()] == ["config"]
    assert not (new / ".git" / "config").is_symlink()
    assert not (new / ".git" / "logs").is_symlink()


def test_links_that_were_there_stay(project: Path) -> None:
    """Some people share one repository through links."""
    (project / ".git" / "rr-cache").symlink_to(project.parent)
    guard = GitGuard.before(project, "none")
    assert guard.restore() == GitRestored()
    assert (project / ".git" / "rr-cache").is_symlink()


def test_what_is_on_record_is_put_right_by_another(project: Path) -> None:
    work = DurableGitGuard(project, "none")
    work.begin()
    config = project / ".git" / "config"
    before = config.read_text()
    config.write_text("[core]\n\tfsmonitor = evil\n")
    assert work.record_fd is not None
    subprocess.run(
        [*work.recovery_command, str(work.record_fd)], pass_fds=[work.record_fd], check=True
    )
    assert config.read_text() == before
    config.write_text("changed by somebody else\n")
    work.end()
    config.write_text("and again\n")
    recover(work.record_fd)  # nothing is recorded for a command that ended
    assert config.read_text() == "and again\n"


_BEYOND_ANY_PATH = (50, "x" * 100)
"""Folders in each other and their names: more than the 4096 bytes that a path may have."""


def pipe(path: Path) -> None:
    os.mkfifo(path)


def disk(path: Path) -> None:
    """A file of a terabyte that takes up no space."""
    with path.open("wb") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize("make", [pipe, disk])
def test_nothing_called_git_is_waited_for_or_read_whole(
    project: Path, make: Callable[[Path], None]
) -> None:
    (project / "was").mkdir()
    make(project / "was" / ".git")
    work = DurableGitGuard(project, "all")
    (project / "new").mkdir()
    make(project / ".git" / "commondir")
    work.create_placeholders()
    work.begin()
    make(project / "new" / ".git")
    (project / ".git" / "config").unlink()
    make(project / ".git" / "config")
    scan_folder(project)
    assert Worktree.around(project / "new") is None
    assert line_of(project / "new" / ".git") == ""
    assert work.end().undone[-1] == "new/.git"
    assert not (project / "new" / ".git").exists()


@pytest.mark.parametrize("cut", ["rm gitdir", "echo elsewhere > gitdir", "rm -r ./*"])
def test_a_worktree_is_not_cut_off_from_what_is_protected(project: Path, cut: str) -> None:
    git(project, "config", "extensions.worktreeConfig", "true")
    git(project, "worktree", "add", "-q", str(project.parent / "tree"))
    git_dir = project / ".git" / "worktrees" / "tree"
    guard = GitGuard.before(project.parent / "tree", "none")
    plant = f"git config --worktree core.fsmonitor false; cd {git_dir}; {cut}"
    subprocess.run(["sh", "-c", plant], cwd=project.parent / "tree", check=True)
    undone = {Path(path).name for path in guard.restore().undone}
    assert undone >= {"gitdir"}
    assert (git_dir / "gitdir").read_text() == f"{project.parent / 'tree' / '.git'}\n"
    assert not (git_dir / "config.worktree").exists()


def test_a_folder_of_any_depth_protects_nothing(project: Path, nest: Callable[..., None]) -> None:
    (project / ".git" / "hooks").mkdir(exist_ok=True)
    guard = GitGuard.before(project, "none")
    for name in ("one", "two"):
        git(project, "init", "-q", name)
        git(project / name, "config", "core.fsmonitor", "false")
    git(project, "config", "core.fsmonitor", "false")
    nest(project / "one" / ".git" / "zz")
    for name in (".git/zz", ".git/hooks/zz"):
        nest(project / name, *_BEYOND_ANY_PATH)
    undone = (".git/config", ".git/hooks/zz", ".git/zz", "one/.git/config", "one/.git/zz")
    assert guard.restore() == GitRestored((*undone, "two/.git/config"))
    assert git(project, "config", "--file", "two/.git/config", "--list").count("fsmonitor") == 0


def test_what_could_not_be_searched_is_named_unless_it_was_there_before(
    project: Path, nest: Callable[..., None]
) -> None:
    nest(project / "before", *_BEYOND_ANY_PATH)
    guard = GitGuard.before(project, "none")
    assert guard.restore() == GitRestored()
    nest(project / "new", *_BEYOND_ANY_PATH)
    [failed] = guard.restore().failed
    assert failed.startswith("new/xxx")


# Root may do anything whatever the permissions, unless it gives that up.
_WITHOUT_PRIVILEGES = (
    ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
)
_GUARDED = """
import json, subprocess, sys
from coterie.workspace.git_guard import GitGuard
project, command = sys.argv[1:]
guard = GitGuard.before(__import__("pathlib").Path(project), "none")
subprocess.run(["sh", "-c", command], cwd=project, check=True)
restored = guard.restore()
print(json.dumps([restored.undone, restored.failed]))
"""
_FSMONITOR = "git -C {} config core.fsmonitor 'touch ../mark; false'; "
_HOOK = "echo 'touch ../mark' > {0}/.git/hooks/pre-commit; chmod 755 {0}/.git/hooks/pre-commit; "
_NEW = "git init -q new; " + _FSMONITOR.format("new")
_OWN = _FSMONITOR.format(".") + _HOOK.format(".")


def test_folders_that_the_user_locked_are_locked_again(project: Path) -> None:
    inner = project / "private" / "inner"
    inner.mkdir(parents=True)
    modes = {inner: 0o200, inner.parent: 0o110}
    for folder, mode in modes.items():
        folder.chmod(mode)
    guard = GitGuard.before(project, "none")
    assert guard.restore() == GitRestored()
    assert stat.S_IMODE(inner.parent.stat().st_mode) == 0o110
    inner.parent.chmod(0o700)
    assert stat.S_IMODE(inner.stat().st_mode) == 0o200


@pytest.mark.parametrize(
    ("command", "folder"),
    [
        pytest.param(f"{_NEW} chmod 555 new/.git", "new", id="it cannot be edited"),
        pytest.param(f"{_NEW} chmod 311 new/.git", "new", id="it cannot be listed"),
        pytest.param(f"{_NEW} chmod 444 new/.git", "new", id="it cannot be entered"),
        pytest.param(f"{_NEW} chmod 0 new/.git/config new/.git", "new", id="nothing at all"),
        pytest.param(
            f"{_NEW} mkdir pkg; mv new pkg; chmod 111 pkg", "pkg/new", id="one above is not listed"
        ),
        pytest.param(
            f"{_NEW} mkdir -p a/b; mv new a/b; chmod 0 a/b a", "a/b/new", id="all above are locked"
        ),
        pytest.param(
            f"git init -q new; {_HOOK.format('new')} chmod 311 new/.git/hooks", "new", id="hooks"
        ),
        pytest.param(
            "git init -q new; mkdir -p new/.git/modules/x; chmod 0 new/.git/modules/x; "
            f"{_FSMONITOR.format('new')}",
            "new",
            id="what is removed is locked",
        ),
        pytest.param(f"{_OWN} chmod 555 .git .git/hooks", ".", id="own, not editable"),
        pytest.param(f"{_OWN} chmod 311 .git/hooks .git", ".", id="own, not listed"),
        pytest.param(f"{_OWN} chmod 0 .git .", ".", id="own, nor the project"),
    ],
)
def test_locked_folders_hide_nothing(project: Path, command: str, folder: str) -> None:
    (project / ".git" / "hooks").mkdir(exist_ok=True)
    words = [*_WITHOUT_PRIVILEGES, sys.executable, "-c", _GUARDED, str(project), command]
    ran = subprocess.run(words, check=True, capture_output=True)
    undone, failed = json.loads(ran.stdout)
    assert failed == []
    assert undone
    for words in ("status", "commit --allow-empty -m x"):
        subprocess.run(
            ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=b@c", *words.split()],
            cwd=project,
            check=True,
            capture_output=True,
        )
    assert [path.name for path in project.parent.rglob("mark")] == []
