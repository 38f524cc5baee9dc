"""A stand-in for the models while a rehearsal runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from coterie.model.task import DEMO, TaskCreated

if TYPE_CHECKING:
    from coterie.rehearsal.dialogue import Brain


@asynccontextmanager
async def rehearsing(created: TaskCreated, given: str | None) -> AsyncGenerator[str | None]:
    """The address of a stand-in for the models, while a rehearsal runs."""
    if given is not None or not created.rehearsal:
        yield given if created.rehearsal else None
        return
    from coterie.rehearsal.demo_shop import DemoShop
    from coterie.rehearsal.script import Scripted, read_script
    from coterie.rehearsal.server import RehearsalServer
    from coterie.rehearsal.simulation import Simulation

    brain: Brain = Simulation()
    if created.script == DEMO:
        brain = DemoShop()
    elif created.script is not None:
        brain = Scripted(await anyio.to_thread.run_sync(read_script, Path(created.script)), brain)
    async with RehearsalServer(brain) as server:
        yield server.url
