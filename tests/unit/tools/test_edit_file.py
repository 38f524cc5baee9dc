"""editFile: replaces one exact, unique piece of text, completely or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import anyio
import pytest

from coterie.model.workspace import UNFINISHED
from coterie.tools.edit_file import EditFile
from coterie.tools.read_tools import ReadFile
from coterie.tools.toolbox import PreparedCall, Toolbox, ToolOutcome
from coterie.tools.workspace_files import FileVersions
from tests.unit.tools.member_project import (
    MemberProject,
    call,
    member_project,
    toolbox,
    without_digest,
)


@pytest.fixture
def shop(tmp_path: Path) -> MemberProject:
    return member_project(tmp_path)


@pytest.fixture
def box(shop: MemberProject) -> Toolbox:
    versions = FileVersions()
    return toolbox(shop, ReadFile(shop.root, versions), EditFile(shop.root, versions))


async def edit(box: Toolbox, old: str, new: str, path: str = "f") -> ToolOutcome:
    return without_digest(await call(box, "editFile", path=path, oldStr=old, newStr=new))


def changed(line: int) -> ToolOutcome:
    return ToolOutcome({"path": "f", "done": "changed", "line": line})


@pytest.mark.parametrize(
    ("before", "change", "after", "line"),
    [
        (b"one\ntwo\n", ("two", "2"), b"one\n2\n", 2),
        (b"one\ntwo\n", ("one\ntwo\n", ""), b"", 1),
        (b"a\r\nb\r\n", ("b", "b\nc"), b"a\r\nb\r\nc\r\n", 2),
        (b"a\r\nb\r\nc\r\n", ("a\nb", "x\ny"), b"x\r\ny\r\nc\r\n", 1),
        (b"a\nb\n", ("a\r\nb", "x\r\ny"), b"x\ny\n", 1),
        (b"\xef\xbb\xbfone\n", ("one", "zwei"), b"\xef\xbb\xbfzwei\n", 1),
        ("\ufeffa\n".encode("utf-16-be"), ("a", "ö"), "\ufeffö\n".encode("utf-16-be"), 1),
        (b"caf\xe9 au lait\n", ("lait", "milk"), b"caf\xe9 au milk\n", 1),
        (b"no end", ("end", "END"), b"no END", 1),
    ],
)
async def test_the_rest_of_the_file_stays_as_it_is(
    shop: MemberProject,
    box: Toolbox,
    before: bytes,
    change: tuple[str, str],
    after: bytes,
    line: int,
) -> None:
    file = shop.write("f", before)
    file.chmod(0o754)
    assert await edit(box, *change) == changed(line)
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (after, 0o754)
    assert sorted(path.name for path in shop.project.iterdir()) == [".coterie", "f"]


@pytest.mark.parametrize(
    ("before", "old", "new", "why"),
    [
        (
            "a\nb\na\n",
            "a",
            "x",
            "oldStr occurs 2 times in f (lines 1, 3). Include more of the surrounding text so that "
            "it matches only once.",
        ),
        (
            "aaa",
            "aa",
            "x",
            "oldStr occurs 2 times in f (lines 1, 1). Include more of the surrounding text so that "
            "it matches only once.",
        ),
        (
            "a\n" * 9,
            "a\n",
            "x",
            "oldStr occurs more than 5 times in f (lines 1, 2, 3, 4, 5, …). Include more of the "
            "surrounding text so that it matches only once.",
        ),
        (
            "def one():\n    return 1\n",
            "def one():\n  return 1",
            "x",
            "oldStr was not found in f. It matches line 1 except for whitespace: copy the text "
            "exactly.",
        ),
        (
            "alpha\nreturn value + 1\n",
            "return valve + 1",
            "x",
            "oldStr was not found in f. The closest match for its first line is line 2: "
            "return value + 1",
        ),
        (
            "alpha\n",
            "something else",
            "x",
            "oldStr was not found in f. No line resembles its first line. Read the file again.",
        ),
        (
            "alpha\n",
            "\n\n",
            "x",
            "oldStr was not found in f. Read the file and copy the text exactly.",
        ),
        ("a\n", "a", "a", "oldStr and newStr are the same: nothing would change."),
        (
            "full\n",
            "",
            "x",
            "f already exists. To change it, give the text to replace as oldStr.",
        ),
        (b"\0\1\2a", "a", "b", "f is not a text file, so it cannot be edited."),
        (
            b"caf\xe9 x\n",
            "x",
            "é",
            "f is not UTF-8, so only plain ASCII can be inserted safely.",
        ),
    ],
)
async def test_a_refused_edit_says_why_and_changes_nothing(
    shop: MemberProject, box: Toolbox, before: str | bytes, old: str, new: str, why: str
) -> None:
    file = shop.write("f", before)
    # Everything but the access time: refusing an edit involves reading the file.
    facts = attrgetter("st_ino", "st_mode", "st_size", "st_mtime_ns", "st_ctime_ns")
    state = facts(file.stat())
    assert await edit(box, old, new) == ToolOutcome.refused(why)
    assert facts(file.stat()) == state


async def test_a_new_file_and_its_folders_are_made(shop: MemberProject, box: Toolbox) -> None:
    before = os.umask(0o027)
    try:
        made = await edit(box, "", "hello\n", "a/b/c.txt")
    finally:
        os.umask(before)
    assert made == ToolOutcome({"path": "a/b/c.txt", "done": "created", "line": 1})
    file = shop.project / "a" / "b" / "c.txt"
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("hello\n", 0o640)
    assert [path.name for path in file.parent.iterdir()] == ["c.txt"]
    # The tool knows the file it just made, and an empty file counts as absent.
    assert await edit(box, "hello", "bye", "a/b/c.txt") == ToolOutcome(
        {"path": "a/b/c.txt", "done": "changed", "line": 1}
    )
    shop.write("empty", "")
    assert (await edit(box, "", "full", "empty")).output["done"] == "changed"


async def test_what_is_not_there_is_not_edited(shop: MemberProject, box: Toolbox) -> None:
    assert await edit(box, "a", "b", "none") == ToolOutcome.refused(
        "There is no file none. To create it, leave oldStr empty."
    )
    assert (await edit(box, "a", "b", "no/such")).is_error
    assert not (shop.project / "no").exists()
    assert await edit(box, "a", "b", ".coterie") == ToolOutcome.refused(
        ".coterie is in .coterie, which must not be edited."
    )


async def test_a_file_changed_under_the_agent_must_be_read_again(
    shop: MemberProject, box: Toolbox
) -> None:
    file = shop.write("f", "one\ntwo\n")
    await call(box, "readFile", path="f")
    file.write_text("one\ntwo\nthree\n")
    assert await edit(box, "one", "1") == ToolOutcome.refused(
        "f has changed since you read it. Read it again, then edit."
    )
    assert file.read_text() == "one\ntwo\nthree\n"
    await call(box, "readFile", path="./f")
    assert await edit(box, "one", "1") == changed(1)
    assert await edit(box, "two", "2") == changed(2)  # it knows its own change


async def test_after_a_restart_it_knows_what_it_had_read(shop: MemberProject, box: Toolbox) -> None:
    file = shop.write("f", "one\n")
    read = await call(box, "readFile", path="f")
    file.write_text("one!\n")
    versions = FileVersions()
    versions.record("f", str(read.output["digest"]))
    again = toolbox(shop, EditFile(shop.root, versions))
    assert (await edit(again, "one", "1")).output == {
        "error": "f has changed since you read it. Read it again, then edit."
    }


async def test_an_edit_is_known_before_the_next_one_may_begin(shop: MemberProject) -> None:
    class Watched(FileVersions):
        def record(self, path: str, digest: str) -> None:
            assert self.lock.locked()
            super().record(path, digest)

    shop.write("f", "one\n")
    versions = Watched()
    assert await edit(toolbox(shop, EditFile(shop.root, versions)), "one", "1") == changed(1)
    assert list(versions.digests) == ["f"]


async def test_edits_at_once_do_not_lose_each_other(shop: MemberProject, box: Toolbox) -> None:
    file = shop.write("f", "".join(f"<{n}>\n" for n in range(20)))
    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(edit, box, f"<{number}>", f"[{number}]")
    assert file.read_text() == "".join(f"[{n}]\n" for n in range(20))


async def test_a_link_is_edited_where_it_leads(shop: MemberProject, box: Toolbox) -> None:
    file = shop.write("src/real", "one\n")
    (shop.project / "link").symlink_to("src/real")
    assert (await edit(box, "one", "two", "link")).output["path"] == "src/real"
    assert (file.read_text(), (shop.project / "link").is_symlink()) == ("two\n", True)


async def preview(box: Toolbox, old: str, new: str, path: str = "f") -> ToolOutcome | None:
    prepared = box.check("editFile", {"path": path, "oldStr": old, "newStr": new})
    assert isinstance(prepared, PreparedCall)
    return await box.preview(prepared)


async def test_a_preview_is_the_diff_and_changes_nothing(shop: MemberProject, box: Toolbox) -> None:
    file = shop.write("f", "one\ntwo\nthree\n")
    assert await preview(box, "two", "2") == ToolOutcome(
        {"path": "f", "diff": "--- f\n+++ f\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three"}
    )
    assert await preview(box, "", "new\n", "a/b") == ToolOutcome(
        {"path": "a/b", "diff": "--- /dev/null\n+++ a/b\n@@ -0,0 +1 @@\n+new"}
    )
    assert file.read_text() == "one\ntwo\nthree\n"
    assert not (shop.project / "a").exists()
    # An edit that would fail must not ask anybody.
    refused = [("four", "4", "f"), ("a", "b", "no/such"), ("", "x", "../x"), ("", "x", ".git/x")]
    for old, new, path in refused:
        shown = await preview(box, old, new, path)
        assert shown is not None
        assert shown.is_error


KILLED = """
import os, signal, sys
from pathlib import Path
from coterie.tools import edit_file
from coterie.tools.workspace_files import FileVersions, WorkspaceRoot
root, drafts, old = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
os.fsync = lambda fd: os.kill(os.getpid(), signal.SIGKILL)
tool = edit_file.EditFile(WorkspaceRoot.at(root, ()), FileVersions(), drafts)
asked = edit_file.EditFileInput(path="a.txt", oldStr=old, newStr="new")
tool._run(asked)
"""


@pytest.mark.parametrize("old", ["", "old"])
def test_a_kill_leaves_nothing_among_the_users_files(tmp_path: Path, old: str) -> None:
    root, drafts = tmp_path / "project", tmp_path / "drafts"
    root.mkdir()
    drafts.mkdir()
    if old:
        (root / "a.txt").write_text("old")
    words = [sys.executable, "-c", KILLED, str(root), str(drafts), old]
    assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
    assert [path.name for path in root.iterdir()] == (["a.txt"] if old else [])
    assert len(list(drafts.glob(UNFINISHED))) == 1
