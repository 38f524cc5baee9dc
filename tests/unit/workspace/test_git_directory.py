"""The per-process folder for git's configuration: survives cleanup by other processes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.workspace import git_directory

REAL = tempfile.mkdtemp


def taken_at_once(made: list[str]) -> Callable[..., str]:
    """Return a `mkdtemp` whose first folder is removed before it can be locked."""

    def make(*words: str, **more: str) -> str:
        made.append(REAL(*words, **more))
        if len(made) == 1:
            Path(made[0]).rmdir()
        return made[-1]

    return make


def test_one_that_another_process_removes_before_it_is_locked_is_created_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made: list[str] = []
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(tempfile, "mkdtemp", taken_at_once(made))
    root, lock = git_directory._new_root()
    os.close(lock)
    assert (len(made), str(root), root.is_dir()) == (2, made[1], True)
