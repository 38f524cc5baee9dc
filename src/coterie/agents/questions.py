"""What agents ask a person: for permission to make a tool call, or for information."""

from __future__ import annotations

import re
from collections.abc import Iterable

from coterie.model.interaction import (
    APPROVE,
    REJECT,
    Display,
    Option,
    Response,
    Validation,
)
from coterie.model.update import Asked, PendingCall

MOST_CHOICES = 20
PERMISSION_OPTIONS = (
    Option(id=APPROVE, label="once", style="primary"),
    Option(id=REJECT, label="deny", style="danger"),
)
"""The possible answers to a request for permission."""


def permission(key: str, call: PendingCall) -> Asked:
    """Return the question whether a call may be made."""
    options = PERMISSION_OPTIONS
    return Asked(key, "Confirm", "confirm_risky_action", options=options, call=call)


def choices_of(labels: Iterable[str]) -> tuple[Option, ...]:
    """Return answers to choose from, each with a short id of its own."""
    options: dict[str, Option] = {}
    for number, label in enumerate(labels, 1):
        if number > MOST_CHOICES:
            break
        name = re.sub(r"\W+", "-", label.lower()).strip("-")[:24]
        name = f"{name}-{number}" if not name or name in options else name
        options[name] = Option(id=name, label=label)
    return tuple(options.values())


def information(key: str, display: Display, choices: tuple[Option, ...]) -> Asked:
    """Return a question to the person, with these choices or, if none, a free-form answer."""
    if choices:
        return Asked(key, "Select", "request_info", display, choices)
    return Asked(key, "Input", "request_info", display, validation=Validation(required=True))


def answer_text(asked: Asked, response: Response) -> str:
    """Return a person's answer in words that the agent understands; empty if there is none."""
    if asked.kind == "Input":
        return response.input_value or ""
    chosen = next((one for one in asked.options if one.id == response.selected_option_id), None)
    if chosen is None:
        return ""
    return f"{chosen.label} ({response.comment})" if response.comment else chosen.label
