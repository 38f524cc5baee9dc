"""What the agent asks before it goes on, and what the answers mean to the model."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from coterie.agents.builtin.speech import ToolCallRequest
from coterie.model.action import Action
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
from coterie.tools.toolbox import PreparedCall, ToolOutcome

_OPTIONS = (
    Option(id=APPROVE, label="this once", style="primary"),
    Option(id=REJECT, label="no", style="danger"),
)
_LONGEST_SAID = 2_000


@dataclass(frozen=True)
class Around:
    """What stands around a call that needs a yes."""

    said: str
    """What the model said in the reply that makes it."""
    sandbox: str
    """What holds a command."""
    diff: str = ""
    """What it would change, where that can be said."""
    is_untouched: bool = False
    """Whether it is one that a crash cut off, and is known not to have begun."""


def permission(request: ToolCallRequest, prepared: PreparedCall, around: Around) -> Asked:
    """The question whether a call may be made."""
    title, content, kind = _shown(prepared, around.diff)
    action = prepared.action
    return Asked(
        key=request.id,
        kind="Confirm",
        purpose="confirm_risky_action",
        display=Display(title=title, content=content, content_kind=kind),
        options=_OPTIONS,
        call=PendingCall(
            call_id=request.id,
            name=request.name,
            input=prepared.given,
            cwd=action.cwd,
            action=action,
            said=around.said.strip()[:_LONGEST_SAID],
            note=around.sandbox if action.effect == "run" else "",
            is_untouched=around.is_untouched,
            must_ask=prepared.must_ask,
        ),
    )


def _shown(prepared: PreparedCall, diff: str) -> tuple[str, str, ContentKind]:
    """What would be done, exactly."""
    action: Action = prepared.action
    if action.effect == "run":
        return "Run a command", action.command, "PlainText"
    if diff:
        return f"Change {', '.join(action.paths)}", diff, "Diff"
    whole = json.dumps(dict(prepared.given), ensure_ascii=False)
    return f"Use {action.tool}", whole, "Json"


def refused(response: Response | None) -> ToolOutcome:
    """What the model is told of a no."""
    word = response.comment or response.input_value if response is not None else None
    if response is None or (response.selected_option_id is None and not word):
        return ToolOutcome.refused("Nobody answered, so the answer is no. It was not run.")
    why = f": {word}" if word else "."
    return ToolOutcome.refused(f"It was not run; the answer was no{why}")


# -- questions to the person -------------------------------------------------------------------


def question(request: ToolCallRequest, given: Mapping[str, object]) -> Asked:
    """What the model wants to know from the person."""
    choices = _choices(given.get("options"))
    display = Display(title=str(given["question"]))
    # By the id of the call: after a crash it is the same question.
    key = f"ask.{request.id}"
    if choices:
        return Asked(key, "Select", "request_info", display, choices)
    return Asked(key, "Input", "request_info", display, validation=Validation(required=True))


def answer_to(asked: Asked, response: Response | None) -> ToolOutcome:
    """What the person said, as the result of the call."""
    said = ""
    if response is not None and asked.kind == "Select":
        labels = {option.id: option.label for option in asked.options}
        said = labels.get(response.selected_option_id or "", "")
    elif response is not None:
        said = response.input_value or ""
    if not said:
        return ToolOutcome.refused("Nobody answered.")
    comment = response.comment if response is not None else None
    return ToolOutcome({"answer": said, "comment": comment} if comment else {"answer": said})


def _choices(offered: object) -> tuple[Option, ...]:
    options: dict[str, Option] = {}
    labels = cast("list[object]", offered) if isinstance(offered, list) else []
    for number, label in enumerate(map(str, labels), 1):
        name = re.sub(r"\W+", "-", label.lower()).strip("-")[:24]
        name = f"{name}-{number}" if not name or name in options else name
        options[name] = Option(id=name, label=label)
    return tuple(options.values())
