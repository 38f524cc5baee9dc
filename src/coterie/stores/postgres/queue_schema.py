"""The schema of the queue: procrastinate's own scripts, run by the commands that change ours."""

from __future__ import annotations

from pathlib import Path

import psycopg
from procrastinate.schema import SchemaManager

from coterie.stores.postgres.store_url import SCHEMA

QUEUE_SCHEMA = "dispatch"


def upgrade_queue(connection: psycopg.Connection) -> None:
    """Create the queue's schema or run its new migrations, in the same transaction as ours."""
    scripts = sorted(Path(SchemaManager.get_migrations_path()).glob("*.sql"))
    known = {name for (name,) in connection.execute("SELECT name FROM queue_migrations")}
    cursor = connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", [QUEUE_SCHEMA])
    if cursor.fetchone() is None:
        connection.execute(f"CREATE SCHEMA {QUEUE_SCHEMA}")
        _run(connection, SchemaManager.get_schema())
    else:
        for script in scripts:
            if script.name not in known:
                _run(connection, script.read_text())
    for script in scripts:
        if script.name not in known:
            connection.execute("INSERT INTO queue_migrations (name) VALUES (%s)", [script.name])


def _run(connection: psycopg.Connection, script: str) -> None:
    connection.execute(f"SET LOCAL search_path = {QUEUE_SCHEMA}, pg_temp")
    connection.execute(script.encode())
    connection.execute(f"SET LOCAL search_path = {SCHEMA}, pg_temp")
