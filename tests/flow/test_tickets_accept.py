"""A session's work enters the user's branch only when they say so, and can be taken out again."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from coterie.app.project import App
from coterie.errors import NotAccepted, UsageError
from coterie.model.journal import AppendEvent
from coterie.model.task import TaskCompleted, TaskCreated, TaskStarted
from coterie.model.team import Member
from coterie.model.ticket import SchedulerConfig
from coterie.testing.scripted import TASK
from coterie.workspace.snapshots.revert import RevertResult
from tests.conftest import IsolatedUser
from tests.flow.ticket_harness import (
    FakeChecks,
    folder_of,
    git,
    obedient,
    part,
    plan,
    replying,
    repository,
    session,
)

ONE = plan(part("a"))
DONE = "completed done 1 done"


@pytest.fixture
def project(user: IsolatedUser) -> Path:
    return repository(user.project / "shop")


async def carried_out(project: Path, **more: object) -> None:
    """Run a session that adds T1.txt, with `test -f T1.txt` as its check."""
    config = SchedulerConfig(checks=("test -f T1.txt",))
    async with session(project, config=config, checks=FakeChecks()) as harness:
        assert await harness.run(replying(Split_the_goal=ONE, **more)) == DONE


def head(project: Path, name: str = "HEAD") -> str:
    return git(project, "rev-parse", name).strip()


def hook(project: Path, name: str) -> Path:
    """Install a hook that would leave a trace; return the path of the trace."""
    path = project / ".git" / "hooks" / name
    path.write_text(f"#!/bin/sh\ntouch '{project}/../ran-{name}'\n")
    path.chmod(0o755)
    return project.parent / f"ran-{name}"


async def test_the_branch_moves_forward_and_it_is_on_record(project: Path) -> None:
    await carried_out(project)
    before, work = head(project), head(project, f"coterie/{TASK}/merged")
    traces = [hook(project, name) for name in ("post-merge", "post-checkout", "pre-merge-commit")]
    async with App.open(project) as app:
        shown = await app.diff(TASK)
        assert [str(one) for patch in shown.patches for one in patch.files] == ["T1.txt +1 -0"]
        done = await app.accept(TASK)
        assert (done.branch, done.before, done.commit) == ("main", before, work)
        assert [one.path for one in done.files] == ["T1.txt"]
        assert (head(project), git(project, "status", "--porcelain")) == (work, "")
        assert (project / "T1.txt").exists()
        assert head(project, f"refs/coterie/accepted/{TASK}") == work
        asked, ended = [
            one.entry for one in await app.storage.audit.chain() if one.entry.tool_name == "accept"
        ]
        assert (asked.author_actor_id, ended.is_error) == ("you", False)
        assert asked.input == {
            "branch": "main",
            "before": before,
            "commit": work,
            "recheck": False,
        }
        with pytest.raises(NotAccepted, match="k3f9 was already accepted"):
            await app.accept(TASK)
    assert [trace for trace in traces if trace.exists()] == []


async def test_two_pages_of_one_server_take_it_once(project: Path) -> None:
    """One process owns the task for both pages: what git has on record decides."""
    begun = head(project)
    await carried_out(project)
    said: list[str] = []
    async with App.open(project) as app:

        async def accept() -> None:
            try:
                said.append((await app.accept(TASK)).commit)
            except NotAccepted as refused:
                said.append(refused.problem)

        async with anyio.create_task_group() as group:
            group.start_soon(accept)
            group.start_soon(accept)
        commit = head(project)
        said.remove(commit)
        lost = f"already accepted, as {commit[:7]}|another terminal is accepting"
        assert [bool(re.search(lost, one)) for one in said] == [True], said
        assert await app.revert(TASK) == RevertResult(removed=("T1.txt",))
    assert git(project, "diff", "--name-only", begun, "HEAD") == ""


async def test_what_is_not_finished_is_not_accepted(project: Path) -> None:
    async with session(project) as harness:
        assert await harness.run(replying(Split_the_goal="no")) == "waiting question"
    async with App.open(project) as app:
        with pytest.raises(NotAccepted, match="k3f9 is waiting, not completed"):
            await app.accept(TASK)


async def test_a_session_whose_ticket_asks_is_said_to_wait(project: Path) -> None:
    def edits(member: Member, text: str) -> object:
        (project / "cart.py").write_text("mine\n")
        return obedient(member, text)

    async with session(project) as harness:
        assert await harness.run(replying(Do_the_work_now=edits)) == "waiting question"
    async with App.open(project) as app:
        with pytest.raises(NotAccepted, match="k3f9 is waiting, not completed"):
            await app.accept(TASK)


def dirty(project: Path) -> None:
    (project / "T1.txt").write_text("mine\n")


def ignored(project: Path) -> None:
    (project / ".git" / "info" / "exclude").write_text("T1.txt\n")
    (project / "T1.txt").write_text("mine\n")


def above(project: Path) -> None:
    """The work has a file below what is an ignored file of the user's."""
    (project / ".git" / "info" / "exclude").write_text("out\n")
    (project / "out").write_text("mine\n")


def moved(project: Path) -> None:
    git(project, "commit", "-q", "--allow-empty", "-m", "on")


def work_moved(project: Path) -> None:
    tree = head(project, f"coterie/{TASK}/merged^{{tree}}")
    tip = git(project, "commit-tree", tree, "-p", f"coterie/{TASK}/merged", "-m", "more").strip()
    git(project, "update-ref", f"refs/heads/coterie/{TASK}/merged", tip)


def in_a_merge(project: Path) -> None:
    git(project, "switch", "-q", "-c", "other")
    (project / "cart.py").write_text("total = 1\n")
    git(project, "commit", "-qam", "one")
    git(project, "switch", "-q", "main")
    git(project, "merge", "-q", "--no-ff", "--no-commit", "other")


def detached(project: Path) -> None:
    git(project, "switch", "-q", "--detach")


WRONG: dict[str, tuple[Callable[[Path], None], str]] = {
    "a file of the user's in the way": (dirty, "you have uncommitted changes in T1.txt"),
    "an ignored file in the way": (ignored, "files of yours are in the way: T1.txt"),
    "an ignored file where a folder would be": (above, "files of yours are in the way: out"),
    "the branch moved": (moved, r"main moved since the checks \(\w{7}, now \w{7}\)"),
    "the work moved": (work_moved, r"coterie/k3f9/merged moved since the checks \(\w{7}, now"),
    "in a merge": (in_a_merge, "is in the middle of a merge"),
    "no branch": (detached, "no branch is checked out here"),
}


@pytest.mark.parametrize("what", WRONG)
async def test_not_accepted_and_nothing_changed(project: Path, what: str) -> None:
    def works(member: Member, text: str) -> object:
        (folder_of(member) / "out").mkdir()
        (folder_of(member) / "out" / "a.txt").write_text("a\n")
        return obedient(member, text)

    await carried_out(project, Do_the_work_now=works)
    spoil, why = WRONG[what]
    spoil(project)
    before = (head(project), git(project, "status", "--porcelain", "--ignored"))
    async with App.open(project) as app:
        with pytest.raises(NotAccepted, match=f"^Not accepted: .*{why}"):
            await app.accept(TASK)
    assert (head(project), git(project, "status", "--porcelain", "--ignored")) == before


async def test_changes_of_the_users_elsewhere_stay(project: Path) -> None:
    await carried_out(project)
    (project / "cart.py").write_text("mine\n")
    (project / "notes.md").write_text("mine\n")
    async with App.open(project) as app:
        await app.accept(TASK)
    assert git(project, "status", "--porcelain").split() == ["M", "cart.py", "??", "notes.md"]
    assert (project / "cart.py").read_text() == "mine\n"


async def test_a_branch_that_moved_is_merged_and_checked_again(project: Path) -> None:
    await carried_out(project)
    (project / "cart.py").write_text("total = 1\n")
    git(project, "commit", "-qam", "mine")
    mine = head(project)
    async with App.open(project) as app:
        done = await app.accept(TASK, recheck=True)
        assert [(one.command, one.exit_code) for one in done.checks] == [("test -f T1.txt", 0)]
    assert git(project, "log", "-1", "--format=%P").split() == [
        mine,
        head(project, f"coterie/{TASK}/merged"),
    ]
    assert (project / "T1.txt").exists()
    assert (project / "cart.py").read_text() == "total = 1\n"


async def test_what_does_not_pass_with_the_moved_branch_is_not_accepted(project: Path) -> None:
    config = SchedulerConfig(checks=("grep -q 0 cart.py",))
    async with session(project, config=config, checks=FakeChecks()) as harness:
        assert await harness.run(replying(Split_the_goal=ONE)) == DONE
    (project / "cart.py").write_text("total = 1\n")
    git(project, "commit", "-qam", "mine")
    mine = head(project)
    async with App.open(project) as app:
        with pytest.raises(NotAccepted, match=r"as it is now, grep -q 0 cart\.py: exit 1"):
            await app.accept(TASK, recheck=True)
    assert (head(project), (project / "T1.txt").exists()) == (mine, False)


async def test_a_conflict_with_the_moved_branch_is_named(project: Path) -> None:
    await carried_out(project)
    (project / "T1.txt").write_text("mine\n")
    git(project, "add", "T1.txt")
    git(project, "commit", "-qm", "mine")
    async with App.open(project) as app:
        with pytest.raises(NotAccepted, match=r"it conflicts with your branch in T1\.txt"):
            await app.accept(TASK, recheck=True)


async def test_an_accept_that_was_cut_after_the_branch_had_moved_is_known(project: Path) -> None:
    await carried_out(project)
    before, work = head(project), head(project, f"coterie/{TASK}/merged")
    git(project, "update-ref", f"refs/coterie/before/{TASK}", before)
    git(project, "update-ref", f"refs/coterie/taking/{TASK}", work)
    git(project, "merge", "-q", "--ff-only", work)
    async with App.open(project) as app:
        with pytest.raises(NotAccepted, match="k3f9 was already accepted"):
            await app.accept(TASK)
        assert await app.revert(TASK) == RevertResult(removed=("T1.txt",))


# -- reverting ---------------------------------------------------------------------------------


async def test_a_revert_takes_back_exactly_that(project: Path) -> None:
    await carried_out(project)
    async with App.open(project) as app:
        await app.accept(TASK)
        (project / "cart.py").write_text("total = 2\n")
        git(project, "commit", "-qam", "after it")
        later = head(project)
        assert await app.revert(TASK, dry_run=True) == RevertResult(removed=("T1.txt",))
        assert head(project) == later
        assert await app.revert(TASK) == RevertResult(removed=("T1.txt",))
        assert git(project, "log", "-1", "--format=%s %P").split() == ["Revert", TASK, later]
        assert (project / "cart.py").read_text() == "total = 2\n"
        assert (await app.diff(TASK)).reverted_at is not None
        with pytest.raises(UsageError, match="k3f9 was reverted already"):
            await app.revert(TASK)
        assert await app.revert(TASK, undo=True) == RevertResult(restored=("T1.txt",))
        assert (project / "T1.txt").exists()
        assert (await app.diff(TASK)).reverted_at is None


async def test_work_that_others_built_on_is_not_torn_out(project: Path) -> None:
    await carried_out(project)
    async with App.open(project) as app:
        await app.accept(TASK)
        (project / "T1.txt").write_text("by wren, then by me\n")
        git(project, "commit", "-qam", "on top")
        before = head(project)
        with pytest.raises(UsageError, match=r"others changed the same lines since, in T1\.txt"):
            await app.revert(TASK)
        assert head(project) == before
        assert (await app.diff(TASK)).reverted_at is None


async def test_on_a_branch_without_the_work_nothing_is_reverted(project: Path) -> None:
    begun = head(project)
    await carried_out(project)
    async with App.open(project) as app:
        await app.accept(TASK)
        git(project, "switch", "-q", "-c", "other", begun)
        with pytest.raises(UsageError, match="This would change nothing in other"):
            await app.revert(TASK)
        assert head(project) == begun
        git(project, "switch", "-q", "main")
        assert await app.revert(TASK) == RevertResult(removed=("T1.txt",))


async def test_a_revert_that_was_cut_after_the_branch_had_moved_is_known(project: Path) -> None:
    await carried_out(project)
    ref = f"refs/coterie/{{}}/{TASK}".format
    async with App.open(project) as app:
        await app.accept(TASK)
        await app.revert(TASK)
        reverted = head(project)
        git(project, "update-ref", "-d", ref("reverted"))
        with pytest.raises(UsageError, match="k3f9 was reverted already"):
            await app.revert(TASK)
        assert await app.revert(TASK, undo=True) == RevertResult(restored=("T1.txt",))
        git(project, "update-ref", ref("reverted"), reverted)
        git(project, "update-ref", ref("restoring"), head(project))
        with pytest.raises(UsageError, match="k3f9 was not reverted"):
            await app.revert(TASK, undo=True)
        assert await app.revert(TASK) == RevertResult(removed=("T1.txt",))


@pytest.mark.parametrize(
    "by_hand", [("reset", "-q", "--hard", "HEAD^"), ("revert", "--no-edit", "HEAD")]
)
async def test_a_revert_that_was_undone_by_hand_can_be_cleared(
    project: Path, by_hand: tuple[str, ...]
) -> None:
    await carried_out(project)
    async with App.open(project) as app:
        await app.accept(TASK)
        await app.revert(TASK)
        git(project, *by_hand)
        now = head(project)
        for dry_run in (True, False):
            assert await app.revert(TASK, undo=True, dry_run=dry_run) == RevertResult()
        assert head(project) == now
        assert (await app.diff(TASK)).reverted_at is None
        assert await app.revert(TASK) == RevertResult(removed=("T1.txt",))


async def test_a_subtask_is_not_its_session(project: Path) -> None:
    """It worked in the project's folder: its session's branch is neither accepted nor reverted."""
    await carried_out(project)
    before, at, part_id = head(project), "2026-01-01T00:00:00Z", f"{TASK}.1"
    async with App.open(project) as app:
        team = (await app.sessions.look.state(TASK)).created.team
        created = TaskCreated(
            task_id=part_id,
            at=at,
            session_id=TASK,
            parent_id=TASK,
            workflow="solo",
            workflow_version=1,
            goal="count",
            author="you",
            team=team,
        )
        assert await app.storage.create(created, (await app.claimant()).owners.me, None)
        ended = TaskCompleted(task_id=part_id, at=at, reason="done", summary="3")
        started = TaskStarted(task_id=part_id, at=at)
        await app.storage.commit(None, AppendEvent(started), AppendEvent(ended))
        with pytest.raises(NotAccepted, match=r"k3f9\.1 has no branch of its own"):
            await app.accept(part_id, recheck=True)
        assert (await app.diff(part_id)).patches == ()
        assert not (await app.revert(part_id)).did_something
        assert (await app.diff(TASK)).patches
        assert (await app.accept(TASK)).before == before


async def test_what_was_never_accepted_is_only_marked(project: Path) -> None:
    await carried_out(project)
    work = head(project, f"coterie/{TASK}/merged")
    async with App.open(project) as app:
        assert await app.revert(TASK) == RevertResult()
        assert head(project, f"coterie/{TASK}/merged") == work
        assert (await app.diff(TASK)).reverted_at is not None
        with pytest.raises(NotAccepted, match="k3f9 was reverted"):
            await app.accept(TASK)
        await app.revert(TASK, undo=True)
        assert (await app.accept(TASK)).commit == work


# -- what is shown to users --------------------------------------------------------------------


async def test_tickets_and_envelopes_are_there_to_be_shown(project: Path) -> None:
    await carried_out(project)
    async with App.open(project) as app:
        (view,) = await app.tickets(TASK)
        assert (view.ticket.state, view.turns, view.tokens) == ("done", 3, None)
        assert await app.branch(TASK) == f"coterie/{TASK}/merged"
        kinds = [one.payload_type for one in await app.envelopes(TASK)]
        assert kinds[:3] == ["clarification", "plan", "ticket"]


async def test_a_failed_ticket_is_reset_by_its_name(project: Path) -> None:
    config = SchedulerConfig(retries=0, replans=0)
    stuck = replying(Split_the_goal=ONE, Do_the_work_now={"status": "blocked", "issues": ["x"]})
    async with session(project, config=config) as harness:
        assert await harness.run(stuck) == "waiting question"
    async with App.open(project) as app:
        with pytest.raises(UsageError, match=f"No ticket T9 in {TASK}. There are: T1"):
            await app.reset_ticket(TASK, "T9")
        answered = await app.reset_ticket(TASK, f"{TASK}/t1")
        assert (answered.choice, answered.resumable) == ("reset", True)
        with pytest.raises(UsageError, match="There is no question about T1 yet"):
            await app.reset_ticket(TASK, "T1")
    async with session(project) as harness:
        assert await harness.run(replying(Split_the_goal=ONE)) == DONE
        assert "pending" in await harness.moves("T1")
    async with App.open(project) as app:
        with pytest.raises(UsageError, match="T1 is done; only a ticket that failed can be reset"):
            await app.reset_ticket(TASK, "T1")
