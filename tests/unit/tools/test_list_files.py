"""listFiles: the files git knows, or else a directory walk; folded if there are too many."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.tools.read_tools import ListFiles, folded
from coterie.tools.toolbox import ToolOutcome
from tests.unit.tools.member_project import MemberProject, call, member_project, toolbox

FILES = ("README.md", "src/a.py", "src/b.py", "src/deep/c.py", "build/out.o", "node_modules/m/i.js")


def filled(folder: Path, *, git: bool) -> MemberProject:
    shop = member_project(folder, git=git)
    for name in FILES:
        shop.write(name, "x")
    shop.write(".gitignore", "build/\nnode_modules/\n")
    (shop.project / "link").symlink_to(shop.outside)
    return shop


@pytest.fixture
def in_git(tmp_path: Path) -> MemberProject:
    return filled(tmp_path, git=True)


@pytest.fixture
def plain(tmp_path: Path) -> MemberProject:
    return filled(tmp_path, git=False)


async def listed(shop: MemberProject, path: str = ".") -> ToolOutcome:
    return await call(toolbox(shop, ListFiles(shop.root)), "listFiles", path=path)


def names(outcome: ToolOutcome) -> list[str]:
    return str(outcome.output["files"]).split("\n")


async def test_in_git_what_git_would_keep(in_git: MemberProject) -> None:
    shop = in_git
    subprocess.run(["git", "-C", shop.project, "add", "src/a.py", "README.md"], check=True)
    (shop.project / "README.md").unlink()
    assert await listed(shop) == ToolOutcome(
        {
            "path": ".",
            "count": "5",
            "files": ".gitignore\nlink\nsrc/a.py\nsrc/b.py\nsrc/deep/c.py",
        }
    )
    assert names(await listed(shop, "src")) == ["a.py", "b.py", "deep/c.py"]
    assert names(await listed(shop, "src/../src/deep")) == ["c.py"]
    # An ignored folder is still listed if it is asked for by name.
    assert names(await listed(shop, "build")) == ["out.o"]


async def test_a_folder_of_a_larger_repository(tmp_path: Path, plain: MemberProject) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    assert names(await listed(plain, "src")) == ["a.py", "b.py", "deep/c.py"]
    assert "node_modules/m/i.js" not in names(await listed(plain))


async def test_without_git_the_usual_is_left_out(plain: MemberProject) -> None:
    shop = plain
    shop.write("src/__pycache__/a.pyc", "x")
    assert names(await listed(shop)) == [
        ".gitignore",
        "README.md",
        "build/out.o",
        "src/a.py",
        "src/b.py",
        "src/deep/c.py",
    ]


async def test_a_repository_cannot_have_anything_run(tmp_path: Path, in_git: MemberProject) -> None:
    ran = tmp_path / "ran"
    with (in_git.project / ".git" / "config").open("a") as config:
        config.write(f"[core]\n\tfsmonitor = touch {ran}\n")
    assert "src/a.py" in names(await listed(in_git))
    assert not ran.exists()


async def test_what_cannot_be_listed_says_so(plain: MemberProject) -> None:
    shop = plain
    assert await listed(shop, "README.md") == ToolOutcome.refused("README.md is not a folder.")
    assert await listed(shop, "sr") == ToolOutcome.refused("There is no folder sr. Similar: src.")
    assert (await listed(shop, "link")).is_error
    assert (await listed(shop, ".coterie")).is_error


@pytest.mark.parametrize(
    ("most", "lines"),
    [
        (9, ["a/b/1", "a/b/2", "a/c/3", "a/c/d/4", "top"]),
        (4, ["a/b/ (2 files)", "a/c/ (2 files)", "top"]),
        (2, ["a/ (4 files)", "top"]),
        (1, ["a/ (4 files)", "top"]),
    ],
)
def test_too_many_are_folded(most: int, lines: list[str]) -> None:
    assert folded(["a/b/1", "a/b/2", "a/c/3", "a/c/d/4", "top"], most) == lines


def test_nothing_is_nothing() -> None:
    assert folded([], 5) == []


async def test_a_folder_of_any_depth_is_listed_as_far_as_anyone_could_read(
    plain: MemberProject, nest: Callable[..., None]
) -> None:
    nest(plain.project / "deep")
    assert names(await listed(plain, "src")) == ["a.py", "b.py", "deep/c.py"]
    assert "src/a.py" in names(await listed(plain))
    assert not any("last.txt" in name for name in names(await listed(plain, "deep")))
