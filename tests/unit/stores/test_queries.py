"""Every statement compiles against the schema, is used, and is requested by an existing name."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import coterie.stores.sqlite
from coterie.stores.sqlite.database import open_database
from coterie.stores.sqlite.transactions import SQL, execute

PACKAGE = Path(coterie.stores.sqlite.__file__).parent
SOURCE = "\n".join(
    file.read_text() for folder in (PACKAGE, PACKAGE.parent) for file in folder.glob("*.py")
)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = open_database(tmp_path / "coterie.db", 1.0)
    yield connection
    connection.close()


@pytest.mark.parametrize("name", SQL)
def test_a_statement_compiles_and_is_used(connection: sqlite3.Connection, name: str) -> None:
    statement = SQL[name]
    if statement.startswith(("SELECT", "INSERT", "UPDATE", "DELETE")):
        named = dict.fromkeys(re.findall(r":(\w+)", statement))
        connection.execute(f"EXPLAIN {statement}", named or (None,) * statement.count("?"))
    used = name.removeprefix("all_") if name.startswith("all_") else name
    assert f'"{used}"' in SOURCE


def test_a_list_is_found_by_an_index(connection: sqlite3.Connection) -> None:
    for name in ("events_of_task", "audit_of_task", "messages", "steps", "turns"):
        plan = connection.execute(f"EXPLAIN QUERY PLAN {SQL[name]}", ("x",) * SQL[name].count("?"))
        assert "SCAN" not in " ".join(row[3] for row in plan.fetchall()), name


def test_half_a_character_is_mended(connection: sqlite3.Connection) -> None:
    row = ("m", "t", "ann", "a", "b", "p", "h\ud800", "\ud83d\ude00", None)
    statement = SQL["insert_child"]
    execute(connection, statement, (row[1], row[2], row[3], row[0], *row[4:]))
    [found] = connection.execute("SELECT host, started_at FROM children").fetchall()
    assert found == ("h\ufffd", "\U0001f600")
