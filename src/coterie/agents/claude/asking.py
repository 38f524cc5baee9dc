"""What Claude asks before it goes on, as questions to the user; and the answers it understands."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from coterie.agents.fields import bounded, mapping, mappings, text
from coterie.agents.wire import Object
from coterie.model.interaction import ContentKind, Display, Option, Response, Validation
from coterie.model.update import Asked, PendingCall

QUESTION = "AskUserQuestion"
PLAN = "ExitPlanMode"

APPROVE, REJECT = "approve", "reject"
_OPTIONS = (
    Option(id=APPROVE, label="this once", style="primary"),
    Option(id=REJECT, label="no", style="danger"),
)
_EXACT = 10_000_000
"""A permission is for exactly this input, however long."""


@dataclass(frozen=True)
class Request:
    """Claude's request for leave to use a tool."""

    id: str
    tool: str
    input: Object
    call_id: str
    why: str
    """Why Claude asks at all, where it says so."""

    @classmethod
    def of(cls, request_id: str, request: Object) -> Request:
        """The request in a message."""
        return cls(
            request_id,
            text(request.get("tool_name")) or "unknown",
            cast("Object", bounded(mapping(request.get("input")), _EXACT)),
            text(request.get("tool_use_id")),
            text(request.get("decision_reason")),
        )

    @property
    def allowed(self) -> Object:
        """The answer yes, to what was asked and no more."""
        return {"behavior": "allow", "updatedInput": self.input}


@dataclass
class Asking:
    """A request on its way: its questions, and the answers so far."""

    request: Request
    questions: Sequence[Asked]
    _answers: dict[str, Response] = field(default_factory=dict[str, Response])

    def take(self, key: str, response: Response) -> Object | None:
        """Keep an answer; the reply to Claude once there is none missing."""
        self._answers[key] = response
        if len(self._answers) < len(self.questions):
            return None
        return self._permitted(response) if self.questions[0].call else self._chosen()

    def _permitted(self, response: Response) -> Object:
        if response.selected_option_id == APPROVE:
            return self.request.allowed
        return _denied(response)

    def _chosen(self) -> Object:
        answers: dict[str, str] = {}
        for asked in self.questions:
            response = self._answers[asked.key]
            said = _said(asked, response)
            if not said:
                return _denied(response)
            answers[asked.display.title] = said
        return {"behavior": "allow", "updatedInput": {**self.request.input, "answers": answers}}


def asking(request: Request, cwd: str, said: str) -> Asking:
    """The questions of a request, asked by an agent that works here and last said this."""
    around = f"In {cwd}\nWhy: {_why(request)}" + (f"\nIt last said: {said}" if said else "")
    if request.tool == QUESTION:
        found = mappings(request.input.get("questions"))
        asked = [_question(f"{request.id}.{n}", one, around) for n, one in enumerate(found, 1)]
        if asked:
            return Asking(request, asked)
    return Asking(request, [_permission(request, cwd, around)])


# -- permissions -------------------------------------------------------------------------------


def _permission(request: Request, cwd: str, around: str) -> Asked:
    title, content, kind = _shown(request)
    return Asked(
        key=request.id,
        kind="Confirm",
        purpose="choose_strategy" if request.tool == PLAN else "confirm_risky_action",
        display=Display(title=title, description=around, content=content, content_kind=kind),
        options=_OPTIONS,
        call=PendingCall(request.call_id, request.tool, request.input, cwd),
    )


def _shown(request: Request) -> tuple[str, str, ContentKind]:
    """What would be done, exactly."""
    given, path = request.input, text(request.input.get("file_path"))
    match request.tool:
        case "Bash":
            how = " in the background" if given.get("run_in_background") is True else ""
            return f"Run a command{how}", text(given.get("command")), "PlainText"
        case "Edit":
            return f"Change {path}", _diff(path, given), "Diff"
        case "Write":
            return f"Write {path}", text(given.get("content")), "PlainText"
        case "ExitPlanMode":
            return "Approve a plan", text(given.get("plan")), "PlainText"
        case _:
            whole = json.dumps(given, indent=2, ensure_ascii=False)
            return f"Use {request.tool}", whole, "Json"


def _diff(path: str, given: Object) -> str:
    everywhere = " (everywhere)" if given.get("replace_all") is True else ""
    old = [f"-{line}" for line in text(given.get("old_string")).splitlines()]
    new = [f"+{line}" for line in text(given.get("new_string")).splitlines()]
    return "\n".join([f"--- {path}", f"+++ {path}{everywhere}", *old, *new])


def _why(request: Request) -> str:
    """What the model says the call is for, else why Claude will not run it unasked."""
    return text(request.input.get("description")) or request.why or "gave none"


def _denied(response: Response) -> Object:
    if response.selected_option_id is None and response.input_value is None:
        said = "Nobody answered, so the answer is no."
    else:
        said = f"The user said no: {response.comment}" if response.comment else "The user said no."
    return {"behavior": "deny", "message": said}


# -- questions ---------------------------------------------------------------------------------


def _question(key: str, given: Object, around: str) -> Asked:
    offered = mappings(given.get("options"))
    choices = _choices(offered)
    listed = "\n".join(
        f"{text(one.get('label'))}: {text(one.get('description'))}" for one in offered
    )
    display = Display(title=text(given.get("question")), description=around, content=listed)
    if choices and given.get("multiSelect") is not True:
        return Asked(key, "Select", "request_info", display, choices)
    return Asked(key, "Input", "request_info", display, validation=Validation(required=True))


def _choices(offered: Sequence[Object]) -> tuple[Option, ...]:
    options: dict[str, Option] = {}
    for number, one in enumerate(offered, 1):
        label = text(one.get("label"))
        name = re.sub(r"\W+", "-", label.lower()).strip("-")[:24]
        name = f"{name}-{number}" if not name or name in options else name
        options[name] = Option(id=name, label=label)
    return tuple(options.values())


def _said(asked: Asked, response: Response) -> str:
    """What is answered, in the words that Claude knows it by."""
    if asked.kind == "Input":
        return response.input_value or ""
    chosen = next((one for one in asked.options if one.id == response.selected_option_id), None)
    if chosen is None:
        return ""
    return f"{chosen.label} ({response.comment})" if response.comment else chosen.label
