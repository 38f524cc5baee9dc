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
from tests.cli.recorded import TEAM, record
from tests.cli.ticket_project import TicketProject, git, register_agents


def completed_session(bare: Cli) -> tuple[TicketProject, str]:
    project = TicketProject(register_agents(bare)).set_up()
    return project, str(project("run", "--yes", "--json", "Add coupons").lines[-1]["task"])


def leftovers(project: TicketProject) -> tuple[list[str], list[str]]:
    """The session's worktrees and branches."""
    folders = sorted(path.name for path in (project.root / ".coterie/worktrees").glob("*/*"))
    return folders, git(project.root, "branch", "--format=%(refname:short)").split()


def test_worktrees_go_with_accept_and_branches_with_clean(bare: Cli) -> None:
    project, task = completed_session(bare)
    assert leftovers(project)[0] == ["T1", "T2", "T3"]
    assert "kept" not in project("accept", task).out
    assert leftovers(project)[0] == []
    assert len(git(project.root, "worktree", "list").splitlines()) == 1
    looked = project("clean", "--dry-run")
    assert project.normalized(looked) == snapshot("""\
  branch  k3f9    coterie/k3f9/T1
  branch  k3f9    coterie/k3f9/T2
  branch  k3f9    coterie/k3f9/T3
  branch  k3f9    coterie/k3f9/merged
4 items would be removed.   coterie clean --yes
""")
    assert len(leftovers(project)[1]) == 5
    asked = project("clean")
    assert (asked.code, asked.err) == snapshot(
        (
            2,
            """\
! Nothing was removed: there is no terminal to ask on.
  coterie clean --yes, or --dry-run to only list it
""",
        )
    )
    assert project("clean", "--yes").code == 0
    assert leftovers(project) == ([], ["main"])
    assert project("clean", "--yes").out.splitlines()[-1] == "Nothing to remove."
    assert project("revert", task).code == 0, "what was accepted can still be taken back"


def test_what_is_unmerged_or_uncommitted_stays(bare: Cli) -> None:
    project, task = completed_session(bare)
    (project.root / f".coterie/worktrees/{task}/T1/mine.txt").write_text("not committed\n")
    cleaned = project("clean", task, "--yes", "--json")
    kept = {one["name"]: one["kept"] for one in cleaned.of("leftover")}
    assert set(kept.values()) == {"", "has uncommitted changes", "not in your branch"}
    assert leftovers(project)[0] == ["T1"]
    assert len(leftovers(project)[1]) == 5
    taken = project("accept", task)
    assert (taken.code, "kept     .coterie/worktrees/" in taken.out) == (0, True)
    again = {one["name"]: one["kept"] for one in project("clean", "--yes", "--json").of("leftover")}
    assert again[f"coterie/{task}/T1"] == "its worktree is kept"
    assert leftovers(project) == (["T1"], [f"coterie/{task}/T1", "main"])


def test_a_worktree_whose_removal_was_killed_goes_the_next_time(bare: Cli) -> None:
    project, task = completed_session(bare)
    folder = project.root / f".coterie/worktrees/{task}"
    (folder / "T1").rename(folder / ".T1.going")
    (folder / ".T1.going" / ".git").unlink()
    assert project("clean", "--yes", "--only", "worktree").code == 0
    assert not folder.exists()
    assert project("accept", task).code == 0


def test_a_task_that_has_not_ended_is_left_alone(cli: Cli) -> None:
    cli.team("ada", "you")
    task = cli.task("hello")
    refused = cli("clean", task, "--yes")
    assert (refused.code, refused.err) == (2, f"! {task} has not ended.\n  coterie cancel {task}\n")
    assert cli("clean").out == "Nothing to remove.\n"


def test_snapshots_and_homes(cli: Cli) -> None:
    task = cli.task("--agents", "ada", "hello")
    root = cli.user.project
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
    root = cli.user.project
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
        async with App.open(cli.user.project) as app:
            found = await Cleaning(app).leftovers()
            await anyio.to_thread.run_sync(meanwhile)
            return [one.name for one in await Cleaning(app).remove(found)]

    return anyio.run(clean)


def test_a_home_that_is_in_use_again_by_the_time_of_the_answer_stays(cli: Cli) -> None:
    cli.task("--agents", "ada", "hello")
    home = cli.user.project / ".coterie/teams/adhoc/ada/home"
    (home / "cache").write_text("x")
    team = TEAM.model_copy(update={"name": "adhoc"})
    assert removed_after(cli, lambda: record(cli, team=team)) == []
    assert (home / "cache").exists()


def test_a_branch_that_got_a_commit_by_the_time_of_the_answer_stays(bare: Cli) -> None:
    project, task = completed_session(bare)
    project("accept", task)
    branch = f"coterie/{task}/T1"

    def commit() -> None:
        made = git(project.root, "commit-tree", f"{branch}^{{tree}}", "-p", branch, "-m", "mine")
        git(project.root, "update-ref", f"refs/heads/{branch}", made.strip())

    assert branch not in removed_after(project.cli, commit)
    assert leftovers(project)[1] == [branch, "main"]


def test_a_link_that_is_put_before_a_home_by_the_time_of_the_answer_is_not_followed(
    cli: Cli,
) -> None:
    cli.task("--agents", "ada", "hello")
    member = cli.user.project / ".coterie/teams/adhoc/ada"
    mine = cli.user.home / "mine"
    (mine / "home").mkdir(parents=True)
    (mine / "home" / "letter").write_text("dear")
    (member / "home" / "cache").write_text("x")

    def swap() -> None:
        member.rename(member.with_name("away"))
        member.symlink_to(mine)

    with pytest.raises(NotOurs):
        removed_after(cli, swap)
    assert (mine / "home" / "letter").exists()
