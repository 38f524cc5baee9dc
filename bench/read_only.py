"""What the sandbox around a read-only command costs."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from coterie.tools.read_only_sandbox import ReadOnlySandbox

TIMES = 10


def sandbox_cost(folder: Path) -> float:
    """Return how many seconds it adds to a command; the best of a few with it and without."""
    sandbox = ReadOnlySandbox(folder)
    held = sandbox.words(sandbox.root)
    return _fastest(*held) - _fastest()


def _fastest(*words: str) -> float:
    return min(_took(*words) for _ in range(TIMES))


def _took(*words: str) -> float:
    begun = time.perf_counter()
    subprocess.run([*words, "/bin/true"], check=True)
    return time.perf_counter() - begun
