"""Rules that every back end keeps alike: what is derived from events, and how rows are chained.

Pure, so that each store keeps its projections in its own way and none has its own opinion.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence

from coterie.model.interaction import NOBODY, Response
from coterie.model.task import Status, TaskCreated, TaskState
from coterie.model.tool_call import AuditEntry

Value = str | int | bytes | None
"""What a column may hold."""

KEPT_STATES = frozenset({"waiting", "quiet", "stuck"})
"""Member states that other processes are shown; any other one takes the row away again."""

_TITLE = 80


def title_of(goal: str) -> str:
    """A task in one line of a list: the first line of its goal that says something."""
    for line in goal.splitlines():
        words = line.strip()
        if words:
            return words if len(words) <= _TITLE else words[: _TITLE - 1] + "…"
    return ""


def state_of(task_id: str, status: Status, open_questions: Iterable[str]) -> TaskState:
    """A task's state from its projection, as far as the rules of `task.after` look at it."""
    created = TaskCreated.model_construct(task_id=task_id)
    return TaskState(created=created, status=status, open_questions=frozenset(open_questions))


def question_state(response: Response) -> str:
    """An answer by nobody only closes the question."""
    return "closed" if response.author_actor_id == NOBODY else "answered"


def chained(previous: bytes, row: Sequence[Value]) -> bytes:
    """The hash of a row that follows a row with the hash `previous` (empty for the first)."""
    text = json.dumps(row, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(previous + text.encode()).digest()


def mended(text: str) -> str:
    """The text with halves of surrogate pairs joined, or replaced where the other is missing.

    An agent may print one half of a character as an escape; UTF-8 has no way to keep that.
    """
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def mended_row(row: Sequence[Value]) -> tuple[Value, ...]:
    """The row with every text mended; only worth its time where writing it has failed."""
    return tuple(mended(field) if isinstance(field, str) else field for field in row)


def audit_row(sequence: int, entry: AuditEntry) -> tuple[Value, ...]:
    """A row of the audit as it is hashed, in the order that `coterie audit --export` documents."""
    # Mended before the hash, which must be over what is kept; the rest is of our own making.
    return (
        sequence,
        entry.task_id,
        entry.kind,
        mended(entry.tool_call_id),
        mended(entry.tool_name),
        entry.author_actor_id,
        entry.timestamp,
        None if entry.input is None else json_of(entry.input),
        None if entry.output is None else json_of(entry.output),
        None if entry.is_error is None else int(entry.is_error),
        entry.duration_ms,
    )


def json_of(value: Mapping[str, object]) -> str:
    """An object as JSON; what JSON cannot say is kept as its text."""
    return mended(json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str))
