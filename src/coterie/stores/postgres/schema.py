"""The schema in PostgreSQL: created and upgraded by explicit commands, never by connecting.

Everything is in the schema `coterie` of the database, with its version in `schema_version`.  The
versions are those of SQLite's migrations, the first ten of which are one file here.  Blocking.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import psycopg

from coterie.errors import ForeignStore, StorageError
from coterie.model.lease_clock import LeaseTimes
from coterie.stores.postgres.diagnosis import no_connection, refuse_pooling
from coterie.stores.postgres.failures import explained
from coterie.stores.postgres.known_head import KnownHead
from coterie.stores.postgres.queue_schema import upgrade_queue
from coterie.stores.postgres.store_url import SCHEMA, StoreUrl

_MIGRATIONS = Path(__file__).with_name("migrations")

_LOCK = 0x636F7465
"""For `pg_advisory_xact_lock`: only one process at a time changes the schema."""


@dataclass(frozen=True)
class PreparedConnection:
    """A prepared connection, and what the server has recorded about its writer."""

    connection: psycopg.Connection
    batch: int | None
    """The number of its last commit; None if the server does not know the writer."""
    answers: str
    """What its last commit answered, separated by semicolons."""


def migrations() -> list[tuple[int, Path]]:
    """The numbered scripts, in order."""
    return sorted((int(file.name[:4]), file) for file in _MIGRATIONS.glob("[0-9]*.sql"))


def latest() -> int:
    """Return the version that this program works with."""
    return migrations()[-1][0]


@dataclass(frozen=True)
class StoreProject:
    """The project whose tasks a store holds."""

    name: str
    root_commit: str
    """The first commit of its repository, the same in every clone; empty if it has none."""

    def __str__(self) -> str:
        known_by = f"first commit {self.root_commit[:10]}" if self.root_commit else "not in git"
        return f"{self.name} ({known_by})"


def init(url: str, project: StoreProject | None = None, ttl: float = LeaseTimes.ttl) -> bool:
    """Create the schema for this project in a database that has none; True if it was created.

    A schema that is current and this project's stays unchanged.  `ttl` is for how many seconds a
    silent owner keeps its tasks.
    """
    store = StoreUrl.of(url)
    with _changing(store) as connection:
        _refuse_encoding(connection, store)
        made = not _is_there(connection)
        if made:
            _make(connection)
        check_version(store, version_in(connection, store))
        if project is not None:
            if _project_in(connection) is None:
                row = (project.name, project.root_commit, ttl)
                text = "INSERT INTO project (name, root_commit, ttl) VALUES (%s, %s, %s)"
                connection.execute(text, row)
            _check_project(connection, store, project)
    return made


def upgrade(url: str) -> tuple[int, int]:
    """Bring the schema up to date; returns its version before and after."""
    store = StoreUrl.of(url)
    with _changing(store) as connection:
        before = version_in(connection, store)
        if before > latest():
            check_version(store, before)
        _migrate(connection, before)
    return before, latest()


def check(url: str, project: StoreProject | None = None, known: KnownHead | None = None) -> float:
    """Return for how many seconds a silent owner keeps its tasks.

    Raises StorageError unless the schema is the one we work with, ForeignStore if a project is
    given and the store is another's, and HistoryLost if it lacks history that is `known`.
    """
    store = StoreUrl.of(url)
    with _connected(store) as connection:
        _checked(connection, store, project)
        if known is not None:
            known.check(store, connection)
        row = connection.execute("SELECT ttl FROM project").fetchone()
        return float(row[0]) if row else LeaseTimes.ttl


@dataclass(frozen=True)
class StoreFacts:
    """Facts about a store that can be used."""

    url: str
    """Without a password."""
    schema: int
    project: StoreProject | None
    tasks: int
    machines: int
    bytes: int
    server: str
    encrypted: bool
    loses_commits: bool
    """Whether the server confirms commits before they are durable."""
    lease_seconds: float
    """For how long a silent machine keeps its tasks."""


def begin_history(url: str, project: StoreProject | None = None) -> None:
    """Continue with a store as it is, although some of its history may be lost.

    All owners are declared dead and their tokens become invalid, as they may rely on what was lost.
    """
    store = StoreUrl.of(url)
    with _changing(store) as connection:
        _checked(connection, store, project)
        connection.execute(_BEGIN_HISTORY)


_BEGIN_HISTORY = """
UPDATE project SET history = DEFAULT;
UPDATE owners SET dead = true;
UPDATE leases SET token = token + 1000000;
UPDATE offers SET taker = NULL, job = NULL;
DELETE FROM writers;
"""
"""All tokens issued before, even in the lost history, are lower than those issued from now on."""


def describe(
    url: str, project: StoreProject | None = None, known: KnownHead | None = None
) -> StoreFacts:
    """Return the facts about a store; raises StorageError as `check` does."""
    store = StoreUrl.of(url)
    with _connected(store) as connection:
        version = _checked(connection, store, project)
        if known is not None:
            known.check(store, connection, keeps=False)
        row = connection.execute(_FACTS).fetchone()
        assert row is not None
        tasks, machines, size, server, commits, ttl = row
        return StoreFacts(
            url=store.shown,
            schema=version,
            project=_project_in(connection),
            tasks=tasks,
            machines=machines,
            bytes=size,
            server=server,
            encrypted=bool(connection.pgconn.ssl_in_use),
            loses_commits=commits == "off",
            lease_seconds=ttl or LeaseTimes.ttl,
        )


_FACTS = """
SELECT (SELECT count(*) FROM tasks), (SELECT count(*) FROM machines),
    pg_database_size(current_database()), split_part(current_setting('server_version'), ' ', 1),
    current_setting('synchronous_commit'), (SELECT ttl FROM project)
"""


def _checked(connection: psycopg.Connection, store: StoreUrl, project: StoreProject | None) -> int:
    version = version_in(connection, store)
    check_version(store, version)
    if project is not None:
        _check_project(connection, store, project)
    return version


def _project_in(connection: psycopg.Connection) -> StoreProject | None:
    row = connection.execute("SELECT name, root_commit FROM project").fetchone()
    return StoreProject(*row) if row else None


def _check_project(connection: psycopg.Connection, store: StoreUrl, project: StoreProject) -> None:
    stored = _project_in(connection)
    if stored is None:
        way = f"coterie store init {store.quoted}"
        raise StorageError(store.shown, "The store does not belong to a project yet", way)
    if stored.root_commit != project.root_commit:
        raise ForeignStore(
            store.shown,
            f"The store belongs to another project, {stored}; this project is {project}",
            f"Create one for this project: createdb NAME, then coterie store init {store.example}",
        )


def check_version(store: StoreUrl, version: int) -> None:
    """Refuse any version but ours, with the command that helps."""
    if version > latest():
        raise StorageError(
            store.shown,
            f"The store was made by a newer Coterie ({version}, this one knows {latest()})",
            "pip install --upgrade 'coterie[postgres]'",
        )
    if version < latest():
        raise StorageError(
            store.shown,
            f"The store was made by an older Coterie ({version}, this one needs {latest()})",
            f"coterie store upgrade {store.quoted}",
        )


def version_in(connection: psycopg.Connection, store: StoreUrl) -> int:
    """Return the version of the schema; raises StorageError if there is no schema of ours."""
    if not _is_there(connection):
        raise StorageError(
            store.shown,
            "The database has no Coterie store",
            f"coterie store init {store.quoted}",
        )
    exists = connection.execute(
        "SELECT to_regclass(%s) IS NOT NULL", [f"{SCHEMA}.schema_version"]
    ).fetchone()
    if exists is None or not exists[0]:
        raise StorageError(
            store.shown,
            f"The schema {SCHEMA!r} of the database is not Coterie's",
            f"Use another database: createdb NAME, then coterie store init {store.example}",
        )
    row = connection.execute("SELECT max(number) FROM schema_version").fetchone()
    return int(row[0]) if row and row[0] else 0


def _is_there(connection: psycopg.Connection) -> bool:
    cursor = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", [SCHEMA])
    return cursor.fetchone() is not None


def _make(connection: psycopg.Connection) -> None:
    connection.execute(f"CREATE SCHEMA {SCHEMA}")
    connection.execute(
        "CREATE TABLE schema_version "
        "(number INTEGER PRIMARY KEY, at TIMESTAMPTZ NOT NULL DEFAULT now())"
    )
    _migrate(connection, 0)


def _migrate(connection: psycopg.Connection, before: int) -> None:
    for number, script in migrations():
        if number > before:
            connection.execute(script.read_bytes())
            connection.execute("INSERT INTO schema_version (number) VALUES (%s)", [number])
    upgrade_queue(connection)


def opened(
    store: StoreUrl, writer: str, known: KnownHead | None = None, *, is_new: bool
) -> PreparedConnection:
    """Open a connection for a storage: with our schema, no pooler in between, and listening.

    Raises psycopg.OperationalError if the server cannot be reached, as it may be back soon, and
    HistoryLost if it is back with less history than is known.
    """
    connection = store.connect(autocommit=True)
    try:
        _make_ready(connection, store)
        if known is not None:
            known.check(store, connection)
        return _prepared(connection, writer, is_new=is_new)
    except psycopg.OperationalError:
        connection.close()
        raise
    except psycopg.Error as error:
        connection.close()
        raise explained(store, error) from error
    except BaseException:
        connection.close()
        raise


def _refuse_encoding(connection: psycopg.Connection, store: StoreUrl) -> None:
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StorageError(
            store.shown,
            f"The database is encoded as {encoding}, which cannot store all text",
            "createdb --encoding UTF8 --template template0 NAME, then "
            f"coterie store init {store.example}",
        )


def _make_ready(connection: psycopg.Connection, store: StoreUrl) -> None:
    refuse_pooling(store, connection)
    _refuse_encoding(connection, store)
    check_version(store, version_in(connection, store))
    # Whatever the server's default is: a crash of the server must not lose a confirmed commit.
    connection.execute("SET synchronous_commit = on")
    connection.execute("LISTEN coterie")


def _prepared(connection: psycopg.Connection, writer: str, *, is_new: bool) -> PreparedConnection:
    if is_new:
        connection.execute("INSERT INTO writers (id, batch, told) VALUES (%s, 0, '')", [writer])
    row = connection.execute("SELECT batch, told FROM writers WHERE id = %s", [writer]).fetchone()
    return (
        PreparedConnection(connection, row[0], row[1])
        if row
        else PreparedConnection(connection, None, "")
    )


@contextlib.contextmanager
def _changing(store: StoreUrl) -> Generator[psycopg.Connection]:
    """Open one transaction, after waiting for other processes that change the schema."""
    with _connected(store) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        yield connection


@contextlib.contextmanager
def _connected(store: StoreUrl) -> Generator[psycopg.Connection]:
    try:
        connection = store.connect()
    except psycopg.Error as error:
        raise no_connection(store, error) from None
    try:
        with connection:
            refuse_pooling(store, connection)
            yield connection
    except psycopg.Error as error:
        raise explained(store, error) from error
