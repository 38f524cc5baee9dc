"""What an edit of Claude's would make of a file, as a diff.  All of it blocks."""

from __future__ import annotations

from pathlib import Path

from coterie.agents.claude.actions import path_of
from coterie.agents.diffs import unified
from coterie.agents.fields import mappings, text
from coterie.agents.wire import Object

EDITS = frozenset({"Edit", "MultiEdit", "Write"})
_LONGEST = 1_000_000
"""A longer file is not read for this: only the pieces that change are shown then."""


def diff_of(tool: str, given: Object, cwd: str) -> str:
    """The change that a call would make."""
    path = path_of(given)
    old = _read(Path(cwd, path))
    if tool == "Write":
        return unified(path, old or "", text(given.get("content")))
    edits = mappings(given.get("edits")) if tool == "MultiEdit" else [given]
    new = _edited(old, edits) if old is not None else None
    return "\n".join(_pieces(path, edits)) if new is None else unified(path, old or "", new)


def _read(path: Path) -> str | None:
    try:
        if path.stat().st_size > _LONGEST:
            return None
        return path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):  # it is not there, or no name of a file
        return None


def _edited(old: str, edits: list[Object]) -> str | None:
    """The text after the edits; None where they do not fit it."""
    for edit in edits:
        before, after = text(edit.get("old_string")), text(edit.get("new_string"))
        if before not in old or (not before and old):
            return None
        old = old.replace(before, after, -1 if edit.get("replace_all") is True else 1)
    return old


def _pieces(path: str, edits: list[Object]) -> list[str]:
    lines = [f"--- {path}", f"+++ {path}"]
    for edit in edits:
        everywhere = " (everywhere)" if edit.get("replace_all") is True else ""
        lines.append(f"@@ somewhere{everywhere} @@")
        lines += [f"-{line}" for line in text(edit.get("old_string")).splitlines()]
        lines += [f"+{line}" for line in text(edit.get("new_string")).splitlines()]
    return lines
