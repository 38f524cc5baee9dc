"""Servers on a house's project."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator

import pytest

from tests.conftest import House
from tests.web.server import Api, Process, served, started


@pytest.fixture
async def api(house: House) -> AsyncGenerator[Api]:
    """A server on this event loop, with the API only."""
    async with served(house.project) as made:
        yield made


@pytest.fixture
def process(house: House) -> Generator[Process]:
    """A server in a separate process, with the API only."""
    with started(house, "--api-only") as made:
        yield made
