"""The projects that the server has open, the tasks that it runs in them, and their followers."""

from __future__ import annotations

import time
import traceback
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from fastapi import Depends, Request
from fastapi import Path as PathParameter

from coterie.app.open_project import OpenProject, open_project
from coterie.app.projects import project_list_fingerprint, projects_at_work
from coterie.app.views import read_tasks
from coterie.errors import Bug, CoterieError, NotFound, TaskBusy, stops_writing
from coterie.web.live import Live

ProjectId = Annotated[str, PathParameter(pattern="^[0-9a-f]{12}$")]

PROJECT_POLL_SECONDS = 2.0
"""How often to look for new projects while there are followers, in seconds."""
REREAD_PAUSE_SECONDS = 0.2
"""The pause between two reads of a project's tasks, in seconds."""
OWNER_POLL_SECONDS = 1.0
"""How often to check for dead processes while tasks run, in seconds: they write nothing."""
START_TIMEOUT_SECONDS = 5.0
"""How long starting a task waits for its first record, in seconds."""


def project_id(root: Path) -> str:
    """Return a project's id in URLs; its root must be a real path."""
    return sha256(str(root).encode("utf-8", "surrogateescape")).hexdigest()[:12]


@dataclass(frozen=True)
class Orphan:
    """A task whose process died."""

    project: str
    root: Path
    task: str


@dataclass
class _HubProject:
    """A project that is open or being opened."""

    live: Live
    ready: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    app: OpenProject | None = None
    failure: CoterieError | None = None


@dataclass
class Hub:
    """Created by `open_hub`; whatever it runs and has open ends with that block."""

    directory: Path | None
    """Where the server was started; the project around it is known too."""
    home: Path | None
    tasks: TaskGroup
    closing: anyio.Event = field(default_factory=anyio.Event)
    """Set when the server is about to stop: streams end first."""
    version: int = 1
    """Incremented whenever followers may have something new to read."""
    _added: list[Path] = field(default_factory=list[Path])
    _known: Mapping[str, Path] = field(default_factory=dict[str, Path])
    _projects: dict[str, _HubProject] = field(default_factory=dict[str, "_HubProject"])
    _changed: anyio.Event = field(default_factory=anyio.Event)
    _reopened: bool = False
    _followers: int = 0
    _touched_at: float = field(default_factory=time.monotonic)
    _following: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    # -- projects ------------------------------------------------------------------------------

    async def projects(self) -> Mapping[str, Path]:
        """Return every known project with a history, the one around the server, and those added
        since it started, by id."""
        at_work = await anyio.to_thread.run_sync(projects_at_work, self.directory)
        here = [at_work.here.root] if at_work.here is not None else []
        roots = dict.fromkeys((*here, *(one.root for one in at_work.projects), *self._added))
        self._known = {project_id(root): root for root in roots}
        return self._known

    async def _readable_projects(self) -> Mapping[str, Path]:
        """Return the known projects; those of the last time if they cannot be listed now."""
        try:
            return await self.projects()
        except CoterieError:  # reported to whoever lists them
            return self._known

    async def add(self, root: Path) -> str:
        """Make a project known before it has a history; return its id."""
        if root not in self._added:
            self._added.append(root)
        await self.projects()
        return project_id(root)

    async def project(self, project: str) -> OpenProject:
        """Return the open project with this id.

        Raises NotFound, or the error that keeps it from being opened.
        """
        entry = self._projects.get(project)
        if entry is None:
            root = self._known.get(project) or (await self.projects()).get(project)
            if root is None:
                raise NotFound(f'No project "{project}".')
            if project not in self._projects:  # nobody else added it meanwhile
                self._projects[project] = _HubProject(Live(self.tell))
                self.tasks.start_soon(self._keep_open, project, root, self._projects[project])
            entry = self._projects[project]
        await entry.ready.wait()
        if entry.app is None:
            raise entry.failure or NotFound(f'No project "{project}".')
        return entry.app

    async def _keep_open(self, project: str, root: Path, entry: _HubProject) -> None:
        """Keep a project open in its own task: the request that opened it may end any time."""

        try:
            with entry.scope:
                async with open_project(root, home=self.home) as app:
                    app.idle_seconds = self.idle_seconds
                    entry.app = app
                    entry.ready.set()
                    await anyio.sleep_forever()
        except CoterieError as error:
            entry.failure = error
        except Exception:  # noqa: BLE001 - a bug in one project ends none of the others
            traceback.print_exc()
            entry.failure = Bug("A bug in Coterie closed the project; see the server's terminal.")
        finally:
            entry.app = None
            if self._projects.get(project) is entry:
                del self._projects[project]
            entry.ready.set()

    def reopen(self, project: str) -> None:
        """Have a project reopened: after a failed write its storage refuses all others."""
        if entry := self._projects.pop(project, None):
            entry.scope.cancel()
            self._reopened = True

    # -- tasks ---------------------------------------------------------------------------------

    async def run(self, project: str, task_id: str) -> None:
        """Run a new or parked task in the server; return once it is under way.

        Raises the error that keeps it from running: TaskBusy if it is running already.
        """
        app = await self.project(project)
        run = _Run(app, self._projects[project].live, task_id, lambda: self.reopen(project))
        self.tasks.start_soon(run.work)
        with anyio.move_on_after(START_TIMEOUT_SECONDS):
            await run.begun.wait()
        if run.failure is not None:
            raise run.failure

    async def orphans(self) -> list[Orphan]:
        """Return the tasks of every known project whose process died."""
        orphans: list[Orphan] = []
        for project, root in (await self._readable_projects()).items():
            with suppress(CoterieError):  # reported in the list of projects
                tasks = await (await self.project(project)).orphans()
                orphans += [Orphan(project, root, task) for task in tasks]
        return orphans

    async def resume(self, orphans: Sequence[Orphan]) -> None:
        """Resume orphaned tasks; one that fails does not stop the others."""
        for one in orphans:
            # Reported to the followers, unless another process runs it by now.
            with suppress(CoterieError):
                await self.run(one.project, one.task)

    # -- followers -----------------------------------------------------------------------------

    def tell(self) -> None:
        """Wake up all followers: something may have changed."""
        self.version += 1
        self._changed.set()
        self._changed = anyio.Event()

    def touch(self) -> None:
        """Mark all projects as changed after a request: this process is not notified of its own
        writes."""
        self._touched_at = time.monotonic()
        for entry in self._projects.values():
            entry.live.touch()

    def idle_seconds(self) -> float | None:
        """Return how long ago a client last requested a change; None if there are no followers."""
        return time.monotonic() - self._touched_at if self._followers else None

    async def changed(self, seen: int) -> int:
        """Wait until the version is higher than `seen`, or the server stops; return the version."""
        while self.version <= seen and not self.closing.is_set():
            await self._changed.wait()
        return self.version

    def close(self) -> None:
        """Tell the followers that the server is about to stop."""
        self.closing.set()
        self.tell()

    def followed(self) -> list[tuple[str, OpenProject, Live]]:
        """Return the open projects with their live state, by id."""
        return [(name, one.app, one.live) for name, one in self._projects.items() if one.app]

    @contextmanager
    def following(self) -> Generator[None]:
        """Keep all known projects open and watched while any follower is in the block."""
        self._followers += 1
        if self._followers == 1:
            self._following = anyio.CancelScope()
            self.tasks.start_soon(self._follow_all, self._following)
        try:
            yield
        finally:
            self._followers -= 1
            if self._followers == 0:
                self._following.cancel()

    async def opened_all(self) -> None:
        """Open every known project; one that fails does not hide the others."""
        for project in await self._readable_projects():
            with suppress(CoterieError):  # reported in the list of projects
                await self.project(project)

    async def _follow_all(self, scope: anyio.CancelScope) -> None:
        watched: set[Live] = set()
        stamp: object = None
        with scope:
            async with anyio.create_task_group() as group:
                while True:
                    roots = tuple(self._known.values())
                    fingerprint: object = None
                    with suppress(CoterieError):  # NotOurs: a project that is no longer ours
                        fingerprint = await anyio.to_thread.run_sync(
                            project_list_fingerprint, roots, self.home
                        )
                    if fingerprint != stamp or self._reopened:
                        stamp, self._reopened = fingerprint, False
                        await self.opened_all()
                    for _, app, live in self.followed():
                        if live not in watched:
                            watched.add(live)
                            group.start_soon(_watch_database, app, live)
                            group.start_soon(_refresh_tasks, app, live)
                    await anyio.sleep(PROJECT_POLL_SECONDS)


async def _watch_database(app: OpenProject, live: Live) -> None:
    """Notice what other processes write, within 50 ms."""
    seen = 0
    while True:
        try:
            with anyio.move_on_after(OWNER_POLL_SECONDS if live.has_running else None):
                seen = await app.changed(seen)
        except RuntimeError:  # the project was closed, and reopened with another `Live`
            return
        live.touch()


async def _refresh_tasks(app: OpenProject, live: Live) -> None:
    """Read the state of the project's tasks whenever it may have changed."""
    while True:
        await live.touched()
        try:
            live.update_tasks(await read_tasks(app))
        except CoterieError:  # reported to whoever reads the project
            pass
        except RuntimeError:
            return
        await anyio.sleep(REREAD_PAUSE_SECONDS)


@dataclass
class _Run:
    app: OpenProject
    live: Live
    task_id: str
    reopen: Callable[[], None]
    failure: CoterieError | None = None
    begun: anyio.Event = field(default_factory=anyio.Event)

    async def work(self) -> None:
        try:
            async for record in self.app.stream(self.task_id):
                self.begun.set()
                self.live.on_record(self.task_id, record)
        except TaskBusy as busy:  # another run has it, maybe one of this server
            self.failure = busy
        except CoterieError as error:
            self.failure = error
            self.live.failed(self.task_id, error)
            if stops_writing(error):
                self.reopen()
        except Exception:  # noqa: BLE001 - a bug in one run ends none of the others
            traceback.print_exc()
            self.failure = Bug("A bug in Coterie ended the run; see the server's terminal.")
            self.live.failed(self.task_id, self.failure)
        finally:
            if not isinstance(self.failure, TaskBusy):
                self.live.ended(self.task_id)
            self.begun.set()


MakeHub = Callable[[Path | None, Path | None, TaskGroup], Hub]


@asynccontextmanager
async def open_hub(
    directory: Path | None, home: Path | None = None, kind: MakeHub | None = None
) -> AsyncGenerator[Hub]:
    """Open a hub over all known projects; its tasks are parked when the block ends."""
    async with anyio.create_task_group() as tasks:
        hub = (kind or Hub)(directory, home, tasks)
        try:
            yield hub
        finally:
            hub.close()
            tasks.cancel_scope.cancel()


def hub_of(request: Request) -> Hub:
    """Return the hub, as a dependency of resources."""
    hub = request.app.state.hub
    assert isinstance(hub, Hub)
    return hub


async def opened(request: Request, project: ProjectId) -> OpenProject:
    """Return the project that the path names, as a dependency of resources."""

    return await hub_of(request).project(project)


TheHub = Annotated[Hub, Depends(hub_of)]
TheProject = Annotated[OpenProject, Depends(opened)]
