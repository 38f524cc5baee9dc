"""Records and views as JSON objects: the fields of the contract, none renamed.

Used by `--json` and by the API.
"""

from __future__ import annotations

from dataclasses import asdict

from coterie.model.interaction import Interaction
from coterie.model.record import (
    InteractionRecord,
    MessageRecord,
    QuestionView,
    Record,
    ResultRecord,
    RunningMember,
    TaskDetail,
    TaskView,
)
from coterie.model.ticket import TicketKind, TicketView
from coterie.model.update import Usage


def fields_of(record: Record) -> dict[str, object]:
    """All fields of a record except its type and time."""
    match record:
        case InteractionRecord():
            fields = interaction(record.interaction, record.member, record.state)
            if record.state != "open":
                fields |= {"answer": record.answer, "answer_text": record.said, "by": record.by}
            return fields
        case MessageRecord():
            values: dict[str, object] = {**vars(record), "usage": usage(record.usage)}
            del values["at"]
            return values
        case ResultRecord(stop=stop):
            why = None if stop is None else {"reason": stop.reason, **asdict(stop)}
            return {**vars(record), "usage": usage(record.usage), "stop": why}
        case _:
            return dict(vars(record))


def interaction(asked: Interaction, member: str, state: str) -> dict[str, object]:
    """A question, flattened; for a tool call, exactly what it would do, where and why."""
    return {
        "id": asked.interaction_id,
        "task": asked.task_id,
        "member": member,
        "kind": asked.kind,
        "purpose": asked.purpose,
        "title": asked.display.title,
        "description": asked.display.description,
        "content": asked.display.content,
        "content_kind": asked.display.content_kind,
        "options": [option.model_dump() for option in asked.options],
        "validation": asked.validation.model_dump(),
        "state": state,
        "about": asked.about.model_dump(mode="json", by_alias=False) if asked.about else None,
        **_permission(asked),
    }


def _permission(asked: Interaction) -> dict[str, object]:
    call = asked.permission
    if call is None:
        return {}
    is_diff = asked.display.content_kind == "Diff"
    what = asked.display.content if is_diff else call.command or asked.display.content
    return {
        "diff" if is_diff else "command": what,
        "cwd": call.cwd,
        "reason": call.why,
        "tool": call.tool,
        "said": call.said,
        "note": call.note,
        "effect": call.effect,
        "may_have_run_at": call.may_have_run_at,
    }


def question(view: QuestionView) -> dict[str, object]:
    """A question as listed in the inbox."""
    member = view.member.id if view.member else view.interaction.author_actor_id
    fields = interaction(view.interaction, member, view.state)
    fields |= {"project": str(view.project), "task_title": view.task_title}
    fields |= {"asked_at": view.asked_at}
    if view.state != "open":
        fields |= {"answer": view.answer, "answered_at": view.answered_at, "by": view.answered_by}
        fields |= {"answer_text": view.said}
    return fields


def task(view: TaskView) -> dict[str, object]:
    """A task in a list."""
    return {**asdict(view), "standing": view.standing, "resumable": view.resumable}


def running(member: RunningMember) -> dict[str, object]:
    """A member of a running task."""
    return {
        **asdict(member),
        "folder": str(member.folder),
        "home": str(member.home) if member.home else None,
        "label": member.label,
        "project": str(member.project),
    }


def detail(shown: TaskDetail) -> dict[str, object]:
    """Everything about one task."""
    return task(shown.view) | {
        "goal": shown.state.created.goal,
        "team": shown.state.created.team.name,
        "members": [member.id for member in shown.state.created.team.in_order],
        "summary": shown.state.summary,
        "turns": shown.turns,
        "failures": failures(shown),
        "children": [task(view) for view in shown.children],
        "questions": [question(view) for view in shown.questions],
        "folder": str(shown.folder),
    }


def ticket(
    task_id: str, view: TicketView, kind: TicketKind, waits_for: tuple[str, ...], asks: str
) -> dict[str, object]:
    """A ticket of a session, with what it counts as, what it waits for and its open question."""
    one = view.ticket
    return {
        "task": task_id,
        "id": one.id,
        "state": one.state,
        "kind": kind,
        "owner": one.owner,
        "title": one.title,
        "message": one.reason,
        "dependencies": one.dependencies,
        "closed_by": one.closed_by,
        "checks": str(view.checks or ""),
        "plan_task": one.task_id,
        "waits_for": waits_for,
        "asks": asks or None,
        "turns": view.turns,
        "seconds": round(view.seconds, 3),
        "tokens": view.tokens,
    }


def failures(shown: TaskDetail) -> list[dict[str, object]]:
    """The failed turns of a task."""
    return [{"member": member, "message": what} for member, what in shown.failures]


def usage(used: Usage | None) -> dict[str, object] | None:
    """The usage, or null if the agents did not report it."""
    return None if used is None else asdict(used)
