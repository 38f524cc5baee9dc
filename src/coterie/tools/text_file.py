"""A text file as it is on disk, and the versions of files that an agent has read."""

from __future__ import annotations

import codecs
import hashlib
from dataclasses import dataclass, field
from threading import Lock

WHOLE = 16 * 1024 * 1024
"""A larger file is only looked into, never held and never edited."""
LOOKED_AT = 8192
"""A NUL among the first bytes makes a file binary."""
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True)
class TextFile:
    """The text of a file with its line ends as they are, and what else is kept when it changes."""

    text: str
    """Bytes that are no UTF-8 are in it as lone surrogates, and are written back as they were."""
    encoding: str = "utf-8"
    mark: bytes = b""

    @classmethod
    def read(cls, data: bytes) -> TextFile | None:
        """The text in these bytes; None if there is none."""
        for mark, encoding in _MARKS:
            if data.startswith(mark):
                try:
                    return cls(data[len(mark) :].decode(encoding), encoding, mark)
                except UnicodeDecodeError:
                    break
        if b"\0" in data[:LOOKED_AT]:
            return None
        return cls(data.decode("utf-8", "surrogateescape"))

    @property
    def newline(self) -> str:
        """How most of its lines end."""
        windows = self.text.count("\r\n")
        return "\r\n" if windows > self.text.count("\n") - windows else "\n"

    @property
    def pure(self) -> bool:
        """Whether every byte of it is part of a character."""
        return self.text.isascii() or not any("\udc80" <= one <= "\udcff" for one in self.text)

    def encode(self, text: str) -> bytes:
        """Another text, written in the same way."""
        return self.mark + text.encode(self.encoding, "surrogateescape")

    def with_its_lines(self, text: str) -> str:
        """A text from elsewhere, its lines ended as those of this file are."""
        plain = text.replace("\r\n", "\n")
        return plain.replace("\n", self.newline)


def digest(data: bytes) -> str:
    """By which one knows whether a file is still the one that was read."""
    return hashlib.sha256(data).hexdigest()[:16]


@dataclass
class FileVersions:
    """The files that a member's tools have shown it, by path from the top of its workspace."""

    digests: dict[str, str] = field(default_factory=dict[str, str])
    lock: Lock = field(default_factory=Lock)
    """Held by whoever changes a file, so that two calls at once do not lose each other's work."""

    def record(self, path: str, digest: str) -> None:
        """The member has seen this file as it is now; also called to remember after a restart."""
        self.digests[path] = digest

    def is_stale(self, path: str, digest: str) -> bool:
        """Whether the file is another than the one that was seen; one never seen is not stale."""
        return self.digests.get(path, digest) != digest
