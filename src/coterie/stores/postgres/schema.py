"""The schema in PostgreSQL: made and upgraded by a command of the user's, never by connecting.

All of it is in the schema `coterie` of its database, with its number in `schema_version`.  The
numbers are those of SQLite's migrations, of which the first ten are one file here.  Blocking.
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
from coterie.stores.postgres.place import SCHEMA, Place
from coterie.stores.postgres.queue_schema import upgrade_queue

_MIGRATIONS = Path(__file__).with_name("migrations")

_LOCK = 0x636F7465
"""For `pg_advisory_xact_lock`: one process at a time changes the schema."""


@dataclass(frozen=True)
class Session:
    """A connection that was made ready, and what the server kept of its writer before."""

    connection: psycopg.Connection
    batch: int | None
    """The number of its last commit; None where it is not known there."""
    told: str


def migrations() -> list[tuple[int, Path]]:
    """The numbered scripts, in order."""
    return sorted((int(file.name[:4]), file) for file in _MIGRATIONS.glob("[0-9]*.sql"))


def latest() -> int:
    """The number that this program works with."""
    return migrations()[-1][0]


@dataclass(frozen=True)
class StoreProject:
    """Whose tasks a store holds."""

    name: str
    root_commit: str
    """The first commit of its repository, the same in every clone; empty: it is in none."""

    def __str__(self) -> str:
        known_by = f"first commit {self.root_commit[:10]}" if self.root_commit else "not in git"
        return f"{self.name} ({known_by})"


def init(url: str, project: StoreProject | None = None, ttl: float = LeaseTimes.ttl) -> bool:
    """Make the schema in a database that has none, for this project; True where it was made.

    One that is current, and this project's, stays as it is.  `ttl` is for how many seconds an owner
    that is silent keeps its tasks.
    """
    place = Place.of(url)
    with _changing(place) as connection:
        _refuse_encoding(connection, place)
        made = not _is_there(connection)
        if made:
            _make(connection)
        check_version(place, version_in(connection, place))
        if project is not None:
            if _project_in(connection) is None:
                row = (project.name, project.root_commit, ttl)
                text = "INSERT INTO project (name, root_commit, ttl) VALUES (%s, %s, %s)"
                connection.execute(text, row)
            _check_project(connection, place, project)
    return made


def upgrade(url: str) -> tuple[int, int]:
    """Bring the schema up to date; its number before and after."""
    place = Place.of(url)
    with _changing(place) as connection:
        before = version_in(connection, place)
        if before > latest():
            check_version(place, before)
        _migrate(connection, before)
    return before, latest()


def check(url: str, project: StoreProject | None = None, known: KnownHead | None = None) -> float:
    """For how many seconds a silent owner keeps its tasks; raises StorageError unless the schema is
    the one we work with, and, where a project is given, ForeignStore unless it is that project's;
    HistoryLost where more is `known` to have been in it.
    """
    place = Place.of(url)
    with _connected(place) as connection:
        _checked(connection, place, project)
        if known is not None:
            known.check(place, connection)
        found = connection.execute("SELECT ttl FROM project").fetchone()
        return float(found[0]) if found else LeaseTimes.ttl


@dataclass(frozen=True)
class StoreFacts:
    """What there is to know about a store that can be used."""

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
    """The server answers before a commit is safe."""
    lease_seconds: float
    """For how long a machine that is silent keeps its tasks."""


def begin_history(url: str, project: StoreProject | None = None) -> None:
    """Go on with a store as it is, although more may be known to have been in it.

    Whoever still runs by what was lost is dead to it, and its tokens are none any more.
    """
    place = Place.of(url)
    with _changing(place) as connection:
        _checked(connection, place, project)
        connection.execute(_BEGIN_HISTORY)


_BEGIN_HISTORY = """
UPDATE project SET history = DEFAULT;
UPDATE owners SET dead = true;
UPDATE leases SET token = token + 1000000;
UPDATE offers SET taker = NULL, job = NULL;
DELETE FROM writers;
"""
"""Tokens that were given out before are lower than all that will be."""


def describe(
    url: str, project: StoreProject | None = None, known: KnownHead | None = None
) -> StoreFacts:
    """All of it; raises StorageError as `check` does."""
    place = Place.of(url)
    with _connected(place) as connection:
        version = _checked(connection, place, project)
        if known is not None:
            known.check(place, connection, keeps=False)
        row = connection.execute(_FACTS).fetchone()
        assert row is not None
        tasks, machines, size, server, commits, ttl = row
        return StoreFacts(
            url=place.shown,
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


def _checked(connection: psycopg.Connection, place: Place, project: StoreProject | None) -> int:
    version = version_in(connection, place)
    check_version(place, version)
    if project is not None:
        _check_project(connection, place, project)
    return version


def _project_in(connection: psycopg.Connection) -> StoreProject | None:
    row = connection.execute("SELECT name, root_commit FROM project").fetchone()
    return StoreProject(*row) if row else None


def _check_project(connection: psycopg.Connection, place: Place, project: StoreProject) -> None:
    found = _project_in(connection)
    if found is None:
        way = f"coterie store init {place.quoted}"
        raise StorageError(place.shown, "The store is of no project yet", way)
    if found.root_commit != project.root_commit:
        raise ForeignStore(
            place.shown,
            f"The store is another project's, {found}; this one is {project}",
            f"Make one for this: createdb NAME, then coterie store init {place.example}",
        )


def check_version(place: Place, version: int) -> None:
    """Refuse any number but ours, and say what to type."""
    if version > latest():
        raise StorageError(
            place.shown,
            f"The store was made by a newer Coterie ({version}, this one knows {latest()})",
            "pip install --upgrade 'coterie[postgres]'",
        )
    if version < latest():
        raise StorageError(
            place.shown,
            f"The store is of an older Coterie ({version}, this one needs {latest()})",
            f"coterie store upgrade {place.quoted}",
        )


def version_in(connection: psycopg.Connection, place: Place) -> int:
    """The number that the database says; raises StorageError where there is no schema of ours."""
    if not _is_there(connection):
        raise StorageError(
            place.shown,
            "The database has no Coterie store",
            f"coterie store init {place.quoted}",
        )
    found = connection.execute(
        "SELECT to_regclass(%s) IS NOT NULL", [f"{SCHEMA}.schema_version"]
    ).fetchone()
    if found is None or not found[0]:
        raise StorageError(
            place.shown,
            f"The schema {SCHEMA!r} of the database is not Coterie's",
            f"Use another database: createdb NAME, then coterie store init {place.example}",
        )
    row = connection.execute("SELECT max(number) FROM schema_version").fetchone()
    return int(row[0]) if row and row[0] else 0


def _is_there(connection: psycopg.Connection) -> bool:
    found = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", [SCHEMA])
    return found.fetchone() is not None


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


def opened(place: Place, writer: str, known: KnownHead | None = None, *, is_new: bool) -> Session:
    """A connection for a storage, made ready: our schema, no pooler between, and listening.

    Raises psycopg.OperationalError where the server cannot be reached: it may be back soon; and
    HistoryLost where it is back with less than is known.
    """
    connection = place.connect(autocommit=True)
    try:
        _make_ready(connection, place)
        if known is not None:
            known.check(place, connection)
        return _session(connection, writer, is_new=is_new)
    except psycopg.OperationalError:
        connection.close()
        raise
    except psycopg.Error as error:
        connection.close()
        raise explained(place, error) from error
    except BaseException:
        connection.close()
        raise


def _refuse_encoding(connection: psycopg.Connection, place: Place) -> None:
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StorageError(
            place.shown,
            f"The database is encoded as {encoding}, which cannot hold every text",
            "createdb --encoding UTF8 --template template0 NAME, then "
            f"coterie store init {place.example}",
        )


def _make_ready(connection: psycopg.Connection, place: Place) -> None:
    refuse_pooling(place, connection)
    _refuse_encoding(connection, place)
    check_version(place, version_in(connection, place))
    # Whatever the server's default is: what we were told is committed is not lost with it.
    connection.execute("SET synchronous_commit = on")
    connection.execute("LISTEN coterie")


def _session(connection: psycopg.Connection, writer: str, *, is_new: bool) -> Session:
    if is_new:
        connection.execute("INSERT INTO writers (id, batch, told) VALUES (%s, 0, '')", [writer])
    row = connection.execute("SELECT batch, told FROM writers WHERE id = %s", [writer]).fetchone()
    return Session(connection, row[0], row[1]) if row else Session(connection, None, "")


@contextlib.contextmanager
def _changing(place: Place) -> Generator[psycopg.Connection]:
    """One transaction, all or nothing; others who change the schema are waited for."""
    with _connected(place) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        yield connection


@contextlib.contextmanager
def _connected(place: Place) -> Generator[psycopg.Connection]:
    try:
        connection = place.connect()
    except psycopg.Error as error:
        raise no_connection(place, error) from None
    try:
        with connection:
            refuse_pooling(place, connection)
            yield connection
    except psycopg.Error as error:
        raise explained(place, error) from error
