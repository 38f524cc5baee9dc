"""Why a connection fails or cannot be used; found by probing, not by parsing error messages.

The server's messages are localized, so each cause is probed for: does a server answer, with TLS,
was a password needed or used, does the database exist.  Blocks, for a few seconds at most.
"""

from __future__ import annotations

import shlex
import socket
import struct
from typing import TYPE_CHECKING

import psycopg
from psycopg.pq import PGconn, Ping

from coterie.errors import StorageError
from coterie.stores.postgres.failures import first_line
from coterie.stores.postgres.store_url import StoreUrl

if TYPE_CHECKING:
    from psycopg.pq import abc

_TLS_REQUEST = struct.pack("!ii", 8, 80877103)


def no_connection(store: StoreUrl, error: psycopg.Error) -> StorageError:
    """Return what is wrong, after connecting failed with this error."""
    failed = error.pgconn
    message = failed.error_message.decode(errors="replace") if failed else str(error)
    if store.is_encrypted and _has_no_tls(store):
        return StorageError(
            store.shown,
            "The server does not offer TLS, which connections to another host require",
            "Set ssl = on there; on a network that you trust:  "
            f"coterie doctor --store {store.with_setting('sslmode', 'disable')}",
        )
    answer = PGconn.ping(store.conninfo.encode())
    if answer == Ping.REJECT:
        problem = f"The server is not accepting connections: {first_line(message)}"
        return StorageError(store.shown, problem, "Try again when it has started.")
    if answer != Ping.OK:
        problem = f"PostgreSQL does not answer: {first_line(message)}"
        way = "Check the host and the port, or start the server."
        return StorageError(store.shown, problem, way)
    diagnosis = _no_password(store, failed) or _no_database(store, message) or _pooler(store)
    return diagnosis or _no_login(store, failed, message)


def refuse_pooling(store: StoreUrl, connection: psycopg.Connection) -> None:
    """Raise StorageError if a pooler is in between: it reports another process id than the server,
    and may give a session's settings and notifications to others."""
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    if row is None or row[0] != connection.info.backend_pid:
        raise _pooling(store)


def _has_no_tls(store: StoreUrl) -> bool:
    address = store.setting("hostaddr") or store.setting("host")
    port = int(store.setting("port") or 5432)
    try:
        with socket.create_connection((address.partition(",")[0], port), timeout=5) as connection:
            connection.sendall(_TLS_REQUEST)
            return connection.recv(1) == b"N"
    except OSError:
        return False


def _no_password(store: StoreUrl, failed: abc.PGconn | None) -> StorageError | None:
    if failed is None or not failed.needs_password:
        return None
    problem = f"User {store.user} needs a password, and none was given"
    return StorageError(store.shown, problem, f"Add it to ~/.pgpass:  {_pass_line(store)}")


def _no_database(store: StoreUrl, message: str) -> StorageError | None:
    """Diagnose the case that the login works, but for another database of the server."""
    try:
        with psycopg.connect(store.conninfo, dbname="postgres") as server:
            known = (
                "SELECT has_database_privilege(datname, 'CONNECT') "
                "FROM pg_database WHERE datname = %s"
            )
            row = server.execute(known, [store.database]).fetchone()
    except psycopg.Error:
        return None
    if row is not None and row[0]:  # for example, the connection was terminated right away
        return StorageError(
            store.shown, f"The server closed the connection: {first_line(message)}", "Try again."
        )
    if row is not None:
        return StorageError(
            store.shown,
            f"User {store.user} may not connect to the database {store.database}",
            f"As its owner:  GRANT CONNECT ON DATABASE {store.database} TO {store.user};",
        )
    options = [("-h", "host"), ("-p", "port"), ("-U", "user")]
    settings = [(flag, store.setting(name)) for flag, name in options]
    words = ["createdb", *(word for flag, value in settings if value for word in (flag, value))]
    return StorageError(
        store.shown,
        f"There is no database {store.database} on the server",
        f"{shlex.join([*words, store.database])}\ncoterie store init {store.quoted}",
    )


def _pooler(store: StoreUrl) -> StorageError | None:
    """Detect a pooler, which lets us in only without our session settings."""
    try:
        with psycopg.connect(store.conninfo, options=""):
            return _pooling(store)
    except psycopg.Error:
        return None


def _pooling(store: StoreUrl) -> StorageError:
    return StorageError(
        store.shown,
        "A connection pooler such as PgBouncer is in between, which may share connections",
        "Use the URL of PostgreSQL itself, usually on port 5432.",
    )


def _no_login(store: StoreUrl, failed: abc.PGconn | None, message: str) -> StorageError:
    if failed is not None and failed.used_password:
        problem = f"The server refuses the password of user {store.user}"
        return StorageError(store.shown, problem, f"Add it to ~/.pgpass:  {_pass_line(store)}")
    problem = f"The server rejects user {store.user}: {first_line(message)}"
    way = f"On the server:  createuser {shlex.quote(store.user)}, or use another user in the URL."
    return StorageError(store.shown, problem, way)


def _pass_line(store: StoreUrl) -> str:
    host = store.setting("host") or "localhost"
    where = "localhost" if host.startswith("/") else host
    port = store.setting("port") or "*"
    return f"{where}:{port}:{store.database}:{store.user}:PASSWORD   (chmod 600)"
