"""What is protected in git directories, and restored after a command."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from coterie.workspace.durable_git_guard import DurableGitGuard, recover
from coterie.workspace.git_guard import GitGuard, protected_paths


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
    assert works[0].end() == []
    assert common.exists()  # the other command still needs it
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
    assert guard.restore() == [".git/hooks/pre-commit"]
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
    assert guard.restore() == []
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
