"""The git repository that branches travel by, where they do not travel in the store."""

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
"""`user@host:path`, as git takes it."""

Transport = Literal["network", "file"]
_TRANSPORTS: Mapping[str, Transport] = {"ssh": "network", "https": "network", "file": "file"}
_PROTOCOLS: Mapping[Transport, str] = {"network": "https:ssh", "file": "file"}
"""The user's own git may reach a host by the other of the two."""


def transport_of(url: str) -> Transport:
    """By what git reaches a repository; ValueError says why it is none that is spoken to."""
    if not url.isprintable() or url.startswith("-"):
        raise ValueError("is no address of a repository")
    scheme, separator, _ = url.partition("://")
    if not separator:
        if url.startswith("/"):
            return "file"
        if _SSH.fullmatch(url):
            return "network"
    elif scheme in _TRANSPORTS:
        if _holds_password(url):
            raise ValueError("holds a password, which belongs to git's credential helper")
        return _TRANSPORTS[scheme]
    raise ValueError(
        "is no ssh://… or https://… address, user@host:path or absolute path of a repository"
    )


def _holds_password(url: str) -> bool:
    try:
        return urlsplit(url).password is not None
    except ValueError:
        return False


@dataclass(frozen=True)
class Travel:
    """How branches go from machine to machine, as the user's setting has it."""

    remote: str | None = None
    """The remote of the clone that they go by, by its name."""
    url: str | None = None
    """The address of the repository that they go by."""

    @classmethod
    def parsed(cls, setting: str) -> Travel:
        """Read `bundle`, `git:NAME` or `git:ADDRESS`; ValueError says what is wrong with it."""
        if setting == BUNDLE:
            return cls()
        where = setting.removeprefix(_GIT)
        if where == setting or not where:
            raise ValueError(f"it is {BUNDLE}, or {_GIT} and a remote's name or an address")
        if _REMOTE_NAME.fullmatch(where):
            return cls(remote=where)
        try:
            transport_of(where.replace("~", "/", 1) if where.startswith("~") else where)
        except ValueError as wrong:
            raise ValueError(f"what stands after {_GIT} {wrong}") from None
        return cls(url=where)


@dataclass(frozen=True)
class GitRemote:
    """A repository to send branches to and fetch them from."""

    url: str
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """What of the user's own git needs to get there."""

    @property
    def is_path(self) -> bool:
        """Whether it is on this machine's disk, where git itself serves it."""
        return transport_of(self.url) == "file"

    @property
    def allowed(self) -> Mapping[str, str]:
        """What lets git speak the protocols that lead there, and no other."""
        return {"GIT_ALLOW_PROTOCOL": _PROTOCOLS[transport_of(self.url)]}


REMOTE_AWAY = "remote_away"
"""The code of what is told while the repository that branches travel by cannot be reached."""
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0


def pauses() -> Iterator[float]:
    """For how many seconds one waits before a remote that is away is tried again."""
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE)
