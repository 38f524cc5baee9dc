"""Programs that came with a repository are not run, even if PATH names its folder."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.command import Cli
from tests.hostile.leftovers import shell

PROGRAMS = "bash bwrap claude codex env gemini git mount opencode qwen rg sh true unshare"


@pytest.mark.parametrize("folder", ["node_modules/.bin", ".", ""])
def test_a_folder_of_the_repository_on_path(bare: Cli, tmp_path: Path, folder: str) -> None:
    project, marks = bare.user.project, tmp_path / "marks"
    place = project / folder
    place.mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS.split():
        (place / name).write_text(f"#!/bin/sh\necho {name} >> {marks}\n")
        (place / name).chmod(0o755)
    calls = [
        {"name": "runCommand", "input": {"command": "git status; true"}},
        {"name": "grep", "input": {"pattern": "x"}},
    ]
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"rules": [{"replies": [{"tools": calls}, {"text": "Done."}]}]}))
    bare.members({"id": "ann", "agent": "builtin", "permissions": "full"})
    called = replace(bare, env={**bare.env, "PATH": f"{folder}:{os.environ['PATH']}"})
    assert "read-only" in called("doctor").out
    assert called("chat", "--script", str(script), "--max-turns", "1", "Look.").code == 0
    assert not marks.exists()
    shell(project, f"PATH={folder}:$PATH; git status")
    assert marks.read_text() == "git\n"
