"""Patterns of addresses: a host, or an address with `*` in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from coterie.tools.permission.commands import wild
from coterie.tools.permission.words import names

_PATTERN = re.compile(
    r"(?:(?P<scheme>[a-z][a-z0-9+.-]*)://)?(?P<host>[A-Za-z0-9.*-]+|\[[0-9A-Fa-f:.]+\])"
    r"(?::(?P<port>[0-9]+))?(?P<path>/[^\s\\]*)?"
)
# Stricter than any browser: what two programs may read in two ways is not matched at all.
_TARGET = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://)?(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])"
    r"(?::(?P<port>[0-9]+))?(?P<path>/[^\s\\?#]*)?(?:[?#][^\s\\]*)?"
)
_HOSTS = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)*|\[[0-9a-f:.]+\]")
_ASTRAY = re.compile(r"\.\.|//|%2e|%2f|%5c", re.IGNORECASE)
_NETWORK = names("aria2c curl ftp lftp nc ncat netcat scp sftp socat ssh telnet wget")


@dataclass(frozen=True)
class Address:
    """Which addresses are meant; parts that are not given may be anything."""

    scheme: str
    host: str
    port: str
    path: str

    @classmethod
    def of(cls, text: str) -> Address | None:
        """The pattern that a text means; None where it means none."""
        found = _PATTERN.fullmatch(text)
        if found is None:
            return None
        host = found["host"].lower().rstrip(".")
        return cls(found["scheme"] or "", host, found["port"] or "", found["path"] or "")

    def allows(self, target: str) -> bool:
        """Whether an address is surely one of those that are meant."""
        found = _TARGET.fullmatch(target)
        if found is None or not self._is_host(found["host"].lower().rstrip(".")):
            return False
        if self.scheme and (found["scheme"] or "").lower() != self.scheme:
            return False
        if self.port and found["port"] != self.port:
            return False
        path = found["path"] or "/"
        return not self.path or (
            not _ASTRAY.search(path) and wild(self.path).fullmatch(path) is not None
        )

    def forbids(self, target: str) -> bool:
        """Whether the host of the pattern stands anywhere in an address, or in a word."""
        text = unquote(target).lower()
        return any(self._is_host(host) for host in _HOSTS.findall(text))

    def forbids_words(self, words: tuple[str, ...]) -> bool:
        """Whether a command may reach what is meant."""
        if self.host == "*":
            program = words[0].rpartition("/")[2] if words else ""
            return program in _NETWORK or any("://" in word for word in words)
        return any(self.forbids(word) for word in words)

    def _is_host(self, host: str) -> bool:
        if self.host == "*":
            return True
        wanted, given = self.host.split("."), host.split(".")
        if wanted[0] == "*" and len(given) > len(wanted):
            given = ["", *given[len(given) - len(wanted) + 1 :]]  # `*.` is any number of names
        return len(wanted) == len(given) and all(
            wild(one).fullmatch(other) for one, other in zip(wanted, given, strict=True)
        )
