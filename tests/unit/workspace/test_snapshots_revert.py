"""Reverting what a task changed, and nothing that anybody else did."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from coterie.errors import UsageError
from coterie.workspace.snapshots import files, revert
from coterie.workspace.snapshots.files import LINK, PLAIN, FileContent, FolderFiles
from coterie.workspace.snapshots.revert import RevertResult, SkippedFile
from tests.conftest import IsolatedUser
from tests.unit.workspace.repository import new_repository
from tests.unit.workspace.turn_snapshots import TASK, Turns

MANY = "".join(f"line {number}\n" for number in range(20))


@pytest.fixture
def turns(user: IsolatedUser) -> Turns:
    return Turns(user.project)


def skipped(path: str, why: str) -> RevertResult:
    return RevertResult(kept=(SkippedFile(path, why),))


# -- what is restored --------------------------------------------------------------------------


@pytest.mark.parametrize("in_git", [True, False])
def test_everything_is_as_it_was(turns: Turns, in_git: bool) -> None:
    if in_git:
        new_repository(turns.root)
    turns.files({"changed": "1\n", "deep/er/gone": "gone\n", "run": "#!\n", "bin": b"\0\1"})
    turns.files({"by the user": "untouched\n", "a": "file\n", "b/c": "in a folder\n"})
    (turns.root / "run").chmod(0o750)
    (turns.root / "link").symlink_to("changed")
    before = turns.everything
    with turns.turn():
        turns.files({"changed": "2\n", "bin": b"\0\2", "new/folder/file": "", "deep/new": ""})
        shutil.rmtree(turns.root / "deep" / "er")
        (turns.root / "run").unlink()
        (turns.root / "link").unlink()
        (turns.root / "link").symlink_to("elsewhere")
    with turns.turn():
        turns.files({"changed": "3\n"})
        for name in ("a", "b/c"):
            (turns.root / name).unlink()
        (turns.root / "b").rmdir()
        turns.files({"a/x": "in a folder\n", "b": "file\n", "link2": ""})
    turns.files({"by the user": "changed since\n", "new/of the user": "mine\n"})
    assert turns.snapshots.revert(TASK) == RevertResult(
        restored=("a", "b/c", "bin", "changed", "deep/er/gone", "link", "run"),
        removed=("a/x", "b", "deep/new", "link2", "new/folder/file"),
    )
    mine = {
        "by the user": (PLAIN, b"changed since\n"),
        "new/of the user": (PLAIN, b"mine\n"),
    }
    assert turns.everything == {**before, **mine}
    assert not (turns.root / "new" / "folder").exists()


def test_permissions_stay_but_for_who_may_run_it(turns: Turns) -> None:
    turns.files({"secret": "1\n", "script": "1\n"})
    (turns.root / "secret").chmod(0o600)
    (turns.root / "script").chmod(0o744)
    with turns.turn():
        turns.files({"secret": "2\n"})
        (turns.root / "script").chmod(0o640)
    assert turns.snapshots.revert(TASK).restored == ("script", "secret")
    modes = [stat.S_IMODE((turns.root / name).stat().st_mode) for name in ("secret", "script")]
    assert modes == [0o600, 0o750]


def test_a_dry_run_changes_nothing(turns: Turns) -> None:
    turns.files({"f": "1\n"})
    with turns.turn():
        turns.files({"f": "2\n", "new": ""})
    before = turns.everything
    expected = RevertResult(restored=("f",), removed=("new",))
    assert turns.snapshots.revert(TASK, dry_run=True) == expected
    assert turns.everything == before
    assert turns.snapshots.revert(TASK) == expected


def test_a_folder_of_the_user_stays_even_if_it_gets_empty(turns: Turns) -> None:
    turns.files({"theirs/kept": ""})
    with turns.turn():
        turns.files({"theirs/new": "", "made/by/it": ""})
    (turns.root / "theirs" / "kept").unlink()
    turns.snapshots.revert(TASK)
    assert turns.paths == {"theirs"}


# -- what others did ---------------------------------------------------------------------------


def test_what_others_changed_in_the_same_file_stays(turns: Turns) -> None:
    turns.files({"f": MANY, "mode": "1\n"})
    with turns.turn():
        turns.files({"f": MANY.replace("line 3\n", "line three\n"), "mode": "2\n"})
    turns.files({"f": (turns.root / "f").read_text().replace("line 15\n", "mine\n")})
    (turns.root / "mode").chmod(0o755)
    with turns.turn():
        turns.files({"f": (turns.root / "f").read_text() + "more\n"})
    assert turns.snapshots.revert(TASK) == RevertResult(merged=("f", "mode"))
    assert (turns.root / "f").read_text() == MANY.replace("line 15\n", "mine\n")
    assert (turns.root / "mode").read_text() == "1\n"
    assert os.access(turns.root / "mode", os.X_OK)


def test_the_same_lines(turns: Turns) -> None:
    turns.files({"f": "1\n", "other": "1\n"})
    with turns.turn():
        turns.files({"f": "2\n", "other": "2\n"})
    turns.files({"f": "mine\n"})
    reverted = turns.snapshots.revert(TASK)
    assert reverted.restored == ("other",)
    assert reverted.kept == (SkippedFile("f", "somebody has changed the same lines since"),)
    assert (turns.root / "f").read_text() == "mine\n"


def test_what_cannot_be_merged_is_left_and_named(turns: Turns) -> None:
    turns.files({"bin": b"\0\1", "gone": "1\n", "removed": "1\n", "done": "1\n"})
    (turns.root / "link").symlink_to("1")
    with turns.turn():
        turns.files({"bin": b"\0\2", "gone": "2\n", "new": "1\n", "done": "2\n"})
        (turns.root / "removed").unlink()
        (turns.root / "link").unlink()
        (turns.root / "link").symlink_to("2")
    turns.files({"bin": b"\0\3", "new": "2\n", "removed": "anew\n", "done": "1\n"})
    (turns.root / "gone").unlink()
    (turns.root / "link").unlink()
    (turns.root / "link").symlink_to("3")
    before = turns.everything
    assert turns.snapshots.revert(TASK) == RevertResult(
        kept=(
            SkippedFile("bin", "it is not text, and somebody has changed it since"),
            SkippedFile("gone", "somebody has removed it since"),
            SkippedFile("link", "it is or was a link, and somebody has changed it since"),
            SkippedFile("new", "it was new, and somebody has changed it since"),
            SkippedFile("removed", "it was removed, and somebody has recreated it since"),
        )
    )
    assert turns.everything == before


def test_another_task_that_worked_there_at_the_same_time(turns: Turns) -> None:
    turns.files({"mine": "1\n", "theirs": "1\n"})
    with turns.turn():
        turns.files({"mine": "2\n"})
        turns.snapshots.before("other", str(turns.root))
        turns.files({"theirs": "2\n"})
    expected = RevertResult(
        restored=("mine",),
        kept=(
            SkippedFile(
                "theirs", "other was running in this folder at the same time and changed it too"
            ),
        ),
    )
    assert turns.snapshots.revert(TASK, dry_run=True) == expected  # the other task is still running
    turns.snapshots.after("other", str(turns.root))
    assert turns.snapshots.revert(TASK) == expected


def test_another_task_that_came_later(turns: Turns) -> None:
    turns.files({"f": MANY})
    with turns.turn():
        turns.files({"f": MANY.replace("line 3\n", "line three\n")})
    with turns.turn("other"):
        turns.files({"f": (turns.root / "f").read_text().replace("line 15\n", "theirs\n")})
    assert turns.snapshots.revert(TASK).merged == ("f",)
    assert turns.snapshots.revert("other").restored == ()
    assert (turns.root / "f").read_text() == MANY


# -- repeating and undoing ---------------------------------------------------------------------


def test_a_second_revert_says_so_and_the_first_can_be_undone(turns: Turns) -> None:
    turns.files({"f": "1\n"})
    with turns.turn():
        turns.files({"f": "2\n", "new": "n\n"})
    after = turns.everything
    turns.snapshots.revert(TASK)
    with pytest.raises(UsageError, match=f"{TASK} was reverted already") as caught:
        turns.snapshots.revert(TASK)
    assert caught.value.hint == f"coterie revert {TASK} --undo"
    found = turns.snapshots.diff(TASK)
    assert found.patches == ()
    assert found.reverted_at is not None
    assert turns.snapshots.undo(TASK) == RevertResult(restored=("f", "new"))
    assert turns.everything == after
    assert turns.figures == ["f +1 -1", "new +1 -0"]
    with pytest.raises(UsageError, match="was not reverted"):
        turns.snapshots.undo(TASK)
    assert turns.snapshots.revert(TASK).removed == ("new",)


def test_turns_after_a_revert_are_reverted_alone(turns: Turns) -> None:
    turns.files({"f": "1\n"})
    with turns.turn():
        turns.files({"f": "2\n"})
    turns.snapshots.revert(TASK)
    with turns.turn():
        turns.files({"g": "later\n"})
    assert turns.figures == ["g +1 -0"]
    assert turns.snapshots.revert(TASK) == RevertResult(removed=("g",))
    assert turns.snapshots.undo(TASK) == RevertResult(restored=("g",))
    assert turns.snapshots.undo(TASK) == RevertResult(restored=("f",))
    assert turns.figures == ["f +1 -1", "g +1 -0"]


def test_what_had_to_stay_can_be_tried_again(turns: Turns) -> None:
    turns.files({"f": "1\n", "g": "1\n"})
    with turns.turn():
        turns.files({"f": "2\n", "g": "2\n"})
    turns.files({"f": "mine\n"})
    assert turns.snapshots.revert(TASK).restored == ("g",)
    turns.files({"f": "2\n"})
    assert turns.snapshots.revert(TASK) == RevertResult(restored=("f",))
    with pytest.raises(UsageError, match="already"):
        turns.snapshots.revert(TASK)


def test_a_revert_that_was_killed_is_taken_up_again(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns.files({"f": "1\n", "g": "1\n"})
    with turns.turn():
        turns.files({"f": "2\n", "g": "2\n"})
    write = FolderFiles.write

    def killed(self: FolderFiles, path: str, entry: FileContent) -> None:
        if path == "g":
            raise KeyboardInterrupt
        write(self, path, entry)

    monkeypatch.setattr(FolderFiles, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        turns.snapshots.revert(TASK)
    monkeypatch.undo()
    again = Turns(turns.root)
    assert again.snapshots.revert(TASK) == RevertResult(restored=("g",))
    assert again.snapshots.undo(TASK) == RevertResult(restored=("g",))


# -- what it must not touch --------------------------------------------------------------------


def test_never_through_a_link(turns: Turns, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    turns.files({"f": "2\n", "keep": "1\n"}, outside)
    turns.files({"in/f": "1\n", "in/new/f": "1\n"})
    with turns.turn():
        turns.files({"in/f": "2\n", "in/keep": "1\n"})
        (turns.root / "in" / "new" / "f").unlink()
    shutil.rmtree(turns.root / "in")
    (turns.root / "in").symlink_to(outside)
    reverted = turns.snapshots.revert(TASK)
    assert reverted.restored == reverted.removed == ()
    assert {one.path for one in reverted.kept} == {"in/f", "in/new/f"}
    assert sorted(path.name for path in outside.iterdir()) == ["f", "keep"]
    assert (outside / "f").read_text() == "2\n"


@pytest.mark.parametrize("path", ["../x", ".git/hooks/x", "a/.coterie/x", "/x", "", "a//b"])
def test_names_that_are_never_changed(turns: Turns, path: str) -> None:
    with pytest.raises(OSError, match="are never changed"):
        FolderFiles(turns.root).write(path, FileContent(PLAIN, b""))


def test_a_file_is_whole_or_untouched(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    turns.files({"f": "1\n"})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "_write", full)
    with pytest.raises(OSError, match="No space left"):
        FolderFiles(turns.root).write("f", FileContent(PLAIN, b"2\n"))
    assert turns.everything == {"f": (PLAIN, b"1\n")}
    FolderFiles(turns.root).write("f", FileContent(LINK, b"elsewhere"))
    assert turns.everything == {"f": (LINK, b"elsewhere")}


def test_somebody_writes_just_now(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    turns.files({"f": "1\n"})
    with turns.turn():
        turns.files({"f": "2\n"})
    apply_plan = revert.apply_plan

    def late(made: revert.RevertPlan, known: frozenset[str]) -> revert.RevertPlan:
        turns.files({"f": "mine\n"})
        return apply_plan(made, known)

    monkeypatch.setattr("coterie.workspace.snapshots.revert.apply_plan", late)
    assert turns.snapshots.revert(TASK) == skipped("f", "somebody is changing it right now")
    assert (turns.root / "f").read_text() == "mine\n"


def test_something_else_is_in_the_way(turns: Turns) -> None:
    turns.files({"f": "1\n", "g": "1\n"})
    with turns.turn():
        turns.files({"g": "2\n"})
        (turns.root / "f").unlink()
    turns.files({"f/of the user": "mine\n"})
    (turns.root / "g").unlink()
    os.mkfifo(turns.root / "g")
    reverted = turns.snapshots.revert(TASK)
    assert reverted.kept == (
        SkippedFile("g", "it is not a regular file"),
        SkippedFile("f", "Is a directory"),
    )
    assert (turns.root / "f" / "of the user").read_text() == "mine\n"


def test_a_folder_that_is_gone(turns: Turns, tmp_path: Path) -> None:
    folder = tmp_path / "outside"
    turns.files({"f": "1\n"}, folder)
    with turns.turn(folder=folder):
        turns.files({"f": "2\n"}, folder)
    shutil.rmtree(folder)
    assert turns.figures == [f"{folder}/f +1 -1"]
    assert turns.snapshots.revert(TASK) == skipped(str(folder / "f"), "its folder is gone")


def test_large_files_are_never_touched(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGE", 1_000_000)
    turns.files({"f": "1\n"})
    with turns.turn():
        turns.files({"f": "2\n", "new.bin": "x" * 1_000_001})
    turns.files({"f": "x" * 1_000_001})
    reverted = turns.snapshots.revert(TASK)
    assert reverted == RevertResult(
        kept=(SkippedFile("f", "it is over 1 MB"), SkippedFile("new.bin", "over 1 MB"))
    )
