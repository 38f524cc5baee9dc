"""What Claude asks before it goes on, as questions to the user; and the answers it understands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from coterie.agents.claude.actions import action_of, path_of
from coterie.agents.fields import bounded, brief, mapping, mappings, text
from coterie.agents.inside.serving import choices_of, said_to
from coterie.agents.wire import Object
from coterie.model.interaction import (
    APPROVE,
    NOBODY,
    REJECT,
    ContentKind,
    Display,
    Option,
    Response,
    Validation,
)
from coterie.model.update import Asked, PendingCall

QUESTION = "AskUserQuestion"
PLAN = "ExitPlanMode"

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

    @classmethod
    def of(cls, request_id: str, request: Object) -> Request:
        """The request in a message."""
        return cls(
            request_id,
            text(request.get("tool_name")) or "unknown",
            cast("Object", bounded(mapping(request.get("input")), _EXACT)),
            text(request.get("tool_use_id")),
        )

    @property
    def allowed(self) -> Object:
        """The answer yes, to what was asked and no more."""
        return {"behavior": "allow", "updatedInput": self.input}


@dataclass(frozen=True)
class Around:
    """What stands around a request."""

    cwd: str
    said: str
    """The last thing that Claude said."""
    diff: str = ""
    """What it would change, where that can be said."""


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
            said = said_to(asked, response)
            if not said:
                return _denied(response)
            answers[asked.display.title] = said
        return {"behavior": "allow", "updatedInput": {**self.request.input, "answers": answers}}


def asking(request: Request, around: Around) -> Asking:
    """The questions of a request."""
    if request.tool == QUESTION:
        found = mappings(request.input.get("questions"))
        asked = [_question(f"{request.id}.{n}", one, around) for n, one in enumerate(found, 1)]
        if asked:
            return Asking(request, asked)
    return Asking(request, [_permission(request, around)])


# -- permissions -------------------------------------------------------------------------------


def _permission(request: Request, around: Around) -> Asked:
    title, content, kind = _shown(request, around)
    return Asked(
        key=request.id,
        kind="Confirm",
        purpose="choose_strategy" if request.tool == PLAN else "confirm_risky_action",
        display=Display(title=title, content=content, content_kind=kind),
        options=_OPTIONS,
        call=PendingCall(
            call_id=request.call_id,
            name=request.tool,
            input=request.input,
            cwd=around.cwd,
            action=action_of(request.tool, request.input, around.cwd),
            why=brief(text(request.input.get("description"))),
            said=brief(around.said),
        ),
    )


def _shown(request: Request, around: Around) -> tuple[str, str, ContentKind]:
    """What would be done, exactly."""
    given = request.input
    if around.diff:
        verb = "Write" if request.tool == "Write" else "Change"
        return f"{verb} {path_of(given)}", around.diff, "Diff"
    match request.tool:
        case "Bash" | "Monitor":
            how = " in the background" if given.get("run_in_background") is True else ""
            return f"Run a command{how}", text(given.get("command")), "PlainText"
        case "ExitPlanMode":
            return "Approve a plan", text(given.get("plan")), "PlainText"
        case _:
            whole = json.dumps(given, indent=2, ensure_ascii=False)
            return f"Use {request.tool}", whole, "Json"


def _denied(response: Response) -> Object:
    return {"behavior": "deny", "message": _no(response)}


def _no(response: Response) -> str:
    """What Claude's model is told of a no."""
    if response.selected_option_id is None and response.input_value is None:
        return "Nobody answered, so the answer is no."
    who = "The answer is" if response.author_actor_id == NOBODY else "The user said"
    return f"{who} no: {response.comment}" if response.comment else f"{who} no."


# -- questions ---------------------------------------------------------------------------------


def _question(key: str, given: Object, around: Around) -> Asked:
    offered = mappings(given.get("options"))
    choices = choices_of(text(one.get("label")) for one in offered)
    listed = "\n".join(
        f"{text(one.get('label'))}: {text(one.get('description'))}" for one in offered
    )
    display = Display(
        title=text(given.get("question")), description=brief(around.said), content=listed
    )
    if choices and given.get("multiSelect") is not True:
        return Asked(key, "Select", "request_info", display, choices)
    return Asked(key, "Input", "request_info", display, validation=Validation(required=True))
