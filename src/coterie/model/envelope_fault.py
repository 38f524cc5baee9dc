"""The possible faults of a session's envelopes, in their files or in the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

FaultKind = Literal["changed", "missing", "unknown", "forged", "unsigned", "lost", "no_key"]

_TEXTS: Mapping[FaultKind, str] = {
    "changed": "{place} was changed after Coterie wrote it",
    "missing": "{place} is gone",
    "unknown": "{place} was not written by Coterie",
    "forged": "{place}: its signature is wrong in the database",
    "unsigned": "{place}: it is not signed in the database",
    "lost": "{place} is missing from the database",
    "no_key": "{place} is missing: the key that signs the envelopes of {session}",
}
_IN_FILES: tuple[FaultKind, ...] = ("changed", "missing", "unknown")
_KEPT: Mapping[FaultKind, str] = {"changed": ".changed", "unknown": ".stray"}


@dataclass(frozen=True)
class EnvelopeFault:
    """An envelope that is missing, or not as Coterie wrote it."""

    session: str
    kind: FaultKind
    file: str
    """The name of its file under `logs/<session>/`; for a key, its path."""
    mended: bool = False
    """Whether its file was restored from the database."""
    earlier: bool = False
    """Whether it was repaired before, and is known only from the file that was set aside."""
    signature_valid: bool = False
    """Whether its file has a valid signature, whatever the database says."""

    @property
    def in_database(self) -> bool:
        """Whether the fault is in the database rather than in the files."""
        return self.kind not in _IN_FILES

    @property
    def kept_as(self) -> str:
        """The name of the file that was set aside; empty if none was."""
        return f"{self.file}{_KEPT[self.kind]}" if self.mended and self.kind in _KEPT else ""

    def __str__(self) -> str:
        place = self.file if self.kind == "no_key" else f"logs/{self.session}/{self.file}"
        text = _TEXTS[self.kind].format(place=place, session=self.session)
        if self.earlier:
            return f"{place} was restored earlier; the faulty file is {self.kept_as}"
        if self.signature_valid:
            text += "; the signature in the file is valid"
        if self.mended and self.kind != "unknown":
            text += "; it was restored from the database"
        return f"{text}; the faulty file is now {self.kept_as}" if self.kept_as else text


@dataclass(frozen=True)
class EnvelopeCheck:
    """The result of checking all envelopes of a session."""

    session: str
    count: int
    signed: bool
    faults: tuple[EnvelopeFault, ...] = ()

    @property
    def new(self) -> tuple[EnvelopeFault, ...]:
        """The faults found by this check."""
        return tuple(fault for fault in self.faults if not fault.earlier)


Extent = Literal["whole", "cut", "live"]
"""Which files must exist: all; all but the last ones, which a crash may have cut off; or the same
while more may be written at any time."""


def faults_set_aside(session: str, names: Collection[str]) -> list[EnvelopeFault]:
    """The earlier faults that set-aside files are evidence of."""
    return [
        EnvelopeFault(session, kind, name.removesuffix(ending), mended=True, earlier=True)
        for kind, ending in _KEPT.items()
        for name in sorted(names)
        if name.endswith(ending)
    ]


def name_set_aside(kind: FaultKind, name: str) -> str:
    """The name under which a faulty file is set aside."""
    return f"{name}{_KEPT[kind]}"
