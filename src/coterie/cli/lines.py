"""Records as words: `describe` says what a reader is told of each, and surfaces lay that out.

"ran" is what an agent did and Coterie only saw; "checked" is kept for what Coterie did itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from coterie.cli import card
from coterie.cli.text import (
    Meaning,
    Paint,
    asking,
    counted,
    duration,
    one_line,
    printable,
    usage_text,
)
from coterie.model.conversation import YOU
from coterie.model.record import (
    ErrorRecord,
    InteractionRecord,
    MemberRecord,
    MessageRecord,
    Record,
    ResultRecord,
    TaskRecord,
    TicketRecord,
    ToolCallRecord,
)
from coterie.model.team import Team
from coterie.model.workspace import shown

if TYPE_CHECKING:
    from coterie.app.project import App
    from coterie.model.ticket import TicketView

US = "coterie"
FAILED = "!"
"""The mark of what went wrong."""
_MARKS = {"quiet": "◌", "stuck": "■", "waiting": "◌"}
"""States of members that are worth a line; a failure and a question have lines of their own."""
_TELLING = ("file_path", "path", "command", "pattern", "query", "url", "question")
"""Fields of a tool's input that say most about a call, in this order."""
_CHANGING = re.compile(r"edit|write|patch|replace|delete|move", re.I)
_READING = re.compile(r"read|view|list", re.I)
_FENCE = re.compile(r"^[ \t]*```[ \t]*(?:json)?[ \t]*\n.*?^[ \t]*```[ \t]*\n?", re.DOTALL | re.M)


@dataclass(frozen=True)
class RecordText:
    """What a reader is told of a record."""

    who: str
    what: str
    mark: str = ""
    """A sign for what kind of thing it is; the words say the same."""
    meaning: Meaning | None = None
    note: str = ""
    """What stands beside or below it: how long it took, where it happened, what to do."""


def describe(record: Record) -> RecordText | None:
    """What a reader is told of a record; None where that is nothing."""
    match record:
        case TaskRecord():
            return RecordText(US, f"task {record.status}")
        case MessageRecord():
            return RecordText(record.member, record.text, note=_cost(record))
        case ToolCallRecord() if record.status != "started":
            return _tool_call(record)
        case InteractionRecord():
            return _interaction(record)
        case MemberRecord(question=None) if record.state in _MARKS and record.reason:
            what = f"{record.state}: {one_line(record.reason)}"
            return RecordText(record.member, what, _MARKS[record.state], "asks")
        case TicketRecord():
            return RecordText(record.owner or US, _ticket(record))
        case ErrorRecord():
            where = record.where if record.where and record.where not in record.message else ""
            more = (f"in {shown(Path(where))}" if where else "", record.hint or "")
            note = " · ".join(part for part in more if part)
            return RecordText(record.member or US, record.message, FAILED, "bad", note)
        case _:
            return None


def _cost(record: MessageRecord) -> str:
    took = "" if record.duration_ms is None else duration(record.duration_ms / 1000)
    following = f"next {record.next}" if record.next else ""
    return " · ".join(part for part in (took, usage_text(record.usage), following) if part)


def _tool_call(record: ToolCallRecord) -> RecordText:
    verb, what = action_of(record.name, record.input)
    if record.denied:
        return RecordText(
            record.member, f"not run: {what}", "✗", "bad", f"({one_line(record.denied)})"
        )
    took = "" if record.duration_ms is None else duration(record.duration_ms / 1000)
    mark, meaning, outcome = ("✗", "bad", "failed") if record.is_error else ("✓", "good", "")
    if record.status == "unknown":
        mark, meaning, outcome = "?", "asks", "outcome unknown"
    note = "  ".join(part for part in (outcome, took) if part)
    return RecordText(record.member, f"{verb} {what}".rstrip(), mark, meaning, note)


def _interaction(record: InteractionRecord) -> RecordText:
    asked, who = record.interaction, record.member or US
    name = asked.interaction_id
    if record.state == "open":
        return RecordText(who, f"{card.in_short(asked)} · {name}", "▲", "asks")
    answer = card.answered(asked, record.answer, record.said)
    by = f" by {record.by}" if record.by else ""
    return RecordText(who, f"{name} {record.state}{by}" + (f": {answer}" if answer else ""))


def _ticket(record: TicketRecord) -> str:
    if record.is_new:
        return f"{record.id} created: {one_line(record.title)}"
    message = f": {one_line(record.message)}" if record.message else ""
    return f"{record.id} {record.closed_by or record.state}{message}"


# -- tool calls --------------------------------------------------------------------------------


def input_summary(given: Mapping[str, object]) -> str:
    """A tool's input in a few words."""
    for key in _TELLING:
        value = given.get(key)
        if isinstance(value, str) and value:
            return one_line(value)
    return one_line(json.dumps(given, ensure_ascii=False, default=str)) if given else ""


def action_of(name: str, given: Mapping[str, object]) -> tuple[str, str]:
    """What an agent did with a tool: `ran`, `pytest -q`; `used`, `WebSearch stripe api`."""
    command = given.get("command")
    if isinstance(command, str) and command.strip():
        return "ran", one_line(command)
    for verb, tools in (("changed", _CHANGING), ("read", _READING)):
        if tools.search(name) and any(key in given for key in ("file_path", "path")):
            return verb, input_summary(given)
    return "used", f"{one_line(name)} {input_summary(given)}".rstrip()


# -- payloads in replies -----------------------------------------------------------------------

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


def prose(text: str) -> str:
    """A reply on one line, without the JSON that was asked for."""
    bare = _FENCE.sub("", text).strip()
    return "" if bare.startswith("{") and bare.endswith("}") else one_line(bare)


def summarized(text: str) -> str:
    """A reply with a payload in it replaced by a few words: `[report: completed]`."""
    fence = _FENCE.search(text)
    block = fence[0].strip().removeprefix("```json").strip("`") if fence else text
    summary = _summary(block) if "{" in block else ""
    if not summary:
        return printable(text.strip("\n"))
    before, after = (text[: fence.start()], text[fence.end() :]) if fence else ("", "")
    parts = (printable(before).strip(), f"[{summary}]", printable(after).strip())
    return "\n".join(part for part in parts if part)


def _summary(block: str) -> str:
    """A payload in a few words; empty for what is none."""
    try:
        parsed = json.loads(block)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(parsed, dict):
        return ""
    whole = cast("Mapping[str, object]", parsed)
    inner = whole.get("payload")
    payload = cast("Mapping[str, object]", inner) if isinstance(inner, Mapping) else whole
    for kind, key, name in _PAYLOADS:
        if key in payload:
            value = payload.get(name)
            if isinstance(value, list):
                value = counted(len(cast("list[object]", value)), "ticket")
            return one_line(f"{kind}: {value}").replace("_", " ")
    return ""


# -- surfaces ----------------------------------------------------------------------------------


class Surface:
    """Shows a run of a task to its user."""

    def opened(self, goal: str, author: str = YOU) -> None:
        """Show what the task starts with."""
        self.saw(MessageRecord(task="", turn=0, member=author, text=goal))

    def knows(self, tickets: Iterable[TicketView]) -> None:
        """Take in the tickets that were there before this run."""

    def saw(self, record: Record) -> None:
        """Show one thing that happened."""
        raise NotImplementedError

    def finished(self, result: ResultRecord) -> None:
        """Show how the run ended."""
        raise NotImplementedError

    async def conclude(self, app: App) -> None:
        """Show what needs a look at all that was done; called last, when nothing runs."""


@dataclass
class RecordLines:
    """What surfaces have in common that tell line by line what happens."""

    team: Team
    width: Callable[[], int]
    paint: Paint
    _: KW_ONLY
    fold: bool
    """Whether long lines are folded; a pipe gets them as they are, to be searched and cut."""
    cards: bool = True
    """Whether an open question is shown whole."""

    def lines(self, record: Record) -> list[str]:
        """What a reader should see of it, if anything."""
        text = describe(record)
        return [] if text is None else self._laid_out(record, text)

    def _laid_out(self, record: Record, text: RecordText) -> list[str]:
        match record:
            case MessageRecord():
                return self._message(record, text)
            case ToolCallRecord():
                return self._action(text)
            case InteractionRecord():
                return self._question(record, text)
            case TicketRecord():
                return self._ticket(record)
            case MemberRecord() | ErrorRecord():
                return self._notice(text)
            case _:
                return []

    def _message(self, record: MessageRecord, text: RecordText) -> list[str]:
        raise NotImplementedError

    def _question(self, record: InteractionRecord, text: RecordText) -> list[str]:
        raise NotImplementedError

    def _notice(self, text: RecordText) -> list[str]:
        """What is worth knowing of a member, or went wrong."""
        raise NotImplementedError

    def _action(self, text: RecordText) -> list[str]:
        """A tool call; not every surface shows them."""
        return []

    def _ticket(self, record: TicketRecord) -> list[str]:
        return []

    def _card(self, record: InteractionRecord) -> list[str]:
        """The open question, whole."""
        who = asking(self.team.seated(record.member), record.member)
        context = card.QuestionContext(record.interaction, who)
        return [*card.brief(context, self.width(), self.paint), ""]
