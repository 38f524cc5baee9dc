"""Where a store is: a URL, checked and made ready to connect to.

A password is never shown.  To another host a connection is encrypted or refused, unless the URL
says in as many words that it need not be.
"""

from __future__ import annotations

import getpass
import shlex
from dataclasses import dataclass
from urllib.parse import unquote

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from coterie.errors import UsageError

SCHEMA = "coterie"
"""The schema of the database that holds all of ours."""

_HERE = frozenset({"", "localhost", "127.0.0.1", "::1"})
_ENCRYPTED = frozenset({"require", "verify-ca", "verify-full"})
_SESSION = f"-c search_path={SCHEMA},pg_temp -c standard_conforming_strings=on"
_PROMPT = {
    # A host that is gone is noticed in seconds, not in the two hours of the system's defaults.
    "keepalives_idle": "3",
    "keepalives_interval": "1",
    "keepalives_count": "3",
    "tcp_user_timeout": "5000",
    "connect_timeout": "5",
    "client_encoding": "UTF8",
}


@dataclass(frozen=True)
class Place:
    """A database, by its URL."""

    shown: str
    """For people: without a password."""
    conninfo: str
    """For libpq."""

    @classmethod
    def of(cls, url: str) -> Place:
        """Read a URL; raises UsageError where it is none, or goes unencrypted to another host."""
        if not url.startswith(("postgresql://", "postgres://")):
            # What it is instead may hold a password, in whatever place.
            raise UsageError("This is no URL of a PostgreSQL database.", _EXAMPLE)
        shown = _shown(url)
        try:
            given = {name: str(value) for name, value in conninfo_to_dict(url).items() if value}
        except psycopg.Error:
            raise UsageError(f"{shown} is no URL of a database.", _EXAMPLE) from None
        ports = given.get("port", "1").split(",")
        if _has_slash_in_login(url.partition("://")[2]) or not all(map(str.isdecimal, ports)):
            raise UsageError(f"{shown} is no URL of a database.", _EXAMPLE)
        given.update(_encryption(given, shown))
        given["options"] = " ".join(filter(None, [given.get("options"), _SESSION]))
        return cls(shown, make_conninfo("", **{**_PROMPT, "application_name": "coterie", **given}))

    def setting(self, name: str) -> str:
        """One of libpq's parameters, as the URL gives it; empty where it does not."""
        return str(conninfo_to_dict(self.conninfo).get(name) or "")

    @property
    def user(self) -> str:
        """Who connects."""
        return self.setting("user") or getpass.getuser()

    @property
    def database(self) -> str:
        """What it connects to."""
        return self.setting("dbname") or self.user

    @property
    def is_encrypted(self) -> bool:
        """Whether nothing is sent without TLS."""
        return self.setting("sslmode") in _ENCRYPTED

    def with_setting(self, name: str, value: str) -> str:
        """The URL with another parameter, as it may stand in a command."""
        start, mark, query = self.shown.partition("?")
        others = [part for part in query.split("&") if mark and not part.startswith(f"{name}=")]
        return shlex.quote(f"{start}?{'&'.join([*others, f'{name}={value}'])}")

    def connect(self, *, autocommit: bool = False) -> psycopg.Connection:
        """A connection; raises psycopg.Error."""
        return psycopg.connect(self.conninfo, autocommit=autocommit)

    def with_path(self, *schemas: str) -> str:
        """For libpq: the same with other schemas to look for names in."""
        options = self.setting("options").replace(
            f"search_path={SCHEMA}", f"search_path={','.join(schemas)}"
        )
        return make_conninfo(self.conninfo, options=options)

    @property
    def quoted(self) -> str:
        """As it may stand in a command."""
        return shlex.quote(self.shown)

    @property
    def example(self) -> str:
        """The same place with another database."""
        return shlex.quote(f"{self.shown.partition('?')[0].rpartition('/')[0]}/NAME")


_EXAMPLE = "Write it like postgresql://user@host/database, with %2F for / in a name or password."


def _encryption(given: dict[str, str], shown: str) -> dict[str, str]:
    hosts = [*given.get("host", "").split(","), *given.get("hostaddr", "").split(",")]
    if all(host in _HERE or host.startswith(("/", "@")) for host in hosts):
        return {}
    mode = given.get("sslmode", "require")
    if mode in _ENCRYPTED or mode == "disable":
        return {"sslmode": mode}
    safe = shown.replace(f"sslmode={mode}", "sslmode=require")
    raise UsageError(
        f"{shown} may go unencrypted to another host.",
        f"Write {shlex.quote(safe)}, or sslmode=disable where the network is trusted.",
    )


def _shown(url: str) -> str:
    """The URL without passwords, wherever they stand, also where one was not written as it must."""
    scheme, _, rest = url.partition("://")
    login, at, place = _parted(rest)
    place, question, query = place.partition("?")
    kept = [part for part in query.split("&") if "password" not in unquote(part).lower()]
    user = login.partition(":")[0]
    return f"{scheme}://{user}{at}{place}{question}{'&'.join(kept)}".rstrip("?")


def _parted(rest: str) -> tuple[str, str, str]:
    """Login, `@` and place, as libpq parts them; a login with a `/` in it is one all the same."""
    authority, slash, path = rest.partition("/")
    if "@" in authority:
        login, at, host = authority.rpartition("@")
        return login, at, f"{host}{slash}{path}"
    return rest.rpartition("@") if _has_slash_in_login(rest) else ("", "", rest)


def _has_slash_in_login(rest: str) -> bool:
    authority, _, path = rest.partition("/")
    return "@" not in authority and "@" in path.partition("?")[0]
