"""What ended tasks leave behind: removed by `accept`, listed and removed by `clean`."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import anyio.to_thread
import pytest
from inline_snapshot import snapshot

from coterie.app.cleaning import Cleaning
from coterie.app.project import App
from coterie.errors import NotOurs
from coterie.workspace.snapshots.folder_snapshots import FolderSnapshots
from tests.cli.command import Cli
from tests.cli.crew import Crew, git, registered
from tests.cli.recorded import TEAM, record


def crew_at_its_end(bare: Cli) -> tuple[Crew, str]:
    crew = Crew(registered(bare)).furnish()
    return crew, str(crew("run", "--yes", "--json", "Add coupons").lines[-1]["task"])


def left(crew: Crew) -> tuple[list[str], list[str]]:
    """The session's worktrees and branches."""
    folders = sorted(path.name for path in (crew.root / ".coterie/worktrees").glob("*/*"))
    return folders, git(crew.root, "branch", "--format=%(refname:short)").split()


def test_worktrees_go_with_accept_and_branches_with_clean(bare: Cli) -> None:
    crew, task = crew_at_its_end(bare)
    assert left(crew)[0] == ["T1", "T2", "T3"]
    assert "kept" not in crew("accept", task).out
    assert left(crew)[0] == []
    assert len(git(crew.root, "worktree", "list").splitlines()) == 1
    looked = crew("clean", "--dry-run")
    assert crew.calm(looked) == snapshot("""\
  branch  k3f9    coterie/k3f9/T1
  branch  k3f9    coterie/k3f9/T2
  branch  k3f9    coterie/k3f9/T3
  branch  k3f9    coterie/k3f9/merged
4 items would be removed.   coterie clean --yes
""")
    assert len(left(crew)[1]) == 5
    asked = crew("clean")
    assert (asked.code, asked.err) == snapshot(
        (
            2,
            """\
! Nothing was removed: there is no terminal to ask on.
  coterie clean --yes, or --dry-run to only list it
""",
        )
    )
    assert crew("clean", "--yes").code == 0
    assert left(crew) == ([], ["main"])
    assert crew("clean", "--yes").out.splitlines()[-1] == "Nothing to remove."
    assert crew("revert", task).code == 0, "what was accepted can still be taken back"


def test_what_is_unmerged_or_uncommitted_stays(bare: Cli) -> None:
    crew, task = crew_at_its_end(bare)
    (crew.root / f".coterie/worktrees/{task}/T1/mine.txt").write_text("not committed\n")
    cleaned = crew("clean", task, "--yes", "--json")
    kept = {one["name"]: one["kept"] for one in cleaned.of("leftover")}
    assert set(kept.values()) == {"", "has uncommitted changes", "not in your branch"}
    assert left(crew)[0] == ["T1"]
    assert len(left(crew)[1]) == 5
    taken = crew("accept", task)
    assert (taken.code, "kept     .coterie/worktrees/" in taken.out) == (0, True)
    again = {one["name"]: one["kept"] for one in crew("clean", "--yes", "--json").of("leftover")}
    assert again[f"coterie/{task}/T1"] == "its worktree is kept"
    assert left(crew) == (["T1"], [f"coterie/{task}/T1", "main"])


def test_a_worktree_whose_removal_was_killed_goes_the_next_time(bare: Cli) -> None:
    crew, task = crew_at_its_end(bare)
    folder = crew.root / f".coterie/worktrees/{task}"
    (folder / "T1").rename(folder / ".T1.going")
    (folder / ".T1.going" / ".git").unlink()
    assert crew("clean", "--yes", "--only", "worktree").code == 0
    assert not folder.exists()
    assert crew("accept", task).code == 0


def test_a_task_that_has_not_ended_is_left_alone(cli: Cli) -> None:
    cli.team("ada", "you")
    task = cli.task("hello")
    refused = cli("clean", task, "--yes")
    assert (refused.code, refused.err) == (2, f"! {task} has not ended.\n  coterie cancel {task}\n")
    assert cli("clean").out == "Nothing to remove.\n"


def test_snapshots_and_homes(cli: Cli) -> None:
    task = cli.task("--agents", "ada", "hello")
    root = cli.house.project
    home = root / ".coterie/teams/adhoc/ada/home"
    (home / "cache").write_text("x" * 2000)
    note = root / "note.txt"
    snapshots = FolderSnapshots(root)
    snapshots.before(task, str(root))
    note.write_text("changed\n")
    snapshots.after(task, str(root))
    assert "note.txt  +1  -0" in cli("diff", task, "--stat").out
    cleaned = cli("clean", "--yes", "--only", "snapshots", "--only", "home", "--json")
    assert cleaned.code == 0
    assert [one["kind"] for one in cleaned.of("leftover")] == ["home", "snapshots"]
    assert (home.exists(), note.exists()) == (False, True)
    gone = cli("diff", task)
    assert (gone.out, "its snapshots were removed at" in gone.err) == ("", True)
    assert "cannot be reverted" in cli("revert", task).err
    assert not any((root / ".coterie/snapshots.git/objects").glob("??/*"))


def test_snapshots_that_somebody_deleted_are_not_an_unchanged_folder(cli: Cli) -> None:
    task = cli.task("--agents", "ada", "hello")
    root = cli.house.project
    snapshots = FolderSnapshots(root)
    snapshots.before(task, str(root))
    (root / "note.txt").write_text("changed\n")
    snapshots.after(task, str(root))
    (root / ".coterie/snapshots.git").rename(root.parent / "elsewhere.git")
    for words in (("diff", task), ("diff", task, "--json")):
        assert "snapshots.git no longer has any snapshots of it" in cli(*words).shown
    assert "changed no file" not in cli("diff", task).shown
    refused = cli("revert", task)
    assert (refused.code, "no snapshots were stored" in refused.err) == (2, True)
    (root.parent / "elsewhere.git").rename(root / ".coterie/snapshots.git")
    assert "note.txt" in cli("diff", task).out


def removed_after(cli: Cli, meanwhile: Callable[[], object]) -> list[str]:
    """Clean up, with `meanwhile` happening before the answer; return what was removed, by name."""

    async def clean() -> list[str]:
        async with App.open(cli.house.project) as app:
            found = await Cleaning(app).leftovers()
            await anyio.to_thread.run_sync(meanwhile)
            return [one.name for one in await Cleaning(app).remove(found)]

    return anyio.run(clean)


def test_a_home_that_is_in_use_again_by_the_time_of_the_answer_stays(cli: Cli) -> None:
    cli.task("--agents", "ada", "hello")
    home = cli.house.project / ".coterie/teams/adhoc/ada/home"
    (home / "cache").write_text("x")
    team = TEAM.model_copy(update={"name": "adhoc"})
    assert removed_after(cli, lambda: record(cli, team=team)) == []
    assert (home / "cache").exists()


def test_a_branch_that_got_a_commit_by_the_time_of_the_answer_stays(bare: Cli) -> None:
    crew, task = crew_at_its_end(bare)
    crew("accept", task)
    branch = f"coterie/{task}/T1"

    def commit() -> None:
        made = git(crew.root, "commit-tree", f"{branch}^{{tree}}", "-p", branch, "-m", "mine")
        git(crew.root, "update-ref", f"refs/heads/{branch}", made.strip())

    assert branch not in removed_after(crew.cli, commit)
    assert left(crew)[1] == [branch, "main"]


def test_a_link_that_is_put_before_a_home_by_the_time_of_the_answer_is_not_followed(
    cli: Cli,
) -> None:
    cli.task("--agents", "ada", "hello")
    member = cli.house.project / ".coterie/teams/adhoc/ada"
    mine = cli.house.home / "mine"
    (mine / "home").mkdir(parents=True)
    (mine / "home" / "letter").write_text("dear")
    (member / "home" / "cache").write_text("x")

    def swap() -> None:
        member.rename(member.with_name("away"))
        member.symlink_to(mine)

    with pytest.raises(NotOurs):
        removed_after(cli, swap)
    assert (mine / "home" / "letter").exists()
