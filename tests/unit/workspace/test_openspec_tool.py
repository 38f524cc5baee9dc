"""The machine's `openspec` tool: which one is used, and how its output is parsed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coterie.workspace.openspec_tool import (
    SpecIssue,
    find_openspec,
    issues_in,
    uses_openspec,
    validate_command,
    write_change,
)


def program(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "openspec"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_a_tool_in_the_project_is_the_repositorys_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    theirs = program(project / "node_modules" / ".bin")
    ours = program(tmp_path / "bin")
    outside = tmp_path / "links"
    outside.mkdir()
    (outside / "openspec").symlink_to(theirs)
    monkeypatch.chdir(project)
    for path, found in (
        (f"{tmp_path / 'bin'}", ours),
        (f"{theirs.parent}", None),
        ("node_modules/.bin", None),
        (f"{outside}", None),
        (f"{tmp_path / 'nothing'}", None),
    ):
        monkeypatch.setenv("PATH", path)
        assert find_openspec(project) == found, path


def test_it_is_run_without_telemetry_and_update_checks() -> None:
    command = validate_command(Path("/a b/openspec"), "coupons-k3f9")
    assert command == (
        "OPENSPEC_TELEMETRY=0 DO_NOT_TRACK=1 OPENSPEC_NO_UPDATE_CHECK=1 '/a b/openspec' validate "
        "coupons-k3f9 --type change --strict --json --no-interactive"
    )


@pytest.mark.parametrize(
    ("printed", "found"),
    [
        ({"items": [{"issues": []}]}, []),
        (
            {
                "items": [
                    {
                        "issues": [
                            {"level": "ERROR", "path": "a/spec.md", "message": "bad\u001b[31m"},
                            {"level": "INFO", "path": "x", "message": "note"},
                            {"level": "WARNING", "message": "hm"},
                        ]
                    }
                ]
            },
            [SpecIssue("a/spec.md", "bad<U+001B>[31m"), SpecIssue("", "hm")],
        ),
        ({"status": [{"severity": "error"}]}, None),
        ({"items": [{}]}, None),
        ({"items": 3}, None),
        ([1], None),
        ("no json", None),
    ],
)
def test_what_it_said_is_read_as_data(printed: object, found: object) -> None:
    text = printed if isinstance(printed, str) else f"note\n{json.dumps(printed)}\n"
    assert issues_in(text) == found
    assert issues_in("") is None


def test_a_change_is_replaced_as_a_whole_each_time(tmp_path: Path) -> None:
    assert not uses_openspec(tmp_path)
    (tmp_path / "openspec" / "changes").mkdir(parents=True)
    assert uses_openspec(tmp_path)
    write_change(tmp_path, "x", {"openspec/changes/x/specs/old/spec.md": "old"})
    write_change(tmp_path, "x", {"openspec/changes/x/specs/new/spec.md": "new"})
    found = [str(one.relative_to(tmp_path)) for one in tmp_path.rglob("*.md")]
    assert found == ["openspec/changes/x/specs/new/spec.md"]
