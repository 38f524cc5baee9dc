"""Real repositories for tests, made with plain git."""

from __future__ import annotations

import subprocess
from pathlib import Path

from coterie.workspace.git import Git

_WHO = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.org")


def bare_git(folder: Path, *words: str, check: bool = True) -> str:
    """Run git without any precautions and return its output."""
    ran = subprocess.run(
        ["git", *_WHO, *words], cwd=folder, check=False, capture_output=True, text=True
    )
    assert not check or ran.returncode == 0, (ran.returncode, words, ran.stdout, ran.stderr)
    return ran.stdout.strip()


def commit(folder: Path, message: str) -> str:
    """Commit everything and return the commit."""
    bare_git(folder, "add", "--all")
    bare_git(folder, "commit", "-q", "--no-verify", "-m", message)
    return bare_git(folder, "rev-parse", "HEAD")


def new_repository(folder: Path) -> Git:
    """Create a repository with one commit of one file."""
    folder.mkdir(exist_ok=True)
    bare_git(folder, "init", "-q", "-b", "main")
    (folder / "file.txt").write_text("first\n")
    commit(folder, "first")
    return Git(folder)
