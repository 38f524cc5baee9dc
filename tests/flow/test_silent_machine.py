"""`takeover: ask`: a silent machine leads to one question, no matter how many notice it."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from inline_snapshot import snapshot

from coterie.app import machines
from coterie.app.project import App
from coterie.app.takeover import UserTakeover
from coterie.errors import AnswerRefused
from coterie.model import instant
from coterie.model.interaction import Question, Response
from coterie.model.lease_clock import LeaseTimes
from coterie.model.machine import OwnerRow
from coterie.model.task import UserInteractionResponded
from coterie.ports import OwnerRows
from coterie.stores.postgres import schema
from coterie.testing.contracts.samples import created, started
from tests.conftest import IsolatedUser, init_project
from tests.web.api_client import api_client

SILENT = OwnerRow("silent", "gpu1", 3, False, "2026-01-01T00:00:00Z", "1.0")
SHORT_LEASE = LeaseTimes(ttl=0.2, beat=0.1, soft=0.05, margin=0.1)
"""How soon others count as silent: the machines that watch have long leases themselves."""
TIMEOUT = 60.0


@pytest.fixture
def project(user: IsolatedUser, database: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project on a store, of a user who wants to be asked about takeovers."""
    monkeypatch.setenv("COTERIE_STORE", database)
    schema.init(database, schema.StoreProject("project", ""), 600.0)
    user.coterie_home.mkdir()
    (user.coterie_home / "settings.json").write_text('{"takeover": "ask"}')
    init_project(user.project)
    return user.project


async def create_tasks(app: App) -> OwnerRows:
    """Create two tasks that a silent process on gpu1 runs."""
    assert app.shared is not None
    await app.shared.owners.rows.add(SILENT)
    for task in ("k3f9", "m2n4"):
        fence = await app.storage.create(created(task), SILENT.id, None)
        await app.storage.commit(fence, started(task))
    return app.shared.owners.rows


@asynccontextmanager
async def watching_machines(project: Path, *names: str) -> AsyncGenerator[list[App]]:
    """Open the project on machines that watch the others."""
    async with AsyncExitStack() as stack:
        apps: list[App] = []
        for name in names:
            app = await stack.enter_async_context(App.open(project, machine=name))
            assert app.shared is not None
            app.shared.owners._silent.times = SHORT_LEASE
            app.shared.owners.times = replace(app.shared.owners.times, look=0.05)
            apps.append(app)
        yield apps


async def until(condition: Callable[[], Awaitable[object]]) -> None:
    with anyio.fail_after(TIMEOUT):
        while not await condition():  # noqa: ASYNC110 - others' doing
            await anyio.sleep(0.02)


async def all_questions(app: App) -> list[Question]:
    return await app.storage.inbox.questions(only_open=False)


def knows(app: App) -> bool:
    """Whether it has noticed the silent machine, and knows the question about it."""
    assert app.shared is not None
    takeover = app.shared.owners.takeover
    assert isinstance(takeover, UserTakeover)
    return SILENT.id in takeover._inquiries


async def is_dead(rows: OwnerRows) -> bool:
    row = await rows.get(SILENT.id)
    return row is not None and row.dead


async def test_all_who_find_it_silent_ask_one_question_and_the_page_answers_it(
    project: Path,
) -> None:
    async with watching_machines(project, "m1", "m2", "m3") as apps, api_client(project) as page:
        rows = await create_tasks(apps[0])
        for app in apps:
            await app.own()

        async def all_know() -> bool:
            return all(map(knows, apps))

        await until(all_know)
        (shown,) = await page.get("/inbox")
        since = f"{shown['about']['since'][:10]} {shown['about']['since'][11:16]}"
        assert shown["title"] == f"gpu1 has not been heard from since {since} UTC"
        assert shown["description"].startswith("It runs 2 tasks: k3f9, m2n4. Take over only")
        assert (shown["task"], [one["id"] for one in shown["options"]]) == (
            *("k3f9", ["takeover", "wait"]),
        )
        assert not await is_dead(rows)
        given = {"project": page.project, "question": shown["id"], "choice": "takeover"}
        status, (answered,) = await page("POST", "/inbox/answers", {"answers": [given]})
        assert (status, answered["problem"], answered["resumable"]) == (200, None, True)
        assert await is_dead(rows)
        assert [one.state for one in await all_questions(apps[0])] == ["answered"]
        taken = await (await apps[1].claimant()).take("m2n4")
        assert taken.token == 2


async def test_it_is_fenced_after_the_answer_and_until_that_succeeds(
    project: Path, user: IsolatedUser, tmp_path: Path
) -> None:
    key, turned = anyio.Path(tmp_path / "key"), anyio.Path(tmp_path / "gpu1")
    settings = {"takeover": "ask", "fence": f"mv {key} {tmp_path}/{{machine}}"}
    await anyio.Path(user.coterie_home / "settings.json").write_text(json.dumps(settings))
    async with watching_machines(project, "m1") as (app,):
        rows = await create_tasks(app)
        await app.own()
        await until(app.questions)
        assert not (await app.answer("q1", "takeover")).resumable
        assert not await is_dead(rows)
        await key.touch()
        await until(lambda: is_dead(rows))
        assert await turned.exists()


async def test_a_mistake_in_the_settings_postpones_a_takeover_and_ends_no_task(
    project: Path, user: IsolatedUser
) -> None:
    settings = anyio.Path(user.coterie_home / "settings.json")
    async with watching_machines(project, "m1") as (app,):
        await create_tasks(app)
        assert app.shared is not None
        allows = app.shared.owners.takeover.allows
        for mistake in ('{"takover": "ask"}', '{"fence": 3}', "{"):
            await settings.write_text(mistake)
            assert not await allows(SILENT, TIMEOUT)
        assert await app.questions() == []
        await settings.write_text("{}")
        assert await allows(SILENT, TIMEOUT)


async def test_an_answer_whose_process_ended_right_after_it_counts(project: Path) -> None:
    async with watching_machines(project, "m1") as (app,):
        rows = await create_tasks(app)
        await app.own()
        await until(app.questions)
        (asked,) = await app.questions()
        name, task = asked.interaction.interaction_id, asked.interaction.task_id
        response = Response(
            interaction_id=name, task_id=task, author_actor_id="you", selected_option_id="takeover"
        )
        event = UserInteractionResponded(task_id=task, at=instant.now(), response=response)
        assert await app.storage.inbox.respond(event)
        await until(lambda: is_dead(rows))


async def test_a_person_declaring_it_dead_answers_the_question(project: Path) -> None:
    async with watching_machines(project, "m1") as (app,):
        await create_tasks(app)
        await app.own()
        await until(app.questions)
        assert await machines.gone(app, "gpu1") == 1
        (asked,) = await all_questions(app)
        assert asked.response is not None
        assert (asked.state, asked.response.choice, asked.response.author_actor_id) == (
            *("answered", "takeover", "you"),
        )


async def test_an_owner_that_returns_needs_no_answer_and_wait_is_one(project: Path) -> None:
    """A new silence is a new question; after `wait` the old one is not asked about again."""
    async with watching_machines(project, "m1", "m2") as (app, other):
        rows = await create_tasks(app)
        await app.own()
        await until(app.questions)
        assert await rows.renew(SILENT.id) == 4

        async def is_closed() -> bool:
            return (await all_questions(app))[0].state != "open"

        await until(is_closed)
        with pytest.raises(AnswerRefused) as refused:
            await app.answer("q1", "takeover")
        assert str(refused.value) == snapshot(
            "q1 was closed: gpu1 was heard from again. Your answer was not used."
        )
        await until(app.questions)
        (again,) = await app.questions()
        await app.answer(again.interaction.interaction_id, "wait")
        await other.own()

        async def both_know() -> bool:
            return knows(other) and knows(app)

        await until(both_know)
        assert [one.state for one in await all_questions(app)] == ["closed", "answered"]
        assert not await is_dead(rows)


async def test_an_answer_that_comes_after_a_sign_of_life_is_refused(project: Path) -> None:
    """Even if nobody has noticed that sign."""
    async with watching_machines(project, "m1", "m2") as (app, other):
        rows = await create_tasks(app)
        await app.own()
        await until(app.questions)
        assert app.shared is not None
        app.shared.owners.takeover = UserTakeover(app.project, app.storage, _has_loaded=True)
        assert await rows.renew(SILENT.id) == 4
        with pytest.raises(AnswerRefused, match="gpu1 was heard from again"):
            await other.answer("q1", "takeover")
        assert not await is_dead(rows)


async def test_it_is_notified_elsewhere_too(
    project: Path, user: IsolatedUser, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    command = f"{sys.executable} -c 'import sys; open(sys.argv[1], \"a\").write(input())' {told}"
    settings = {"takeover": "ask", "notify": command}
    await anyio.Path(user.coterie_home / "settings.json").write_text(json.dumps(settings))
    async with watching_machines(project, "m1") as (app,):
        await create_tasks(app)
        await app.own()

        async def is_notified() -> object:
            written = await anyio.Path(told).exists() and await anyio.Path(told).read_text()
            return written and not await app.storage.notifications.unsent()

        await until(is_notified)
        said = json.loads(await anyio.Path(told).read_text())
        assert (said["kind"], said["task"], said["question"]["author"]) == (
            *("question", "k3f9", "coterie"),
        )
