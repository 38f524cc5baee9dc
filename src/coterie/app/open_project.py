"""An open project as programs use it: teams by name, and runs as streams of records."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectSendStream

from coterie.app.project import App, unstarted_calls
from coterie.app.run import Chat, Rehearsal, StartRequest
from coterie.app.teams import Teams, TeamView
from coterie.config.project import Project, find_project, make_project
from coterie.engine import steering
from coterie.engine.run import plain_errors
from coterie.errors import UsageError
from coterie.model.journal import Fence
from coterie.model.record import Record
from coterie.model.task import Caps
from coterie.model.team import Team
from coterie.ports import Storage


@dataclass
class OpenProject(App):
    """An open project: its teams, tasks and questions.

    Methods raise nothing but CoterieError on purpose.
    """

    runs: TaskGroup | None = None
    """Background runs; they end with the block."""
    idle_seconds: Callable[[], float | None] = lambda: None
    """How many seconds the person watching the runs has been idle; None: nobody is watching, so
    notifications are sent at once (the setting `notify`)."""

    async def team(
        self, name: str | None = None, *, agents: str | None = None, rehearsal: bool = False
    ) -> TeamView:
        """Return the team of this name or file, or one made of agents: `claude,sec=codex:gpt-5.5`.

        With neither, the project's default team; for a `rehearsal`, its agents need not be
        installed.  Raises NotTrusted for a file from elsewhere that nobody has reviewed
        (`coterie team trust`), ConfigError for one with mistakes.
        """

        def choose() -> TeamView:
            teams = Teams(self.project, self.home, rehearsal)
            return teams.require_usable(teams.choose(name, agents))

        return await anyio.to_thread.run_sync(choose)

    async def start(
        self,
        team: Team | TeamView | str,
        goal: str,
        caps: Caps | None = None,
        *,
        workflow: str | None = None,
        team_file: Path | None = None,
        rehearsal: Rehearsal = False,
    ) -> str:
        """Create a task and return its id.  Nothing runs yet, here or elsewhere: see `stream`.

        `workflow` None means the team's own, or `chat` if it names none.  With `rehearsal`, agents
        run on a stand-in for their models: no tokens, no login.
        """
        if isinstance(team, str):
            team = await self.team(team, rehearsal=rehearsal is not False)
        if isinstance(team, TeamView):
            team, team_file = team.team, team_file or team.loaded.path
        caps, workflow = (caps or Caps()).in_team(team), workflow or team.workflow
        request = StartRequest(team, goal, caps, team_file, rehearsal, workflow)
        task_id = await self.create(request)
        lease = await self.storage.leases.get(task_id)
        if lease is not None:  # else ending the task elsewhere would wait for this process
            await self.storage.leases.park(Fence(task_id, lease.token))
        return task_id

    async def stream(
        self, task_id: str, *, wait: float | None = None, at_reset: bool = False
    ) -> AsyncGenerator[Record]:
        """Run a task, new or parked, and yield its records as they come, a ResultRecord last.

        `wait` is how many seconds to wait for an answer to a question; None: forever.  `at_reset`
        also waits for the end of a rate limit.  The task is parked if the iteration stops early
        or the project is closed.  Raises TaskBusy if another process runs it.
        """
        assert self.runs is not None, "made by open_project"
        # The run belongs to the project's task group: a generator may be closed by a task other
        # than the one that iterates over it, so it must not hold a task group of its own.
        sending, receiving = anyio.create_memory_object_stream[Record](math.inf)
        run = _Run(self, task_id, wait, at_reset, sending)
        self.runs.start_soon(run.work)
        try:
            with receiving:
                async for record in receiving:
                    yield record
            if run.failure is not None:
                raise run.failure
        finally:
            run.scope.cancel()
            with anyio.CancelScope(shield=True):
                await run.over.wait()

    async def end(self, task_id: str) -> None:
        """End a conversation as completed, as a person's `/end` does.

        If it is running, it ends after the current turn, otherwise at once, whoever's turn it is;
        if it has ended, it stays as it is.  Raises UsageError for any other kind of task: that
        ends when its work is done.
        """
        if (await self._look.state(task_id)).created.workflow != Chat.name:
            problem = f"{task_id} is not a conversation: it ends when its work is done."
            raise UsageError(problem, f"coterie cancel {task_id}")
        await steering.end(self._look, await self.claimant(), task_id, unstarted_calls)

    async def changed(self, seen: int) -> int:
        """Wait until other processes, or answers given here, may have changed something since
        `seen` (0 at first); returns the next `seen`."""
        return await self.storage.changed(seen)

    async def last_seq(self) -> int:
        """Return the number of the last line of any task's timeline; 0 if there is none."""
        return await self.storage.timeline.head()

    async def orphans(self) -> list[str]:
        """Return the tasks whose process died while running them; parked tasks do not count."""
        leases = {lease.task_id: lease for lease in await self.storage.leases.all()}
        return [
            view.id
            for view in await self.tasks()
            if view.resumable and view.id in leases and leases[view.id].state != "parked"
        ]


@dataclass
class _Run:
    app: OpenProject
    task_id: str
    wait: float | None
    at_reset: bool
    records: MemoryObjectSendStream[Record]
    failure: Exception | None = None

    def __post_init__(self) -> None:
        self.scope = anyio.CancelScope()
        self.over = anyio.Event()

    async def work(self) -> None:
        try:
            with self.records, self.scope:
                self.saw(
                    await self.app.run(self.task_id, self, wait=self.wait, at_reset=self.at_reset)
                )
        except Exception as error:  # noqa: BLE001 - raised to whoever reads the records
            self.failure = error
        finally:
            self.over.set()

    def idle_seconds(self) -> float | None:
        return self.app.idle_seconds()

    def saw(self, record: Record) -> None:
        # The reader is gone, or the run ended with records still to be written.
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            self.records.send_nowait(record)


@asynccontextmanager
async def open_project(
    folder: str | Path | None = None,
    *,
    home: Path | None = None,
    stand_in: str | None = None,
    storage: Storage | None = None,
) -> AsyncGenerator[OpenProject]:
    """Open the project in a folder; None: the one around the current folder.

    Its `.coterie` is made if absent; raises NotOurs for one that Coterie did not make here for
    this user (`coterie project`).  `home` replaces the user's `~/.coterie`, `storage` the project's
    database (it is closed with the project), and `stand_in` is the address of your own model for
    rehearsals, replacing Coterie's.
    Tasks that still run at the end of the block are parked.
    """
    located = await anyio.to_thread.run_sync(find_project, folder)
    project = Project(located.root, home)
    await anyio.to_thread.run_sync(make_project, project)
    failure: Exception | None = None
    with plain_errors():
        opening = OpenProject.open(project.root, home, stand_in, storage)
        async with opening as app, anyio.create_task_group() as runs:
            app.runs = runs
            try:
                yield app
            except Exception as error:  # noqa: BLE001 - raised below as it is, group or not
                failure = error
            runs.cancel_scope.cancel()
    if failure is not None:
        raise failure
