"""A build whose branch has moved: brought up to date with it, tested there, and only then taken."""

from __future__ import annotations

from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from coterie.app.pipelines import Pipelines, accept_change
from coterie.app.project import App
from coterie.errors import NotAccepted, TaskBusy
from coterie.model.about import ChangeAcceptance
from coterie.model.interaction import Interaction
from coterie.model.record import ResultRecord
from coterie.model.team import Member
from coterie.ports import Observer
from coterie.stores.sqlite import SqliteStorage
from coterie.testing.crash import Crashed, CrashingStorage, CrashPoint
from coterie.workspace.pipeline_work import PipelineWork
from tests.flow.pipeline_harness import GRAPHS, PipelineHarness, pipeline, replying
from tests.flow.ticket_harness import folder_of, git, repository

SMALL = GRAPHS["small"]


@pytest.fixture
def project(memory_path: Path) -> Path:
    return repository(memory_path)


def committed(project: Path, name: str = "other.py", text: str = "mine = 1\n") -> None:
    """Commit something on the user's branch, and leave another file uncommitted."""
    (project / name).write_text(text)
    git(project, "add", name)
    git(project, "commit", "-qm", "my own")
    (project / "notes.txt").write_text("not committed\n")


def offered(asked: Interaction) -> list[str]:
    return [option.id for option in asked.options]


def about(asked: Interaction) -> ChangeAcceptance:
    assert isinstance(asked.about, ChangeAcceptance)
    return asked.about


async def asked_again(built: PipelineHarness, choice: str) -> Interaction:
    """Answer the open question; return the next one."""
    await built.answer(choice, "Coupons")
    assert (await built.run()).reason == "question"
    return await built.asked()


async def test_it_is_tested_on_the_branch_as_it_is_now_and_becomes_one_commit(
    project: Path,
) -> None:
    async with pipeline(project, graph=SMALL) as built:
        await built.run()
        committed(project)
        refused = await asked_again(built, "accept")
        assert about(refused).problem.startswith("main has moved since the work began")
        assert offered(refused)[0] == "recheck"
        reviewed = built.state.meta.gates["review"].tree
        ran = len(built.checks.ran)
        await built.answer("recheck")  # the commit message is known
        assert (await built.run()).reason == "accepted"
        assert built.checks.ran[ran:] == [("make test", "work")]
        gates, tree = built.state.meta.gates, git(project, "rev-parse", "HEAD^{tree}").strip()
        assert {gate.tree for gate in gates.values()} == {tree} != {reviewed}
    assert git(project, "log", "--format=%s").splitlines() == ["Coupons", "my own", "begin"]
    assert git(project, "diff", "--name-only", "HEAD~1").split() == ["cart.py"]
    assert git(project, "status", "--porcelain").split() == ["??", "notes.txt"]


async def test_a_branch_that_had_moved_before_anybody_was_asked(project: Path) -> None:
    committed(project)
    git(project, "tag", "mine")
    git(project, "reset", "-q", "--hard", "HEAD~1")
    async with pipeline(project, graph=SMALL) as built:
        await built.run(lambda member, text: _meanwhile(project, member, text))
        assert offered(await built.asked())[0] == "recheck"
        await built.answer("recheck", "Coupons")
        assert (await built.run()).reason == "accepted"
    assert git(project, "log", "--format=%s").splitlines() == ["Coupons", "my own", "begin"]


def _meanwhile(project: Path, member: Member, text: str) -> object:
    if "What do you find?" in text:
        git(project, "merge", "-q", "--ff-only", "mine")
    return replying()(member, text)


async def test_what_does_not_pass_there_is_not_taken_without_an_override(project: Path) -> None:
    async with pipeline(project, graph=SMALL) as built:
        await built.run()
        committed(project)
        head = git(project, "rev-parse", "HEAD")
        await asked_again(built, "accept")
        built.checks.ends["make test"] = 1
        refused = await asked_again(built, "recheck")
        assert about(refused).failed == ("tests",), "the review holds: the change is the same"
        assert offered(refused)[0] == "override"
        assert git(project, "rev-parse", "HEAD") == head
        ran = len(built.checks.ran)
        again = await asked_again(built, "recheck")  # unchanged, and it fails as before
        assert (about(again).failed, built.checks.ran[ran:]) == (
            ("tests",),
            [("make test", "work")],
        )
        await built.answer("override", "All the same")
        assert (await built.run()).reason == "accepted"
    assert git(project, "log", "--format=%s").splitlines() == ["All the same", "my own", "begin"]


async def test_what_failed_there_is_tested_again_as_it_is(project: Path) -> None:
    async with pipeline(project, graph=SMALL) as built:
        await built.run()
        committed(project)
        await asked_again(built, "accept")
        built.checks.ends["make test"] = 1
        refused = await asked_again(built, "recheck")
        assert offered(refused)[:2] == ["override", "recheck"]
        del built.checks.ends["make test"]  # it was the machine's fault
        await built.answer("recheck")
        assert (await built.run()).reason == "accepted"
    assert git(project, "log", "--format=%s").splitlines() == ["Coupons", "my own", "begin"]


async def test_a_conflict_is_sent_back_to_the_coder_with_both_versions_in_its_files(
    project: Path,
) -> None:
    heard: list[str] = []

    def settles(member: Member, text: str) -> object:
        if "between conflict markers" in text:
            heard.append((folder_of(member) / "cart.py").read_text())
        return replying()(member, text)

    async with pipeline(project, graph=SMALL) as built:
        await built.run()
        committed(project, "cart.py", "total = 7\n")
        await asked_again(built, "accept")
        await asked_again(built, "recheck")
        await built.answer("codegen", "keep both")
        assert (await built.run(settles)).reason == "question"
        asked = await built.asked()
        assert "<<<<<<<" in heard[0]
        assert "total = 7" in heard[0]
        assert offered(asked)[0] == "accept", "it is on the branch as it is now"
        await built.answer("accept", "Coupons")
        assert (await built.run()).reason == "accepted"
    assert git(project, "log", "--format=%s").splitlines() == ["Coupons", "my own", "begin"]


async def test_a_conflict_is_named_by_file_with_the_way_out(project: Path) -> None:
    async with pipeline(project, graph=SMALL) as built:
        await built.run()
        committed(project, "cart.py", "total = 7\n")
        before = git(project, "rev-parse", "HEAD", "coterie/k3f9/work")
        await asked_again(built, "accept")
        refused = await asked_again(built, "recheck")
        assert about(refused).problem == (
            "it conflicts with your branch in cart.py: resolve this by hand with "
            "git merge coterie/k3f9/work"
        )
        assert git(project, "rev-parse", "HEAD", "coterie/k3f9/work") == before
        git(project, "reset", "-q", "--hard", "HEAD~1")  # the user's way out: dropping the commit
        committed(project)
        await built.answer("recheck")
        assert (await built.run()).reason == "accepted"
    assert git(project, "diff", "--name-only", "HEAD~1").split() == ["cart.py"]


async def test_what_the_user_took_out_of_their_branch_does_not_come_back(project: Path) -> None:
    committed(project)
    async with pipeline(project, graph=SMALL) as built:
        await built.run()
        git(project, "reset", "-q", "--hard", "HEAD~1")
        committed(project, "third.py")
        await asked_again(built, "accept")
        await built.answer("recheck")
        assert (await built.run()).reason == "accepted"
    assert git(project, "ls-tree", "--name-only", "HEAD").split() == ["cart.py", "third.py"]


async def test_killed_at_every_write_of_it_there_is_one_commit_in_the_end(project: Path) -> None:
    async with pipeline(project, graph=SMALL) as built:
        await built.run()
        committed(project)
        await asked_again(built, "accept")
        await built.answer("recheck")
    deaths = 0
    for call in range(4, 60, 2):
        real = await SqliteStorage.open(project / ".coterie" / "coterie.db")
        death = CrashPoint(call, took_effect=call % 4 == 0, queued_kept=False)
        try:
            async with pipeline(project, storage=CrashingStorage(real, death)) as built:
                assert (await built.run()).reason == "accepted"
                break
        except Crashed:
            deaths += 1
        finally:
            await real.close()
    assert git(project, "log", "--format=%s").splitlines() == ["Coupons", "my own", "begin"]
    assert git(project, "status", "--porcelain").split() == ["??", "notes.txt"]
    assert deaths > 3


class RunByOther:
    """An open project whose tasks another process runs."""

    def __init__(self, pipelines: Pipelines) -> None:
        self.pipelines: Pipelines = pipelines
        self.asked: anyio.Event = anyio.Event()

    async def run(self, task_id: str, observer: Observer, **_: object) -> ResultRecord:
        self.asked.set()
        raise TaskBusy(task_id, 1, "here")


@pytest.mark.parametrize("commits", [True, False])
async def test_an_accept_waits_for_whoever_runs_the_task_and_no_longer(
    project: Path, *, commits: bool
) -> None:
    async with pipeline(project, graph=SMALL) as built:
        await built.run()
    async with App.open(project) as app, anyio.create_task_group() as group:
        busy = RunByOther(app.pipelines)

        async def accept() -> None:
            with anyio.fail_after(30):
                accepting = accept_change(busy, "k3f9", "Mine", override=False, recheck=False)
                if commits:
                    assert (await accepting).files[0].path == "cart.py"
                else:
                    with pytest.raises(NotAccepted, match="nothing was accepted"):
                        await accepting

        async with app.pipelines.holding(await app.claimant(), "k3f9"):
            group.start_soon(accept)
            await busy.asked.wait()
            worktrees = await app.sessions.worktrees_here("k3f9")
            assert worktrees is not None
            work = PipelineWork(worktrees)
            if commits:
                await anyio.to_thread.run_sync(lambda: work.accept("Mine", work.tree))
