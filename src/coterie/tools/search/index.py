"""searchCode, and the index of a workspace that it searches.

The index is refreshed by comparing file stamps, and rebuilt when it is damaged.  It blocks; the
tool calls it from a thread.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import anyio.to_thread
from pydantic import Field

from coterie.model.visible import decoded, visible_path
from coterie.tools.read_tools import files_below
from coterie.tools.search.database import IndexDatabase
from coterie.tools.search.passages import best_lines, digest, split_file
from coterie.tools.search.ranking import HttpEmbedder, Vector, by_meaning, fused, packed, rank
from coterie.tools.toolbox import Tool, ToolInput, ToolOutcome, Utf8Text, truncated, visible
from coterie.tools.workspace_files import ToolError, WorkspaceRoot

LARGEST = 1024 * 1024
LONGEST_LINES = 400
"""On average; a file with longer lines is taken to be generated."""
LOCK_TIMEOUT = 30.0
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR})
_T = TypeVar("_T")


@dataclass(frozen=True)
class Hit:
    """A file that may answer the question, and its most relevant lines."""

    path: str
    first_line: int
    last_line: int
    score: float
    snippet: str


QueryVector = tuple[str, Vector]
"""An embedding model of the user's, and its vector for a question."""


class CodeIndex:
    """The index of the workspace `root`, in the file `path`, which several processes may share."""

    def __init__(self, path: Path, root: WorkspaceRoot) -> None:
        self._path = path
        self._root = root
        self._sound: tuple[int, int] | None = None
        """The device and inode of the file that was checked and found undamaged."""

    def refresh(self) -> tuple[int, int, int]:
        """Index what changed; returns how many files were added, changed and removed."""
        return self._with(self._refresh)

    def search(
        self, question: str, limit: int = 10, query_vector: QueryVector | None = None
    ) -> list[Hit]:
        """Return the files that best answer a question, as of the last `refresh`."""
        return self._with(lambda database: self._search(database, question, limit, query_vector))

    def unembedded(self, model: str, most: int) -> dict[str, str]:
        """Return passages without a vector of this model, by digest."""
        wanted = self._with(lambda database: database.without_vector(model, most))
        texts = ("\n".join(self._lines(path)[first - 1 : last]) for path, first, last in wanted)
        return {digest(text): text for text in texts}

    def keep(self, model: str, vectors: Mapping[str, Vector]) -> None:
        stored = {name: packed(vector) for name, vector in vectors.items()}
        self._with(lambda database: database.keep_vectors(model, stored))

    def _with(self, use: Callable[[IndexDatabase], _T]) -> _T:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._locked():
            try:
                with closing(self._open()) as database:
                    if self._is_sound(database):
                        return use(database)
            except sqlite3.Error as error:
                if error.sqlite_errorcode & 0xFF not in _DAMAGE:
                    raise ToolError(f"The code index cannot be used: {error}. Use grep.") from error
            # All of it can be rebuilt from the files.
            self._remove()
            with closing(self._open()) as database:
                return use(database)

    def _is_sound(self, database: IndexDatabase) -> bool:
        state = self._path.stat()
        if self._sound != (state.st_dev, state.st_ino):
            if not (database.fits and database.sound):
                return False
            self._sound = (state.st_dev, state.st_ino)
        return database.fits

    def _open(self) -> IndexDatabase:
        if os.path.lexists(self._path) and not stat.S_ISREG(self._path.lstat().st_mode):
            self._remove()  # through a link, another file of the user's would be changed
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        try:
            # A power cut may damage it, and then it is rebuilt; a killed process does no harm.
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
        """Exclude other threads and processes: one of them may have to rebuild the file."""
        lock = self._path.with_name(f".{self._path.name}.lock")
        if lock.is_symlink():
            lock.unlink()
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            deadline = time.monotonic() + LOCK_TIMEOUT
            while not _try_lock(descriptor):
                if time.monotonic() > deadline:
                    raise ToolError("The code index has been locked for too long. Use grep.")
                time.sleep(0.005)
            yield
        finally:
            os.close(descriptor)

    def _refresh(self, database: IndexDatabase) -> tuple[int, int, int]:
        known, present = database.stamps(), self._present()
        gone = known.keys() - present.keys()
        new = present.keys() - known.keys()
        changed = {path for path in known.keys() & present.keys() if known[path] != present[path]}
        if gone or new or changed:
            with database.transaction():
                for path in gone | changed:
                    database.drop(path)
                for path in sorted(new | changed):
                    # Files without text are indexed too, so that they are not read again.
                    database.put(path, present[path], split_file(path, self._text(path)))
        return len(new), len(changed), len(gone)

    def _present(self) -> dict[str, str]:
        """Return the stamp (times and size) of every file to index, by its path as text."""
        stamps: dict[str, str] = {}
        with self._root.resolve(".") as top:
            for path in files_below(self._root, top.folder, "."):
                with suppress(OSError):
                    state = os.stat(path, dir_fd=top.folder, follow_symlinks=False)
                    if stat.S_ISREG(state.st_mode) and self._root.may_read(path):
                        stamps[visible_path(path)] = (
                            f"{state.st_mtime_ns} {state.st_ctime_ns} {state.st_size}"
                        )
        return stamps

    def _text(self, path: str) -> str:
        """The text of a file; empty if it is gone, too large, binary or generated."""
        try:
            with self._root.resolve(decoded(path)) as place, place.open_file() as file:
                data = file.read(LARGEST + 1)
        except (OSError, ToolError):
            return ""
        if len(data) > LARGEST or b"\0" in data:
            return ""
        text = data.decode("utf-8", "replace").replace("\r\n", "\n")
        return text if len(text) <= LONGEST_LINES * (text.count("\n") + 1) else ""

    def _search(
        self, database: IndexDatabase, question: str, limit: int, query_vector: QueryVector | None
    ) -> list[Hit]:
        if not database.stamps():  # never filled, or just rebuilt
            self._refresh(database)
        paths, places = database.paths(), database.places()
        ranked = rank(database, question)
        if query_vector is not None:
            model, vector = query_vector
            ranked = fused(ranked, by_meaning(database.vectors(model), vector))
        hits: list[Hit] = []
        for one in ranked[:limit]:
            first, last = places[one.passage][1:] if one.passage is not None else (1, 1)
            lines = self._lines(paths[one.file])[first - 1 : last]
            snippet = best_lines(lines, question)
            hits.append(Hit(paths[one.file], first, last, round(one.score, 3), snippet))
        return hits

    def _lines(self, path: str) -> list[str]:
        return self._text(path).split("\n")


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


BATCH, MAX_BATCHES = 64, 20
"""Passages per request to the embedding model, and requests per search; later searches
handle the rest."""


class SearchCodeInput(ToolInput):
    """Find code by a question in plain words, when you do not know its name. Returns files, best
    first, each with its most relevant lines. For a known name, use grep."""

    query: Utf8Text = Field(description="A question, or what the code does, in plain words.")


@dataclass(frozen=True)
class SearchCode(Tool[SearchCodeInput]):
    """Finds places in a member's workspace by their meaning."""

    index: CodeIndex
    embedder: HttpEmbedder | None = None
    """An embedding model of the user's, if there is one."""

    name = "searchCode"
    inputs = SearchCodeInput

    async def run(self, arguments: SearchCodeInput) -> ToolOutcome:
        await anyio.to_thread.run_sync(self.index.refresh)
        query_vector, problem = await self._query_vector(arguments.query)
        hits = await anyio.to_thread.run_sync(self.index.search, arguments.query, 10, query_vector)
        output: dict[str, object] = {"count": len(hits), "results": _shown(hits)}
        if problem:
            output["note"] = f"Found by words only: the embedding model failed ({problem})."
        return ToolOutcome(output)

    async def _query_vector(self, query: str) -> tuple[QueryVector | None, str]:
        """Return the question's vector, or what went wrong."""
        if self.embedder is None:
            return None, ""
        try:
            await self._embed_passages(self.embedder)
            (vector,) = await self.embedder.embed([query])
        except (OSError, ValueError) as error:
            return None, str(error)
        return (self.embedder.model, vector), ""

    async def _embed_passages(self, embedder: HttpEmbedder) -> None:
        for _ in range(MAX_BATCHES):
            texts = await anyio.to_thread.run_sync(self.index.unembedded, embedder.model, BATCH)
            if not texts:
                return
            vectors = dict(zip(texts, await embedder.embed(list(texts.values())), strict=True))
            await anyio.to_thread.run_sync(self.index.keep, embedder.model, vectors)


def _shown(hits: list[Hit]) -> str:
    blocks = (f"{hit.path}:{hit.first_line}-{hit.last_line}\n{hit.snippet}" for hit in hits)
    return truncated(visible("\n\n".join(blocks)))
