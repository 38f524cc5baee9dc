"""Which files an agent has read, and as what: so that it never edits what it does not know."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock


@dataclass
class Seen:
    """The files that a member's tools have shown it, by path from the top of its workspace."""

    digests: dict[str, str] = field(default_factory=dict[str, str])
    lock: Lock = field(default_factory=Lock)
    """Held by whoever changes a file, so that two calls at once do not lose each other's work."""

    def note(self, path: str, digest: str) -> None:
        """The member has seen this file as it is now; also called to remember after a restart."""
        self.digests[path] = digest

    def stale(self, path: str, digest: str) -> bool:
        """Whether the file is another than the one that was seen; one never seen is not stale."""
        return self.digests.get(path, digest) != digest
