"""The projects that the server has open, the tasks that it runs in them, and who follows them."""

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
from coterie.app.projects import project_list_stamp, projects_at_work
from coterie.app.views import read_tasks
from coterie.errors import CoterieError, NotFound, TaskBusy
from coterie.web.live import Live
from coterie.web.problems import poisons

ProjectId = Annotated[str, PathParameter(pattern="^[0-9a-f]{12}$")]

LOOK = 2.0
"""How often new projects are looked for while somebody follows, in seconds."""
CALM = 0.2
"""How long after one look at a project's tasks the next is taken, in seconds."""
OWNER_LOOK = 1.0
"""A dead process writes nothing, so while tasks run it is looked for this often, in seconds."""
UNDER_WAY = 5.0
"""How long who starts a task is kept waiting for its first word, in seconds."""


def project_id(root: Path) -> str:
    """What a project goes by in addresses; its root is a real path."""
    return sha256(str(root).encode("utf-8", "surrogateescape")).hexdigest()[:12]


@dataclass(frozen=True)
class Orphan:
    """A task whose process died."""

    project: str
    root: Path
    task: str


@dataclass
class _Kept:
    """A project that is open."""

    live: Live
    ready: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    app: OpenProject | None = None
    failure: CoterieError | None = None


@dataclass
class Hub:
    """Made by `open_hub`; what it runs and has open ends with the block."""

    directory: Path | None
    """Where the server was started: the project around it is known too."""
    home: Path | None
    tasks: TaskGroup
    closing: anyio.Event = field(default_factory=anyio.Event)
    """Whether the server is about to end: streams end first."""
    version: int = 1
    """Grows with all that followers may want to look at."""
    _added: list[Path] = field(default_factory=list[Path])
    _known: Mapping[str, Path] = field(default_factory=dict[str, Path])
    _kept: dict[str, _Kept] = field(default_factory=dict[str, "_Kept"])
    _changed: anyio.Event = field(default_factory=anyio.Event)
    _renewed: bool = False
    _followers: int = 0
    _asked_at: float = field(default_factory=time.monotonic)
    _following: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    # -- projects ------------------------------------------------------------------------------

    async def projects(self) -> Mapping[str, Path]:
        """Every known project that has a history, the one around the server, and those that were
        opened by it, by id."""
        found = await anyio.to_thread.run_sync(projects_at_work, self.directory)
        here = [found.here.root] if found.here is not None else []
        roots = dict.fromkeys((*here, *(one.root for one in found.projects), *self._added))
        self._known = {project_id(root): root for root in roots}
        return self._known

    async def add(self, root: Path) -> str:
        """Know a project before anything was done in it; its id."""
        if root not in self._added:
            self._added.append(root)
        await self.projects()
        return project_id(root)

    async def project(self, project: str) -> OpenProject:
        """The project of this id, open; raises NotFound, or what keeps it from being opened."""
        kept = self._kept.get(project)
        if kept is None:
            root = self._known.get(project) or (await self.projects()).get(project)
            if root is None:
                raise NotFound(f'No project "{project}".')
            if project not in self._kept:  # nobody was quicker
                self._kept[project] = _Kept(Live(self.tell))
                self.tasks.start_soon(self._keep_open, project, root, self._kept[project])
            kept = self._kept[project]
        await kept.ready.wait()
        if kept.app is None:
            raise kept.failure or NotFound(f'No project "{project}".')
        return kept.app

    async def _keep_open(self, project: str, root: Path, kept: _Kept) -> None:
        """Open it and hold it: a task of its own, for who opens it may be gone any time."""
        try:
            with kept.scope:
                async with open_project(root, home=self.home) as app:
                    app.idle_seconds = self.idle_seconds
                    kept.app = app
                    kept.ready.set()
                    await anyio.sleep_forever()
        except CoterieError as error:
            kept.failure = error
        except Exception:  # noqa: BLE001 - a bug in one project ends none of the others
            traceback.print_exc()
        finally:
            kept.app = None
            if self._kept.get(project) is kept:
                del self._kept[project]
            kept.ready.set()

    def renew(self, project: str) -> None:
        """Open a project anew: after a failed write its storage refuses all others."""
        if kept := self._kept.pop(project, None):
            kept.scope.cancel()
            self._renewed = True

    # -- tasks ---------------------------------------------------------------------------------

    async def run(self, project: str, task_id: str) -> None:
        """Run a task, new or parked, in the server; returns when it is under way.

        Raises what keeps it from running, TaskBusy where it is run already.
        """
        app = await self.project(project)
        run = _Run(app, self._kept[project].live, task_id, lambda: self.renew(project))
        self.tasks.start_soon(run.work)
        with anyio.move_on_after(UNDER_WAY):
            await run.begun.wait()
        if run.failure is not None:
            raise run.failure

    async def orphans(self) -> list[Orphan]:
        """The tasks of every known project whose process died."""
        found: list[Orphan] = []
        for project, root in (await self.projects()).items():
            with suppress(CoterieError):  # it is shown with the list of projects
                tasks = await (await self.project(project)).orphans()
                found += [Orphan(project, root, task) for task in tasks]
        return found

    async def resume(self, orphans: Sequence[Orphan]) -> None:
        """Go on with them; one that cannot be does not keep the others from it."""
        for one in orphans:
            with suppress(CoterieError):  # those who follow are told
                await self.run(one.project, one.task)

    # -- followers -----------------------------------------------------------------------------

    def tell(self) -> None:
        """Something may have changed: have all who follow look."""
        self.version += 1
        self._changed.set()
        self._changed = anyio.Event()

    def touch(self) -> None:
        """A request may have changed anything: what this process writes wakes nobody else."""
        self._asked_at = time.monotonic()
        for kept in self._kept.values():
            kept.live.touch()

    def idle_seconds(self) -> float | None:
        """How long no browser has asked for anything to be done; None where none looks."""
        return time.monotonic() - self._asked_at if self._followers else None

    async def changed(self, seen: int) -> int:
        """Wait until the version is another one than `seen`, or the server ends."""
        while self.version <= seen and not self.closing.is_set():
            await self._changed.wait()
        return self.version

    def close(self) -> None:
        """The server is about to end."""
        self.closing.set()
        self.tell()

    def followed(self) -> list[tuple[str, OpenProject, Live]]:
        """The projects that are open, with what is told of them live."""
        return [(name, one.app, one.live) for name, one in self._kept.items() if one.app]

    @contextmanager
    def following(self) -> Generator[None]:
        """All known projects are open and looked at while somebody is in the block."""
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
        """Open every known project; one that cannot be does not hide the others."""
        for project in await self.projects():
            with suppress(CoterieError):  # it is shown with the list of projects
                await self.project(project)

    async def _follow_all(self, scope: anyio.CancelScope) -> None:
        watched: set[Live] = set()
        stamp: object = None
        with scope:
            async with anyio.create_task_group() as group:
                while True:
                    roots = tuple(self._known.values())
                    found: object = None
                    with suppress(CoterieError):  # a project that is ours no longer
                        found = await anyio.to_thread.run_sync(project_list_stamp, roots, self.home)
                    if found != stamp or self._renewed:
                        stamp, self._renewed = found, False
                        await self.opened_all()
                    for _, app, live in self.followed():
                        if live not in watched:
                            watched.add(live)
                            group.start_soon(_watch, app, live)
                            group.start_soon(_look, app, live)
                    await anyio.sleep(LOOK)


async def _watch(app: OpenProject, live: Live) -> None:
    """What other processes write, within 50 ms."""
    seen = 0
    while True:
        try:
            with anyio.move_on_after(OWNER_LOOK if live.has_running else None):
                seen = await app.changed(seen)
        except RuntimeError:  # the project was closed, and is open anew under another `Live`
            return
        live.touch()


async def _look(app: OpenProject, live: Live) -> None:
    """How the project's tasks and questions stand, whenever they may have changed."""
    while True:
        await live.touched()
        try:
            live.looked(await read_tasks(app))
        except CoterieError:  # whoever reads the project is told
            pass
        except RuntimeError:
            return
        await anyio.sleep(CALM)


@dataclass
class _Run:
    app: OpenProject
    live: Live
    task_id: str
    renew: Callable[[], None]
    failure: CoterieError | None = None
    begun: anyio.Event = field(default_factory=anyio.Event)

    async def work(self) -> None:
        try:
            async for record in self.app.stream(self.task_id):
                self.begun.set()
                self.live.saw(self.task_id, record)
        except TaskBusy as busy:  # another run goes on with it, maybe one of ours
            self.failure = busy
        except CoterieError as error:
            self.failure = error
            self.live.failed(self.task_id, error)
            if poisons(error):
                self.renew()
        finally:
            if not isinstance(self.failure, TaskBusy):
                self.live.ended(self.task_id)
            self.begun.set()


MakeHub = Callable[[Path | None, Path | None, TaskGroup], Hub]


@asynccontextmanager
async def open_hub(
    directory: Path | None, home: Path | None = None, kind: MakeHub | None = None
) -> AsyncGenerator[Hub]:
    """A hub over all known projects, until the block ends: then its tasks are parked."""
    async with anyio.create_task_group() as tasks:
        hub = (kind or Hub)(directory, home, tasks)
        try:
            yield hub
        finally:
            hub.close()
            tasks.cancel_scope.cancel()


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
