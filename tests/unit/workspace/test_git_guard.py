"""What is held in git directories, and put right after a command."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from coterie.workspace.git_guard import GitGuard, held_in
from coterie.workspace.git_work import GuardedWork, recover


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
    works = [GuardedWork(project, "all") for _ in "ab"]
    for work in works:
        work.hold()
        work.begin()
    assert common in held_in(project)
    git(project, "commit", "-q", "--allow-empty", "-m", "second")  # it changes nothing for git
    assert works[0].end() == []
    assert common.exists()  # the other command needs it
    assert works[1].end() == []
    assert not common.exists()
    assert git(project, "log", "--format=%s").split() == ["second", "first"]


def test_a_hook_that_was_switched_off_stays_so(project: Path) -> None:
    hook = project / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o644)
    guard = GitGuard.before(project, "none")
    hook.chmod(0o755)
    assert guard.put_right() == [".git/hooks/pre-commit"]
    assert hook.stat().st_mode & 0o777 == 0o644
    hook.chmod(0o755)
    guard = GitGuard.before(project, "none")
    hook.unlink()
    guard.put_right()
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
    guard.put_right()
    assert (outside / "config").read_text() == "theirs"
    assert [path.name for path in outside.iterdir()] == ["config"]
    assert not (new / ".git" / "config").is_symlink()
    assert not (new / ".git" / "logs").is_symlink()


def test_links_that_were_there_stay(project: Path) -> None:
    """Some share one repository by links."""
    (project / ".git" / "rr-cache").symlink_to(project.parent)
    guard = GitGuard.before(project, "none")
    assert guard.put_right() == []
    assert (project / ".git" / "rr-cache").is_symlink()


def test_what_is_on_record_is_put_right_by_another(project: Path) -> None:
    work = GuardedWork(project, "none")
    work.begin()
    config = project / ".git" / "config"
    before = config.read_text()
    config.write_text("[core]\n\tfsmonitor = evil\n")
    assert work.memory is not None
    subprocess.run([*work.when_orphaned, str(work.memory)], pass_fds=[work.memory], check=True)
    assert config.read_text() == before
    config.write_text("changed by somebody else\n")
    work.end()
    config.write_text("and again\n")
    recover(work.memory)  # of what has ended nothing is on record
    assert config.read_text() == "and again\n"
