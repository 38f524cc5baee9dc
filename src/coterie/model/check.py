"""A check: a command that Coterie ran itself, on a tree that it knows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CheckOutcome:
    """How a command ended; what an agent claims of it does not count."""

    command: str
    exit_code: int | None
    """None: it did not end in its time, or could not be started."""
    output: str
    """The end of what it printed."""
    duration_ms: int
    tree: str = ""
    """The hash of the files it ran on; empty where nobody can tell."""
    log: str = ""
    """Where all that it printed is, below the session's artifacts."""
    digest: str = ""
    """`sha256:…` of that file."""
    size_bytes: int | None = None

    @property
    def passed(self) -> bool:
        """Whether it ended with exit code 0."""
        return self.exit_code == 0
