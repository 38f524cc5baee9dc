"""What agents ask a person: for permission to make a tool call, or for information."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from coterie.model.interaction import (
    APPROVE,
    REJECT,
    ContentKind,
    Display,
    Option,
    Response,
    Validation,
)
from coterie.model.update import Asked, PendingCall

MOST_CHOICES = 20
PERMISSION_OPTIONS = (
    Option(id=APPROVE, label="this once", style="primary"),
    Option(id=REJECT, label="no", style="danger"),
)
"""How a question for permission may be answered."""


def permission(key: str, call: PendingCall, diff: str = "") -> Asked:
    """The question whether a call may be made, which shows exactly what it would do.

    `diff` is what it would change, where that can be said.
    """
    title, content, kind = _shown(call, diff)
    return Asked(
        key=key,
        kind="Confirm",
        purpose="confirm_risky_action",
        display=Display(title=title, content=content, content_kind=kind),
        options=PERMISSION_OPTIONS,
        call=call,
    )


def _shown(call: PendingCall, diff: str) -> tuple[str, str, ContentKind]:
    action = call.action
    if action is not None and action.effect == "run" and action.command:
        return "Run a command", action.command, "PlainText"
    paths = action.paths if action is not None and action.effect == "write" else ()
    title = f"Change {', '.join(paths)}" if any(paths) else call.name
    if diff:
        return title, diff, "Diff"
    return title, json.dumps(dict(call.input), indent=2, ensure_ascii=False), "Json"


def choices_of(labels: Iterable[str]) -> tuple[Option, ...]:
    """Answers to choose from, each with a short id of its own."""
    options: dict[str, Option] = {}
    for number, label in enumerate(labels, 1):
        if number > MOST_CHOICES:
            break
        name = re.sub(r"\W+", "-", label.lower()).strip("-")[:24]
        name = f"{name}-{number}" if not name or name in options else name
        options[name] = Option(id=name, label=label)
    return tuple(options.values())


def information(key: str, display: Display, choices: tuple[Option, ...]) -> Asked:
    """A question to the person: to choose from these, or to answer freely where there are none."""
    if choices:
        return Asked(key, "Select", "request_info", display, choices)
    return Asked(key, "Input", "request_info", display, validation=Validation(required=True))


def said_to(asked: Asked, response: Response) -> str:
    """What a person answered, in the words that the agent knows it by; empty: nothing."""
    if asked.kind == "Input":
        return response.input_value or ""
    chosen = next((one for one in asked.options if one.id == response.selected_option_id), None)
    if chosen is None:
        return ""
    return f"{chosen.label} ({response.comment})" if response.comment else chosen.label
