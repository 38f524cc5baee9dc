"""What searchCode costs: first indexing a real package, one changed file, one question."""

from __future__ import annotations

import importlib.util
import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from coterie.tools.search.index import CodeIndex
from coterie.tools.workspace_files import WorkspaceRoot

QUESTION = "How long is the pause between failing attempts?"


@dataclass(frozen=True)
class SearchTimes:
    """Median wall times in seconds, and the number of source files."""

    files: int
    index: float
    one_changed: float
    question: float


def _timed(do: Callable[[], object]) -> float:
    start = time.perf_counter()
    do()
    return time.perf_counter() - start


def measure_search(folder: Path, repeats: int = 5) -> SearchTimes:
    """Index a copy of pip several times; change one of its files several times."""
    spec = importlib.util.find_spec("pip")
    assert spec is not None
    assert spec.origin is not None
    package = folder / "package"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(spec.origin).parent, package, ignore=ignored)
    root = WorkspaceRoot.at(package)
    firsts = [_timed(CodeIndex(folder / f"{number}.db", root).refresh) for number in range(repeats)]
    index = CodeIndex(folder / "0.db", root)
    index.refresh()
    file = package / "_internal" / "cache.py"
    changes: list[float] = []
    for number in range(4 * repeats):
        file.write_text(f"{file.read_text()}\n# changed {number}\n")
        found: list[tuple[int, int, int]] = []
        changes.append(_timed(lambda found=found: found.append(index.refresh())))
        assert found == [(0, 1, 0)]
    questions = [_timed(lambda: index.search(QUESTION)) for _ in range(repeats)]
    count = len(list(package.rglob("*.py")))
    return SearchTimes(count, *map(statistics.median, (firsts, changes, questions)))
