"""readFile: the text, its line range, and how to continue."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.tools import read_tools, workspace_files
from coterie.tools.read_tools import ReadFile
from coterie.tools.toolbox import ToolOutcome
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


async def read(shop: MemberProject, path: str, **more: object) -> ToolOutcome:
    box = toolbox(shop, ReadFile(shop.root, FileVersions()))
    return without_digest(await call(box, "readFile", path=path, **more))


def text(shown: str, lines: str, note: str = "") -> ToolOutcome:
    output = {"path": "f", "lines": lines, "text": shown}
    return ToolOutcome(output | ({"note": note} if note else {}))


@pytest.mark.parametrize(
    ("data", "shown", "lines"),
    [
        (b"", "", "1-0 of 0"),
        (b"one", "one", "1-1 of 1"),
        (b"one\ntwo\n", "one\ntwo", "1-2 of 2"),
        (b"one\r\ntwo\r\n", "one\ntwo", "1-2 of 2"),
        (b"\xef\xbb\xbfone\n", "one", "1-1 of 1"),
        ("\ufeffzwölf\n".encode("utf-16-le"), "zwölf", "1-1 of 1"),
        (b"caf\xe9\n", "caf\ufffd", "1-1 of 1"),
        (b"a\fb\x0bc\n", "a\fb\x0bc", "1-1 of 1"),
        (b"x" * 9000 + b"\0\n", "x" * 9000 + "␀", "1-1 of 1"),
    ],
)
async def test_a_text_is_shown_as_it_is(
    shop: MemberProject, data: bytes, shown: str, lines: str
) -> None:
    shop.write("f", data)
    assert await read(shop, "f") == text(shown, lines)


async def test_a_part_of_it(shop: MemberProject) -> None:
    shop.write("f", "".join(f"line {n}\n" for n in range(1, 11)))
    assert await read(shop, "f", offset=3, limit=2) == text(
        "line 3\nline 4", "3-4 of 10", "There is more: continue with offset 5."
    )
    assert await read(shop, "f", offset=10) == text("line 10", "10-10 of 10")
    assert await read(shop, "f", offset=11) == ToolOutcome.refused(
        "f has no line 11: its last line is 10."
    )


async def test_a_long_one_comes_in_parts_that_make_the_whole(shop: MemberProject) -> None:
    lines = [f"{n} {'x' * 500}" for n in range(1, 101)]
    shop.write("f", "\n".join(lines))
    seen: list[str] = []
    while len(seen) < len(lines):
        part = await read(shop, "f", offset=len(seen) + 1)
        assert len(str(part.output["text"])) <= 30_000
        seen += str(part.output["text"]).split("\n")
    assert seen == lines


async def test_a_line_without_end_is_cut(shop: MemberProject) -> None:
    shop.write("f", "x" * 40_000 + "\nnext\n")
    assert await read(shop, "f") == text(
        "x" * 30_000 + "\n… 10,000 characters left out …",
        "1-1 of 2",
        "There is more: continue with offset 2.",
    )


async def test_what_is_no_text_is_explained(shop: MemberProject) -> None:
    shop.write("f", b"\x7fELF\0\0\0\0")
    assert await read(shop, "f") == ToolOutcome.refused("f is not a text file (8 bytes).")


async def test_a_huge_one_is_only_looked_into(
    shop: MemberProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace_files, "MAX_WHOLE_FILE_BYTES", 1000)
    monkeypatch.setattr(read_tools, "BLOCK", 64)
    shop.write("f", "".join(f"line {n}\n" for n in range(1, 1001)))
    size = (shop.project / "f").stat().st_size
    for offset in (1, 2, 10, 999):
        assert await read(shop, "f", offset=offset, limit=1) == text(
            f"line {offset}",
            f"{offset}-{offset} of a file of {size:,} bytes",
            f"There is more: continue with offset {offset + 1}.",
        )
    last = await read(shop, "f", offset=1000)
    assert last == text("line 1000", f"1000-1000 of a file of {size:,} bytes")
    assert await read(shop, "f", offset=1001) == ToolOutcome.refused("f has no line 1001.")
    assert await read(shop, "f", offset=1002) == ToolOutcome.refused("f has no line 1002.")
    shop.write("f", b"\0" * 2000)
    assert (await read(shop, "f")).is_error
