"""A work folder with links that must not fool the rules."""

from __future__ import annotations

from pathlib import Path

import pytest


def make_repository(folder: Path) -> None:
    """Give a folder what makes git stop there."""
    for name in ("objects", "refs"):
        (folder / ".git" / name).mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with links out of it, links within it, and a folder of secrets; never modified."""
    tmp_path = tmp_path_factory.mktemp("ground").resolve()
    top = tmp_path / "work"
    for folder in ("src/deep", "docs", "secrets", ".git/hooks", "scripts", "assets"):
        (top / folder).mkdir(parents=True)
    for file in ("README.md", "src/app.py", "src/b.py", "secrets/key.pem", ".env", "notes.txt"):
        (top / file).write_text("text\n")
    make_repository(top)
    (top / "scripts" / "check").write_text("#!/bin/sh\n")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "passwords").write_text("text\n")
    (top / "src" / "out").symlink_to(outside)  # a folder outside
    (top / "src" / "one.txt").symlink_to(outside / "passwords")  # a file outside
    (top / "src" / "new.txt").symlink_to(outside / "not-there-yet")
    (top / "src" / "hidden").symlink_to(top / "secrets")  # an alias
    (top / "env-too").symlink_to(top / ".env")
    (top / "src" / "me").symlink_to("/proc/self/cwd")
    (top / "loop").symlink_to("loop")
    (tmp_path / "by-link").symlink_to(top)
    return top
