"""What several of these tests stand on."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """Like `tmp_path`, in memory where that can be: for a death that no disk would notice.

    A store waits for the disk at every commit; hundreds of sessions do little else.
    """
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        made = Path(folder) / "place"
        made.mkdir()
        yield made
