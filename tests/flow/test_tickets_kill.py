"""Ticket sessions that are killed: with -9 at random instants, and at every single write.

`make chaos` does the former a hundred times.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from bench.chaos.stores import Stores
from bench.chaos.tickets import Baseline, TicketChaos, TicketTally
from coterie.engine.steering import answer
from coterie.model.about import ReportConfirmation
from coterie.model.envelope import Review
from coterie.model.task import Caps
from coterie.model.team import Member
from coterie.model.ticket import SchedulerConfig
from coterie.model.update import TurnFailed
from coterie.stores.sqlite import SqliteStorage
from coterie.testing.crash import Crashed, CrashingStorage, CrashPoint
from coterie.testing.scripted import TASK, ScriptedChannels, ScriptedProject, scripted_project
from coterie.workflows.tickets import Tickets
from tests.cli.command import forked
from tests.flow.ticket_harness import Say, part, plan, replying, script, session, ticket_in


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Baseline | None:
    """Return the outcome that every session must reach, whatever its store."""
    return TicketChaos(tmp_path_factory.mktemp("alone"), popen=forked().popen).run_baseline()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("stores", "kills"), [("sqlite", 5), ("postgres", 3)], indirect=["stores"])
def test_a_killed_session_comes_to_the_same_as_one_left_alone(
    tmp_path: Path, stores: Stores, kills: int, baseline: Baseline | None
) -> None:
    assert baseline is not None
    chaos = TicketChaos(tmp_path, seed=5, stores=stores, baseline=baseline, popen=forked().popen)
    tally = chaos.run(kills)
    expected = TicketTally(
        kills=kills, sessions=1, executions=tally.executions, needed=tally.needed, wrong=[]
    )
    assert tally == expected
    assert tally.clean


PARTS = plan(
    part("pay", expected_outputs=["pay.py"], risks=["money"]),
    part("ship", expected_outputs=["ship.py"], assigned_to={"role_id": "wren"}),
    part("bill", "pay", "ship", expected_outputs=["bill.py"]),
)


def works(member: Member, text: str) -> object:
    """Wren cannot ship; the bill is wrong at first."""
    ticket = ticket_in(text)
    if (member.id, ticket) == ("wren", "T2"):
        return TurnFailed("exit", "exit code 1", retry=False)
    polite = ["please"] if "It was sent back" in text else []
    return {"status": "completed", "outputs": [f"{ticket}.py"], "evidence": polite}


def reviews(member: Member, text: str) -> object:
    if "on ticket T3" in text and '"please"' not in text:
        return {"decision": "changes_requested", "requested_changes": ["say please"]}
    return {"decision": "approved"}


SAY = replying(
    Split_the_goal=PARTS,
    is_risky={"summary": "Use decimals."},
    wants_your_opinion={"status": "proposal", "outputs": ["I agree"]},
    Do_the_work_now=works,
    **{"Is_it_done?": reviews},
)


async def died(project: Path, death: CrashPoint | None, say: Say = SAY) -> bool:
    """Run it once; return whether it died."""
    real = await SqliteStorage.open(project / ".coterie" / "coterie.db")
    try:
        mortal = CrashingStorage(real, death)
        async with scripted_project(
            project / ".coterie", mortal, Tickets(), root=project
        ) as harness:
            await harness.run(ScriptedChannels(script(say)), 0.0)
    except Crashed:
        return True
    finally:
        await real.close()
    return False


async def outcome_of(project: Path) -> dict[str, object]:
    async with session(project) as harness:
        said = Counter(f"{one.ticket_id} {one.payload_type}" for one in await harness.envelopes())
        moves = {ticket.id: await harness.moves(ticket.id) for ticket in await harness.tickets()}
    report = project / ".coterie" / "sessions" / TASK / "final_report.json"
    return {"said": said, "moves": moves, "report": json.loads(report.read_text())}


async def test_a_session_survives_the_death_of_its_process_at_any_write(memory_path: Path) -> None:
    async def lived_through(name: str, death: CrashPoint | None) -> tuple[bool, dict[str, object]]:
        project = memory_path / name
        (project / ".coterie").mkdir(parents=True)
        async with session(project):
            pass  # only create it
        was_cut = await died(project, death)
        if was_cut:
            assert not await died(project, None)
        return was_cut, await outcome_of(project)

    _, expected = await lived_through("alone", None)
    call, was_cut = 0, True
    while was_cut:
        call += 1
        death = CrashPoint(call, took_effect=call % 2 == 0, queued_kept=call % 4 < 2)
        was_cut, found = await lived_through(f"cut{call}", death)
        assert found == expected, death
    assert call >= 45


ASKED = replying(
    Split_the_goal=plan(part("pay", expected_outputs=["pay.py"])),
    The_plan_has_to_change=plan(part("pay", expected_outputs=["pay.py"])),
    Do_the_work_now={"status": "completed"},
)


async def answer_questions(harness: ScriptedProject) -> None:
    """Answer the open questions: approve the plan, but the report only the second time."""
    for asked in await harness.storage.inbox.questions():
        said = [one.payload for _, one in await harness.storage.tickets.envelopes(TASK)]
        seen = any(isinstance(one, Review) and one.notes == "not yet" for one in said)
        is_report = isinstance(asked.interaction.about, ReportConfirmation)
        choice = ("change", "not yet") if is_report and not seen else ("approve", None)
        await answer(harness.look, asked.interaction.interaction_id, *choice, "you")


async def test_a_death_around_the_users_answer_to_the_report_loses_nothing(
    memory_path: Path,
) -> None:
    async def ran(project: Path, death: CrashPoint | None) -> int:
        """Run it to the end, restarted if it dies; return the number of storage calls."""
        real = await SqliteStorage.open(project / ".coterie" / "coterie.db")
        mortal = CrashingStorage(real, death)
        try:
            async with scripted_project(
                project / ".coterie", mortal, Tickets(), root=project
            ) as harness:
                while (await harness.run(ScriptedChannels(script(ASKED)), 0.0)).status == "waiting":
                    await answer_questions(harness)
        except Crashed:
            return await ran(project, None)
        finally:
            await real.close()
        return mortal.calls

    async def lived_through(name: str, death: CrashPoint | None) -> tuple[int, dict[str, object]]:
        project = memory_path / name
        (project / ".coterie").mkdir(parents=True)
        async with session(project, caps=Caps()):
            pass  # only create it
        return await ran(project, death), await outcome_of(project)

    calls, expected = await lived_through("alone", None)
    assert calls > 60
    for call in range(calls - 45, calls + 1, 3):
        death = CrashPoint(call, took_effect=call % 4 < 2, queued_kept=call % 8 < 4)
        _, found = await lived_through(f"cut{call}", death)
        assert found == expected, death


FAILS = replying(
    Split_the_goal=plan(part("pay"), part("bill", "pay"), part("send", "bill")),
    Do_the_work_now=TurnFailed("exit", "exit code 1", retry=False),
)


async def test_a_death_while_a_ticket_is_dropped_leaves_no_ticket_that_waits_for_ever(
    memory_path: Path,
) -> None:
    before = memory_path / "before"
    (before / ".coterie").mkdir(parents=True)
    async with session(before, config=SchedulerConfig(retries=0, replans=0)) as harness:
        assert await harness.run(FAILS) == "waiting question"
        await harness.answer("drop")
    call, was_cut = 0, True
    while was_cut:
        call += 1
        project = memory_path / f"cut{call}"
        shutil.copytree(before, project)
        was_cut = await died(project, CrashPoint(call, call % 2 == 0, call % 4 < 2), FAILS)
        async with session(project) as harness:
            if was_cut:
                assert await harness.run(FAILS) == "completed done 0 done, 3 dropped or replaced"
            closed = [one.closed_by for one in await harness.tickets()]
            assert closed == ["dropped"] * 3, call
    assert call > 10
