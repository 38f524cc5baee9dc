"""Servers on an isolated user's project."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator

import pytest

from tests.conftest import IsolatedUser
from tests.web.server import Api, Process, served, started


@pytest.fixture
async def api(user: IsolatedUser) -> AsyncGenerator[Api]:
    """A server on this event loop, with the API only."""
    async with served(user.project) as made:
        yield made


@pytest.fixture
def process(user: IsolatedUser) -> Generator[Process]:
    """A server in a separate process, with the API only."""
    with started(user, "--api-only") as made:
        yield made
