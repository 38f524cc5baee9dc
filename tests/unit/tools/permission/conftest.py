"""A work folder with what rules must not be fooled by."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with links out of it, links within it, and a folder of secrets; only looked at."""
    tmp_path = tmp_path_factory.mktemp("ground").resolve()
    top = tmp_path / "work"
    for folder in ("src/deep", "docs", "secrets", ".git/hooks", "scripts", "assets"):
        (top / folder).mkdir(parents=True)
    for file in ("README.md", "src/app.py", "src/b.py", "secrets/key.pem", ".env", "notes.txt"):
        (top / file).write_text("text\n")
    (top / "scripts" / "check").write_text("#!/bin/sh\n")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "passwords").write_text("text\n")
    (top / "src" / "out").symlink_to(outside)  # a folder elsewhere
    (top / "src" / "one.txt").symlink_to(outside / "passwords")  # a file elsewhere
    (top / "src" / "new.txt").symlink_to(outside / "not-there-yet")
    (top / "src" / "hidden").symlink_to(top / "secrets")  # by another name
    (top / "env-too").symlink_to(top / ".env")
    (top / "src" / "me").symlink_to("/proc/self/cwd")
    (top / "loop").symlink_to("loop")
    (tmp_path / "by-link").symlink_to(top)
    return top
