"""Each `Write` in SQL: statements that raise if it cannot follow what is recorded, so that nothing
has to be read beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from coterie.model import journal, task
from coterie.model.journal import Write
from coterie.stores import codec
from coterie.stores.postgres.sql_text import SQL, HashedText, filled, statement
from coterie.stores.writes import PLAIN, moments, problem_of, put_ticket, updates

_UPDATES = {
    kind: (text.split("?"), fields, problem)
    for kind, (text, fields, problem) in updates(SQL).items()
}


def statements(writes: Iterable[Write]) -> list[str]:
    """Return the statements of all writes, in order; raises IllegalWrite for an invalid write."""
    texts: list[str] = []
    for write in writes:
        texts.extend(_WRITES[type(write)](write))
    return texts


def _update(write: Write) -> Sequence[str]:
    parts, fields, problem = _UPDATES[type(write)]
    return [filled(parts, (*fields(write), problem_of(problem, write)))]


def _append_message(write: journal.AppendMessage) -> Sequence[str]:
    message = write.message
    problem = f"{message.task_id}: message {message.seq} does not follow the last one"
    row = (*codec.MESSAGE.row(message), message.seq, message.task_id, problem)
    return [statement("insert_message", *row)]


def _append_audit(write: journal.AppendAudit) -> Sequence[str]:
    # Repair before hashing: the hash must cover the stored text.
    row = codec.repair_row(codec.AUDIT.row(write.entry))
    return [statement("insert_audit", *row, HashedText(codec.hashed_after_number(row)))]


def _open_step(write: journal.OpenStep) -> Sequence[str]:
    step = write.step
    problem = f"{step.task_id}: step {step.name!r} is already recorded"
    return [statement("open_step", *codec.STEP.row(step), problem)]


def _open_turn(write: journal.OpenTurn) -> Sequence[str]:
    problem = f"{write.task_id}: attempt {write.attempt} of {write.step!r} is already recorded"
    return [statement("open_turn", *write, problem)]


def _plain(write: Write) -> Sequence[str]:
    return [statement(*query) for query in PLAIN[type(write)](write)]


def _put_ticket(write: journal.PutTicket) -> Sequence[str]:
    name, row, problem = put_ticket(write)
    lines = [statement("insert_moment", *line) for line in moments(write)]
    return [statement(name, *row, problem), *lines]


# -- events: numbered and chained by the server, folded into tasks and questions at once ---------


def _append_event(write: journal.AppendEvent) -> Sequence[str]:
    event = write.event
    row = (event.task_id, event.type, event.at, codec.event_text(event))
    tail = HashedText(codec.hashed_after_number(row))
    reason: str = getattr(event, "reason", "")
    texts = [statement("append_event", *row, tail, _following(event.type), reason)]
    if isinstance(event, task.TaskCreated):
        texts.append(statement("insert_task", *codec.task_row(event)))
    elif isinstance(event, task.UserInteractionRequested):
        question_id = event.interaction.interaction_id
        problem = f"{event.task_id}: question {question_id} has already been asked"
        question = (question_id, event.task_id, write.step or "", write.once, problem)
        texts.append(statement("insert_question", *question))
    elif isinstance(event, task.UserInteractionResponded):
        answer = (event.task_id, event.response.interaction_id, codec.question_state(event))
        texts.append(statement("respond_question", *answer))
    elif not isinstance(event, task.TaskStarted):
        texts.append(statement("close_questions", event.task_id))
    if write.incident is not None:
        texts.append(statement("queue_notification", write.incident, event.task_id, event.at))
    return texts


@cache
def _following(kind: str) -> str | None:
    """Map a task's status to its next after an event of this kind, as JSON; None for the first."""
    if kind == "TaskCreated":
        return None
    follows = {status: after[kind] for status, after in task.TRANSITIONS.items() if kind in after}
    return codec.json_of(follows)


_WRITES: Mapping[type, Callable[[Any], Sequence[str]]] = {
    **dict.fromkeys(_UPDATES, _update),
    **dict.fromkeys(PLAIN, _plain),
    journal.AppendEvent: _append_event,
    journal.AppendMessage: _append_message,
    journal.AppendAudit: _append_audit,
    journal.OpenStep: _open_step,
    journal.OpenTurn: _open_turn,
    journal.PutTicket: _put_ticket,
}
