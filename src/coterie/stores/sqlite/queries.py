"""The SQL of the store as named data: `queries.sql`, read once when this module is imported."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from coterie.stores.projection import Value, mended_row

_HEADER = "-- name: "


def _load() -> dict[str, str]:
    text = Path(__file__).with_name("queries.sql").read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for block in text.split(_HEADER)[1:]:
        name, _, body = block.partition("\n")
        # Up to the first empty line: what follows is a heading for the reader.
        found[name.strip()] = body.partition("\n\n")[0].strip()
    return found


SQL = _load()


def execute(connection: sqlite3.Connection, statement: str, row: Sequence[Value]) -> sqlite3.Cursor:
    """Write a row; text that UTF-8 cannot hold is mended rather than refused."""
    try:
        return connection.execute(statement, row)
    except UnicodeEncodeError:
        return connection.execute(statement, mended_row(row))
