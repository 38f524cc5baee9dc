"""Secrets are taken out of every write of a run, whatever it is."""

from __future__ import annotations

import json
from dataclasses import replace

from coterie.model.interaction import Display, Interaction
from coterie.model.journal import (
    AppendAudit,
    AppendEvent,
    AppendThread,
    CloseStep,
    CloseTurn,
    SetMemberState,
    Write,
)
from coterie.model.redaction import Redactor
from coterie.model.task import Event, TaskCompleted, TaskFailed, UserInteractionRequested

FAILED = '{"failed"'
"""How the result of a turn begins that failed; other results are the user's own words."""


def redacted(write: Write, by: Redactor) -> Write:
    """The write without secrets.  Messages are mended when they are made: others quote them."""
    match write:
        case AppendAudit(entry):
            given = by.mapping(entry.input) if entry.input is not None else None
            output = by.mapping(entry.output) if entry.output is not None else None
            if given == entry.input and output == entry.output:
                return write  # as good as always
            return AppendAudit(replace(entry, input=given, output=output))
        case AppendEvent(event, step):
            return AppendEvent(_event(event, by), step)
        case AppendThread(entry=text):
            kept = _json(text, by)
            return write if kept is text else replace(write, entry=kept)
        case CloseTurn(detail=str(text)):
            return replace(write, detail=by.text(text))
        case CloseStep(result=text) if text.startswith(FAILED):
            return replace(write, result=by.text(text))
        case SetMemberState(reason=text):
            return replace(write, reason=by.text(text))
        case _:
            return write


def _json(text: str, by: Redactor) -> str:
    """JSON without secrets, value by value: cut out of the text, one could take a quote along."""
    if by.text(text) == text:
        return text
    return json.dumps(by.value(json.loads(text)), ensure_ascii=False, separators=(",", ":"))


def _event(event: Event, by: Redactor) -> Event:
    match event:
        case UserInteractionRequested(interaction=asked):
            return event.model_copy(update={"interaction": _without(asked, by)})
        case TaskCompleted(summary=text):
            return event.model_copy(update={"summary": by.text(text)})
        case TaskFailed(message=text):
            return event.model_copy(update={"message": by.text(text)})
        case _:
            return event


def _without(asked: Interaction, by: Redactor) -> Interaction:
    shown = asked.display
    display = Display(
        title=by.text(shown.title),
        description=by.text(shown.description),
        content=by.text(shown.content),
        content_kind=shown.content_kind,
    )
    about = asked.about
    if about is not None:
        kept = by.mapping(about.model_dump(mode="json", by_alias=False))
        about = type(about).model_validate(kept)
    options = tuple(
        option.model_copy(update={"label": by.text(option.label), "detail": by.text(option.detail)})
        for option in asked.options
    )
    return asked.model_copy(update={"display": display, "about": about, "options": options})
