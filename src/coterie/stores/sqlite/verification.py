"""A thorough look at a database, for `doctor`: every page, and both chains of hashes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from coterie.stores.projection import chained
from coterie.stores.sqlite.rows import select


def problems(connection: sqlite3.Connection) -> list[str]:
    """What is wrong, in words; nothing where all is well."""
    found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(10)").fetchall()]
    if found != ["ok"]:
        return found  # the rows cannot be trusted to be rows
    return [*_broken_chain(connection, "events"), *_broken_chain(connection, "audit")]


def _broken_chain(connection: sqlite3.Connection, table: str) -> Iterator[str]:
    previous = b""
    for place, row in enumerate(select(connection, f"all_{table}"), start=1):
        *fields, found = row
        if fields[0] != place:
            yield f"{table}: row {place} is missing"
            return
        if chained(previous, fields) != found:
            yield f"{table}: row {place} is not the one that was written"
            return
        previous = found
