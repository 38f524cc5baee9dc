"""The event stream: every line of every timeline once and in order, whatever happens."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest
from fastapi.sse import ServerSentEvent
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

import coterie
from coterie.app.open_project import OpenProject, open_project
from coterie.app.projects import adopt_folder
from coterie.app.views import read_new_entries
from coterie.config.identity import PROJECTS_FILE
from coterie.errors import CoterieError
from coterie.model import instant
from coterie.model.journal import AppendEvent
from coterie.model.task import Caps, TaskStarted
from coterie.testing.contracts.samples import asked
from coterie.web import events as stream
from coterie.web.hub import Hub, open_hub, project_id
from tests.cli.in_process_agent import CurrentScript, in_turn, install_adapter
from tests.conftest import IsolatedUser
from tests.web.server import API, TIMEOUT, Api, Event, Process, events, started

ADA = coterie.Member.model_validate(
    {"id": "ada", "name": "ada", "displayName": "Ada", "agent": "claude"}
)
TEAM = coterie.Team(name="pair", members=(ADA,))


async def chat(app: OpenProject, goal: str = "hello") -> str:
    """Create a task that is not run; it has one line for its start and one for its goal."""
    return await app.start(TEAM, goal)


async def line_numbers(app: OpenProject, after: int = 0) -> list[int]:
    """The numbers of all existing lines."""
    return [entry.seq for _, entry in await read_new_entries(app, after, 10_000)]


def as_json(data: Any) -> Any:
    """The data of an event, as JSON."""
    return data.model_dump(mode="json") if isinstance(data, BaseModel) else data


@asynccontextmanager
async def following(hub: Hub, last: str | None = None) -> AsyncGenerator[AsyncIterator[Event]]:
    """The stream, without HTTP."""

    async def taken() -> AsyncGenerator[Event]:
        async with aclosing(stream.events(hub, last)) as found:
            async for one in found:
                assert isinstance(one, ServerSentEvent)
                yield Event(one.event or "", as_json(one.data), one.id)

    async with aclosing(taken()) as made:
        yield made


async def until_seq(found: AsyncIterator[Event], project: str, seq: int) -> list[Event]:
    """The events up to the line with this number."""
    events: list[Event] = []
    async for one in found:
        events.append(one)
        if one.name == "record" and one.data["project"] == project and one.data["seq"] == seq:
            return events
    raise AssertionError("the stream ended")


def seqs(found: list[Event], project: str) -> list[int]:
    return [
        one.data["seq"]
        for one in found
        if one.name == "record" and one.data["project"] == project and one.data["seq"]
    ]


async def test_what_another_terminal_does_is_reported(api: Api) -> None:
    async with api.stream() as found, open_project(api.root) as app:
        first = await anext(found)
        assert (first.name, first.data, first.id) == ("reset", {}, f"{api.project}.0")
        task = await chat(app)
        told = await until_seq(found, api.project, (await line_numbers(app))[-1])
        assert seqs(told, api.project) == await line_numbers(app)
        records = [one.data["record"] for one in told if one.name == "record"]
        assert [(one["type"], one.get("status"), one.get("text")) for one in records] == [
            ("task", "created", None),
            ("message", None, "hello"),
        ]
        views = [one.data for one in told if one.name == "task"]
        while not (views and views[-1]["resumable"]):  # which is not a line of a timeline
            one = await anext(found)
            views += [one.data] if one.name == "task" else []
        assert (views[-1]["project"], views[-1]["id"]) == (api.project, task)


async def test_an_answer_given_elsewhere_is_reported_as_a_question_record(
    user: IsolatedUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_adapter(user, monkeypatch)
    monkeypatch.setattr(CurrentScript, "say", lambda *_: coterie.TurnFailed("exit", "broke"))
    async with open_hub(user.project) as hub, open_project(user.project) as other:
        project = project_id(user.project)
        task = await chat(other)
        async with following(hub) as found:
            assert (await anext(found)).name == "reset"
            await hub.run(project, task)
            asked = await until_question(found, "open")
            assert asked["project"] == project
            assert asked["task"] == task
            await other.answer(asked["id"], "stop")
            assert (await until_question(found, "answered"))["id"] == asked["id"]


async def until_question(found: AsyncIterator[Event], state: str) -> dict[str, str]:
    async for one in found:
        if one.name == "question" and one.data["state"] == state:
            return one.data
    raise AssertionError("the stream ended")


async def test_texts_in_progress_continue_from_where_they_were(
    user: IsolatedUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_adapter(user, monkeypatch)
    # Half a word is held back, as it may be half a secret.
    pieces = [coterie.TextDelta(text) for text in ("one ", "two ", "thr")]
    monkeypatch.setattr(CurrentScript, "say", lambda *_: pieces)
    async with open_hub(user.project) as hub:
        project = project_id(user.project)
        task = await chat(await hub.project(project))
        async with following(hub) as found:
            await hub.run(project, task)
            assert await until_text(found, "one two ") == "one two "
            async with following(hub) as late:  # a late client gets what is there
                assert await until_text(late, "one two ") == "one two "
            await (await hub.project(project)).interrupt(task)
            async for one in found:
                if one.name == "record" and one.data["record"].get("text") == "one two thr":
                    break


@pytest.mark.parametrize("is_slow", [False, True], ids=["reconnected", "slow"])
async def test_a_message_is_sent_before_the_next_text_of_its_member(
    user: IsolatedUser, monkeypatch: pytest.MonkeyPatch, is_slow: bool
) -> None:
    install_adapter(user, monkeypatch)
    may_speak = threading.Event()
    turns = in_turn("one two", [coterie.TextDelta("three ")])

    def speak(member: coterie.Member, prompt: str) -> object:
        assert may_speak.wait(TIMEOUT)
        return turns(member, prompt)

    monkeypatch.setattr(CurrentScript, "say", staticmethod(speak))
    async with open_hub(user.project) as hub:
        project = project_id(user.project)
        app = await hub.project(project)
        task = await app.start(TEAM, "hello", Caps(max_turns=2, max_rounds=None))
        async with following(hub, f"{project}.0") as found, following(hub) as other:
            told = [await anext(found)] if is_slow else []
            await hub.run(project, task)
            await until_at_work(other, "ada")
            if is_slow:  # it takes the first of the lines that there were before the message
                told += await until_seq(found, project, 1)
            may_speak.set()
            await until_text(other, "three ")
            async for one in found:
                told.append(one)
                if one.name == "delta":
                    break
        assert told[-1].data["text"] == "three "
        said = [one.data["record"].get("text") for one in told if one.name == "record"]
        assert "one two" in said


async def until_at_work(found: AsyncIterator[Event], member: str) -> None:
    async for one in found:
        record = one.data["record"] if one.name == "record" else {}
        if record.get("type") == "member" and record["member"] == member:
            return
    raise AssertionError("the stream ended")


async def until_text(found: AsyncIterator[Event], text: str) -> str:
    known = ""
    async for one in found:
        if one.name == "delta":
            assert one.id is None
            known = known[: one.data["start"]] + one.data["text"]
            if known == text:
                return known
    raise AssertionError("the stream ended")


@pytest.mark.parametrize("last", ["nonsense", "", "0123456789ab.99999999", "0" * 12 + ".1,"])
async def test_a_stream_resets_at_an_unknown_id(api: Api, last: str) -> None:
    async with api.stream(last) as found:
        assert (await anext(found)).name == "reset"


async def test_a_stream_resets_at_an_id_of_a_database_that_is_gone(api: Api) -> None:
    async with api.stream(f"{api.project}.7") as found:
        first = await anext(found)
    assert (first.name, first.id) == ("reset", f"{api.project}.0")


async def test_a_stream_resets_for_a_new_project(api: Api, tmp_path: Path) -> None:
    async with api.stream() as found:
        assert (await anext(found)).id == f"{api.project}.0"
        (tmp_path / "other").mkdir()
        async with open_project(tmp_path / "other") as other:
            await chat(other)
            ids = [one.id async for one in found_until_reset(found)]
            assert ids[-1] == f"{api.project}.0,{project_id(tmp_path / 'other')}.2"


@pytest.mark.parametrize("fails", ["before", "meanwhile", "a value"])
async def test_a_project_that_cannot_be_read_holds_up_no_other(
    user: IsolatedUser, tmp_path: Path, fails: str
) -> None:
    (tmp_path / "other").mkdir()
    async with open_project(tmp_path / "other") as other, open_hub(user.project) as hub:
        await chat(other)
        await hub.opened_all()
        failing = await hub.project(project_id(user.project))
        if fails == "before":
            await failing.storage.close()
        elif fails == "a value":
            await ask_as_another_version(failing)
        async with following(hub) as found:
            assert (await anext(found)).name == "reset"
            if fails == "meanwhile":
                await failing.storage.close()
            await chat(other)
            with anyio.fail_after(TIMEOUT):
                await until_seq(
                    found, project_id(tmp_path / "other"), (await line_numbers(other))[-1]
                )


@pytest.mark.parametrize("broken", ["the settings", "the folder it serves"])
async def test_a_list_of_projects_that_cannot_be_read_ends_no_running_task(
    user: IsolatedUser, tmp_path: Path, broken: str
) -> None:
    served, other, new = tmp_path / "served", tmp_path / "other", tmp_path / "new"
    for folder in (served, other, new):
        folder.mkdir()
    async with open_project(other) as app, open_hub(served) as hub:
        task = await chat(app)
        await hub.opened_all()
        await anyio.to_thread.run_sync(adopt_folder, new)  # without a database
        if broken == "the settings":
            (user.coterie_home / "settings.json").write_text("{")
        else:
            shutil.rmtree(served)
        with pytest.raises(CoterieError):
            await hub.projects()
        assert await hub.orphans() == []
        async with following(hub) as found:
            assert (await anext(found)).name == "reset"
            started = TaskStarted(task_id=task, at=instant.now())
            await app.storage.commit(None, AppendEvent(started))
            with anyio.fail_after(TIMEOUT):
                await until_seq(found, project_id(other), (await line_numbers(app))[-1])


async def ask_as_another_version(app: OpenProject) -> None:
    """Ask a question of a kind that this version does not have."""
    task = await chat(app)
    await app.storage.commit(None, AppendEvent(TaskStarted(task_id=task, at=instant.now())))
    await app.storage.commit(None, asked("q1", task))
    with closing(sqlite3.connect(app.root / ".coterie" / "coterie.db")) as database:
        database.execute("DROP TRIGGER events_are_not_changed")
        kind = "json_set(data, '$.interaction.kind', 'Draw')"
        database.execute(f"UPDATE events SET data = {kind} WHERE type LIKE 'User%'")
        database.commit()


async def found_until_reset(found: AsyncIterator[Event]) -> AsyncIterator[Event]:
    async for one in found:
        yield one
        if one.name == "reset":
            return


CUTS = st.lists(st.integers(min_value=1, max_value=6), min_size=1, max_size=4)
WRITES = st.lists(st.sampled_from("abc"), min_size=1, max_size=6)


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(WRITES, CUTS)
async def test_going_on_after_an_id_leaves_no_gap_and_doubles_nothing(
    tmp_path_factory: pytest.TempPathFactory, user: IsolatedUser, writes: list[str], cuts: list[int]
) -> None:
    place = tmp_path_factory.mktemp("projects")
    (user.coterie_home / PROJECTS_FILE).unlink(missing_ok=True)  # those of the previous example
    roots = {name: place / name for name in "abc"}
    for root in roots.values():
        root.mkdir()
    async with (
        open_hub(roots["a"], user.coterie_home) as hub,
        open_project(roots["a"]) as a,
        open_project(roots["b"]) as b,
        open_project(roots["c"]) as c,
    ):
        apps = {"a": a, "b": b, "c": c}
        for app in apps.values():
            await chat(app)
        begun = {name: (await line_numbers(app))[-1] for name, app in apps.items()}
        last = ",".join(f"{project_id(roots[name])}.{seq}" for name, seq in begun.items())
        told: list[Event] = []
        for name, cut in zip(writes, (cuts * 6)[: len(writes)], strict=True):
            await chat(apps[name])
            async with following(hub, last) as found:
                for _ in range(cut):  # disconnected after that many events, wherever that is
                    told.append(await anext(found))
                    last = told[-1].id or last
                    if is_all(
                        told, {n: await line_numbers(app) for n, app in apps.items()}, begun, roots
                    ):
                        break
        wanted = {name: await line_numbers(app, begun[name]) for name, app in apps.items()}
        async with following(hub, last) as found:
            while {n: seqs(told, project_id(roots[n])) for n in apps} != wanted:
                told.append(await anext(found))
        assert all(one.name != "reset" for one in told)


def is_all(
    told: list[Event], there: dict[str, list[int]], begun: dict[str, int], roots: dict[str, Path]
) -> bool:
    return all(
        seqs(told, project_id(roots[name])) == [one for one in all_ if one > begun[name]]
        for name, all_ in there.items()
    )


async def test_one_that_is_slow_gets_everything_and_holds_nobody_up(api: Api) -> None:
    async with open_project(api.root) as app, api.stream() as slow:
        assert (await anext(slow)).name == "reset"
        for _ in range(60):
            await chat(app, "x" * 20_000)
        wanted = await line_numbers(app)
        async with api.stream(f"{api.project}.0") as quick:
            assert seqs(await until_seq(quick, api.project, wanted[-1]), api.project) == wanted
        assert seqs(await until_seq(slow, api.project, wanted[-1]), api.project) == wanted


async def test_streams_end_with_the_server_and_its_tasks_are_parked(
    user: IsolatedUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_adapter(user, monkeypatch)
    monkeypatch.setattr(CurrentScript, "say", lambda *_: None)  # hang
    async with open_hub(user.project) as hub:
        project = project_id(user.project)
        task = await chat(await hub.project(project))
        await hub.run(project, task)
        async with following(hub) as found:
            assert (await anext(found)).name == "reset"
            hub.close()
            async for _ in found:
                pass
    async with open_project(user.project) as app:
        (view,) = await app.tasks()
        assert (view.pid, view.resumable, await app.orphans()) == (None, True, [])


async def test_killed_and_started_again_it_goes_on_where_it_was(user: IsolatedUser) -> None:
    project = project_id(user.project)
    async with open_project(user.project) as app:
        await chat(app)
        begun = (await line_numbers(app))[-1]
        with started(user, "--api-only") as process:
            async with aclosing(streamed(process, None)) as found:
                assert (await anext(found)).name == "reset"
                await chat(app)
                told = await until_seq(found, project, begun + 1)  # in the middle of the task
                process.kill()
        await chat(app)
        wanted = await line_numbers(app, begun)
        last = [one.id for one in told if one.id][-1]
        with started(user, "--api-only") as process:
            async with aclosing(streamed(process, last)) as found:
                told += await until_seq(found, project, wanted[-1])
    assert seqs(told, project) == wanted
    assert all(one.name != "reset" for one in told)


async def streamed(process: Process, last: str | None) -> AsyncGenerator[Event]:
    headers = {"Authorization": f"Bearer {process.token}"}
    headers |= {"Last-Event-ID": last} if last else {}
    async with (
        httpx.AsyncClient(base_url=process.address, headers=headers, timeout=TIMEOUT) as client,
        client.stream("GET", f"{API}/events", timeout=None) as response,
    ):
        async for one in events(response):
            yield one
