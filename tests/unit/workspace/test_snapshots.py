"""Taking snapshots of a folder around turns, and showing what changed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from coterie.errors import UsageError
from coterie.model import instant
from coterie.workspace.snapshots import files, turn_snapshots
from coterie.workspace.snapshots.files import EXECUTABLE, LINK, PLAIN
from coterie.workspace.snapshots.folder_snapshots import TaskDiff
from coterie.workspace.snapshots.repository import SnapshotRepository
from coterie.workspace.snapshots.revert import SkippedFile
from tests.conftest import IsolatedUser
from tests.unit.workspace.repository import bare_git, commit, new_repository
from tests.unit.workspace.turn_snapshots import TASK, Turns


@pytest.fixture
def turns(user: IsolatedUser) -> Turns:
    return Turns(user.project)


def snapshot_files(turns: Turns) -> dict[str, tuple[str, bytes]]:
    """Return the files after (or else before) the task's only turn: mode and content by path."""
    shadow = turns.root / ".coterie" / "snapshots.git"
    (span,) = SnapshotRepository(turns.root, shadow).spans(TASK)
    newest = (span.after or span.before).snapshot.tree
    found: dict[str, tuple[str, bytes]] = {}
    listed = subprocess.run(
        ["git", "ls-tree", "-r", "-z", newest], cwd=shadow, capture_output=True, check=True
    ).stdout
    for entry in listed.split(b"\0")[:-1]:
        facts, _, path = entry.partition(b"\t")
        mode, _, name = facts.decode().split()
        data = subprocess.run(
            ["git", "cat-file", "blob", name], cwd=shadow, capture_output=True, check=True
        ).stdout
        found[os.fsdecode(path)] = (mode, data)
    return found


# -- diffs -------------------------------------------------------------------------------------


def test_a_patch(turns: Turns) -> None:
    turns.files({"cart.py": "one\ntwo\n", "old.txt": "gone soon\n", "run.sh": "echo\n"})
    with turns.turn():
        turns.files({"cart.py": "one\n2\n", "new/deep.txt": "new\n"})
        (turns.root / "old.txt").unlink()
        (turns.root / "run.sh").chmod(0o755)
    assert turns.patch == snapshot("""\
diff --git a/cart.py b/cart.py
index 814f4a4..99b356d 100644
--- a/cart.py
+++ b/cart.py
@@ -1,2 +1,2 @@
 one
-two
+2
diff --git a/new/deep.txt b/new/deep.txt
new file mode 100644
index 0000000..3e75765
--- /dev/null
+++ b/new/deep.txt
@@ -0,0 +1 @@
+new
diff --git a/old.txt b/old.txt
deleted file mode 100644
index 3d3f933..0000000
--- a/old.txt
+++ /dev/null
@@ -1 +0,0 @@
-gone soon
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
""")
    assert turns.figures == snapshot(
        ["cart.py +1 -1", "new/deep.txt +1 -0", "old.txt +0 -1", "run.sh +0 -0"]
    )


def test_git_applies_the_patch(turns: Turns, tmp_path: Path) -> None:
    turns.files({"a.txt": "one\n", "logo.png": b"\0\1\2", "naïve name": b"caf\xe9\n", "b": "b\n"})
    (turns.root / "link").symlink_to("a.txt")
    other = tmp_path / "other"
    shutil.copytree(turns.root, other, symlinks=True, ignore=lambda *_: [".coterie"])
    with turns.turn():
        turns.files({"a.txt": "one\ntwo", "logo.png": b"\0\1\3" * 99, "naïve name": b"\xe9\xe8\n"})
        (turns.root / "link").unlink()
        (turns.root / "link").symlink_to("b")
    with turns.turn():
        turns.files({"a.txt": "three\n", "made": ""})
        (turns.root / "b").rename(turns.root / "c")
    patch = turns.patch.encode("utf-8", "surrogateescape")
    subprocess.run(["git", "apply"], input=patch, cwd=other, check=True)
    assert Turns(other).everything == turns.everything


def test_turns_of_one_file_are_one_change_unless_somebody_came_between(turns: Turns) -> None:
    turns.files({"f": "1\n", "g": "1\n", "back": "1\n"})
    with turns.turn():
        turns.files({"f": "2\n", "g": "2\n", "back": "2\n"})
    turns.files({"g": "somebody\n"})
    with turns.turn():
        turns.files({"f": "3\n", "g": "3\n", "back": "1\n"})
    assert [line for line in turns.patch.splitlines() if line[0] in "+-"] == snapshot(
        [
            "--- a/f",
            "+++ b/f",
            "-1",
            "+3",
            "--- a/g",
            "+++ b/g",
            "-1",
            "+2",
            "--- a/g",
            "+++ b/g",
            "-somebody",
            "+3",
        ]
    )
    assert turns.figures == snapshot(["f +1 -1", "g +2 -2"])


def test_a_file_becomes_a_folder_and_back(turns: Turns) -> None:
    turns.files({"a": "file\n", "b/c": "in a folder\n"})
    with turns.turn():
        (turns.root / "a").unlink()
        shutil.rmtree(turns.root / "b")
        turns.files({"a/x": "in a folder\n", "b": "file\n"})
    assert sorted(turns.figures) == ["a +0 -1", "a/x +1 -0", "b +1 -0", "b/c +0 -1"]


def test_a_task_that_changed_nothing(turns: Turns) -> None:
    turns.files({"f": "1\n"})
    with turns.turn():
        os.utime(turns.root / "f")
    assert turns.snapshots.diff(TASK) == TaskDiff()
    assert not turns.snapshots.has_kept(TASK)


def test_a_task_that_nothing_was_kept_for(turns: Turns) -> None:
    assert turns.snapshots.diff(TASK) == TaskDiff()
    assert not turns.snapshots.has_kept(TASK)
    assert not (turns.root / ".coterie" / "snapshots.git").exists()


def test_parts_that_were_handed_out_belong_to_the_task(turns: Turns) -> None:
    turns.files({"f": "1\n", "g": "1\n"})
    with turns.turn():
        with turns.turn(f"{TASK}.1"):
            turns.files({"f": "2\n"})
        turns.files({"f": "3\n"})
    with turns.turn(f"{TASK}.2"):
        turns.files({"g": "2\n"})
    with turns.turn("k3f99"):
        turns.files({"other": "a task whose name begins alike\n"})
    assert turns.figures == ["f +1 -1", "g +1 -1"]


# -- snapshot contents -------------------------------------------------------------------------


def test_links_modes_and_any_name(turns: Turns) -> None:
    odd = os.fsdecode(b"caf\xe9 \n\t\\\"'")
    turns.files({"run": "#!", odd: "odd\n", ":(top)x": "magic\n", "*": "star\n", "empty": ""})
    (turns.root / "run").chmod(0o700)
    (turns.root / "dangling").symlink_to("/nowhere")
    (turns.root / "to folder").symlink_to("..")
    (turns.root / "no files in it").mkdir()
    os.mkfifo(turns.root / "pipe")
    turns.snapshots.before(TASK, str(turns.root))
    assert turns.notices == []
    assert snapshot_files(turns) == {
        "run": (EXECUTABLE, b"#!"),
        odd: (PLAIN, b"odd\n"),
        ":(top)x": (PLAIN, b"magic\n"),
        "*": (PLAIN, b"star\n"),
        "empty": (PLAIN, b""),
        "dangling": (LINK, b"/nowhere"),
        "to folder": (LINK, b".."),
    }


@pytest.mark.parametrize("in_git", [True, False])
def test_every_byte_is_kept_whatever_attributes_and_settings_say(
    user: IsolatedUser, turns: Turns, in_git: bool
) -> None:
    (user.home / ".gitconfig").write_text(
        "[core]\nautocrlf = true\nfileMode = false\nsymlinks = false\n"
        '[filter "evil"]\nclean = tr a-z A-Z\nrequired = true\n[diff]\nnoprefix = true\n'
    )
    if in_git:
        new_repository(turns.root)
        (turns.root / "file.txt").unlink()
    contents: dict[str, str | bytes] = {
        ".gitattributes": "* text=auto eol=crlf\n*.u working-tree-encoding=UTF-16 ident\n"
        "*.f filter=evil -diff\n*.i ident\n",
        "crlf": b"a\r\nb\n",
        "lf": b"a\nb\n",
        "t.u": "ä$Id$\n",
        "t.f": "lower\n",
        "t.i": "$Id: x$\n",
    }
    turns.files(contents)
    with turns.turn():
        turns.files({"t.f": "still lower\n"})
    expected = {
        name: (PLAIN, content.encode() if isinstance(content, str) else content)
        for name, content in contents.items()
    }
    assert snapshot_files(turns) == {**expected, "t.f": (PLAIN, b"still lower\n")}
    assert turns.figures == ["t.f +1 -1"]
    assert "--- a/t.f" in turns.patch


@pytest.mark.parametrize("in_git", [True, False])
def test_what_is_ignored_is_not_kept(user: IsolatedUser, turns: Turns, in_git: bool) -> None:
    (user.home / "ignored by me").write_text("*.swp\n")
    (user.home / ".gitconfig").write_text(f"[core]\nexcludesFile = {user.home}/ignored by me\n")
    turns.files({".gitignore": "*.log\n!.coterie\n", "a.log": "", "in/.gitignore": "/b\n"})
    turns.files({"in/b": "", "in/c": "", "x.swp": "", ".coterie/x": "", "in/.coterie/x": ""})
    if in_git:
        new_repository(turns.root)
        turns.files({"forced.log": "in the repository all the same", "excluded": ""})
        bare_git(turns.root, "add", "--force", "forced.log")
        turns.files({".git/info/exclude": "excluded\n"})
    turns.snapshots.before(TASK, str(turns.root))
    theirs = {"file.txt", "forced.log"} if in_git else set[str]()
    assert snapshot_files(turns).keys() == {".gitignore", "in/.gitignore", "in/c"} | theirs


def test_a_project_that_is_a_part_of_a_repository(user: IsolatedUser, tmp_path: Path) -> None:
    new_repository(tmp_path / "whole")
    turns = Turns(tmp_path / "whole" / "part [1]")
    turns.files({"a.log": "", "a.txt": ""})
    turns.files({"../.gitignore": "*.log\nnone\n", "../b.txt": ""})
    turns.snapshots.before(TASK, str(turns.root))
    assert snapshot_files(turns).keys() == {"a.txt"}
    # If the enclosing repository ignores the whole project, its rules do not apply.
    ignored = Turns(tmp_path / "whole" / "none")
    ignored.files({"a.log": "", "a.txt": ""})
    ignored.snapshots.before(TASK, str(ignored.root))
    assert snapshot_files(ignored).keys() == {"a.log", "a.txt"}


def test_a_repository_that_git_cannot_read_is_passed_over(turns: Turns) -> None:
    turns.files({".git/config": "[core\n", ".git/HEAD": "?", "f": "1\n"})
    with turns.turn():
        turns.files({"f": "2\n"})
    assert turns.notices == []
    assert turns.figures == ["f +1 -1"]


def test_nothing_of_the_users_repository_is_touched(turns: Turns) -> None:
    new_repository(turns.root)
    git = turns.root / ".git"

    def state() -> dict[str, tuple[int, bytes]]:
        files = [path for path in git.rglob("*") if path.is_file()]
        return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}

    before = state()
    with turns.turn():
        turns.files({"file.txt": "second\n"})
    turns.snapshots.diff(TASK)
    turns.snapshots.revert(TASK)
    assert state() == before


def test_large_and_unreadable_files_are_named_only(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LARGE", 1_000_000)
    large = "x" * 1_000_001
    turns.files({"stays.bin": large, "shrinks.bin": large, "grows.txt": "small\n"})
    with turns.turn():
        turns.files({"shrinks.bin": "small\n", "grows.txt": large, "new.bin": large})
    found = turns.snapshots.diff(TASK)
    assert found.patches == ()
    assert found.missed == tuple(
        SkippedFile(name, "over 1 MB") for name in ("grows.txt", "new.bin", "shrinks.bin")
    )


def test_a_file_that_only_stopped_being_ignored_is_not_new(turns: Turns) -> None:
    turns.files({".gitignore": "*.env\nbuild/\n", "a.env": "secret\n", "in/build/x": ""})
    with turns.turn():
        turns.files({".gitignore": "", "b.txt": "new\n"})
    found = turns.snapshots.diff(TASK)
    assert turns.figures == [".gitignore +0 -2", "b.txt +1 -0"]
    why = "it was ignored before, so its previous content is unknown"
    assert found.missed == (SkippedFile("a.env", why), SkippedFile("in/build/x", why))


def test_a_file_that_is_ignored_by_now_was_not_deleted(turns: Turns) -> None:
    turns.files({"a.env": "1\n"})
    with turns.turn():
        turns.files({".gitignore": "*.env\n"})
    with turns.turn():
        turns.files({"a.env": "2\n"})
    assert turns.figures == [".gitignore +1 -0", "a.env +1 -1"]


# -- other folders -----------------------------------------------------------------------------


def test_repositories_inside_have_snapshots_of_their_own(turns: Turns) -> None:
    new_repository(turns.root)
    new_repository(turns.root / "inner")
    new_repository(turns.root / "gone")
    bare_git(turns.root, "init", "-q", "empty")
    with turns.turn():
        turns.files({"file.txt": "second\n", "inner/file.txt": "second\n", "inner/new": "n\n"})
        commit(turns.root / "inner", "second")
        shutil.rmtree(turns.root / "gone")
        shutil.rmtree(turns.root / "empty" / ".git")
        new_repository(turns.root / "made")
    found = turns.snapshots.diff(TASK)
    assert turns.notices == []
    assert sorted(turns.figures) == [
        "file.txt +1 -1",
        "gone/file.txt +0 -1",
        "inner/file.txt +1 -1",
        "inner/new +1 -0",
    ]
    assert found.missed == (SkippedFile("made", "a repository of its own"),)


def test_files_of_a_repository_that_is_none_any_more_are_not_new(turns: Turns) -> None:
    new_repository(turns.root / "inner")
    with turns.turn():
        shutil.rmtree(turns.root / "inner" / ".git")
    assert turns.figures == []
    turns.snapshots.revert(TASK)
    assert turns.paths == {"inner", "inner/file.txt"}


def test_a_folder_that_became_a_repository_keeps_its_files(turns: Turns) -> None:
    turns.files({"part/a": "1\n"})
    with turns.turn():
        bare_git(turns.root / "part", "init", "-q")
        turns.files({"part/a": "2\n"})
    assert turns.figures == ["part/a +1 -1"]


def test_folders_inside_and_outside_of_the_project(turns: Turns, tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", turns.root / "sub folder"
    own = turns.root / ".coterie" / "teams" / "pair" / "ada" / "work"
    for folder in (outside, inside, own):
        turns.files({"f": "1\n", ".coterie/x": ""}, folder)
        with turns.turn(folder=folder):
            turns.files({"f": "2\n"}, folder)
    found = turns.snapshots.diff(TASK)
    shown = [(one.folder, one.text.splitlines()[0]) for one in found.patches]
    assert shown == [
        (outside, "diff --git a/f b/f"),
        (inside, "diff --git a/sub folder/f b/sub folder/f"),
        (own, "diff --git a/f b/f"),
    ]


def test_a_link_to_the_project_is_the_project(turns: Turns) -> None:
    link = turns.root / ".coterie" / "work"
    link.symlink_to("..")
    turns.files({"f": "1\n"})
    with turns.turn(folder=link):
        turns.files({"f": "2\n"})
    assert [patch.folder for patch in turns.snapshots.diff(TASK).patches] == [turns.root]


def test_a_project_may_be_moved(turns: Turns, tmp_path: Path) -> None:
    turns.files({"f": "1\n"})
    with turns.turn():
        turns.files({"f": "2\n"})
    moved = Turns(turns.root.rename(tmp_path / "moved"))
    assert moved.snapshots.revert(TASK).restored == ("f",)
    assert (moved.root / "f").read_text() == "1\n"


# -- interruptions and failures ----------------------------------------------------------------


def test_a_cut_turn_ends_where_the_next_begins(turns: Turns) -> None:
    turns.files({"f": "1\n", "g": "1\n"})
    turns.snapshots.before(TASK, str(turns.root))
    turns.files({"f": "2\n"})
    assert turns.figures == ["f +1 -1"]  # so far
    again = Turns(turns.root)  # the process was killed; another one continues
    with again.turn():
        again.files({"f": "3\n"})
    again.files({"g": "somebody else\n"})
    assert again.figures == ["f +1 -1"]


def test_what_was_begun_here_is_settled_when_the_run_is_over(turns: Turns) -> None:
    turns.files({"f": "1\n", "g": "1\n"})
    turns.snapshots.before(TASK, str(turns.root))
    turns.files({"f": "2\n"})
    turns.snapshots.settle()
    turns.files({"g": "somebody else\n"})
    assert turns.figures == ["f +1 -1"]


def test_an_end_without_a_beginning_is_nothing(turns: Turns) -> None:
    turns.snapshots.after(TASK, str(turns.root))
    assert turns.notices == []
    assert not turns.snapshots.has_kept(TASK)


def test_without_git_a_task_goes_on_and_says_so_once(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with turns.turn():
        turns.files({"f": "1\n"})
    with turns.turn():
        turns.files({"f": "2\n"})
    assert turns.notices == ["git is not installed"]
    assert turns.snapshots.diff(TASK) == TaskDiff(problem="git is not installed")
    with pytest.raises(UsageError, match="no snapshots were stored, because git is not installed"):
        turns.snapshots.revert(TASK)


def test_what_a_killed_git_left_is_no_obstacle(turns: Turns) -> None:
    turns.files({"f": "1\n"})
    with turns.turn():
        turns.files({"f": "2\n"})
    shadow = turns.root / ".coterie" / "snapshots.git"
    (index,) = (shadow / "indexes").iterdir()
    index.write_bytes(b"half an ind")
    index.with_name(f"{index.name}.lock").touch()
    lock = shadow / "refs" / "tasks" / TASK / "2" / "0" / "before.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    (shadow / "count").write_text("")
    with turns.turn():
        turns.files({"f": "3\n"})
    assert turns.notices == []
    assert turns.figures == ["f +1 -1"]


def test_a_repository_that_somebody_tidied_up(turns: Turns) -> None:
    turns.files({"f": "1\n"})
    with turns.turn():
        turns.files({"f": "2\n"})
    bare_git(turns.root / ".coterie" / "snapshots.git", "gc", "--quiet", "--prune=now")
    with turns.turn():
        turns.files({"g": "2\n"})
    assert turns.figures == ["f +1 -1", "g +1 -0"]


def test_a_clock_that_is_set_back(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    turns.files({"f": "1\n"})
    for hour in (3, 2, 1):
        monkeypatch.setattr(instant, "now", lambda hour=hour: f"2026-01-31T0{hour}:00:00.000Z")
        with turns.turn("other" if hour == 2 else TASK):
            turns.files({"f": f"{hour}\n"})
    lines = [line for line in turns.patch.splitlines() if line[1:] in "0123"]
    assert lines == ["-1", "+3", "-2", "+1"]


def test_an_agent_cannot_make_git_run_something(turns: Turns) -> None:
    shadow = turns.root / ".coterie" / "snapshots.git"
    turns.files({"f": "1\n", ".gitattributes": "* filter=evil diff=evil\n"})
    with turns.turn():
        turns.files({"f": "2\n"})
        ran = turns.root / "ran"
        (shadow / "info").mkdir()
        (shadow / "info" / "attributes").write_text("* filter=evil diff=evil\n")
        (shadow / "config").write_text(
            f'[core]\nfsmonitor = "touch {ran}"\n'
            f'[filter "evil"]\nclean = "touch {ran}; cat"\n[diff "evil"]\ncommand = touch {ran}\n'
        )
    assert turns.figures == ["f +1 -1"]
    assert not ran.exists()


def test_records_are_stored_as_earlier_releases_read_them(turns: Turns) -> None:
    with turns.turn():
        turns.files({"f": "1\n"})
    repository = turns.root / ".coterie" / "snapshots.git"
    shown = bare_git(repository, "for-each-ref", "--format=%(refname) %(contents:subject)")
    refs = dict(line.split(" ", 1) for line in shown.splitlines())
    assert sorted(refs) == [f"refs/tasks/{TASK}/1/0/{side}" for side in ("after", "before")]
    fields = json.loads(refs[f"refs/tasks/{TASK}/1/0/before"])
    assert sorted(fields) == sorted(
        ["at", "place", "does", "whole", "pid", "started", "folder", "left_out"]
    )


_BESIDE = """
import sys
from pathlib import Path
from coterie.workspace.snapshots.folder_snapshots import FolderSnapshots
root, task = Path(sys.argv[1]), sys.argv[2]
problems = []
kept = FolderSnapshots(root, problems.append)
for number in range(8):
    kept.before(task, str(root))
    (root / f"{task}-{number}").write_text("x")
    kept.after(task, str(root))
sys.exit(len(problems))
"""


def test_two_processes_at_once(turns: Turns) -> None:
    words = [[sys.executable, "-c", _BESIDE, str(turns.root), name] for name in ("one", "two")]
    children = [subprocess.Popen(line) for line in words]
    assert [child.wait(60) for child in children] == [0, 0]
    for task in ("one", "two"):
        changed = {
            file.path for patch in turns.snapshots.diff(task).patches for file in patch.files
        }
        assert changed >= {f"{task}-{number}" for number in range(8)}
    bare_git(turns.root / ".coterie" / "snapshots.git", "fsck", "--strict")


# -- no git if nothing changed -----------------------------------------------------------------


def settle(turns: Turns) -> None:
    """Pretend that everything was stored long ago."""
    for path in [turns.root, *turns.root.rglob("*")]:
        if ".coterie" not in path.parts:
            os.utime(path, (1, 1))
    time.sleep(0.03)  # more than a clock tick after the files were changed
    with turns.turn("old"):
        pass


def test_a_turn_that_changes_nothing_runs_no_git(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns.files({"f": "1\n", "in/g": "1\n"})
    settle(turns)
    monkeypatch.setenv("PATH", "/nowhere")
    turns.snapshots.open()
    with turns.turn():
        (turns.root / ".coterie" / "x").write_text("ours")
    turns.snapshots.settle()
    assert (turns.notices, turns.snapshots.has_kept(TASK)) == ([], False)


@pytest.mark.parametrize("change", ["same size", "new", "gone", "mode", "renamed"])
def test_every_change_shows(turns: Turns, change: str) -> None:
    turns.files({"f": "1\n", "g": "1\n"})
    settle(turns)
    place = turns.root / "f"
    with turns.turn():
        match change:
            case "same size":
                place.write_text("2\n")
            case "new":
                (turns.root / "deep" / "er").mkdir(parents=True)
                (turns.root / "deep" / "er" / "h").write_text("new\n")
            case "gone":
                place.unlink()
            case "mode":
                place.chmod(0o755)
            case _:
                place.rename(turns.root / "e")
    assert turns.figures
    turns.snapshots.revert(TASK)
    assert {path.name for path in turns.root.iterdir()} - {".coterie", "deep"} == {"f", "g"}
    assert (place.read_text(), place.stat().st_mode & 0o100) == ("1\n", 0)


def test_turns_of_one_task_side_by_side(turns: Turns) -> None:
    turns.files({"f": "1\n"})
    turns.snapshots.before(TASK, str(turns.root))
    with turns.turn():
        turns.files({"f": "2\n"})
    turns.files({"g": "late\n"})
    turns.snapshots.after(TASK, str(turns.root))
    assert turns.figures == ["f +1 -1", "g +1 -0"]


def test_a_reason_that_was_reworded_since_is_not_a_change(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reasons are stored: those of an earlier release may say the same in other words."""
    turns.files({"f": "1\n"})
    bare_git(turns.root, "init", "-q")
    hook = turns.root / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("true\n")
    with monkeypatch.context() as earlier:
        earlier.setattr(files, "CONTROL_FILE_WARNING", "an earlier wording")
        settle(turns)
    with turns.turn():
        turns.files({"f": "2\n"})
    assert (turns.figures, turns.snapshots.diff(TASK).missed) == (["f +1 -1"], ())
    with turns.turn("other"):
        hook.write_text("false\n")
    assert [one.path for one in turns.snapshots.diff("other").missed] == [".git/hooks/pre-commit"]


def test_what_is_ignored_is_not_looked_into(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_snapshots, "_CHECK_IGNORE_ABOVE", 3)
    turns.files({".gitignore": "built/\n*.log\n", "logs/a.log": "", "f": "1\n"})
    turns.files({f"built/{name}/x": "" for name in "abc"})
    settle(turns)
    last = turns.snapshots._last(turns.root)
    assert last is not None
    assert last.skipped == ("built",)
    with turns.turn():
        turns.files({"built/d": "", "logs/new.txt": "not ignored\n"})
    assert turns.figures == ["logs/new.txt +1 -0"]


def test_a_folder_of_any_depth_is_no_obstacle(turns: Turns, nest: Callable[..., None]) -> None:
    with turns.turn():
        nest(turns.root / "deep")
        turns.files({"cart.py": "one\n"})
    assert turns.figures[0].startswith("cart.py")
    assert turns.notices == []
