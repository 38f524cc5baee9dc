"""grep: ripgrep and the built-in search return the same lines, bounded in size and time."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
import pytest

from coterie.tools import read_tools
from coterie.tools.read_tools import Grep
from coterie.tools.toolbox import Toolbox, ToolOutcome
from tests.unit.process.children import count_pids_with_argument, pids_with_argument, token, until
from tests.unit.tools.member_project import MemberProject, call, member_project, toolbox

RIPGREP = os.environ["PATH"] if shutil.which("rg") else None
OURS = "/nonexistent"


@pytest.fixture
def shop(tmp_path: Path) -> MemberProject:
    made = member_project(tmp_path, git=True)
    made.write("src/a.py", "import os\ndef find():\n    return 1\n")
    made.write("src/b.ts", "function find() {}\n")
    made.write(".github/ci.yml", "find: me\n")
    made.write("src/dos.txt", "the end\r\n\r\nlast\r\n")
    made.write("src/empty", "")
    made.write("bin/x", b"\0find\n")
    made.write(".git/find", "find\n")
    (made.project / "link").symlink_to(made.outside / "secret.txt")
    (made.project / "folder").symlink_to(made.outside)
    return made


@pytest.fixture(params=["ripgrep", "ours"])
def box(shop: MemberProject, request: pytest.FixtureRequest) -> Toolbox:
    if request.param == "ripgrep" and RIPGREP is None:
        pytest.skip("ripgrep is not installed")
    where = RIPGREP if request.param == "ripgrep" and RIPGREP else OURS
    return toolbox(shop, Grep(shop.root, where))


def matches(*lines: str) -> ToolOutcome:
    return ToolOutcome({"count": len(lines), "matches": "\n".join(lines)})


ALL = (".github/ci.yml:1:find: me", "src/a.py:2:def find():", "src/b.ts:1:function find() {}")


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({"pattern": "find"}, ALL),
        ({"pattern": r"^def \w+"}, ("src/a.py:2:def find():",)),
        ({"pattern": "find", "path": "src"}, ALL[1:]),
        ({"pattern": "find", "path": "src/a.py"}, ALL[1:2]),
        ({"pattern": "find", "glob": "*.py"}, ALL[1:2]),
        ({"pattern": "find", "glob": "src/**/*.ts"}, ALL[2:]),
        ({"pattern": "find", "glob": "!*.py"}, (ALL[0], ALL[2])),
        ({"pattern": "^$"}, ("src/dos.txt:2:",)),
        ({"pattern": "end$"}, ("src/dos.txt:1:the end",)),
        ({"pattern": "secret"}, ()),
        ({"pattern": "-v"}, ()),
        ({"pattern": "the database", "glob": ".coterie/**"}, ()),
    ],
)
async def test_lines_are_found(
    box: Toolbox, arguments: dict[str, object], lines: tuple[str, ...]
) -> None:
    outcome = await call(box, "grep", **arguments)
    ordered = "\n".join(sorted(str(outcome.output["matches"]).split("\n")))
    assert ToolOutcome({**outcome.output, "matches": ordered}) == matches(*sorted(lines))


async def test_what_is_wrong_is_reported(box: Toolbox) -> None:
    outcome = await call(box, "grep", pattern="(")
    assert outcome.is_error
    assert "regex parse error" in str(outcome.output["error"])
    for path in ("link", "folder", "../outside", "none", ".coterie"):
        assert (await call(box, "grep", pattern="secret", path=path)).is_error


async def test_what_git_ignores_is_skipped_unless_it_is_named(
    shop: MemberProject, box: Toolbox
) -> None:
    shop.write(".gitignore", "build/\n*.log\n!kept.log\n")
    for path in ("build/out/x.py", "src/build/y.py", "src/a.log", "src/kept.log", "built/z.py"):
        shop.write(path, "here it is\n")
    everywhere = await call(box, "grep", pattern="here it is")
    assert everywhere == matches("built/z.py:1:here it is", "src/kept.log:1:here it is")
    below = await call(box, "grep", pattern="here it is", path="src")
    assert below == matches("src/kept.log:1:here it is")
    for path, line in {"src/a.log": "src/a.log", "build/out": "build/out/x.py"}.items():
        named = await call(box, "grep", pattern="here it is", path=path)
        assert named == matches(f"{line}:1:here it is")


async def test_a_members_own_part_of_coterie_is_searched(shop: MemberProject, box: Toolbox) -> None:
    own = ".coterie/teams/review/ann"
    for path in (f"{own}/notes.md", f"{own}/home/.coterie/x", ".coterie/teams/review/bob/notes.md"):
        shop.write(path, "here it is\n")
    assert await call(box, "grep", pattern="here it is") == matches()
    below = await call(box, "grep", pattern="here it is", path=own)
    assert below == matches(f"{own}/notes.md:1:here it is")
    outcome = await call(box, "grep", pattern="here it is", path=".coterie/teams/review/bob")
    assert outcome.is_error


async def test_too_much_is_cut_with_a_note(shop: MemberProject, box: Toolbox) -> None:
    shop.write("many.txt", "here it is, once more\n" * 100_000)
    outcome = await call(box, "grep", pattern="once more")
    assert (
        outcome.output["note"]
        == "There are more matches: narrow the pattern or search fewer files."
    )
    lines = str(outcome.output["matches"]).split("\n")
    assert len("\n".join(lines)) <= 30_000
    assert all(line.endswith("here it is, once more") for line in lines)


async def test_a_line_without_end_is_cut(shop: MemberProject, box: Toolbox) -> None:
    shop.write("one.txt", "start " + "x" * 100_000)
    outcome = await call(box, "grep", pattern="start")
    assert len(str(outcome.output["matches"])) < 1000


async def test_a_search_that_is_broken_off_is_ended(shop: MemberProject) -> None:
    shop.write("evil.txt", "a" * 60 + "b\n")
    box, pattern = toolbox(shop, Grep(shop.root, OURS)), f"(a+)+$|{token()}"
    async with anyio.create_task_group() as group:
        group.start_soon(partial(call, box, "grep", pattern=pattern))
        await until(lambda: len(pids_with_argument(pattern)) == 1)
        group.cancel_scope.cancel()
    assert await count_pids_with_argument(pattern) == 0


async def test_a_pattern_that_takes_forever_is_stopped(
    shop: MemberProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_tools, "TIMEOUT", 0.5)
    shop.write("evil.txt", "a" * 60 + "b\n")
    box = toolbox(shop, Grep(shop.root, OURS))
    with anyio.fail_after(20):
        assert await call(box, "grep", pattern="(a+)+$") == ToolOutcome.refused(
            "The search took over 0.5 s. Search fewer files."
        )


async def test_a_folder_of_any_depth_hides_no_match(
    shop: MemberProject, box: Toolbox, nest: Callable[..., None]
) -> None:
    nest(shop.project / "deep")
    assert await call(box, "grep", pattern="find") == matches(*ALL)
