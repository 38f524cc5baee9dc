"""How a task ended, or why nobody runs it, from what is stored: for processes that did not run it.

A run knows why it stopped, and nothing is recorded for that alone: it follows from the questions,
the requests and the members' states.
"""

from __future__ import annotations

from coterie.engine.reader import TaskReader
from coterie.model import instant
from coterie.model.about import BudgetReached, WorkflowChange
from coterie.model.budget import grant
from coterie.model.interaction import STOP_TASK, Question
from coterie.model.journal import SetMemberState
from coterie.model.record import PARKED, ResultRecord
from coterie.model.task import ENDED, RateLimited, Stop, Stopped, is_below, leased_as
from coterie.model.update import sum_of


async def stored_result(look: TaskReader, task_id: str) -> ResultRecord:
    """The result of a task that has ended or that nobody runs."""
    state, turns = await look.state(task_id), await _turns(look, task_id)
    spent = await look.storage.journal.spending(task_id=task_id)
    usage = sum_of(used for turn in spent if (used := turn.used) is not None)
    if state.status in ENDED:
        return ResultRecord.of(state, turns, usage=usage)
    questions = [
        one
        for one in await look.storage.inbox.questions(only_open=False)
        if _is_within(one.interaction.task_id, task_id)
    ]
    asks = any(one.state == "open" for one in questions)
    stop = await _stop(look, task_id, questions, asks=asks)
    return ResultRecord.of(state, turns, stop, usage, asks=asks)


async def _turns(look: TaskReader, task_id: str) -> int:
    """How many turns of a task and its tickets produced a message."""
    mine = [one for one in await look.below(task_id) if task_id in (one, leased_as(one))]
    read = look.storage.conversation.messages
    return sum([message.turn > 0 for one in mine for message in await read(one)])


async def _stop(look: TaskReader, task_id: str, questions: list[Question], *, asks: bool) -> Stop:
    """Why a task is not run; what its user did or is to do comes first."""
    # Whoever runs it next drops the request that ended the last run.
    if any(one.kind == "stop" for one in await look.storage.inbox.requests(task_id)):
        return Stopped("stopped")
    if asks:
        return Stopped("question")
    now, states = instant.now(), await look.storage.member_states()
    waiting = [
        one
        for one in states
        if _is_within(one.task_id, task_id) and (one.until is None or one.until > now)
    ]
    if any(_is_stopped_at_budget(one, questions) for one in waiting):
        return Stopped("budget")
    for one in waiting:
        if one.waits_for == "limit" and one.until is not None:
            return RateLimited(one.member, one.until)
    return _chosen(questions) or PARKED


def _is_within(task_id: str, of: str) -> bool:
    return task_id == of or is_below(task_id, of)


def _is_stopped_at_budget(state: SetMemberState, questions: list[Question]) -> bool:
    """Whether a member still waits at a budget that its user did not raise."""
    since = [
        one
        for one in questions
        if isinstance(one.interaction.about, BudgetReached)
        and _is_by_person(one)
        and (one.answered_at or "") >= state.since
    ]
    return state.waits_for == "budget" and bool(since) and grant(_newest(since)) == 0


def _chosen(questions: list[Question]) -> Stop | None:
    """What the user last chose, if that was to stop."""
    answered = [one for one in questions if _is_by_person(one)]
    newest = _newest(answered) if answered else None
    if newest is None or newest.response is None:
        return None
    if newest.response.selected_option_id != STOP_TASK:
        return None
    changed = isinstance(newest.interaction.about, WorkflowChange)
    return Stopped("workflow_changed" if changed else "stopped")


def _is_by_person(question: Question) -> bool:
    return question.response is not None and question.response.by_person


def _newest(answered: list[Question]) -> Question:
    return max(answered, key=lambda one: one.answered_at or "")
