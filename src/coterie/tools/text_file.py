"""A text file as it is on disk, and the versions of files that an agent has read."""

from __future__ import annotations

import codecs
import hashlib
from dataclasses import dataclass, field
from threading import Lock

WHOLE = 16 * 1024 * 1024
"""A larger file is read in parts only, and never edited."""
SNIFFED = 8192
"""A NUL among so many first bytes makes a file binary."""
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose bom it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True)
class TextFile:
    """The text of a file with its line endings, encoding and byte order bom."""

    text: str
    """Bytes that are no UTF-8 are in it as lone surrogates, and are written back as they were."""
    encoding: str = "utf-8"
    bom: bytes = b""

    @classmethod
    def read(cls, data: bytes) -> TextFile | None:
        """Decode a file; None if it is binary."""
        for bom, encoding in _BOMS:
            if data.startswith(bom):
                try:
                    return cls(data[len(bom) :].decode(encoding), encoding, bom)
                except UnicodeDecodeError:
                    break
        if b"\0" in data[:SNIFFED]:
            return None
        return cls(data.decode("utf-8", "surrogateescape"))

    @property
    def newline(self) -> str:
        """The line ending that most of its lines have."""
        windows = self.text.count("\r\n")
        return "\r\n" if windows > self.text.count("\n") - windows else "\n"

    @property
    def pure(self) -> bool:
        """Whether every byte of it is part of a character."""
        return self.text.isascii() or not any("\udc80" <= one <= "\udcff" for one in self.text)

    def encode(self, text: str) -> bytes:
        """Another text in the same encoding."""
        return self.bom + text.encode(self.encoding, "surrogateescape")

    def with_its_newlines(self, text: str) -> str:
        """A text from elsewhere with the line endings of this file."""
        plain = text.replace("\r\n", "\n")
        return plain.replace("\n", self.newline)


def digest(data: bytes) -> str:
    """By which one knows whether a file is still the one that was read."""
    return hashlib.sha256(data).hexdigest()[:16]


@dataclass
class FileVersions:
    """The versions of files that a member has read, so that it never edits one it does not know."""

    digests: dict[str, str] = field(default_factory=dict[str, str])
    lock: Lock = field(default_factory=Lock)
    """Held while a file is changed, so that two calls at once do not lose each other's work."""

    def record(self, path: str, digest: str) -> None:
        """The member has read this version; also called to restore the state after a restart."""
        self.digests[path] = digest

    def is_stale(self, path: str, digest: str) -> bool:
        """Whether the file has changed since it was read; one never read is not stale."""
        return self.digests.get(path, digest) != digest
