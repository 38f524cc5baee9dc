"""The git repository that branches travel through, if they do not travel in the store."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

BUNDLE = "bundle"
"""Branches travel in the store."""
_GIT = "git:"
_REMOTE_NAME = re.compile(r"\w[\w.-]*", re.ASCII)
_SSH = re.compile(r"(?:[^/:@-][^/:@]*@)?[^/:@-][^/:@]*:[^:].*")
"""`user@host:path`, as git accepts it."""

Transport = Literal["network", "file"]
_TRANSPORTS: Mapping[str, Transport] = {"ssh": "network", "https": "network", "file": "file"}
_PROTOCOLS: Mapping[Transport, str] = {"network": "https:ssh", "file": "file"}
"""Both network protocols, since the user's git configuration may replace one by the other."""


def transport_of(url: str) -> Transport:
    """How git reaches a repository.  Raises ValueError, with the reason, if it is unsupported."""
    if not url.isprintable() or url.startswith("-"):
        raise ValueError("is not the address of a repository")
    scheme, separator, _ = url.partition("://")
    if not separator:
        if url.startswith("/"):
            return "file"
        if _SSH.fullmatch(url):
            return "network"
    elif scheme in _TRANSPORTS:
        if _holds_password(url):
            raise ValueError("contains a password, which belongs in git's credential helper")
        return _TRANSPORTS[scheme]
    raise ValueError(
        "is not an ssh://… or https://… address, user@host:path or absolute path of a repository"
    )


def _holds_password(url: str) -> bool:
    try:
        return urlsplit(url).password is not None
    except ValueError:
        return False


@dataclass(frozen=True)
class Travel:
    """How branches travel between machines, according to the user's setting."""

    remote: str | None = None
    """The name of the clone's remote that they travel through."""
    url: str | None = None
    """The address of the repository that they travel through."""

    @classmethod
    def parsed(cls, setting: str) -> Travel:
        """Parse `bundle`, `git:NAME` or `git:ADDRESS`.  Raises ValueError, with the reason."""
        if setting == BUNDLE:
            return cls()
        where = setting.removeprefix(_GIT)
        if where == setting or not where:
            raise ValueError(f"it must be {BUNDLE}, or {_GIT} and a remote's name or an address")
        if _REMOTE_NAME.fullmatch(where):
            return cls(remote=where)
        try:
            transport_of(where.replace("~", "/", 1) if where.startswith("~") else where)
        except ValueError as wrong:
            raise ValueError(f"the part after {_GIT} {wrong}") from None
        return cls(url=where)


@dataclass(frozen=True)
class GitRemote:
    """A repository to send branches to and fetch them from."""

    url: str
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """The environment that the user's own git needs to reach it."""

    @property
    def is_path(self) -> bool:
        """Whether it is on this machine's disk, where git itself serves it."""
        return transport_of(self.url) == "file"

    @property
    def allowed(self) -> Mapping[str, str]:
        """The environment that restricts git to the protocols for this address."""
        return {"GIT_ALLOW_PROTOCOL": _PROTOCOLS[transport_of(self.url)]}


REMOTE_AWAY = "remote_away"
"""The error code reported while the repository that branches travel through is unreachable."""
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0


def pauses() -> Iterator[float]:
    """The seconds to wait before each retry of an unreachable remote."""
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE)
