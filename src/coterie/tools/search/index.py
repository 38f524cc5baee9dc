"""The index of a workspace: kept fresh by what files look like from outside, mended by making anew.

Blocks; the tool calls it from a thread.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from coterie.tools.list_files import files_below
from coterie.tools.search import vocabulary
from coterie.tools.search.database import IndexDatabase
from coterie.tools.search.embeddings import Vector, by_meaning, fused, packed
from coterie.tools.search.passages import digest, split_file
from coterie.tools.search.ranking import rank
from coterie.tools.workspace_root import ToolError, WorkspaceRoot

LARGEST = 1024 * 1024
LONGEST_LINES = 400
"""On average: what is longer was made by a program, for programs."""
PATIENCE = 30.0
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR})
_T = TypeVar("_T")


@dataclass(frozen=True)
class RefreshCounts:
    """How many files came, changed and went since the index was last looked at."""

    added: int
    changed: int
    removed: int


@dataclass(frozen=True)
class Hit:
    """A file that may answer the question, and the lines of it that are most likely to."""

    path: str
    first_line: int
    last_line: int
    score: float
    snippet: str


@dataclass(frozen=True)
class QueryVector:
    """A question as a model of the user's understands it."""

    model: str
    vector: Vector


class CodeIndex:
    """The index of the workspace `root`, kept in the file `path`; any number may share it."""

    def __init__(self, path: Path, root: WorkspaceRoot) -> None:
        self._path = path
        self._root = root
        self._sound: tuple[int, int] | None = None
        """The file that was looked through and found undamaged."""

    def refresh(self) -> RefreshCounts:
        """Take in what changed."""
        return self._with(self._refresh)

    def search(self, question: str, limit: int = 10, meant: QueryVector | None = None) -> list[Hit]:
        """The files that answer a question best, as they were at the last `refresh`."""
        return self._with(lambda shelves: self._search(shelves, question, limit, meant))

    def unembedded(self, model: str, most: int) -> dict[str, str]:
        """Passages that a model has not been asked about, by their digests."""
        wanted = self._with(lambda shelves: shelves.without_vector(model, most))
        texts = ("\n".join(self._lines(path)[first - 1 : last]) for path, first, last in wanted)
        return {digest(text): text for text in texts}

    def keep(self, model: str, vectors: Mapping[str, Vector]) -> None:
        """Remember what a model said of passages."""
        stored = {name: packed(vector) for name, vector in vectors.items()}
        self._with(lambda shelves: shelves.keep_vectors(model, stored))

    # -- the file --------------------------------------------------------------------------------

    def _with(self, use: Callable[[IndexDatabase], _T]) -> _T:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._locked():
            try:
                return self._used(use)
            except sqlite3.Error as error:
                if error.sqlite_errorcode & 0xFF not in _DAMAGE:
                    raise ToolError(f"The index of the code cannot be used: {error}.") from error
            # It holds nothing that is not in the files, so nothing is lost.
            self._remove()
            return self._used(use)

    def _used(self, use: Callable[[IndexDatabase], _T]) -> _T:
        shelves = self._open()
        if not self._good(shelves):
            shelves.close()
            self._remove()
            shelves = self._open()
        try:
            return use(shelves)
        finally:
            shelves.close()

    def _good(self, shelves: IndexDatabase) -> bool:
        state = self._path.stat()
        if self._sound != (state.st_dev, state.st_ino):
            if not (shelves.fits and shelves.sound):
                return False
            self._sound = (state.st_dev, state.st_ino)
        return shelves.fits

    def _open(self) -> IndexDatabase:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        try:
            # A power cut may damage it, and then it is made anew; a killed process never does.
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute("PRAGMA temp_store=MEMORY")
            return IndexDatabase(connection)
        except BaseException:
            connection.close()
            raise

    def _remove(self) -> None:
        for ending in ("", "-journal", "-wal", "-shm"):
            self._path.with_name(self._path.name + ending).unlink(missing_ok=True)

    @contextmanager
    def _locked(self) -> Generator[None]:
        """Hold off other threads and processes: one of them may have to make the file anew."""
        lock = self._path.with_name(f".{self._path.name}.lock")
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            deadline = time.monotonic() + PATIENCE
            while not _taken(descriptor):
                if time.monotonic() > deadline:
                    raise ToolError("The index of the code is in use for too long: use grep.")
                time.sleep(0.005)
            yield
        finally:
            os.close(descriptor)

    # -- files -----------------------------------------------------------------------------------

    def _refresh(self, shelves: IndexDatabase) -> RefreshCounts:
        known, present = shelves.stamps(), self._present()
        gone = known.keys() - present.keys()
        new = present.keys() - known.keys()
        changed = {path for path in known.keys() & present.keys() if known[path] != present[path]}
        if gone or new or changed:
            shelves.begin()
            try:
                for path in gone | changed:
                    shelves.drop(path)
                for path in sorted(new | changed):
                    # Files that are no text are in it too, so that they are not read again.
                    shelves.put(path, present[path], split_file(path, self._text(path)))
                shelves.commit()
            except BaseException:
                shelves.rollback()
                raise
        return RefreshCounts(len(new), len(changed), len(gone))

    def _present(self) -> dict[str, str]:
        """Every file that counts, and what it looks like from outside."""
        root = os.open(self._root.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            found: dict[str, str] = {}
            for path in files_below(self._root, root, "."):
                with suppress(OSError):
                    state = os.stat(path, dir_fd=root, follow_symlinks=False)
                    if stat.S_ISREG(state.st_mode) and self._root.may_read(path):
                        found[path] = f"{state.st_mtime_ns} {state.st_ctime_ns} {state.st_size}"
            return found
        finally:
            os.close(root)

    def _text(self, path: str) -> str:
        """What is in a file; nothing if it went away, is too large, or nobody wrote it."""
        try:
            with self._root.resolve(path) as place, place.open_file() as file:
                data = file.read(LARGEST + 1)
        except (OSError, ToolError):
            return ""
        if len(data) > LARGEST or b"\0" in data:
            return ""
        text = data.decode("utf-8", "replace").replace("\r\n", "\n")
        return text if len(text) <= LONGEST_LINES * (text.count("\n") + 1) else ""

    # -- answers ---------------------------------------------------------------------------------

    def _search(
        self, shelves: IndexDatabase, question: str, limit: int, meant: QueryVector | None
    ) -> list[Hit]:
        if not shelves.stamps():  # never filled, or just made anew
            self._refresh(shelves)
        paths, places = shelves.paths(), shelves.places()
        ranked = rank(shelves, question)
        if meant is not None:
            ranked = fused(ranked, by_meaning(shelves.vectors(meant.model), meant.vector))
        hits: list[Hit] = []
        for one in ranked[:limit]:
            first, last = places[one.passage][1:] if one.passage is not None else (1, 1)
            lines = self._lines(paths[one.file])[first - 1 : last]
            snippet = vocabulary.best_lines(lines, question)
            hits.append(Hit(paths[one.file], first, last, round(one.score, 3), snippet))
        return hits

    def _lines(self, path: str) -> list[str]:
        return self._text(path).split("\n")


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
