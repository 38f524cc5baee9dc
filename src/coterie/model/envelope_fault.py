"""What may be wrong with the envelopes of a session: in their files, or in the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

FaultKind = Literal["changed", "missing", "unknown", "forged", "unsigned", "lost", "no_key"]

_TEXTS: Mapping[FaultKind, str] = {
    "changed": "{place} does not say what Coterie wrote",
    "missing": "{place} is gone",
    "unknown": "{place} was not written by Coterie",
    "forged": "{place}: its signature is wrong in the database",
    "unsigned": "{place}: it is not signed in the database",
    "lost": "{place} is missing from the database",
    "no_key": "{place} is missing, which the envelopes of {session} are signed with",
}
_IN_FILES: tuple[FaultKind, ...] = ("changed", "missing", "unknown")
_KEPT: Mapping[FaultKind, str] = {"changed": ".changed", "unknown": ".stray"}


@dataclass(frozen=True)
class EnvelopeFault:
    """One envelope that is not what it was when it was written."""

    session: str
    kind: FaultKind
    file: str
    """The name of its file below `logs/<session>/`; of a key, its path."""
    mended: bool = False
    """Whether its file was written anew from the database."""
    earlier: bool = False
    """Whether that was done before, and only what was put aside still tells of it."""
    vouched: bool = False
    """Whether its file bears the right signature, whatever the database says."""

    @property
    def in_database(self) -> bool:
        """Whether it is the database that cannot be trusted."""
        return self.kind not in _IN_FILES

    @property
    def kept_as(self) -> str:
        """What the file is called that was put aside; empty where none was."""
        return f"{self.file}{_KEPT[self.kind]}" if self.mended and self.kind in _KEPT else ""

    def __str__(self) -> str:
        place = self.file if self.kind == "no_key" else f"logs/{self.session}/{self.file}"
        said = _TEXTS[self.kind].format(place=place, session=self.session)
        if self.earlier:
            return f"{place} was put right earlier; what had been there is {self.kept_as}"
        if self.vouched:
            said += "; the file bears the right signature"
        if self.mended and self.kind != "unknown":
            said += "; it was written anew from the database"
        return f"{said}; what was there is now {self.kept_as}" if self.kept_as else said


@dataclass(frozen=True)
class EnvelopeCheck:
    """What a check of all envelopes of a session found."""

    session: str
    count: int
    signed: bool
    faults: tuple[EnvelopeFault, ...] = ()

    @property
    def new(self) -> tuple[EnvelopeFault, ...]:
        """What was found now."""
        return tuple(fault for fault in self.faults if not fault.earlier)


Extent = Literal["whole", "cut", "live"]
"""What files there must be: all; all but the last, as a crash may have cut them off; or those, and
more may be written at any time."""


def put_aside(session: str, names: Collection[str]) -> list[EnvelopeFault]:
    """What the files tell that were put aside earlier."""
    return [
        EnvelopeFault(session, kind, name.removesuffix(ending), mended=True, earlier=True)
        for kind, ending in _KEPT.items()
        for name in sorted(names)
        if name.endswith(ending)
    ]


def kept_file(kind: FaultKind, name: str) -> str:
    """What a file is called that was put aside."""
    return f"{name}{_KEPT[kind]}"
