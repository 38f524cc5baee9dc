"""The names of steps: the only place where their text form is built and parsed.

A name is scope/kind/key and stable across releases: databases hold its text form.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from coterie.model.about import BudgetScope, Measure
from coterie.model.task import ticket_id_of

_ASKED = "/asked/"
_BUDGET = "budget."
BUDGET_PATTERN = f"%{_ASKED}{_BUDGET}%"
"""Matches, in SQL, the steps that ask about budgets."""
_CHANGED = "workflow_changed/"
_SUPERSEDED = "aside/"
_CHILD = ".child"
_IN_PHASE = "phase/"
_PERMISSION = re.compile(r"(?P<attempt>\d+)\.(?P<call>.+)@(?P<member>[^@]+)", re.S)
_TICKET = re.compile(r"(?P<who>ticket|manager)/(?P<ticket>[^/]+)/(?:at/\d+/(?P<what>[^/]+))?")
_CHECK = re.compile(r".*/check/\d+")
_PHASE = re.compile(r"phase/\d+/(?:(?P<kind>enter|override)|step/(?P<step>\w+)/(?P<number>\d+))")
_REPLY = re.compile(r"(?:(?:ticket|manager)/[^/]+/at/\d+/)?(?P<what>\w+)(?:/.*)?/said/\d+", re.S)
_PAYLOADS = {
    "clarify": "clarification",
    "plan": "plan",
    "replan": "plan",
    "propose": "instruction_proposal",
    "instruct": "instruction",
    "unblock": "instruction",
    "discuss": "report",
    "work": "report",
    "review": "review",
}
"""The type of payload that the turns of a session's steps are answered with."""
_ASKS_ROLE = re.compile(r"phase/\d+/step/\w+/\d+(?:/again/\d+)?/ask/(?P<role>\w+)/")


class PermissionKey(NamedTuple):
    """A permission that an agent requested in one attempt at a turn."""

    attempt: int
    call: str
    member: str


class PipelineStepName(NamedTuple):
    """The parts of a name in a pipeline's own record."""

    kind: str
    """`enter`: a phase was entered; `override`: of its gate; `step`: one of its steps."""
    step: str = ""
    number: int = 0
    """The number of the step's run within this visit: it runs again after each answer."""


@dataclass(frozen=True)
class StepName:
    """The information in a step's name."""

    text: str
    asked_in: str | None = None
    """The turn in which it was asked; None for a step of the workflow itself."""
    subject: PermissionKey | None = None
    """The permission that was requested in that turn, if it was one."""
    is_subtask: bool = False
    """Whether it is a subtask that was handed out in a turn."""
    changed: str | None = None
    """The step at which the workflow changed, if this asks what to do about the change."""
    is_superseded: bool = False
    """Whether it was recorded before a fork, and no longer counts."""
    ticket: str | None = None
    """The ticket that it is about."""
    topic: str = ""
    """The topic of the member's thread, such as its ticket; empty for the conversation."""
    is_failed_ticket: bool = False
    """Whether it asks what to do about a ticket that failed."""
    is_check: bool = False
    pipeline: PipelineStepName | None = None
    """Its place in a pipeline's own record, if any."""

    @property
    def is_own(self) -> bool:
        """Whether the workflow itself asks for it, and must do so again on replay."""
        return self.asked_in is None and self.changed is None

    @property
    def payload(self) -> str:
        """For a turn about tickets: the type of the payload that it asks for; otherwise empty."""
        reply = _REPLY.fullmatch(self.text)
        return _PAYLOADS.get(reply["what"], "") if reply else ""


@lru_cache(maxsize=4096)
def parse(text: str) -> StepName:
    """Parse a name; names of third-party workflows have nothing but their text."""
    if text.startswith(_SUPERSEDED):
        return StepName(text, is_subtask=text.endswith(_CHILD), is_superseded=True)
    if text.startswith(_CHANGED):
        return StepName(text, changed=text.removeprefix(_CHANGED).rpartition("@")[0])
    step, asked, key = text.rpartition(_ASKED)
    if asked:
        is_subtask = key.endswith(_CHILD)
        return StepName(text, step, _subject(key), is_subtask, ticket=parse(step).ticket)
    if text.startswith(_IN_PHASE):
        return _of_pipeline(text)
    about = _TICKET.match(text)
    return StepName(
        text,
        ticket=about["ticket"] if about else None,
        topic=about["ticket"] if about and about["who"] == "ticket" else "",
        is_failed_ticket=bool(about and about["what"] == "failed"),
        is_check=_CHECK.fullmatch(text) is not None,
    )


def _of_pipeline(text: str) -> StepName:
    visit, role = _PHASE.fullmatch(text), _ASKS_ROLE.match(text)
    own = None
    if visit is not None:
        kind, number = visit["kind"] or "step", int(visit["number"] or 0)
        own = PipelineStepName(kind, visit["step"] or "", number)
    is_check = _CHECK.fullmatch(text) is not None
    return StepName(text, topic=role["role"] if role else "", is_check=is_check, pipeline=own)


def _subject(key: str) -> PermissionKey | None:
    permission = _PERMISSION.fullmatch(key)
    if permission is None:
        return None
    return PermissionKey(int(permission["attempt"]), permission["call"], permission["member"])


def asked(step: str, key: str) -> str:
    """The name for something that an agent asked in a turn."""
    return f"{step}{_ASKED}{key}"


def permission(step: str, attempt: int, call: str, member: str) -> str:
    """A permission that an agent requested."""
    return asked(step, f"{attempt}.{call}@{member}")


def budget(scope: BudgetScope, measure: Measure, whose: str, limit: float, number: int) -> str:
    """The question about a budget used up before a model call: a ticket's, or the whole task's."""
    place = f"ticket/{ticket_id_of(whose)}/limits" if scope == "ticket" else "limits"
    return asked(place, f"{_BUDGET}{scope}.{measure}.{whose}.{limit:g}.{number}")


def subtask(question: str) -> str:
    """The subtask that was handed out after a question."""
    return f"{question}{_CHILD}"


def workflow_changed(step: str, digest: str, number: int = 1) -> str:
    """The question about a workflow that changed at a step; each different change asks again."""
    name = f"{_CHANGED}{step}@{digest}"
    return name if number == 1 else f"{name}/{number}"


def superseded(recorded: int) -> str:
    """The name prefix of steps superseded by a fork when this many steps were recorded."""
    return f"{_SUPERSEDED}{recorded}/"


def turn(number: int, tries: int = 0) -> str:
    """A turn of a conversation; `tries` counts how often the user asked for it to be repeated."""
    return f"turn/{number}/again/{tries}" if tries else f"turn/{number}"


def reply(step: str, tries: int) -> str:
    """A turn that is answered with a value; `tries` counts the turns until it is."""
    return f"{step}/said/{tries}"


def failed_turn(number: int, tries: int) -> str:
    """The question of what to do about a failed turn."""
    return f"turn/{number}/failed/{tries}"


def messages_before(number: int) -> str:
    """What people said since the workflow last listened, which it does once for each `number`: that
    of a turn, or of the messages so far."""
    return f"heard/{number}"


def ticket(ticket_id: str, history: int, what: str) -> str:
    """A step of the work on a ticket, taken when its history has this many lines."""
    return f"ticket/{ticket_id}/at/{history}/{what}"


def manager(ticket_id: str, history: int, what: str) -> str:
    """A step of the manager about a ticket; the manager has one thread for all tickets."""
    return f"manager/{ticket_id}/at/{history}/{what}"


def history(ticket_id: str, line: int) -> str:
    """A further line of a ticket's history."""
    return f"ticket/{ticket_id}/history/{line}"


def check(step: str, number: int) -> str:
    """A check that Coterie runs."""
    return f"{step}/check/{number}"


def phase(visit: int, what: str) -> str:
    """A step within a phase visit of a pipeline: `enter`, `override`, a question."""
    return f"{_IN_PHASE}{visit}/{what}"


def pipeline_step(visit: int, step: str, number: int) -> str:
    """The given run of a pipeline step within a visit of its phase."""
    return phase(visit, f"step/{step}/{number}")


def again(step: str, tries: int) -> str:
    """A part of a step of a pipeline that is done again, for the given time."""
    return step if tries == 1 else f"{step}/again/{tries}"


def ask(step: str, role: str, prompt: str) -> str:
    """A turn of the member in a role, within a step of a pipeline."""
    return f"{step}/ask/{role}/{prompt}"


def ask_again(step: str, role: str, number: int) -> str:
    """What follows after such a turn failed: the name of the step in which it is repeated."""
    return ask(step, role, f"again/{number}")
