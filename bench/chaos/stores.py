"""Where the projects that are killed keep their tasks, configured as their users would.

The contents are read without Coterie, by statements that mean the same in both databases.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal

import psycopg

from coterie.app.store import init_store
from coterie.config.project import Project
from coterie.testing.postgres import Databases, own_cluster

Kind = Literal["sqlite", "postgres"]
KINDS: tuple[Kind, ...] = ("sqlite", "postgres")


class Stores:
    """SQLite in the folder of each project, or a database for each on a server."""

    def __init__(self, server: Databases | None = None) -> None:
        self._server = server
        self._database: str | None = None

    def settle(self, project: Path, keeper: str = "auto") -> None:
        """Write the settings of the project's user, and create the store if they name one.

        One project is killed at a time, so the database of the previous one is dropped.
        """
        settings = {"keeper": keeper}
        self.drop()
        if self._server is not None:
            self._database = f"chaos_{secrets.token_hex(8)}"
            settings["store"] = self._server.create(self._database)
            init_store(settings["store"], Project(project / "work", project / "user"))
        (project / "user" / "settings.json").write_text(json.dumps(settings))

    def drop(self) -> None:
        """Drop the last database."""
        if self._server is not None and self._database is not None:
            self._server.drop(self._database)
        self._database = None


@contextmanager
def stores_of(kind: Kind) -> Generator[Stores]:
    """Yield stores of this kind; the server for PostgreSQL is our own, and runs until the block
    ends."""
    if kind == "sqlite":
        yield Stores()
    else:
        with own_cluster() as cluster:
            yield Stores(Databases(cluster.url()))


def rows(project: Path, *statements: str) -> list[tuple[Any, ...]]:
    """Return the rows of all statements, as of one instant; none if there is no database yet."""
    url = json.loads((project / "user" / "settings.json").read_text()).get("store")
    if url is not None:
        return _postgres_rows(url, statements)
    return _sqlite_rows(project / "work" / ".coterie" / "coterie.db", statements)


def has_begun(project: Path) -> bool:
    """Whether there is a task: the kill may have come earlier."""
    return bool(rows(project, "SELECT id FROM tasks"))


def _sqlite_rows(database: Path, statements: Sequence[str]) -> list[tuple[Any, ...]]:
    if not database.exists():
        return []
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        try:
            connection.execute("BEGIN")
            return [row for one in statements for row in connection.execute(one).fetchall()]
        except sqlite3.OperationalError:
            return []


def _postgres_rows(url: str, statements: Sequence[str]) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, options="-c search_path=coterie") as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        return [row for one in statements for row in connection.execute(one.encode()).fetchall()]
