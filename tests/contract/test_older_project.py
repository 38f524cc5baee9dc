"""A project written by the commit before the codec: it opens, and every task runs to its end.

It was made by `before/make.py.txt`: chats that were interrupted, asked or ran out of budget, a solo
task in the middle of its tool calls, a session half-way through, one waiting for plan approval.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from inline_snapshot import snapshot

from coterie import OpenProject, open_project
from coterie.app.views import read_ticket
from coterie.errors import NotFound
from coterie.model.about import ReportConfirmation
from coterie.model.interaction import APPROVE
from coterie.model.record import ResultRecord
from coterie.model.team import YOU
from coterie.rehearsal.server import RehearsalServer
from tests.conftest import IsolatedUser
from tests.contract.before.project_setup import (
    MADE_IN,
    CountingModel,
    restore,
    tasks,
    write_registry,
)

TASKS = tasks()
"""Their ids, by what became of them."""


def prepare(root: Path, path: str) -> None:
    write_registry()
    restore(root, path)


@asynccontextmanager
async def opened(user: IsolatedUser) -> AsyncGenerator[OpenProject]:
    await anyio.to_thread.run_sync(prepare, user.project, str(user.project))
    async with (
        RehearsalServer(CountingModel(3)) as model,
        open_project(user.project, stand_in=model.url) as app,
    ):
        yield app


async def messages_of(app: OpenProject, task: str) -> list[tuple[str, str]]:
    return [(one.member, one.text) for one in await app.storage.conversation.messages(task)]


async def ran(app: OpenProject, task: str) -> ResultRecord:
    """Run a task until it ends or asks."""
    ended = [record async for record in app.stream(task, wait=0)][-1]
    assert isinstance(ended, ResultRecord)
    return ended


async def resumed(
    app: OpenProject, task: str, choice: str | None, text: str | None = None
) -> ResultRecord:
    """Run a task to its end, giving the same answer to every question and confirming its report."""
    for _ in range(20):
        for view in await app.questions():
            if view.interaction.task_id == task:
                name = view.interaction.interaction_id
                confirms = isinstance(view.interaction.about, ReportConfirmation)
                given = APPROVE if confirms else choice
                await app.answer(name, choice=given, text=text, author=YOU)
        with anyio.fail_after(60):
            result = await ran(app, task)
        if result.status != "waiting":
            return result
    raise AssertionError(f"{task} still waits")


async def test_nothing_of_it_is_lost(user: IsolatedUser) -> None:
    await anyio.to_thread.run_sync(prepare, user.project, MADE_IN)
    async with open_project(user.project) as app:
        assert await app.storage.problems() == []
        assert [(task.title, task.status, task.reason) for task in await app.tasks()] == snapshot(
            [
                ("hello", "completed", "max_rounds"),
                ("ada-hangs, please", "waiting", ""),
                ("ada-hangs, please", "running", ""),
                ("hello", "waiting", ""),
                ("hello", "waiting", ""),
                ("Do all of it.", "waiting", ""),
                ("Coupons, looked-at sent-back", "completed", "done"),
                ("Coupons, never-works", "waiting", ""),
                ("Coupons too", "waiting", ""),
            ]
        )
        assert [(view.interaction.purpose, view.state) for view in await app.questions()] == (
            snapshot(
                [
                    ("request_info", "open"),
                    ("request_info", "open"),
                    ("choose_strategy", "open"),
                    ("confirm_risky_action", "open"),
                    ("choose_strategy", "open"),
                    ("choose_strategy", "open"),
                ]
            )
        )


async def test_a_ticket_from_before_tickets_were_tasks_is_listed_with_its_session(
    user: IsolatedUser,
) -> None:
    await anyio.to_thread.run_sync(prepare, user.project, MADE_IN)
    async with open_project(user.project) as app:
        session = TASKS["session done"]
        view = (await read_ticket(app, session, "T1")).session.tickets[0]
        assert (view.ticket.state, view.turns > 0) == ("done", True)
        with pytest.raises(NotFound, match="earlier release") as raised:
            await app.find_task(f"{session}/T1")
        assert raised.value.hint == f"coterie log {session}"


async def test_a_chat_that_was_interrupted_waits_for_the_person(user: IsolatedUser) -> None:
    task = TASKS["interrupted"]
    async with opened(user) as app:
        assert (await ran(app, task)).status == "waiting"
        assert any(view.interaction.task_id == task for view in await app.questions())
        await app.say(task, "rex, what now?")
        await ran(app, task)
        await app.say(task, "/end")
        result = await ran(app, task)
        assert (result.status, result.reason) == ("completed", "ended")
        assert await messages_of(app, task) == snapshot(
            [
                ("you", "ada-hangs, please"),
                ("ada", ""),
                ("you", "rex, what now?"),
                ("ada", "ada heard 'rex, what now?'"),
                ("rex", "rex heard \"ada heard 'rex, what now?'\""),
                ("you", ""),
            ]
        )


async def test_a_message_after_an_interrupt_is_delivered(user: IsolatedUser) -> None:
    task = TASKS["interrupted and told"]
    async with opened(user) as app:
        assert (await ran(app, task)).status == "waiting"
        assert await messages_of(app, task) == snapshot(
            [
                ("you", "ada-hangs, please"),
                ("ada", ""),
                ("you", "@rex rex-hangs, what now?"),
                ("rex", "rex heard '@rex rex-hangs, what now?'"),
                ("ada", "ada heard \"rex heard '@rex rex-hangs, what now?'\""),
            ]
        )
        await app.say(task, "/end")
        result = await ran(app, task)
        assert (result.status, result.reason) == ("completed", "ended")


@pytest.mark.parametrize(
    ("task", "choice", "text", "reason"),
    [
        ("asked", None, "go on", "max_turns"),
        ("over budget", None, "+5", "max_rounds"),
        ("solo", "approve", None, "done"),
        ("session half-way", "reset", None, "done"),
        ("plan", "approve", None, "done"),
    ],
)
async def test_it_goes_on_to_its_end(
    user: IsolatedUser, task: str, choice: str | None, text: str | None, reason: str
) -> None:
    async with opened(user) as app:
        result = await resumed(app, TASKS[task], choice, text)
        assert (result.status, result.reason) == ("completed", reason)
    made = sorted(path.name for path in user.project.glob("ran-*"))
    # The first command ran before the project was restored here; none runs twice.
    assert made == (["ran-2", "ran-3"] if task == "solo" else [])
