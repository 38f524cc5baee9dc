"""Where a store is: a URL, validated and prepared for connecting.

A password is never shown.  A connection to another host is encrypted or refused, unless the URL
says explicitly that it need not be.
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
"""The database schema that holds all of Coterie's objects."""

_HERE = frozenset({"", "localhost", "127.0.0.1", "::1"})
_ENCRYPTED = frozenset({"require", "verify-ca", "verify-full"})
_SESSION = f"-c search_path={SCHEMA},pg_temp -c standard_conforming_strings=on"
_PROMPT = {
    # A host that is gone is noticed within seconds, not after the system's default of two hours.
    "keepalives_idle": "3",
    "keepalives_interval": "1",
    "keepalives_count": "3",
    "tcp_user_timeout": "5000",
    "connect_timeout": "5",
    "client_encoding": "UTF8",
}


@dataclass(frozen=True)
class StoreUrl:
    """A database, by its URL."""

    shown: str
    """For display, without a password."""
    conninfo: str
    """For libpq."""

    @classmethod
    def of(cls, url: str) -> StoreUrl:
        """Parse a URL; raises UsageError if it is invalid, or unencrypted to another host."""
        if not url.startswith(("postgresql://", "postgres://")):
            # Not quoted in the error: it may contain a password anywhere.
            raise UsageError("This is not the URL of a PostgreSQL database.", _EXAMPLE)
        shown = _shown(url)
        try:
            params = {name: str(value) for name, value in conninfo_to_dict(url).items() if value}
        except psycopg.Error:
            raise UsageError(f"{shown} is not a valid database URL.", _EXAMPLE) from None
        ports = params.get("port", "1").split(",")
        if _has_slash_in_login(url.partition("://")[2]) or not all(map(str.isdecimal, ports)):
            raise UsageError(f"{shown} is not a valid database URL.", _EXAMPLE)
        params.update(_encryption(params, shown))
        params["options"] = " ".join(filter(None, [params.get("options"), _SESSION]))
        return cls(shown, make_conninfo("", **{**_PROMPT, "application_name": "coterie", **params}))

    def setting(self, name: str) -> str:
        """Return one of libpq's connection parameters; empty if it is not set."""
        return str(conninfo_to_dict(self.conninfo).get(name) or "")

    @property
    def user(self) -> str:
        """The user to connect as."""
        return self.setting("user") or getpass.getuser()

    @property
    def database(self) -> str:
        """The database to connect to."""
        return self.setting("dbname") or self.user

    @property
    def is_encrypted(self) -> bool:
        """Whether connections require TLS."""
        return self.setting("sslmode") in _ENCRYPTED

    def with_setting(self, name: str, value: str) -> str:
        """Return the URL with a parameter set, quoted for use in a command."""
        start, mark, query = self.shown.partition("?")
        others = [part for part in query.split("&") if mark and not part.startswith(f"{name}=")]
        return shlex.quote(f"{start}?{'&'.join([*others, f'{name}={value}'])}")

    def connect(self, *, autocommit: bool = False) -> psycopg.Connection:
        """Open a connection; raises psycopg.Error."""
        return psycopg.connect(self.conninfo, autocommit=autocommit)

    def with_path(self, *schemas: str) -> str:
        """Return the connection string for libpq with other schemas in its search path."""
        options = self.setting("options").replace(
            f"search_path={SCHEMA}", f"search_path={','.join(schemas)}"
        )
        return make_conninfo(self.conninfo, options=options)

    @property
    def quoted(self) -> str:
        """The URL, quoted for use in a command."""
        return shlex.quote(self.shown)

    @property
    def example(self) -> str:
        """The same URL with NAME as its database."""
        return shlex.quote(f"{self.shown.partition('?')[0].rpartition('/')[0]}/NAME")


_EXAMPLE = "Write it like postgresql://user@host/database, with %2F for / in a name or password."


def _encryption(params: dict[str, str], shown: str) -> dict[str, str]:
    hosts = [*params.get("host", "").split(","), *params.get("hostaddr", "").split(",")]
    if all(host in _HERE or host.startswith(("/", "@")) for host in hosts):
        return {}
    mode = params.get("sslmode", "require")
    if mode in _ENCRYPTED or mode == "disable":
        return {"sslmode": mode}
    safe = shown.replace(f"sslmode={mode}", "sslmode=require")
    raise UsageError(
        f"{shown} may connect to another host without encryption.",
        f"Use {shlex.quote(safe)}, or sslmode=disable if the network is trusted.",
    )


def _shown(url: str) -> str:
    """Return the URL without passwords, wherever they are, even if one is not escaped properly."""
    scheme, _, rest = url.partition("://")
    login, at, place = _parted(rest)
    place, question, query = place.partition("?")
    kept = [part for part in query.split("&") if "password" not in unquote(part).lower()]
    user = login.partition(":")[0]
    return f"{scheme}://{user}{at}{place}{question}{'&'.join(kept)}".rstrip("?")


def _parted(rest: str) -> tuple[str, str, str]:
    """Split into login, `@` and place as libpq does, but also if the login contains a `/`."""
    authority, slash, path = rest.partition("/")
    if "@" in authority:
        login, at, host = authority.rpartition("@")
        return login, at, f"{host}{slash}{path}"
    return rest.rpartition("@") if _has_slash_in_login(rest) else ("", "", rest)


def _has_slash_in_login(rest: str) -> bool:
    authority, _, path = rest.partition("/")
    return "@" not in authority and "@" in path.partition("?")[0]
