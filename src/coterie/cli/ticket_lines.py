"""A session with tickets as it happens, line by line: when, which ticket, what.

"ran" is what an agent did and Coterie only saw; what Coterie ran itself says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Protocol, cast

from coterie.cli import card, figures
from coterie.cli.member import asking
from coterie.cli.text import Meaning, Paint, clip, one_line, printable, wrap
from coterie.model import instant
from coterie.model.interaction import Interaction
from coterie.model.record import (
    ErrorRecord,
    InteractionRecord,
    MemberRecord,
    MessageRecord,
    Record,
    TicketRecord,
)
from coterie.model.team import Team, base_of
from coterie.model.ticket import TicketState
from coterie.model.view import Entry

AT_WORK: tuple[TicketState, ...] = ("in_progress", "discussing")
"""States in which a worker has a ticket in hand."""
_TICKET = re.compile(r"\bT\d+\b")
_FENCE = re.compile(r"^[ \t]*```[ \t]*(?:json)?[ \t]*\n.*?^[ \t]*```[ \t]*\n?", re.DOTALL | re.M)
_PLAN = re.compile(r"Plan with (\d+) tickets?")
_QUESTION = re.compile(r"q\d+")
_STATES = ("quiet", "stuck", "waiting")
"""States of members that are worth a line."""
_CREATED = "created"
_LINES = 3
"""So many lines of a terminal an event may take; all of it is in the log."""


class Standing(Protocol):
    """A ticket, or what was last told of it."""

    @property
    def state(self) -> TicketState: ...
    @property
    def owner(self) -> str | None: ...
    @property
    def closed_by(self) -> str | None: ...


def ticket_of(question: Interaction, tickets: Mapping[str, Standing]) -> str:
    """The ticket that a question is about; empty where it is about none."""
    for name, ticket in tickets.items():
        at_work = ticket.state in AT_WORK and ticket.closed_by is None
        if at_work and ticket.owner == question.author_actor_id:
            return name
    risk = question.permission
    said = (question.display.title, question.display.description, risk.why if risk else "")
    named = (one for text in said for one in _TICKET.findall(text))
    return next((one for one in named if one in tickets), "")


def prose(text: str) -> str:
    """What was said besides the JSON that was asked for."""
    bare = _FENCE.sub("", text).strip()
    return "" if bare.startswith("{") and bare.endswith("}") else one_line(bare)


def in_short(text: str) -> str:
    """What was said, with a payload in it told in a few words: `[report: completed]`."""
    found = _FENCE.search(text)
    block = found[0].strip().removeprefix("```json").strip("`") if found else text
    summary = _summary(block) if "{" in block else ""
    if not summary:
        return printable(text.strip("\n"))
    before, after = (text[: found.start()], text[found.end() :]) if found else ("", "")
    parts = (printable(before).strip(), f"[{summary}]", printable(after).strip())
    return "\n".join(part for part in parts if part)


def _summary(block: str) -> str:
    """A payload in a few words; empty for what is none."""
    try:
        found = json.loads(block)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(found, dict):
        return ""
    given = cast("Mapping[str, object]", found)
    inner = given.get("payload")
    said = cast("Mapping[str, object]", inner) if isinstance(inner, Mapping) else given
    for kind, key, told in _PAYLOADS:
        if key in said:
            shown = _counted(said.get(told))
            return one_line(f"{kind}: {shown}").replace("_", " ")
    return ""


def _counted(value: object) -> str:
    if not isinstance(value, list):
        return str(value)
    return figures.counted(len(cast("list[object]", value)), "ticket")


_PAYLOADS = (
    ("plan", "tasks", "tasks"),
    ("review", "decision", "decision"),
    ("clarification", "intent_summary", "status"),
    ("proposal", "draft_steps", "summary"),
    ("instruction", "acceptance_criteria", "summary"),
    ("report", "evidence", "status"),
    ("report", "issues", "status"),
    ("report", "outputs", "status"),
)
"""What a payload is called, the field it is known by, and the one that says most of it."""


_ENDS: Mapping[str, tuple[str, Meaning]] = {
    "done": ("done", "good"),
    "blocked": ("blocked", "asks"),
    "error": ("failed", "bad"),
}


def happened(
    record: TicketRecord, before: TicketState | None, manager: str
) -> tuple[str, Meaning | None]:
    """What became of a ticket, and what colour that has; `before` is the state it was in."""
    message, owner = one_line(record.message), record.owner or "nobody"
    if record.closed_by is not None:
        taken = _TICKET.fullmatch(record.closed_by)
        return f"is now {taken[0]}" if taken else f"{record.closed_by}: {message}", "dim"
    if before == record.state:
        return message, None
    if record.state in _ENDS:
        word, meaning = _ENDS[record.state]
        return f"{word}: {message}", meaning
    if record.state == "discussing":
        return f"{manager} and {owner} talk it over", None
    if record.state != "in_progress":
        return message, None
    if before == "awaiting_review":
        return f"sent back to {owner}: {message}", "asks"
    return f"{owner} begins" + ("" if message == "instructed" else f" ({message})"), None


class TicketLines:
    """Turns records into lines; knows how each ticket stood before."""

    def __init__(
        self,
        team: Team,
        width: Callable[[], int],
        paint: Paint,
        *,
        fold: bool,
        cards: bool = True,
    ) -> None:
        self._team = team
        self._width = width
        self._paint = paint
        self._fold = fold
        self._cards = cards
        """Whether questions are shown whole, and what tickets there are."""
        self._known: dict[str, Standing] = {}
        self._made: list[TicketRecord] = []
        """Tickets that a plan has made, and that no line has told of yet."""
        self._approved = False
        self._at = ""
        """When that happened which is being told."""

    def knows(self, tickets: Mapping[str, Standing]) -> None:
        """Tickets that were there before."""
        self._known |= tickets

    def lines(self, record: Record) -> list[str]:
        """What a reader should see of it, if anything."""
        self._at = instant.now()
        if isinstance(record, TicketRecord) and record.message == _CREATED:
            self._made.append(record)
            return []
        return [*self._new_plan(), *self._told(record)]

    def past(self, entry: Entry) -> list[str]:
        """The same of what happened before; how tickets stand is not taken from it."""
        self._at = entry.at
        record = entry.record
        if isinstance(record, InteractionRecord):
            return []
        if not isinstance(record, TicketRecord):
            return self._told(record)
        if record.message == _CREATED:
            return []
        shown, meaning = happened(record, None, self._team.manager.id)
        return self._event(record.id, shown, meaning)

    def _told(self, record: Record) -> list[str]:
        match record:
            case TicketRecord():
                return self._ticket(record)
            case InteractionRecord():
                return self._question(record)
            case MessageRecord():
                return self._message(record)
            case MemberRecord() if record.state in _STATES:
                return self._state(record)
            case ErrorRecord():
                return self._error(record)
            case _:
                return []

    # -- tickets -------------------------------------------------------------------------------

    def _new_plan(self) -> list[str]:
        """The tickets that a plan has made, once all of them are known."""
        made, self._made = self._made, []
        if not made:
            return []
        first = not self._known
        self._known |= {record.id: record for record in made}
        count = figures.counted(len(made), "ticket")
        lines: list[str] = []
        if not first:
            lines += self._event("", f"the plan has changed: {count} more")
        elif not self._approved:
            lines += self._event("", f"plan with {count}")
        if not self._cards and first:
            return lines
        for record in made:
            after = f", after {' '.join(record.dependencies)}" if record.dependencies else ""
            lines += self._event(record.id, f"{record.title}{after}")
        return lines

    def _ticket(self, record: TicketRecord) -> list[str]:
        before = self._known.get(record.id)
        self._known[record.id] = record
        shown, meaning = happened(record, before.state if before else None, self._team.manager.id)
        return self._event(record.id, shown, meaning) if shown else []

    # -- questions and words -------------------------------------------------------------------

    def _question(self, record: InteractionRecord) -> list[str]:
        asked = record.interaction
        about = ticket_of(asked, self._known)
        if record.state != "open":
            return self._event(about, self._answer(record), "dim")
        risk = asked.permission
        if risk is not None:
            what = risk.command or card.in_short(asked)
            wants = "to run" if risk.command else "to use"
            shown = f"{record.member} wants {wants}: {one_line(what)}"
        else:
            shown = f"{record.member} asks: {one_line(asked.display.title)}"
        lines = self._event(about, f"{shown} · {asked.interaction_id}", "asks")
        if not self._cards:
            return lines
        who = asking(self._team.seated(record.member), record.member)
        return [
            *lines,
            *card.brief(card.QuestionContext(asked, who), self._width(), self._paint),
            "",
        ]

    def _answer(self, record: InteractionRecord) -> str:
        asked = record.interaction
        plan = _PLAN.fullmatch(asked.display.title)
        if plan and record.state == "answered" and record.answer == "approve":
            self._approved = True
            count = figures.counted(int(plan[1]), "ticket")
            return f"plan approved by {record.by or 'you'}, {count}"
        said = card.answered(asked, record.answer, record.said)
        by = f" by {record.by}" if record.by else ""
        return f"{asked.interaction_id} {record.state}{by}" + (f": {said}" if said else "")

    def _message(self, record: MessageRecord) -> list[str]:
        member = self._team.get(base_of(record.member))
        said = prose(record.text)
        if (
            not said or record.member == self._team.manager.id
        ):  # what it says shows in what becomes of it
            return []
        if member is None or member.type == "human":
            return self._event("", f"{record.member}: {said}")
        mine = {name: one for name, one in self._known.items() if one.owner == record.member}
        at_work = [name for name, one in mine.items() if one.state in AT_WORK]
        return self._event(at_work[-1] if at_work else "", f'{record.member}: "{said}"')

    def _state(self, record: MemberRecord) -> list[str]:
        if not record.reason or _QUESTION.fullmatch(record.reason):
            return []
        return self._event("", f"{record.member} {record.state}: {record.reason}", "asks")

    def _error(self, record: ErrorRecord) -> list[str]:
        hint = f" · {record.hint}" if record.hint else ""
        return self._event("", f"! {record.message}{hint}", "bad")

    def _event(self, ticket: str, shown: str, meaning: Meaning | None = None) -> list[str]:
        """A line, and on a terminal a few more where it is long."""
        margin = "" if self._cards else " "
        begin = f"{margin}{figures.clock(self._at)}  " + (f"{ticket}  " if ticket else "")
        parts = [one_line(shown)]
        if self._fold:
            room = max(self._width() - len(begin) - 1, 16)
            parts = wrap(clip(parts[0], room * _LINES - room // 3), room)
        painted = [self._paint(part, meaning) if meaning else part for part in parts]
        return [begin + painted[0], *(" " * len(begin) + part for part in painted[1:])]
