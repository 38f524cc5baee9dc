"""File names that are not valid text: every tool shows and accepts them as codes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from coterie.tools.edit_file import EditFile
from coterie.tools.read_tools import Grep, ListFiles, ReadFile
from coterie.tools.search.index import CodeIndex, SearchCode
from coterie.tools.toolbox import PreparedCall, Toolbox
from coterie.tools.workspace_files import FileVersions
from tests.unit.tools.member_project import call, member_project, toolbox

ODD = "d<0xE9>/n<0xE9>w.py"
REAL = os.fsdecode(b"d\xe9/n\xe9w.py")


@pytest.fixture(params=[True, False], ids=["git", "no git"])
def box(tmp_path: Path, request: pytest.FixtureRequest) -> Toolbox:
    shop = member_project(tmp_path, git=bool(request.param))
    shop.write(REAL, "def total():\n    return needle\n")
    shop.write("plain <0xE9>.py", "def other(): ...\n")
    versions = FileVersions()
    return toolbox(
        shop,
        ReadFile(shop.root, versions),
        ListFiles(shop.root),
        Grep(shop.root, os.environ["PATH"]),
        EditFile(shop.root, versions),
        SearchCode(CodeIndex(tmp_path / "index.db", shop.root)),
    )


@pytest.mark.parametrize(
    ("tool", "given", "shown"),
    [
        ("listFiles", {}, ODD),
        ("listFiles", {}, "plain <U+003C>0xE9>.py"),
        ("grep", {"pattern": "needle"}, f"{ODD}:2:"),
        ("grep", {"pattern": "needle", "path": "d<0xE9>"}, f"{ODD}:2:"),
        ("searchCode", {"query": "total needle"}, f"{ODD}:1-"),
        ("readFile", {"path": ODD}, "return needle"),
        ("readFile", {"path": "plain <U+003C>0xE9>.py"}, "def other"),
        ("readFile", {"path": "d<0xE9>/new.py"}, f"Similar: {ODD}"),
        ("editFile", {"path": ODD, "oldStr": "needle", "newStr": "pin"}, "changed"),
    ],
)
async def test_what_is_shown_can_be_kept_sent_and_given_back(
    box: Toolbox, tool: str, given: dict[str, str], shown: str
) -> None:
    outcome = await call(box, tool, **given)
    assert shown in str(outcome.output)
    json.dumps(outcome.output, ensure_ascii=False).encode()
    prepared = box.check(tool, given)
    assert isinstance(prepared, PreparedCall)
    json.dumps(prepared.given, ensure_ascii=False).encode()


async def test_the_index_follows_them(box: Toolbox, tmp_path: Path) -> None:
    await call(box, "searchCode", query="total")
    (tmp_path / "project" / REAL).unlink()
    again = await call(box, "searchCode", query="total needle")
    assert ODD not in str(again.output)
