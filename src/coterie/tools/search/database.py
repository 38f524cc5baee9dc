"""The index in SQLite: every file is in three full-text tables, as passages, whole and in outline.

FTS5 stems the words and ranks by BM25.  All calls block.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from math import log

from coterie.tools.search.passages import STEMMER, IndexedFile, IndexedText

VERSION = 1
"""Covers the tables and how files are split: an index of another version is rebuilt."""
PASSAGES, WHOLES, OUTLINES = "passages", "wholes", "outlines"
TABLES = (PASSAGES, WHOLES, OUTLINES)
WEIGHTS = (1.8, 1.8, 1.2, 0.6)
"""The weight of a word in a path, in a definition, in prose and in code.

Small overall, so that repeating a word counts for more than with FTS5's own `k1`."""
MAX_ROWS = 5_000
"""The most rows, best first, that one word may find in a table."""

_SCHEMA = (
    "CREATE TABLE files (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, stamp TEXT NOT NULL)",
    "CREATE TABLE places (id INTEGER PRIMARY KEY, file INTEGER NOT NULL, first INTEGER NOT NULL,"
    " last INTEGER NOT NULL, digest TEXT NOT NULL)",
    "CREATE TABLE vectors (model TEXT NOT NULL, digest TEXT NOT NULL, vector BLOB NOT NULL,"
    " PRIMARY KEY (model, digest)) WITHOUT ROWID",
    "CREATE INDEX places_of_file ON places (file)",
    *(
        f"CREATE VIRTUAL TABLE {table} USING fts5(path, names, prose, code, tokenize='{STEMMER}')"
        for table in TABLES
    ),
    f"PRAGMA user_version={VERSION}",
)
_TERM_COUNTS = tuple(
    f"CREATE VIRTUAL TABLE temp.{table}_used USING fts5vocab('main', '{table}', 'row')"
    for table in TABLES
)


class IndexDatabase:
    """An open index."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        fresh = self._one("PRAGMA user_version") == 0
        for statement in (*(_SCHEMA if fresh else ()), *_TERM_COUNTS):
            self._connection.execute(statement)

    @property
    def fits(self) -> bool:
        """Whether its version is the one that this Coterie uses."""
        return self._one("PRAGMA user_version") == VERSION

    @property
    def sound(self) -> bool:
        """Whether it is undamaged; reads every page."""
        return self._one("PRAGMA quick_check(1)") == "ok"

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Apply all changes made inside, or none of them."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._connection.rollback()
            raise

    def stamps(self) -> dict[str, str]:
        return dict(self._connection.execute("SELECT path, stamp FROM files"))

    def paths(self) -> dict[int, str]:
        return dict(self._connection.execute("SELECT id, path FROM files"))

    def places(self) -> dict[int, tuple[int, int, int]]:
        """Return the file, first line and last line of every passage, by id."""
        rows = self._connection.execute("SELECT id, file, first, last FROM places")
        return {row[0]: (row[1], row[2], row[3]) for row in rows}

    def put(self, path: str, stamp: str, page: IndexedFile) -> None:
        ask = self._connection.execute
        file = ask("INSERT INTO files (path, stamp) VALUES (?, ?)", (path, stamp)).lastrowid
        for passage in page.passages:
            place = ask(
                "INSERT INTO places (file, first, last, digest) VALUES (?, ?, ?, ?)",
                (file, passage.first, passage.last, passage.digest),
            ).lastrowid
            self._insert(PASSAGES, place, passage.words)
        self._insert(WHOLES, file, page.whole)
        self._insert(OUTLINES, file, page.outline)

    def drop(self, path: str) -> None:
        """Remove a file, if it is indexed."""
        ask = self._connection.execute
        for (file,) in ask("SELECT id FROM files WHERE path = ?", (path,)).fetchall():
            ask(
                "DELETE FROM passages WHERE rowid IN (SELECT id FROM places WHERE file = ?)",
                (file,),
            )
            ask("DELETE FROM places WHERE file = ?", (file,))
            ask("DELETE FROM wholes WHERE rowid = ?", (file,))
            ask("DELETE FROM outlines WHERE rowid = ?", (file,))
            ask("DELETE FROM files WHERE id = ?", (file,))

    def without_vector(self, model: str, most: int) -> list[tuple[str, int, int]]:
        """Return the path and lines of passages without a vector of this model."""
        return self._connection.execute(
            "SELECT path, first, last FROM places JOIN files ON files.id = file"
            " WHERE digest NOT IN (SELECT digest FROM vectors WHERE model = ?)"
            " GROUP BY digest ORDER BY path, first LIMIT ?",
            (model, most),
        ).fetchall()

    def keep_vectors(self, model: str, vectors: Mapping[str, bytes]) -> None:
        """Store the vectors of passages, and drop those of passages that are gone."""
        self._connection.executemany(
            "INSERT OR REPLACE INTO vectors (model, digest, vector) VALUES (?, ?, ?)",
            [(model, digest, vector) for digest, vector in vectors.items()],
        )
        self._connection.execute(
            "DELETE FROM vectors WHERE digest NOT IN (SELECT digest FROM places)"
        )

    def vectors(self, model: str) -> Iterator[tuple[int, int, bytes]]:
        """Each passage with a vector of this model: its id, its file's id, and the vector."""
        yield from self._connection.execute(
            "SELECT places.id, file, vector FROM places JOIN vectors USING (digest)"
            " WHERE model = ?",
            (model,),
        )

    def rarity(self, table: str, stems: Mapping[str, str]) -> dict[str, float]:
        """The inverse document frequency of each word, as in BM25; unknown words are left out."""
        total = self._one(f"SELECT count(*) FROM {table}_docsize")  # noqa: S608
        assert isinstance(total, int)
        rarities: dict[str, float] = {}
        for word, stem in stems.items():
            sql = f"SELECT doc FROM temp.{table}_used WHERE term = ?"  # noqa: S608
            for (count,) in self._connection.execute(sql, (stem,)):
                rarities[word] = max(log((total - count + 0.5) / (count + 0.5)), 1e-6)
        return rarities

    def find(self, table: str, expression: str) -> dict[int, float]:
        """Return the rows that an FTS5 expression finds, with their scores."""
        weights = ", ".join(map(str, WEIGHTS))
        rows = self._connection.execute(
            f"SELECT rowid, -bm25({table}, {weights}) AS fit FROM {table}"  # noqa: S608
            f" WHERE {table} MATCH ? ORDER BY fit DESC LIMIT {MAX_ROWS}",
            (expression,),
        )
        return dict(rows)

    def _one(self, sql: str) -> object:
        return self._connection.execute(sql).fetchone()[0]

    def _insert(self, table: str, number: int | None, words: IndexedText) -> None:
        sql = f"INSERT INTO {table} (rowid, path, names, prose, code) VALUES (?, ?, ?, ?, ?)"  # noqa: S608
        self._connection.execute(sql, (number, *words))
