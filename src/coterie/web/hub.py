"""The projects that the server has open, the tasks that it runs in them, and who follows them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
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
from coterie.app.projects import projects_at_work
from coterie.errors import CoterieError, NotFound
from coterie.model.record import Record

ProjectId = Annotated[str, PathParameter(pattern="^[0-9a-f]{12}$")]


def project_id(root: Path) -> str:
    """What a project goes by in addresses; its root is a real path."""
    return sha256(str(root).encode("utf-8", "surrogateescape")).hexdigest()[:12]


class Subscription:
    """One follower of everything: what it has not been told yet."""


@dataclass
class Hub:
    """Made by `open_hub`; what it runs and has open ends with the block."""

    directory: Path | None
    """Where the server was started: the project around it is known too."""
    home: Path | None
    stack: AsyncExitStack
    runs: TaskGroup
    known: dict[str, Path] = field(default_factory=dict[str, Path])
    closing: anyio.Event = field(default_factory=anyio.Event)
    _open: dict[str, OpenProject] = field(default_factory=dict[str, OpenProject])
    _opening: anyio.Lock = field(default_factory=anyio.Lock)

    async def projects(self) -> Mapping[str, Path]:
        """Every known project that has a history, and the one around the server, by id."""
        found = await anyio.to_thread.run_sync(projects_at_work, self.directory)
        here = [found.here.root] if found.here is not None else []
        roots = dict.fromkeys((*here, *(one.root for one in found.projects)))
        self.known = {project_id(root): root for root in roots}
        return self.known

    async def project(self, project: str) -> OpenProject:
        """The project of this id, open; raises NotFound."""
        async with self._opening:
            if project not in self._open:
                await self._enter(project)
            return self._open[project]

    async def _enter(self, project: str) -> None:
        root = self.known.get(project) or (await self.projects()).get(project)
        if root is None:
            raise NotFound(f'No project "{project}".', "GET /api/v1/projects")
        ready = anyio.Event()
        failed: list[CoterieError] = []

        async def keep() -> None:
            try:
                async with open_project(root, home=self.home) as app:
                    self._open[project] = app
                    ready.set()
                    await anyio.sleep_forever()
            except CoterieError as error:
                failed.append(error)
                ready.set()

        self.runs.start_soon(keep)
        await ready.wait()
        if failed:
            raise failed[0]

    async def run(self, project: str, task_id: str) -> None:
        """Run a task, new or parked, in the server; returns when it is under way.

        Raises what keeps it from running, TaskBusy where another process runs it.
        """
        run = _Run(self, await self.project(project), project, task_id)
        self.runs.start_soon(run.work)
        await run.begun.wait()
        if run.failure is not None:
            raise run.failure

    def saw(self, project: str, task_id: str, record: Record) -> None:
        """A task that the server runs has told something."""


@dataclass
class _Run:
    hub: Hub
    app: OpenProject
    project: str
    task_id: str
    failure: CoterieError | None = None
    begun: anyio.Event = field(default_factory=anyio.Event)

    async def work(self) -> None:
        try:
            async for record in self.app.stream(self.task_id):
                self.begun.set()
                self.hub.saw(self.project, self.task_id, record)
        except CoterieError as error:
            self.failure = error
        finally:
            self.begun.set()


@asynccontextmanager
async def open_hub(directory: Path | None, home: Path | None = None) -> AsyncGenerator[Hub]:
    """A hub over all known projects, until the block ends: then its tasks are parked."""
    async with AsyncExitStack() as stack, anyio.create_task_group() as runs:
        hub = Hub(directory, home, stack, runs)
        try:
            yield hub
        finally:
            hub.closing.set()
            runs.cancel_scope.cancel()


def hub_of(request: Request) -> Hub:
    """The hub, for what a resource depends on."""
    hub = request.app.state.hub
    assert isinstance(hub, Hub)
    return hub


async def opened(request: Request, project: ProjectId) -> OpenProject:
    """The project that the path names, for what a resource depends on."""
    return await hub_of(request).project(project)


TheHub = Annotated[Hub, Depends(hub_of)]
TheProject = Annotated[OpenProject, Depends(opened)]
