"""Rules that every back end keeps alike: what is derived from events, and how rows are chained.

Pure, so that each store keeps its projections in its own way and none has its own opinion.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence

from coterie.model.interaction import NOBODY, Response
from coterie.model.task import Status, TaskCreated, TaskState
from coterie.stores.codec import Value

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
