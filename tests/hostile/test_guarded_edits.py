"""An agent's own edits of files that git and shells obey need approval, even in accept-edits."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.command import Cli
from tests.cli.test_diff import EDITOR
from tests.hostile.leftovers import shell

PATHS = (
    ".git/hooks/pre-commit",
    ".git/config",
    ".git/commondir",
    ".git/info/attributes",
    "vendor/.git/config",
    "new/.git",
    "new/../.git/config",
    "link/config",
    "sub/.GIT/hooks/pre-push",
    ".bashrc",
    "deep/.zshenv",
    ".gitconfig",
    ".profile",
)


def try_to_write(cli: Cli, mode: str, path: str) -> tuple[str, bool]:
    """Have a member write a file; return the task's status and whether the file was written."""
    project = cli.user.project
    shell(project, "git init -q . && git init -q vendor && mkdir sub && ln -s .git link")
    registry = cli.user.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True, exist_ok=True)
    editor = {"command": sys.executable, "baseArgs": [str(EDITOR)], "adapter": "acp"}
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": {"editor": editor}}))
    member = {"id": "ada", "agent": "editor", "permissions": mode}
    cli.team("ada", name="solo").write_text(json.dumps({"members": [member]}))
    ran = cli("chat", "--json", "--max-turns", "1", f"please\n!write {path} evil")
    file = Path(project, path)
    written = file.is_file() and file.read_text() == "evil\n"
    return str(ran.of("result")[-1]["status"]), written


@pytest.mark.parametrize("path", PATHS)
def test_it_is_asked(bare: Cli, path: str) -> None:
    status, written = try_to_write(bare, "accept-edits", path)
    assert (status, written) == ("waiting", False)
    assert [one["about"]["effect"] for one in bare("inbox", "--json").of("interaction")] == [
        "write"
    ]


@pytest.mark.parametrize("path", ["src/cart.py", ".gitignore", ".github/workflows/ci.yml"])
def test_what_is_a_plain_file_is_not(bare: Cli, path: str) -> None:
    assert try_to_write(bare, "accept-edits", path) == ("completed", True)


@pytest.mark.parametrize("path", PATHS)
def test_who_may_do_all_writes_it(bare: Cli, path: str) -> None:
    assert try_to_write(bare, "full", path) == ("completed", True)
