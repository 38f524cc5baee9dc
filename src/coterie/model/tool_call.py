"""A tool call as the audit keeps it: asked for, then ended; never changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

DENIED = "denied"
"""The key in a completed call's output that says why it was not permitted, and so not run."""


@dataclass(frozen=True)
class AuditEntry:
    """One row of the audit: `input` belongs to Requested, the outcome to Completed."""

    kind: Literal["ToolCallRequested", "ToolCallCompleted"]
    tool_call_id: str
    tool_name: str
    author_actor_id: str
    task_id: str
    timestamp: str
    input: Mapping[str, object] | None = None
    output: Mapping[str, object] | None = None
    is_error: bool | None = None
    duration_ms: int | None = None


@dataclass(frozen=True)
class ChainedEntry:
    """A row of the audit in its place in the chain: its hash is over `previous` and itself."""

    sequence: int
    previous: str
    """The hash of the row before, in hex; empty for the first."""
    hash: str
    entry: AuditEntry
