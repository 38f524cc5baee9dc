"""Envelopes as files: they match the rows, whatever happened to the files or to Coterie."""

from __future__ import annotations

import json
import re
import resource
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from coterie.app.project import App
from coterie.engine.task_run import RunServices
from coterie.errors import EnvelopeForged, StorageDamaged, StorageError
from coterie.model.journal import AppendEnvelope
from coterie.model.team import Member
from coterie.model.ticket import SchedulerConfig
from coterie.stores.envelope_files import EnvelopeFiles
from coterie.stores.sqlite import SqliteStorage
from coterie.testing.contracts.samples import created, envelope
from coterie.testing.scripted import TASK
from coterie.workspace.session_files import key_path
from tests.conftest import IsolatedUser
from tests.flow.ticket_harness import (
    TicketHarness,
    obedient,
    part,
    plan,
    replying,
    repository,
    session,
)

LINE = re.compile(r"\[\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\]\[(?:-|T\d+)\]\[[a-z_-]+\] [^\n]*")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return repository(tmp_path / "shop")


def logs(project: Path) -> Path:
    return project / ".coterie" / "logs" / TASK


def files_of(harness: TicketHarness, *, signed: bool = False) -> EnvelopeFiles:
    return EnvelopeFiles(
        harness.project / ".coterie", harness.scripted.storage.tickets, TASK, signed=signed
    )


async def compare(harness: TicketHarness) -> dict[str, bytes]:
    """Check that the files match the rows, with none missing and none added; return the files."""
    rows = await harness.scripted.storage.tickets.envelopes(TASK)
    wanted = {
        f"{sequence:06d}-{one.payload_type}.json": one.model_dump(mode="json", exclude_none=True)
        for sequence, one in rows
    }
    kept = [path for path in logs(harness.project).iterdir() if path.suffix != ".changed"]
    found = {path.name: path.read_bytes() for path in kept}
    lines = found.pop("events.log").decode().splitlines()
    assert {name: json.loads(data) for name, data in found.items()} == wanted
    assert [sequence for sequence, _ in rows] == list(range(1, len(rows) + 1))
    assert len(lines) == len(rows)
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    return {**found, "events.log": "\n".join(lines).encode()}


BUSY = replying(
    Split_the_goal=plan(part("a", risks=["money"]), part("b")),
    is_risky={"summary": "carefully"},
    wants_your_opinion={"status": "proposal", "outputs": ["yes"]},
)


async def test_files_are_complete_when_a_run_parks(project: Path) -> None:
    async with session(project) as harness:
        harness.use_services(RunServices(session_files=files_of(harness)))
        say = replying(Do_the_work_now={"status": "blocked", "issues": ["x"]}, cannot_continue="no")
        assert await harness.run(say) == "waiting question"
        await compare(harness)


async def test_they_are_complete_before_the_end_is_on_record(project: Path) -> None:
    """An ended task is never run again: what is not written by then never would be."""
    seen: list[tuple[str, int]] = []

    class WatchedFiles(EnvelopeFiles):
        async def flush(self) -> None:
            await super().flush()
            (row,) = (
                one for one in await harness.scripted.storage.events.tasks() if one.id == TASK
            )
            rows = await harness.scripted.storage.tickets.envelopes(TASK)
            seen.append((row.status, len(rows)))

    async with session(project) as harness:
        kept = WatchedFiles(project / ".coterie", harness.scripted.storage.tickets, TASK)
        harness.use_services(RunServices(session_files=kept))
        assert await harness.run(BUSY) == "completed done 2 done"
        assert ("running", len(await harness.envelopes())) in seen


async def test_the_files_of_a_canceled_session_are_complete(user: IsolatedUser) -> None:
    project = repository(user.project / "shop")
    async with session(project) as harness:
        say = replying(Do_the_work_now={"status": "blocked", "issues": ["x"]}, cannot_continue="no")
        assert await harness.run(say) == "waiting question"
    assert not logs(project).exists()
    async with App.open(project) as app:
        await app.cancel(TASK)
    async with session(project) as harness:
        await compare(harness)


# -- after a crash -----------------------------------------------------------------------------


async def test_files_that_a_crash_cut_are_completed_at_the_next_start(project: Path) -> None:
    """Killed between the commit and the files, with any number of the files written."""
    async with session(project) as harness:
        harness.use_services(RunServices(session_files=files_of(harness)))
        assert await harness.run(BUSY) == "completed done 2 done"
        whole = await compare(harness)
        names = sorted(name for name in whole if name != "events.log")
        text = (logs(project) / "events.log").read_bytes()
        for left in (0, 1, len(names) // 2, len(names) - 1):
            for name in names[left:]:
                (logs(project) / name).unlink()
            (logs(project) / f".{names[left]}.1f2e3d4c.new").write_bytes(b'{"half": ')
            (logs(project) / "events.log").write_bytes(text[: 37 * left])  # in the middle of a line
            await files_of(harness).flush()
            assert await compare(harness) == whole


DAMAGE: dict[str, Callable[[Path], object]] = {
    "changed": lambda folder: (folder / "000002-plan.json").write_text("{}"),
    "binary": lambda folder: (folder / "000002-plan.json").write_bytes(b"\xff\0"),
    "line changed": lambda folder: (folder / "events.log").write_bytes(
        (folder / "events.log").read_bytes().replace(b"plan", b"plot")
    ),
    "line added": lambda folder: (folder / "events.log").write_bytes(
        (folder / "events.log").read_bytes() + b"[now][T1][done] really\n"
    ),
    "log gone": lambda folder: (folder / "events.log").unlink(),
}


@pytest.mark.parametrize("what", DAMAGE)
async def test_a_file_that_differs_from_its_row_is_replaced(project: Path, what: str) -> None:
    async with session(project) as harness:
        harness.use_services(RunServices(session_files=files_of(harness)))
        assert await harness.run(BUSY) == "completed done 2 done"
        whole = await compare(harness)
        DAMAGE[what](logs(project))
        await files_of(harness).flush()
        assert await compare(harness) == whole


async def test_a_file_that_no_row_knows_is_set_aside(project: Path) -> None:
    async with session(project) as harness:
        harness.use_services(RunServices(session_files=files_of(harness)))
        await harness.run(BUSY)
        stray = logs(project) / "000999-review.json"
        stray.write_text("{}")
        await files_of(harness).flush()
        assert not stray.exists()
        stray.with_name("000999-review.json.stray").unlink()
        await compare(harness)


async def test_a_stray_file_that_cannot_be_moved_is_not_called_moved(project: Path) -> None:
    async with session(project) as harness:
        harness.use_services(RunServices(session_files=files_of(harness)))
        await harness.run(BUSY)
        stray = logs(project) / "000999-review.json"
        stray.write_text("{}")
        stray.with_name("000999-review.json.stray").mkdir()
        (fault,) = (await files_of(harness).verify("cut")).new
        assert (fault.kind, fault.mended, stray.exists()) == ("unknown", False, True)


async def test_what_happens_to_the_files_during_a_run_is_put_right_in_it(project: Path) -> None:
    async with session(project) as harness:
        harness.use_services(RunServices(session_files=files_of(harness)))
        hurt = [_remove_all, DAMAGE["line added"]]

        def works(member: Member, text: str) -> object:
            with suppress(FileNotFoundError):  # they are being restored
                hurt.pop()(logs(project)) if hurt else None
            return obedient(member, text)

        assert await harness.run(replying(Do_the_work_now=works)) == "completed done 3 done"
        await compare(harness)


def _remove_all(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


async def test_rows_that_are_no_envelopes_are_reported_as_damage(project: Path) -> None:
    async with session(project) as harness:
        await harness.run(BUSY)
    with sqlite3.connect(project / ".coterie" / "coterie.db") as database:
        database.execute("UPDATE envelopes SET body = '{}' WHERE sequence = 3")
    database.close()
    async with session(project) as harness:
        with pytest.raises(
            StorageDamaged, match="holds a value that this version of Coterie cannot read"
        ):
            await files_of(harness).flush()


async def test_adding_does_not_look_at_what_is_there(tmp_path: Path) -> None:
    """The cost of adding one does not grow with their number: only new rows are requested."""
    storage = await SqliteStorage.in_memory()
    fence = await storage.create(created(), "me", None)
    asked: list[tuple[int, int]] = []

    class Counting:
        tickets = storage.tickets.tickets

        async def envelopes(self, session_id: str, after: int = 0) -> Any:
            rows = await storage.tickets.envelopes(session_id, after)
            asked.append((after, len(rows)))
            return rows

    kept = EnvelopeFiles(tmp_path, Counting(), created().session_id)
    for minute in range(1, 40):
        await storage.commit(fence, AppendEnvelope(envelope(minute)))
        await kept.flush()
    await storage.close()
    assert asked == [(number, 1) for number in range(39)]


async def test_a_full_disk_leaves_no_half_of_an_envelope(tmp_path: Path) -> None:
    storage = await SqliteStorage.in_memory()
    fence = await storage.create(created(), "me", None)
    await storage.commit(fence, AppendEnvelope(envelope(1)))
    kept = EnvelopeFiles(tmp_path, storage.tickets, created().session_id)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limit[1]))  # makes a write stop in the middle
    try:
        with pytest.raises(StorageError):
            await kept.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    folder = tmp_path / "logs" / created().session_id
    assert list(folder.iterdir()) == []
    await kept.flush()
    await storage.close()
    assert len(list(folder.glob("*.json"))) == 1


# -- signed ------------------------------------------------------------------------------------

SIGNED = SchedulerConfig(sign=True)


async def test_a_signed_session_goes_on_and_its_key_is_nowhere_else(project: Path) -> None:
    blocked = replying(Do_the_work_now={"status": "blocked", "issues": ["x"]}, cannot_continue="no")
    async with session(project, config=SIGNED) as harness:
        harness.use_services(RunServices(session_files=files_of(harness, signed=True)))
        assert await harness.run(blocked) == "waiting question"
        await harness.answer("retry")
    async with session(project) as harness:
        harness.use_services(RunServices(session_files=files_of(harness, signed=True)))
        say = replying(**{"cannot_continue:": {"summary": "again"}})
        assert await harness.run(say) == "completed done 3 done"
        assert all(one.signature for one in await harness.envelopes())
        await compare(harness)
    path = key_path(project / ".coterie", TASK)
    assert path.stat().st_mode & 0o777 == 0o600
    key = path.read_bytes().strip()
    others = [one for one in (project / ".coterie").rglob("*") if one.is_file() and one != path]
    assert [one for one in others if key in one.read_bytes()] == []
    assert [one for one in others if bytes.fromhex(key.decode()) in one.read_bytes()] == []


FORGED: dict[str, Callable[[Path], object]] = {
    "changed": lambda project: _rewrite(project, '"coupons"', '"cupcakes"'),
    "unsigned": lambda project: _rewrite(project, ',"signature":"[^"]*"', ""),
    "key gone": lambda project: key_path(project / ".coterie", TASK).unlink(),
    "another key": lambda project: key_path(project / ".coterie", TASK).write_text("ab" * 32),
}


def _rewrite(project: Path, pattern: str, instead: str) -> None:
    database = sqlite3.connect(project / ".coterie" / "coterie.db")
    ((body,),) = database.execute("SELECT body FROM envelopes WHERE sequence = 1").fetchall()
    changed = re.sub(pattern, instead, body)
    assert changed != body
    database.execute("UPDATE envelopes SET body = ? WHERE sequence = 1", (changed,))
    database.commit()
    database.close()


@pytest.mark.parametrize("what", FORGED)
async def test_what_was_not_signed_with_the_key_is_not_trusted(project: Path, what: str) -> None:
    async with session(project, config=SIGNED) as harness:
        harness.use_services(RunServices(session_files=files_of(harness, signed=True)))
        say = replying(Do_the_work_now={"status": "blocked", "issues": ["x"]}, cannot_continue="no")
        await harness.run(say)
        await harness.answer("retry")
    FORGED[what](project)
    async with session(project) as harness:
        for services in (
            RunServices(session_files=files_of(harness, signed=True)),
            RunServices(),
        ):  # checked by the files, and by the session
            harness.use_services(services)
            with pytest.raises(EnvelopeForged) as raised:
                await harness.run()
            assert raised.value.code == "envelope_forged"
    with anyio.fail_after(30):
        async with session(project) as harness:
            lease = await harness.scripted.storage.leases.get(TASK)
            assert lease is not None
            assert lease.state == "parked"
