"""A conversation as lines: who speaks, each tool call on one line, what was said, what it cost."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from coterie.cli import card, figures
from coterie.cli.deeds import telling
from coterie.cli.member import about, asking, painted
from coterie.cli.text import Paint, cells, clip, ends, one_line, pad, printable, wrap
from coterie.model.paths import shown
from coterie.model.record import (
    ErrorRecord,
    InteractionRecord,
    MemberRecord,
    MessageRecord,
    Record,
    ToolCallRecord,
)
from coterie.model.team import Member, Team

INDENT = 7
_MARKS = {"quiet": "◌", "stuck": "■", "waiting": "◌"}
"""States worth a line; a failure and a question have lines of their own."""
_LONGEST = 20_000
"""So much of a reply is shown on a terminal; pipes get all of it."""
_QUESTION = re.compile(r"q\d+")


class Transcript:
    """Turns records into lines, one after the other; knows who has the word."""

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
        self._speaker: str | None = None
        self._spaced = False
        """Whether the last line was an empty one."""

    def lines(self, record: Record) -> list[str]:
        """What a reader should see of it, if anything."""
        lines = self._told(record)
        if self._spaced and lines and not lines[0]:
            lines = lines[1:]
        if lines:
            self._spaced = not lines[-1]
        return lines

    def _told(self, record: Record) -> list[str]:
        match record:
            case MessageRecord():
                return self._message(record)
            case ToolCallRecord() if record.status != "started":
                return [*self._begin(record.member), self._tool(record)]
            case InteractionRecord():
                return self._interaction(record)
            case MemberRecord() if record.state in _MARKS:
                return self._state(record)
            case ErrorRecord():
                return self._error(record)
            case _:
                return []

    # -- parts ---------------------------------------------------------------------------------

    def _message(self, record: MessageRecord) -> list[str]:
        member = self._member(record.member)
        if member is None or member.type == "human":
            return self._by_person(record)
        said = self._indented(record.text) if record.text.strip() else []
        if record.cut:
            said.append(self._aside("(broken off)"))
        elif not said:
            said.append(self._aside("(nothing)"))
        lines = self._begin(record.member) + said
        self._speaker = None
        footer = self._footer(record)
        if footer:
            room = max(self._width() - cells(footer), INDENT)
            lines.append(" " * room + self._paint(footer, "dim"))
        return [*lines, ""]

    def _aside(self, word: str) -> str:
        return " " * INDENT + self._paint(word, "dim")

    def _by_person(self, record: MessageRecord) -> list[str]:
        self._speaker = None
        if not record.text.strip():
            return []  # a bare /end
        name = clip(record.member, 20)
        lines = self._indented(record.text)
        if cells(name) <= INDENT - 2 and lines:
            first = self._paint(pad(f" {name}", INDENT), "name") + lines[0].lstrip(" ")
            return ["", first, *lines[1:], ""]
        return ["", self._paint(f" {name}", "name"), *lines, ""]

    def _begin(self, speaker: str) -> list[str]:
        """The speaker's own line, where somebody else had the word before."""
        if speaker == self._speaker:
            return []
        self._speaker = speaker
        member = self._member(speaker)
        what = painted(about(member), self._paint) if member else ""
        return [self._paint(f" {speaker}", "name") + gap(speaker) + what]

    def _tool(self, record: ToolCallRecord) -> str:
        mark, meaning = ("✗", "bad") if record.is_error else ("✓", "good")
        if record.status == "unknown":
            mark, meaning = "?", "asks"
        width = self._width()
        took = "" if record.duration_ms is None else figures.duration(record.duration_ms / 1000)
        what = f"{pad(one_line(record.name), 6)} {telling(record.input)}"
        if record.status == "unknown":
            took = "may have run"
        elif record.denied:
            took = "not run"
        line = ends(" " * (INDENT + 2) + what, took, width)
        return " " * INDENT + self._paint(mark, meaning) + line[INDENT + 1 :]

    def _interaction(self, record: InteractionRecord) -> list[str]:
        asked = record.interaction
        number = f"asks you · {asked.interaction_id}"
        if record.state != "open":
            if record.state == "answered" and not asking(
                self._member(record.member), record.member
            ):
                return []  # what a person says in their own turn follows as a message
            said = card.answered(asked, record.answer, record.said)
            by = f" by {record.by}" if record.by else ""
            line = f" {asked.interaction_id} {record.state}{by}" + (f": {said}" if said else "")
            return [self._paint(clip(line, self._width()), "dim")]
        if not self._cards:
            title = ends(" " * (INDENT + 2) + card.in_short(asked), number, self._width())
            mark = self._paint("▲", "asks")
            return [*self._begin(record.member), " " * INDENT + mark + title[INDENT + 1 :]]
        self._speaker = None
        who = asking(self._member(record.member), record.member)
        return [*card.brief(card.QuestionContext(asked, who), self._width(), self._paint), ""]

    def _state(self, record: MemberRecord) -> list[str]:
        if not record.reason or _QUESTION.fullmatch(record.reason):
            return []
        mark = _MARKS[record.state]
        line = f" {mark} {record.member} {record.state}: {one_line(record.reason)}"
        return [self._paint(clip(line, self._width()) if self._fold else line, "asks")]

    def _error(self, record: ErrorRecord) -> list[str]:
        who = "" if not record.member or record.member in record.message else f"{record.member}: "
        named = record.where is None or record.where in record.message
        more = [] if named else [f"in {shown(Path(record.where or ''))}"]
        more += [record.hint] if record.hint else []
        first, *rest = self._folded(f"{who}{record.message}", 3)
        lines = [self._paint(f" ! {first}", "bad"), *(f"   {line}" for line in rest)]
        return lines + [f"   {line}" for line in self._folded(" · ".join(more), 3) if line]

    def _footer(self, record: MessageRecord) -> str:
        parts: list[str] = []
        if record.duration_ms is not None:
            parts.append(figures.duration(record.duration_ms / 1000))
        if cost := figures.used(record.usage):
            parts.append(cost)
        if record.next:
            parts.append(f"next {record.next}")
        return " · ".join(parts)

    def _indented(self, text: str) -> list[str]:
        lines = self._folded(text.strip("\n"), INDENT)
        return [" " * INDENT + line if line else "" for line in lines]

    def _folded(self, text: str, indent: int) -> list[str]:
        if not self._fold:
            return printable(text).split("\n")
        lines = wrap(text[:_LONGEST], self._width() - indent - 1)
        if len(text) > _LONGEST:
            lines.append(f"… {len(text) - _LONGEST} more characters: coterie log last")
        return lines

    def _member(self, name: str) -> Member | None:
        return self._team.get(name)


def gap(name: str) -> str:
    """The blanks between a name and what follows it."""
    return " " * max(INDENT - 1 - cells(name), 3)
