"""Why there is no connection, or none that can be used; found out by asking, not by reading.

What the server says is in its own language, so each cause is looked for: does anybody answer, in
TLS, was a password wanted or used, is the database there.  Blocks, for some seconds at most.
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
from coterie.stores.postgres.place import Place

if TYPE_CHECKING:
    from psycopg.pq import abc

_TLS_REQUEST = struct.pack("!ii", 8, 80877103)


def no_connection(place: Place, error: psycopg.Error) -> StorageError:
    """What is wrong, after connecting failed with this."""
    failed = error.pgconn
    said = failed.error_message.decode(errors="replace") if failed else str(error)
    if place.is_encrypted and _has_no_tls(place):
        return StorageError(
            place.shown,
            "The server offers no TLS, and to another host nothing is sent without",
            "Set ssl = on there; on a network that you trust:  "
            f"coterie doctor --store {place.with_setting('sslmode', 'disable')}",
        )
    answer = PGconn.ping(place.conninfo.encode())
    if answer == Ping.REJECT:
        problem = f"The server takes no connections now: {first_line(said)}"
        return StorageError(place.shown, problem, "Try again when it has started.")
    if answer != Ping.OK:
        problem = f"No PostgreSQL answers: {first_line(said)}"
        way = "Look at the host and the port, or start the server."
        return StorageError(place.shown, problem, way)
    found = _no_password(place, failed) or _no_database(place, said) or _pooler(place)
    return found or _no_login(place, failed, said)


def refuse_pooling(place: Place, connection: psycopg.Connection) -> None:
    """Raise StorageError where a pooler is between: it tells a process of its own in place of the
    server's.  What is set and listened for in a session it may give to others."""
    found = connection.execute("SELECT pg_backend_pid()").fetchone()
    if found is None or found[0] != connection.info.backend_pid:
        raise _pooling(place)


def _has_no_tls(place: Place) -> bool:
    address = place.setting("hostaddr") or place.setting("host")
    port = int(place.setting("port") or 5432)
    try:
        with socket.create_connection((address.partition(",")[0], port), timeout=5) as asked:
            asked.sendall(_TLS_REQUEST)
            return asked.recv(1) == b"N"
    except OSError:
        return False


def _no_password(place: Place, failed: abc.PGconn | None) -> StorageError | None:
    if failed is None or not failed.needs_password:
        return None
    problem = f"User {place.user} needs a password, and none was given"
    return StorageError(place.shown, problem, f"Put it into ~/.pgpass:  {_pass_line(place)}")


def _no_database(place: Place, said: str) -> StorageError | None:
    """The login is good for another database of the server."""
    try:
        with psycopg.connect(place.conninfo, dbname="postgres") as server:
            known = (
                "SELECT has_database_privilege(datname, 'CONNECT') "
                "FROM pg_database WHERE datname = %s"
            )
            found = server.execute(known, [place.database]).fetchone()
    except psycopg.Error:
        return None
    if found is not None and found[0]:  # such as a connection that was ended as it was made
        return StorageError(
            place.shown, f"The server gave no connection: {first_line(said)}", "Try again."
        )
    if found is not None:
        return StorageError(
            place.shown,
            f"User {place.user} may not connect to the database {place.database}",
            f"As its owner:  GRANT CONNECT ON DATABASE {place.database} TO {place.user};",
        )
    options = [("-h", "host"), ("-p", "port"), ("-U", "user")]
    given = [(flag, place.setting(name)) for flag, name in options]
    words = ["createdb", *(word for flag, value in given if value for word in (flag, value))]
    return StorageError(
        place.shown,
        f"There is no database {place.database} on the server",
        f"{shlex.join([*words, place.database])}\ncoterie store init {place.quoted}",
    )


def _pooler(place: Place) -> StorageError | None:
    """A pooler stands there if it lets us in without the settings of our sessions."""
    try:
        with psycopg.connect(place.conninfo, options=""):
            return _pooling(place)
    except psycopg.Error:
        return None


def _pooling(place: Place) -> StorageError:
    return StorageError(
        place.shown,
        "A connection pooler such as PgBouncer is between, which may share connections",
        "Give the URL of PostgreSQL itself, most often port 5432.",
    )


def _no_login(place: Place, failed: abc.PGconn | None, said: str) -> StorageError:
    if failed is not None and failed.used_password:
        problem = f"The server refuses the password of user {place.user}"
        return StorageError(place.shown, problem, f"Put it into ~/.pgpass:  {_pass_line(place)}")
    problem = f"The server does not let user {place.user} in: {first_line(said)}"
    way = f"On the server:  createuser {shlex.quote(place.user)}, or name another user in the URL."
    return StorageError(place.shown, problem, way)


def _pass_line(place: Place) -> str:
    host = place.setting("host") or "localhost"
    where = "localhost" if host.startswith("/") else host
    port = place.setting("port") or "*"
    return f"{where}:{port}:{place.database}:{place.user}:PASSWORD   (chmod 600)"
