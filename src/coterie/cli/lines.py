"""Records as lines: `describe` puts each into words, `RecordLines` lays the words out.

"ran" is what an agent did and Coterie only saw; "checked" is reserved for what Coterie did itself.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.cli import card, report
from coterie.cli.main import Call
from coterie.cli.text import (
    Meaning,
    Paint,
    about,
    asking,
    cells,
    clip,
    duration,
    ends,
    one_line,
    pad,
    usage_text,
    warned,
    wrap,
)
from coterie.model.interaction import COTERIE, in_short
from coterie.model.record import (
    Entry,
    ErrorRecord,
    InteractionRecord,
    MemberRecord,
    MessageRecord,
    PhaseRecord,
    Record,
    ResultRecord,
    TaskRecord,
    TicketRecord,
    ToolCallRecord,
)
from coterie.model.team import YOU, Team
from coterie.model.tool_call import Effect
from coterie.model.visible import printable
from coterie.model.workspace import shown

if TYPE_CHECKING:
    from coterie.app.project import App
    from coterie.model.ticket import TicketView

US = COTERIE
FAILED = "!"
"""The mark for errors."""
_MARKS = {"quiet": "◌", "stuck": "■", "waiting": "◌"}
"""Member states that are worth a line; failures and questions have lines of their own."""
_PATHS = ("file_path", "path", "filePath")
_SUMMARY_FIELDS = (*_PATHS, "command", "pattern", "query", "url", "question")
"""The fields of a tool's input that say most about a call, the best first."""
_VERBS: Mapping[Effect | None, str] = {"write": "changed", "read": "read"}
"""What an agent did to a file, by the effect of its call; otherwise it "used" the tool."""
FENCE = re.compile(r"^[ \t]*```[ \t]*(?:json)?[ \t]*\n.*?^[ \t]*```[ \t]*\n?", re.DOTALL | re.M)


@dataclass(frozen=True)
class RecordText:
    """A record in words."""

    who: str
    what: str
    mark: str = ""
    """A symbol for the kind of record; the text says the same."""
    meaning: Meaning | None = None
    note: str = ""
    """What is shown beside or below it: how long it took, where it happened, what to do."""


def prose(text: str) -> str:
    """Return a reply on one line, without the JSON that was asked for."""
    bare = FENCE.sub("", text).strip()
    return "" if bare.startswith("{") and bare.endswith("}") else one_line(bare)


def describe(record: Record) -> RecordText | None:
    """Put a record into words; None if it is not shown."""
    match record:
        case TaskRecord() | PhaseRecord():
            what = "task" if isinstance(record, TaskRecord) else record.step or record.phase
            return RecordText(US, f"{what} {record.status}")
        case MessageRecord():
            return RecordText(record.member, record.text, note=_cost(record))
        case ToolCallRecord() if record.status != "started":
            return _tool_call(record)
        case InteractionRecord():
            return _interaction(record)
        case MemberRecord(question=None) if record.state in _MARKS:
            from coterie.cli.doing import in_words

            return RecordText(record.member, in_words(record), _MARKS[record.state], "asks")
        case TicketRecord():
            return RecordText(record.owner or US, _ticket(record))
        case ErrorRecord():
            where = record.where or ""
            place = "" if report.names_place(record.message, where) else f"in {shown(Path(where))}"
            more = (place, record.hint or "")
            note = " · ".join(part for part in more if part)
            return RecordText(record.member or US, record.message, FAILED, "bad", note)
        case _:
            return None


def _cost(record: MessageRecord) -> str:
    took = "" if record.duration_ms is None else duration(record.duration_ms / 1000)
    following = f"next {record.next}" if record.next else ""
    return " · ".join(part for part in (took, usage_text(record.usage), following) if part)


def _tool_call(record: ToolCallRecord) -> RecordText:
    verb, what = _action_of(record)
    if why := record.denied or record.not_run:
        return RecordText(record.member, f"not run: {what}", "✗", "bad", f"({one_line(why)})")
    took = "" if record.duration_ms is None else duration(record.duration_ms / 1000)
    mark, meaning, outcome = ("✗", "bad", "failed") if record.is_error else ("✓", "good", "")
    if record.status == "unknown":
        mark, meaning, outcome = "?", "asks", "outcome unknown"
    note = "  ".join(part for part in (outcome, took) if part)
    return RecordText(record.member, f"{verb} {what}".rstrip(), mark, meaning, note)


def _interaction(record: InteractionRecord) -> RecordText:
    question, who = record.interaction, record.member or US
    name = question.interaction_id
    if record.state == "open":
        return RecordText(who, f"{in_short(question)} · {name}", "▲", "asks")
    answer = card.answered(question, record.answer, record.said)
    by = f" by {record.by}" if record.by else ""
    return RecordText(who, f"{name} {record.state}{by}" + (f": {answer}" if answer else ""))


def _ticket(record: TicketRecord) -> str:
    if record.is_new:
        return f"{record.id} created: {one_line(record.title)}"
    message = f": {one_line(record.message)}" if record.message else ""
    return f"{record.id} {record.closed_by or record.state}{message}"


def input_summary(tool_input: Mapping[str, object]) -> str:
    """Summarize a tool's input in a few words."""
    for key in _SUMMARY_FIELDS:
        value = tool_input.get(key)
        if isinstance(value, str) and value:
            return one_line(value)
    return one_line(json.dumps(tool_input, ensure_ascii=False, default=str)) if tool_input else ""


def _action_of(record: ToolCallRecord) -> tuple[str, str]:
    """What an agent did with a tool: `ran`, `pytest -q`; `used`, `WebSearch stripe api`."""
    command, summary = record.input.get("command"), input_summary(record.input)
    if isinstance(command, str) and command.strip():
        return "ran", one_line(command)
    if record.effect in _VERBS and any(name in record.input for name in _PATHS):
        return _VERBS[record.effect], summary
    return "used", f"{one_line(record.name)} {summary}".rstrip()


class Surface:
    """Shows a run of a task to its user."""

    def show_goal(self, goal: str, author: str = YOU) -> None:
        """Show what the task starts with."""
        self.saw(MessageRecord(task="", turn=0, member=author, text=goal))

    def attach(self, app: App, task_id: str) -> None:
        """Attach to the task that is about to run."""

    def load_tickets(self, tickets: Iterable[TicketView]) -> None:
        """Take the tickets that existed before this run."""

    def saw(self, record: Record) -> None:
        """Show one record of the run."""
        raise NotImplementedError

    def idle_seconds(self) -> float | None:
        """How long nothing has been typed here; None if nobody can type."""

    async def finished(self, app: App, result: ResultRecord) -> None:
        """Show how the run ended; called last, when nothing runs any more."""
        raise NotImplementedError


@dataclass
class RecordLines:
    """The common base of what shows a run line by line."""

    team: Team
    width: Callable[[], int]
    paint: Paint
    _: KW_ONLY
    fold: bool
    """Whether long lines are folded; a pipe gets them whole, so that they can be searched."""
    cards: bool = True
    """Whether an open question is shown in full."""
    _began: float = field(default_factory=time.monotonic, init=False)
    _ran: report.CommandLog = field(default_factory=report.CommandLog, init=False)

    def load_tickets(self, tickets: Iterable[TicketView]) -> None:
        """Take the tickets that existed before this run."""

    def past(self, entry: Entry) -> list[str]:
        """Return the lines to show for an entry from before this run."""
        return self.lines(entry.record)

    async def report(self, app: App, result: ResultRecord) -> list[str]:
        """Return how the run ended."""
        if report.was_interrupted(result):
            return [report.stopped_line(result.task)]
        return self._report(result, self._ran.lines())

    def _report(self, result: ResultRecord, ran: Sequence[str]) -> list[str]:
        seconds, width = time.monotonic() - self._began, self.width() if self.fold else sys.maxsize
        return report.lines(result, seconds, self.paint, width, ran)

    def lines(self, record: Record) -> list[str]:
        """Return the lines to show for a record, if any."""
        self._ran.saw(record)
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
            case PhaseRecord():
                return self._phase(record)
            case MemberRecord() | ErrorRecord():
                return self._notice(text)
            case _:
                return []

    def _message(self, record: MessageRecord, text: RecordText) -> list[str]:
        raise NotImplementedError

    def _question(self, record: InteractionRecord, text: RecordText) -> list[str]:
        raise NotImplementedError

    def _notice(self, text: RecordText) -> list[str]:
        """The lines for a member's state, or for an error."""
        raise NotImplementedError

    def _action(self, text: RecordText) -> list[str]:
        """The lines for a tool call; not every surface shows them."""
        return []

    def _ticket(self, record: TicketRecord) -> list[str]:
        return []

    def _phase(self, record: PhaseRecord) -> list[str]:
        return []

    def _card(self, record: InteractionRecord) -> list[str]:
        """The open question in full."""
        who = asking(self.team.instance(record.member), record.member)
        context = card.QuestionContext(record.interaction, who)
        return [*card.brief(context, self.width(), self.paint), ""]


INDENT = 7
_LONGEST = 20_000
"""Characters of a reply that a terminal shows; pipes get all of it."""


@dataclass
class Transcript(RecordLines):
    """Lays out records as a conversation; keeps track of who is speaking."""

    _speaker: str | None = field(default=None, init=False)
    _task: str = field(default="last", init=False)
    _spaced: bool = field(default=False, init=False)
    """Whether the last line was blank."""

    def lines(self, record: Record) -> list[str]:
        """Return the lines to show for a record; never two blank lines in a row."""
        self._task: str = getattr(record, "task", None) or self._task
        lines = super().lines(record)
        if self._spaced and lines and not lines[0]:
            lines = lines[1:]
        if lines:
            self._spaced = not lines[-1]
        return lines

    def _message(self, record: MessageRecord, text: RecordText) -> list[str]:
        if self.team.is_person(record.member):
            return self._by_person(record)
        body = self._indented(record.text) if record.text.strip() else []
        if record.cut or not body:
            word = "(interrupted)" if record.cut else "(no reply)"
            body.append(" " * INDENT + self.paint(word, "dim"))
        lines = self._begin(record.member) + body
        self._speaker = None
        if text.note:
            room = max(self.width() - cells(text.note), INDENT)
            lines.append(" " * room + self.paint(text.note, "dim"))
        return [*lines, ""]

    def _question(self, record: InteractionRecord, text: RecordText) -> list[str]:
        if record.state == "open" and not self.cards:
            return self._action(text)
        if record.state == "open":
            self._speaker = None
            return self._card(record)
        if record.state == "answered" and not asking(self.team.get(record.member), record.member):
            return []  # what a person says in their own turn follows as a message
        return [self.paint(clip(f" {text.what}", self.width()), "dim")]

    def _by_person(self, record: MessageRecord) -> list[str]:
        self._speaker = None
        if not record.text.strip():
            return []  # a bare /end
        name = clip(record.member, 20)
        lines = self._indented(record.text)
        if cells(name) <= INDENT - 2 and lines:
            first = self.paint(pad(f" {name}", INDENT), "name") + lines[0].lstrip(" ")
            return ["", first, *lines[1:], ""]
        return ["", self.paint(f" {name}", "name"), *lines, ""]

    def _begin(self, speaker: str) -> list[str]:
        """Return the line that names the speaker, if somebody else spoke before."""
        if speaker == self._speaker:
            return []
        self._speaker = speaker
        member = self.team.get(speaker)
        what = member and warned(about(member), member.permissions.mode, self.paint, "dim")
        gap = " " * max(INDENT - 1 - cells(speaker), 3)
        return [self.paint(f" {speaker}", "name") + gap + (what or "")]

    def _action(self, text: RecordText) -> list[str]:
        """One line under the speaker's name: what was done or is wanted, and how it went."""
        line = ends(" " * (INDENT + 2) + text.what, text.note, self.width())
        mark = self.paint(text.mark, text.meaning)
        return [*self._begin(text.who), " " * INDENT + mark + line[INDENT + 1 :].rstrip()]

    def _notice(self, text: RecordText) -> list[str]:
        if text.mark != FAILED:
            line = f" {text.mark} {text.who} {text.what}"
            return [self.paint(clip(line, self.width()) if self.fold else line, text.meaning)]
        who = "" if report.names(text.what, text.who) else f"{text.who}: "
        first, *rest = self._folded(f"{who}{text.what}", 3)
        more = self._folded(text.note, 3) if text.note else []
        lines = [self.paint(f" {text.mark} {first}", text.meaning)]
        return lines + [f"   {line}" for line in [*rest, *more]]

    def _indented(self, text: str) -> list[str]:
        lines = self._folded(text.strip("\n"), INDENT)
        return [" " * INDENT + line if line else "" for line in lines]

    def _folded(self, text: str, indent: int) -> list[str]:
        if not self.fold:
            return printable(text).split("\n")
        lines = wrap(printable(text[:_LONGEST]), self.width() - indent - 1)
        if len(text) > _LONGEST:
            lines.append(f"… {len(text) - _LONGEST:,} more characters: coterie log {self._task}")
        return lines


class PlainOutput(Surface):
    """An observer that prints a run as it happens, for pipes, files and terminals that cannot
    redraw. Errors go to stderr."""

    def __init__(self, call: Call, team: Team, renderer: type[RecordLines] = Transcript) -> None:
        self._call = call
        self._renderer = renderer(team, lambda: call.width, call.paint, fold=call.attended)

    def load_tickets(self, tickets: Iterable[TicketView]) -> None:
        self._renderer.load_tickets(tickets)

    def saw(self, record: Record) -> None:
        lines = self._renderer.lines(record)
        if isinstance(record, ErrorRecord) and lines:
            self._call.note("\n".join(lines))
        else:
            self._call.lines(lines)

    async def finished(self, app: App, result: ResultRecord) -> None:
        lines = await self._renderer.report(app, result)
        if report.was_interrupted(result):
            self._call.note("\n".join(lines))
        else:
            self._call.lines(lines)
