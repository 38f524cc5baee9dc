"""`coterie demo --web`: one project and one task, which starts when a browser first follows it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from coterie.app.demo import DemoProject
from coterie.errors import CoterieError
from coterie.model.team import TICKETS
from coterie.web.hub import Hub, open_hub, project_id


@dataclass
class DemoHub(Hub):
    """A hub that knows only the demo's project."""

    demo: DemoProject = field(kw_only=True)
    _task: str = ""
    _has_begun: bool = False

    async def projects(self) -> Mapping[str, Path]:
        root = self.demo.project.root
        self._known = {project_id(root): root}
        return self._known

    async def prepare(self) -> str:
        """Create the task; return the path of the screen that shows it."""
        (name,) = await self.projects()
        self._task = await (await self.project(name)).create(self.demo.start)
        screen = "/tickets" if self.demo.start.workflow == TICKETS else ""
        return f"/p/{name}/t/{self._task}{screen}"

    @contextmanager
    def following(self) -> Generator[None]:
        if not self._has_begun:
            self._has_begun = True
            self.tasks.start_soon(self._begin)
        with super().following():
            yield

    async def _begin(self) -> None:
        with suppress(CoterieError):  # shown with the task
            await self.run(project_id(self.demo.project.root), self._task)


def open_demo(demo: DemoProject) -> AbstractAsyncContextManager[Hub]:
    """Open a hub for the demo only; its task is parked when the block ends."""
    return open_hub(None, demo.home, partial(DemoHub, demo=demo))
