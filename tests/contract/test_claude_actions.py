"""What Claude's tools would do, and how a change is shown before it is made."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from coterie.agents.claude.permissions import action_of, diff_of, effect_of
from coterie.agents.fields import searched
from coterie.model.tool_call import Action

CWD = "/w"


@pytest.mark.parametrize(
    ("tool", "given", "action"),
    [
        ("Bash", {"command": "ls"}, Action("run", "Bash", CWD, command="ls")),
        ("Bash", {}, Action("run", "Bash", CWD)),
        ("Monitor", {"command": "tail x"}, Action("run", "Monitor", CWD, command="tail x")),
        ("Write", {"file_path": "/a"}, Action("write", "Write", CWD, paths=("/a",))),
        ("Edit", {"file_path": "/a"}, Action("write", "Edit", CWD, paths=("/a",))),
        ("MultiEdit", {"file_path": "/a"}, Action("write", "MultiEdit", CWD, paths=("/a",))),
        (
            "NotebookEdit",
            {"notebook_path": "/a"},
            Action("write", "NotebookEdit", CWD, paths=("/a",)),
        ),
        ("Write", {"content": "x"}, Action("write", "Write", CWD)),
        ("Read", {"file_path": "/a"}, Action("read", "Read", CWD, paths=("/a",))),
        ("Read", {"offset": 1}, Action("other", "Read", CWD, paths=("",))),
        ("Grep", {"pattern": "/etc/*"}, Action("read", "Grep", CWD, paths=(".",))),
        (
            "Glob",
            {"pattern": "/etc/*"},
            Action("read", "Glob", CWD, paths=("/etc",), names_only=True),
        ),
        (
            "Glob",
            {"pattern": "*", "path": "/a"},
            Action("read", "Glob", CWD, paths=("/a",), names_only=True),
        ),
        ("Grep", {"pattern": "x"}, Action("read", "Grep", CWD, paths=(".",))),
        ("Grep", {"pattern": "x", "glob": "*.py"}, Action("read", "Grep", CWD, paths=(".",))),
        (
            "Grep",
            {"pattern": "x", "path": "a", "glob": ".coterie/**/*.json"},
            Action("read", "Grep", CWD, paths=("a/.coterie",)),
        ),
        *(
            (
                "Grep",
                {"pattern": "x", "glob": glob},
                Action("read", "Grep", CWD, paths=(".", ".coterie/members")),
            )
            for glob in ("**", "*", "**/*", "{*,a}", "**/m*")
        ),
        ("LS", {"path": "/a"}, Action("read", "LS", CWD, paths=("/a",), names_only=True)),
        ("WebFetch", {"url": "http://x"}, Action("fetch", "WebFetch", CWD, target="http://x")),
        ("WebSearch", {"query": "x"}, Action("fetch", "WebSearch", CWD)),
        ("mcp__github__push", {"path": "/a"}, Action("other", "mcp__github__push", CWD)),
        ("Tomorrow", {}, Action("other", "Tomorrow", CWD)),
    ],
)
def test_actions(tool: str, given: dict[str, Any], action: Action) -> None:
    assert action_of(tool, given, CWD) == action


@pytest.mark.parametrize(
    ("tool", "effect"),
    [
        ("Bash", "run"),
        ("Edit", "write"),
        ("Read", "read"),
        ("Glob", "read"),
        ("WebFetch", "fetch"),
        ("TodoWrite", "read"),
        ("Agent", "read"),
        ("mcp__coterie__hand_over", "read"),
        ("mcp__other__hand_over", "other"),
    ],
)
def test_effects(tool: str, effect: str) -> None:
    assert effect_of(tool) == effect


@pytest.mark.parametrize(
    ("folder", "pattern", "place"),
    [
        ("", "", "."),
        ("src", "*.py", "src"),
        ("", "src/**/x", "src"),
        ("src", "/etc/ssh/*", "/etc/ssh"),
        ("", "/*", "/"),
        ("", "//etc/*", "/etc"),
        # If it cannot be determined, it may be anywhere.
        ("src", "*/../../*", "/"),
        ("", "{/etc,x}/*", "/"),
        ("", "{..,x}/**", "/"),
        ("src", "{.,}./etc/*", "/"),
        ("src", "x/{a,.{.,}}/*", "/"),
        ("src", "{../x,y}", "/"),
        ("src", "x/*.{py,ts}", "src/x"),
        ("", "{x,..}/*", "/"),
        ("", ".{.,x}/*", "/"),
        ("", "{.,x}{.,y}/*", "/"),
        ("", "[.][.]/*", "/"),
        ("", "{{a,b},/etc}/*", "/"),
        ("", "{{a,b},../c}", "/"),
        ("", "{" * 100_000, "."),
        ("", r"\.\./*", "/"),
        ("src", "*.{ts,tsx}", "src"),
        ("src", "[^.]*.py", "src"),
    ],
)
def test_where_a_search_looks(folder: str, pattern: str, place: str) -> None:
    assert searched(folder, pattern) == place


# -- changes -----------------------------------------------------------------------------------


def edit(old: str, new: str, **more: object) -> dict[str, Any]:
    return {"old_string": old, "new_string": new, **more}


@pytest.fixture
def note(tmp_path: Path) -> Path:
    path = tmp_path / "note.txt"
    path.write_text("one\ntwo\nmore\ntwo\n")
    return path


def shown(tool: str, note: Path, **given: object) -> list[str]:
    """The lines of a diff below the file names."""
    lines = diff_of(tool, {"file_path": note.name, **given}, str(note.parent)).splitlines()
    assert lines[1] == f"+++ {note.name}"
    return lines[2:]


def test_a_file_is_written(note: Path) -> None:
    assert shown("Write", note, content="one\n") == [
        "@@ -1,4 +1 @@",
        " one",
        "-two",
        "-more",
        "-two",
    ]
    new = diff_of("Write", {"file_path": "new.txt", "content": "x\n"}, str(note.parent))
    assert new == "--- /dev/null\n+++ new.txt\n@@ -0,0 +1 @@\n+x"


def test_pieces_of_a_file_are_changed(note: Path) -> None:
    once = shown("Edit", note, **edit("two", "three"))
    assert once == ["@@ -1,4 +1,4 @@", " one", "-two", "+three", " more", " two"]
    everywhere = shown("Edit", note, **edit("two", "three", replace_all=True))
    assert everywhere[2:] == ["-two", "+three", " more", "-two", "+three"]
    both = shown("MultiEdit", note, edits=[edit("one", "1"), edit("1\n", "0\n")])
    assert both == ["@@ -1,4 +1,4 @@", "-one", "+0", " two", " more", " two"]


def test_what_does_not_fit_is_shown_as_it_is(note: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = ["@@ position unknown @@", "-four", "+five"]
    assert shown("Edit", note, **edit("four", "five")) == pieces
    everywhere = ["@@ position unknown (everywhere) @@", "+five"]
    assert shown("Edit", note, **edit("", "five", replace_all=True)) == everywhere
    assert shown("Edit", note.with_name("nothing.txt"), **edit("four", "five")) == pieces
    assert shown("Edit", note.with_name("x" * 300), **edit("four", "five")) == pieces
    os.mkfifo(note.with_name("pipe"))
    for name in ("pipe", "/dev/zero"):  # never read
        given = {"file_path": name, **edit("four", "five")}
        assert diff_of("Edit", given, str(note.parent)).splitlines()[2:] == pieces
    monkeypatch.setattr("coterie.agents.claude.permissions._LONGEST", 3)
    assert shown("Edit", note, **edit("one", "1"))[1:] == ["-one", "+1"]
