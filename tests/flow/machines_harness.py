"""A test harness for machines that share a store: each has a home and a clone of one repository,
all run in this process, and their agents are functions of the test."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from coterie.app.open_project import OpenProject
from coterie.app.run import StartRequest
from coterie.app.worker import Worker, WorkerEvent, WorkerOptions, machine_row
from coterie.config.project import Project
from coterie.engine import ending, steering
from coterie.model.record import Record, ResultRecord
from coterie.model.task import Caps
from coterie.model.team import TICKETS, Member, Team
from coterie.stores.postgres import schema
from tests.cli.in_process_agent import CurrentScript, install_adapter
from tests.conftest import IsolatedUser, init_project
from tests.flow.ticket_harness import Say, git, repository

TIMEOUT = 90.0
AGENTS = {"mira": "claude", "wren": "codex"}


def ticket_team(**more: object) -> Team:
    """A manager called mira and a worker called wren; `more` updates the worker."""
    members = tuple(
        Member(
            id=name,
            name=name,
            display_name=name.capitalize(),
            role="manager" if name == "mira" else "worker",
            agent=agent,
            order=place,
        ).model_copy(update=more if name == "wren" else {})
        for place, (name, agent) in enumerate(AGENTS.items())
    )
    return Team(name="crew", workflow="tickets", members=members)


class Records:
    """An observer that keeps the records it saw."""

    def __init__(self) -> None:
        self.seen: list[Record] = []

    def saw(self, record: Record) -> None:
        self.seen.append(record)


@dataclass
class Machines:
    """The machines of a test."""

    user: IsolatedUser
    folder: Path
    patch: pytest.MonkeyPatch
    events: list[WorkerEvent] = field(default_factory=list[WorkerEvent])
    """The events that workers reported."""
    workers: dict[str, Worker] = field(default_factory=dict[str, Worker])

    def play(self, say: Say) -> None:
        """Set what agents say from now on, on every machine."""
        self.patch.setattr(CurrentScript, "say", staticmethod(say))

    def place(self, name: str) -> Project:
        """Return a machine's clone and home; `desk` is where the repository was made.  Blocks."""
        if name == "desk":
            return Project(self.user.project, self.user.coterie_home)
        clone, home = self.folder / name / "shop", self.folder / name / "home"
        if not clone.exists():
            subprocess.run(["git", "clone", "-q", str(self.user.project), str(clone)], check=True)
            init_project(clone)
            shutil.copytree(self.user.coterie_home / "agents", home / "agents")
        return Project(clone, home)

    @asynccontextmanager
    async def open(self, name: str = "desk") -> AsyncGenerator[OpenProject]:
        """Open the project as a process on that machine does."""
        place = await anyio.to_thread.run_sync(self.place, name)
        async with OpenProject.open(place.root, place.home, machine=name) as app:
            yield app

    @asynccontextmanager
    async def worker(
        self, name: str, *agents: str, seats: int = 2, allow_full: bool = False
    ) -> AsyncGenerator[OpenProject]:
        """Run a worker on a machine until the block ends."""
        options = WorkerOptions(name, agents or ("codex",), seats, allow_full)
        async with AsyncExitStack() as stack:
            app = await stack.enter_async_context(self.open(name))
            assert app.shared is not None
            place = await anyio.to_thread.run_sync(self.place, name)
            row = await anyio.to_thread.run_sync(machine_row, place, options)
            await app.shared.dispatch.announce(row)
            worker = Worker(app, app.shared, row, options, self.events.append)
            self.workers[name] = worker
            group = await stack.enter_async_context(anyio.create_task_group())
            group.start_soon(worker.serve)
            yield app
            group.cancel_scope.cancel()

    async def session(self, app: OpenProject, team: Team | None = None) -> str:
        """Create a session and return its id."""
        caps = Caps(yes=True)
        return await app.create(
            StartRequest(team or ticket_team(), "Add coupons", caps, workflow=TICKETS)
        )


async def run(app: OpenProject, task: str) -> ResultRecord:
    """Run a session to its end, or until it parks."""
    with anyio.fail_after(TIMEOUT):
        return await app.run(task, Records(), wait=0.0)


async def until(condition: Callable[[], Awaitable[object]]) -> None:
    with anyio.fail_after(TIMEOUT):
        while not await condition():  # noqa: ASYNC110 - others' doing
            await anyio.sleep(0.02)


@pytest.fixture
def machines(
    user: IsolatedUser, tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> Machines:
    """Machines that share a store of their own."""
    install_adapter(user, monkeypatch)
    repository(user.project)
    first = git(user.project, "rev-list", "--max-parents=0", "HEAD").strip()
    schema.init(database, schema.StoreProject("project", first), 600.0)
    monkeypatch.setenv("COTERIE_STORE", database)
    for waits in (steering, ending):  # all machines are slow where one is
        monkeypatch.setattr(waits, "RELEASE_TIMEOUT", TIMEOUT)
    return Machines(user, tmp_path, monkeypatch)
