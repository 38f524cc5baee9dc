"""A path stays inside the workspace, wherever links point and whoever swaps them."""

from __future__ import annotations

import ctypes
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from coterie.tools.edit_file import EditFile
from coterie.tools.read_tools import Grep, ReadFile
from coterie.tools.workspace_files import FileVersions, MissingFolder, ToolError, WorkspaceRoot
from tests.unit.tools.member_project import MemberProject, call, member_project, toolbox


@pytest.fixture
def shop(tmp_path: Path) -> MemberProject:
    made = member_project(tmp_path)
    made.write("src/main.py", "main\n")
    made.write("src/deep/er.py", "deeper\n")
    return made


def read(root: WorkspaceRoot, path: str) -> str:
    with root.resolve(path) as place, place.open_file() as file:
        return f"{place.path}: {file.read().decode().strip()}"


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(ToolError) as caught:
        act()
    return str(caught.value)


def test_paths_are_taken_as_they_are_meant(shop: MemberProject) -> None:
    root, work = shop.root, shop.workspace.execution_dir
    assert root.path == shop.project.resolve()
    for path in (
        "src/main.py",
        "./src//main.py",
        "src/deep/../main.py",
        f"{shop.project}/src/main.py",
        f"{work}/src/main.py",
    ):
        assert read(root, path) == "src/main.py: main"


def test_links_that_stay_inside_are_followed(shop: MemberProject) -> None:
    links = {
        "file": "src/main.py",
        "folder": "src",
        "src/deep/up": "../main.py",
        "whole": str(shop.project / "src"),
        "twice": "folder/main.py",
    }
    for name, target in links.items():
        (shop.project / name).symlink_to(target)
    for path in ("file", "folder/main.py", "src/deep/up", "whole/main.py", "twice"):
        assert read(shop.root, path) == "src/main.py: main"
    assert read(shop.root, "folder/deep/../main.py") == "src/main.py: main"


def test_what_leads_out_is_refused_and_says_so(shop: MemberProject) -> None:
    links = {
        "link": str(shop.outside / "secret.txt"),
        "near": "../outside/secret.txt",
        "folder": str(shop.outside),
        "chain": "folder",
        "src/up": "../../outside",
    }
    for name, target in links.items():
        (shop.project / name).symlink_to(target)
    root = shop.root.path
    for path in (
        "../outside/secret.txt",
        "src/../../outside/secret.txt",
        "/etc/passwd",
        str(shop.outside / "secret.txt"),
        f"{shop.project}/../outside/secret.txt",
        f"{shop.project}-not/x",
        "link",
        "near",
        "folder/secret.txt",
        "chain/secret.txt",
        "src/up/secret.txt",
        "..",
    ):
        for writing in (False, True):
            told = refusal(lambda p=path, w=writing: shop.root.resolve(p, writing=w).__enter__())
            assert told == (
                f"{path} leads outside the workspace, {root}. "
                "Paths are relative to it and must stay inside."
            )


def test_other_refusals_say_what_is_wrong(shop: MemberProject, nest: Callable[..., None]) -> None:
    nest(shop.project / "a", 300)
    deep = "a/" * 301 + "last.txt"
    (shop.project / "round").symlink_to("round")
    os.mkfifo(shop.project / "pipe")
    for path, told in {
        "src/mian.py": "There is no file src/mian.py. Similar: src/main.py.",
        "none/main.py": "There is no folder none (for none/main.py).",
        "src/main.py/x": "src/main.py is not a folder (for src/main.py/x).",
        "src": "src is a folder: use listFiles to see what is in it.",
        "round": "round leads through too many links.",
        deep: f"{deep} is nested too deeply.",
        "pipe": "pipe is a device or a pipe, not a file.",
        "a\0b": "A path cannot be empty or contain a NUL.",
        "": "A path cannot be empty or contain a NUL.",
        ".coterie/coterie.db": ".coterie/coterie.db belongs to Coterie and is off limits to tools.",
        "src/../.coterie": ".coterie belongs to Coterie and is off limits to tools.",
    }.items():
        assert refusal(lambda p=path: read(shop.root, p)) == told


def test_of_coterie_a_member_sees_its_own(shop: MemberProject) -> None:
    mine = shop.write(".coterie/teams/review/ann/notes.md", "mine").relative_to(shop.project)
    shop.write(".coterie/teams/review/bob/notes.md", "his")
    shop.write(".coterie/teams/review/_shared_assets/guide.md", "ours")
    assert read(shop.root, str(mine)) == f"{mine}: mine"
    assert read(shop.root, ".coterie/teams/review/_shared_assets/guide.md").endswith("ours")
    assert refusal(lambda: read(shop.root, ".coterie/teams/review/bob/notes.md"))
    # Its work folder is in there too and links to the project.
    assert read(shop.root, ".coterie/teams/review/ann/work/src/main.py") == "src/main.py: main"


@pytest.mark.parametrize("path", [".git/config", "sub/.git/hooks/x", ".coterie/x", "g/x", ".GIT/x"])
def test_git_and_coterie_are_not_written(shop: MemberProject, path: str) -> None:
    (shop.project / "g").symlink_to(".git")
    told = refusal(lambda: shop.root.resolve(path, writing=True, make=True).__enter__())
    assert "must not be edited" in told
    assert not (shop.project / ".git").exists()


def test_folders_are_made_only_when_asked(shop: MemberProject) -> None:
    with pytest.raises(MissingFolder), shop.root.resolve("a/b/c", writing=True):
        pass
    with shop.root.resolve("a/b/c", writing=True, make=True) as place:
        assert (place.path, place.exists()) == ("a/b/c", False)
    assert (shop.project / "a" / "b").is_dir()


def test_nothing_stays_open(shop: MemberProject) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = descriptors()
    for path in ("src/deep/er.py", "src/none/x", "../x", "src"):
        with suppress(ToolError):
            read(shop.root, path)
    assert descriptors() == before


# -- races with swapped links ------------------------------------------------------------------


LIBC = ctypes.CDLL(None, use_errno=True)
EXCHANGE = 2


@contextmanager
def swapping(real: Path, target: Path) -> Iterator[list[int]]:
    """Have another thread keep atomically swapping a file or folder with a link to the outside."""
    stop, swaps = threading.Event(), [0]
    link = real.with_name("link")

    def work() -> None:
        while not stop.is_set():
            if not link.is_symlink() and not real.is_symlink():  # an edit has replaced it
                link.unlink(missing_ok=True)
                link.symlink_to(target)
            LIBC.renameat2(-100, bytes(real), -100, bytes(link), EXCHANGE)
            swaps[0] += 1

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield swaps
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("swapped", ["d", "d/f"])
async def test_a_link_swapped_in_never_leads_out(shop: MemberProject, swapped: str) -> None:
    shop.write("d/f", "inside\n")
    (shop.outside / "f").write_text("outside\n")
    root, seen = shop.root, FileVersions()
    tools = (ReadFile(root, seen), EditFile(root, seen), Grep(root, os.environ["PATH"]))
    box = toolbox(shop, *tools)
    target = shop.outside if swapped == "d" else shop.outside / "f"
    outcomes: Counter[tuple[str, bool]] = Counter()

    async def act(name: str, **arguments: object) -> None:
        outcome = await call(box, name, **arguments)
        assert "outside\n" not in [outcome.output.get("text")]
        assert "f:1:outside" not in str(outcome.output.get("matches"))
        outcomes[name, outcome.is_error] += 1

    with swapping(shop.project / swapped, target) as swaps:
        for number in range(300):
            await act("readFile", path="d/f")
            seen.digests.clear()  # bypass the check for changes since the last read
            await act("editFile", path="d/f", oldStr="side\n", newStr=f"side {number}\n")
            await act("editFile", path="d/f", oldStr=f"side {number}\n", newStr="side\n")
            await act("editFile", path=f"d/new{number}", oldStr="", newStr="made")
        for _ in range(30):
            await act("grep", pattern="side", path="d")
    assert (shop.outside / "f").read_text() == "outside\n"
    assert sorted(path.name for path in shop.outside.iterdir()) == ["f", "secret.txt"]
    assert list(shop.project.rglob(".coterie-*")) == []
    # The race did happen: both the link and the file were encountered.
    assert swaps[0] > 100
    assert min(outcomes["readFile", False], outcomes["readFile", True]) > 0
