"""Who may run a task: one owner, alive by its lock, replaced only when proven dead."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from coterie.engine import lease
from coterie.engine.lease import Claimant, FlockOwners, Owner, living, proven_dead, sweep
from coterie.engine.run import plain_errors
from coterie.errors import LeaseLost, NotFound, SurvivorsElsewhere, TaskBusy, UsageError
from coterie.model import instant
from coterie.model.conversation import Message
from coterie.model.journal import AppendMessage, ChildLease, Fence, Lease, RequestKind
from coterie.model.task import TaskCreated
from coterie.model.team import YOU
from coterie.process.processes import PidScope
from coterie.stores.sqlite import SqliteStorage
from coterie.testing.scripted import TASK, ScriptedChannels, scripted_project, team
from coterie.workspace.session_files import artifact_files

HERE = PidScope("here", "boot", "ns")


class MarkReaper:
    """Records the marks of the processes that it was asked to end."""

    def __init__(self, left: Sequence[int] = ()) -> None:
        self.left = left
        self.asked: list[str] = []

    async def end(self, children: Sequence[ChildLease]) -> Sequence[int]:
        self.asked += [child.mark for child in children]
        return self.left


async def make_task(storage: SqliteStorage, owner: str, task_id: str = "k3f9") -> Fence:
    created = TaskCreated(
        task_id=task_id,
        at=instant.now(),
        session_id=task_id,
        workflow="chat",
        workflow_version=1,
        goal="hello",
        author="you",
        team=team("ada"),
    )
    fence = await storage.create(created, owner, None)
    assert fence is not None
    return fence


def child(mark: str, machine: PidScope = HERE) -> ChildLease:
    return ChildLease(
        "k3f9",
        "ada",
        "echo",
        mark,
        machine.boot_id,
        machine.pid_namespace,
        machine.host,
        instant.now(),
    )


def owner(folder: Path) -> Owner:
    return Owner(folder / "owners", "here")


async def owners(storage: SqliteStorage, folder: Path) -> FlockOwners:
    mine = FlockOwners(folder / "owners", "here", storage.leases)
    await mine.begin()
    return mine


def test_an_owner_lives_as_long_as_its_lock(tmp_path: Path) -> None:
    mine = owner(tmp_path)
    assert living(mine.folder, mine.id) is not None
    with proven_dead(mine.folder, mine.id) as dead:
        assert not dead
    mine.release()
    assert living(mine.folder, mine.id) is None


def test_the_files_of_the_dead_are_swept_away_and_no_others(tmp_path: Path) -> None:
    mine, other = owner(tmp_path), owner(tmp_path)
    (mine.folder / "deadbeef").write_text("{}")
    (mine.folder / "needed").write_text("{}")
    sweep(mine.folder, frozenset({"needed"}))
    assert {path.name for path in mine.folder.iterdir()} == {mine.id, other.id, "needed"}
    mine.release()
    other.release()


@pytest.mark.parametrize("alive", [False, True])
def test_who_only_looks_at_a_dead_owner_does_not_keep_others_from_taking_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alive: bool
) -> None:
    mine = owner(tmp_path)
    if not alive:
        (mine.folder / "dead").write_text("{}")
    name = mine.id if alive else "dead"
    with ExitStack() as looking:
        dead = looking.enter_context(proven_dead(mine.folder, name, alone=False))
        assert dead is not alive
        monkeypatch.setattr(lease, "sleep", lambda seconds: looking.close())
        with proven_dead(mine.folder, name) as dead, proven_dead(mine.folder, name) as again:
            assert dead is not alive
            assert not again  # somebody takes over from it
    mine.release()


async def test_a_task_of_a_living_owner_is_refused(tmp_path: Path) -> None:
    storage = await SqliteStorage.open(tmp_path / "c.db")
    one, two = await owners(storage, tmp_path), await owners(storage, tmp_path)
    await make_task(storage, one.me)
    with pytest.raises(TaskBusy, match=rf"k3f9 is already running \(pid {os.getpid()} on here\)"):
        await Claimant(two, storage.leases, MarkReaper(), HERE).take("k3f9")
    await storage.close()


async def test_a_dead_owners_children_are_ended_before_the_task_goes_on(tmp_path: Path) -> None:
    storage = await SqliteStorage.open(tmp_path / "c.db")
    fence = await make_task(storage, "gone")
    await storage.leases.record_child(fence, child("m1"))
    mine = await owners(storage, tmp_path)
    reaper = MarkReaper()
    taken = await Claimant(mine, storage.leases, reaper, HERE).take("k3f9")
    assert (reaper.asked, taken.token) == (["m1"], 2)
    assert await storage.leases.children("k3f9") == []
    message = AppendMessage(Message("k3f9", 1, "ada", "late", instant.now()))
    with pytest.raises(LeaseLost):
        await storage.commit(fence, message)
    await storage.close()


async def test_children_that_will_not_die_keep_the_task_from_going_on(tmp_path: Path) -> None:
    storage = await SqliteStorage.open(tmp_path / "c.db")
    fence = await make_task(storage, "gone")
    await storage.leases.record_child(fence, child("m1"))
    mine = await owners(storage, tmp_path)
    with pytest.raises(TaskBusy) as refused:
        await Claimant(mine, storage.leases, MarkReaper([77]), HERE).take("k3f9")
    assert refused.value.hint == "Processes of its last run could not be ended: 77."
    await storage.close()


class EndlessReaper(MarkReaper):
    """Is still at it when it is cancelled."""

    async def end(self, children: Sequence[ChildLease]) -> Sequence[int]:
        await super().end(children)
        await anyio.sleep_forever()
        return []


@pytest.mark.parametrize("reaper", [MarkReaper([77]), EndlessReaper()])
async def test_a_failed_takeover_leaves_the_task_free_for_another(
    tmp_path: Path, reaper: MarkReaper
) -> None:
    storage = await SqliteStorage.open(tmp_path / "c.db")
    await storage.leases.record_child(await make_task(storage, "gone"), child("m1"))
    one, two = await owners(storage, tmp_path), await owners(storage, tmp_path)
    with suppress(TaskBusy), plain_errors():
        async with anyio.create_task_group() as group:

            async def stop_it() -> None:
                while not reaper.asked:
                    await anyio.lowlevel.checkpoint()
                group.cancel_scope.cancel()

            group.start_soon(stop_it)
            await Claimant(one, storage.leases, reaper, HERE).take("k3f9")
    assert await storage.leases.get("k3f9") == Lease("k3f9", one.me, 2, "parked")
    assert await storage.leases.children("k3f9") != []
    again = MarkReaper()
    taken = await Claimant(two, storage.leases, again, HERE).take("k3f9")
    assert (again.asked, taken.token) == (["m1"], 3)
    await storage.close()


@pytest.mark.parametrize("fails", ["before the run", "at its end"])
async def test_a_run_that_fails_leaves_the_task_free_for_another(
    tmp_path: Path, fails: str
) -> None:
    class Unendable(ScriptedChannels):
        async def close_all(self) -> None:
            raise UsageError("one agent could not be ended")

    def refuse(created: TaskCreated) -> TaskCreated:
        raise UsageError("not on this machine")

    async with scripted_project(tmp_path) as it, scripted_project(tmp_path) as other:
        await it.start(team("ada"))
        if fails == "before the run":
            it.engine = replace(it.engine, for_this_machine=refuse)
        with pytest.raises(UsageError):
            await it.run(Unendable(lambda *_: "hi"))
        assert (await other.run(ScriptedChannels(lambda *_: "hi"))).status == "completed"


async def test_a_stop_before_the_first_run_has_begun_is_obeyed(tmp_path: Path) -> None:
    async with scripted_project(tmp_path) as it:
        await it.start(team("ada"))
        await it.storage.inbox.request(TASK, "stop", YOU, "")
        stopped = await it.run(ScriptedChannels(lambda *_: "hi"))
        assert (stopped.status, stopped.reason, stopped.turns) == ("waiting", "stopped", 0)


@pytest.mark.parametrize(
    ("kinds", "outcome"),
    [([], "completed"), (["stop"], "waiting"), (["cancel", "stop"], "canceled")],
)
async def test_what_is_requested_during_a_takeover_counts_and_what_was_asked_of_the_last_run_not(
    tmp_path: Path, kinds: Sequence[RequestKind], outcome: str
) -> None:
    async with scripted_project(tmp_path) as it:
        await it.start(team("ada"))
        await it.storage.leases.record_child(Fence(TASK, 1), child("m1"))
        await it.storage.inbox.request(TASK, "stop", YOU, "")
    async with scripted_project(tmp_path) as it:

        class SlowReaper(MarkReaper):
            async def end(self, children: Sequence[ChildLease]) -> Sequence[int]:
                for kind in kinds:
                    await it.storage.inbox.request(TASK, kind, YOU, "")
                return []

        claimant = replace(it.engine.claimant, reaper=SlowReaper(), machine=HERE)
        it.engine = replace(it.engine, claimant=claimant)
        assert (await it.run(ScriptedChannels(lambda *_: "hi"))).status == outcome
        again = await it.run(ScriptedChannels(lambda *_: "hi"))
        assert again.status == ("completed" if outcome == "waiting" else outcome)


def test_a_resumed_task_finds_no_unfinished_files_of_its_last_run(tmp_path: Path) -> None:
    """They are removed from its own session's folder alone: others may be writing in theirs."""
    ours, others = (tmp_path / ".coterie" / "sessions" / one for one in (TASK, "x7y8"))
    finished = ["artifacts/.env.new", "artifacts/a/plan.md", "checks/home/.b.1f2e3d4c.new"]
    drafts = [".state.json.1f2e3d4c.new", "artifacts/a/.plan.md.00000000.new"]
    for path in (folder / name for folder in (ours, others) for name in (*finished, *drafts)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert [one.name for one in artifact_files(tmp_path, TASK)] == [".env.new", "a/plan.md"]

    async def resume() -> None:
        async with scripted_project(tmp_path) as it:
            await it.start(team("ada"))
        async with scripted_project(tmp_path, root=tmp_path) as it:
            await it.run(ScriptedChannels(lambda *_: "hi"))

    anyio.run(resume)
    for folder, names in ((ours, finished), (others, [*finished, *drafts])):
        assert all((folder / name).exists() for name in names)
    assert not any((ours / name).exists() for name in drafts)


@pytest.mark.parametrize(
    ("machine", "refused"),
    [
        (PidScope("there", "other", "ns"), True),
        (PidScope("here", "boot", "container"), True),
        (PidScope("here", "last boot", "ns"), False),
    ],
)
async def test_children_that_cannot_be_seen_are_a_reason_to_refuse(
    tmp_path: Path, machine: PidScope, refused: bool
) -> None:
    storage = await SqliteStorage.open(tmp_path / "c.db")
    fence = await make_task(storage, "gone")
    await storage.leases.record_child(fence, child("m1", machine))
    mine = await owners(storage, tmp_path)
    claimant = Claimant(mine, storage.leases, MarkReaper(), HERE)
    if refused:
        with pytest.raises(SurvivorsElsewhere, match="cannot be seen from here"):
            await claimant.take("k3f9")
    else:
        assert (await claimant.take("k3f9")).token == 2
    await storage.close()


async def test_a_parked_task_is_free_although_its_owner_lives(tmp_path: Path) -> None:
    storage = await SqliteStorage.open(tmp_path / "c.db")
    one, two = await owners(storage, tmp_path), await owners(storage, tmp_path)
    await storage.leases.park(await make_task(storage, one.me))
    assert (await Claimant(two, storage.leases, MarkReaper(), HERE).take("k3f9")).token == 2
    with pytest.raises(NotFound):
        await Claimant(two, storage.leases, MarkReaper(), HERE).take("nope")
    await storage.close()


RACER = """
import sys
from pathlib import Path
import anyio
from coterie.engine.channels import SurvivorReaper
from coterie.engine import lease
from coterie.engine.lease import Claimant, FlockOwners
from coterie.errors import TaskBusy
from coterie.process.processes import PidScope
from coterie.stores.sqlite import SqliteStorage

async def main(folder):
    storage = await SqliteStorage.open(folder / "c.db")
    owners = FlockOwners(folder / "owners", "h")
    await owners.begin()
    claimant = Claimant(owners, storage.leases, SurvivorReaper(), PidScope.here())
    print("ready", flush=True)
    for task in sys.stdin:
        try:
            await claimant.take(task.strip())
            print("won", flush=True)
        except TaskBusy:
            print("lost", flush=True)
    await storage.close()

anyio.run(main, Path(sys.argv[1]))
"""


def test_of_two_that_race_for_a_dead_task_one_wins_every_time(tmp_path: Path) -> None:
    ids = [f"t{number:03}" for number in range(100)]

    async def create() -> None:
        storage = await SqliteStorage.open(tmp_path / "c.db")
        for task_id in ids:
            await make_task(storage, "gone", task_id)
        await storage.close()

    anyio.run(create)
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        for _ in range(2)
    ]
    outcomes: list[list[str]] = []
    try:
        assert [racer.stdout.readline() for racer in racers if racer.stdout] == ["ready\n"] * 2
        for task_id in ids:
            for racer in racers:
                assert racer.stdin is not None
                racer.stdin.write(task_id + "\n")
            outcomes.append([racer.stdout.readline().strip() for racer in racers if racer.stdout])
    finally:
        for racer in racers:
            racer.communicate(timeout=30)
    assert all(sorted(outcome) == ["lost", "won"] for outcome in outcomes)
    assert len(outcomes) == 100


def test_an_owner_that_is_stopped_still_lives(tmp_path: Path) -> None:
    """SIGSTOP is not death: no clocks are involved, so how long it lasts does not matter."""
    holder = subprocess.Popen(
        [sys.executable, "-c", RACER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    assert holder.stdout is not None
    assert holder.stdin is not None

    async def create() -> None:
        storage = await SqliteStorage.open(tmp_path / "c.db")
        await make_task(storage, "gone")
        await storage.close()

    async def tries() -> int:
        storage = await SqliteStorage.open(tmp_path / "c.db")
        mine = await owners(storage, tmp_path)
        claimant = Claimant(mine, storage.leases, MarkReaper(), HERE)
        refused = 0
        for _ in range(20):
            try:
                await claimant.take("k3f9")
            except TaskBusy:
                refused += 1
        await storage.close()
        return refused

    try:
        assert holder.stdout.readline() == "ready\n"
        anyio.run(create)
        holder.stdin.write("k3f9\n")
        assert holder.stdout.readline() == "won\n"
        holder.send_signal(signal.SIGSTOP)
        assert anyio.run(tries) == 20
        holder.send_signal(signal.SIGCONT)
    finally:
        holder.communicate(timeout=30)
