"""A thorough look at a database, for `doctor`: every page, and both chains of hashes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from coterie.stores.projection import chained
from coterie.stores.sqlite.head import Head
from coterie.stores.sqlite.rows import select


def problems(known: Head | None, connection: sqlite3.Connection) -> list[str]:
    """What is wrong, in words; nothing where all is well.  `known` was on file before."""
    found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(10)").fetchall()]
    if found != ["ok"]:
        return found  # the rows cannot be trusted to be rows
    broken = [*_broken_chain(connection, "events"), *_broken_chain(connection, "audit")]
    return broken or [*_cut_off(connection, known)]


def _cut_off(connection: sqlite3.Connection, known: Head | None) -> Iterator[str]:
    """A chain that lost its end is whole in itself."""
    if known is None or known.audit == 0:
        return
    hashes = [row[-1].hex() for row in select(connection, "all_audit")]
    if len(hashes) < known.audit:
        yield f"audit: {known.audit} rows were written, {len(hashes)} are there"
    elif hashes[known.audit - 1] != known.audit_hash:
        yield f"audit: row {known.audit} is not the one that was written"


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
