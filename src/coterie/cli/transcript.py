"""A conversation as lines: who speaks, each tool call on one line, what was said, what it cost."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from coterie.cli import report
from coterie.cli.call import Call
from coterie.cli.lines import FAILED, RecordLines, RecordText, Surface
from coterie.cli.text import about, asking, cells, clip, ends, pad, painted, printable, wrap
from coterie.model.record import (
    ErrorRecord,
    InteractionRecord,
    MessageRecord,
    Record,
    ResultRecord,
)
from coterie.model.team import Team

INDENT = 7
_LONGEST = 20_000
"""So much of a reply is shown on a terminal; pipes get all of it."""


@dataclass
class Transcript(RecordLines):
    """Lays records out as a conversation; knows who has the word."""

    _speaker: str | None = field(default=None, init=False)
    _spaced: bool = field(default=False, init=False)
    """Whether the last line was an empty one."""

    def lines(self, record: Record) -> list[str]:
        """What a reader should see of it; never two empty lines in a row."""
        lines = super().lines(record)
        if self._spaced and lines and not lines[0]:
            lines = lines[1:]
        if lines:
            self._spaced = not lines[-1]
        return lines

    # -- parts ---------------------------------------------------------------------------------

    def _message(self, record: MessageRecord, text: RecordText) -> list[str]:
        member = self.team.get(record.member)
        if member is None or member.type == "human":
            return self._by_person(record)
        said = self._indented(record.text) if record.text.strip() else []
        if record.cut or not said:
            word = "(broken off)" if record.cut else "(nothing)"
            said.append(" " * INDENT + self.paint(word, "dim"))
        lines = self._begin(record.member) + said
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
        """The speaker's own line, where somebody else had the word before."""
        if speaker == self._speaker:
            return []
        self._speaker = speaker
        member = self.team.get(speaker)
        what = painted(about(member), self.paint) if member else ""
        gap = " " * max(INDENT - 1 - cells(speaker), 3)
        return [self.paint(f" {speaker}", "name") + gap + what]

    def _action(self, text: RecordText) -> list[str]:
        """One line under the speaker's name: what was done or is wanted, how it went beside it."""
        line = ends(" " * (INDENT + 2) + text.what, text.note, self.width())
        mark = self.paint(text.mark, text.meaning)
        return [*self._begin(text.who), " " * INDENT + mark + line[INDENT + 1 :].rstrip()]

    def _notice(self, text: RecordText) -> list[str]:
        if text.mark != FAILED:
            line = f" {text.mark} {text.who} {text.what}"
            return [self.paint(clip(line, self.width()) if self.fold else line, text.meaning)]
        who = "" if text.who in text.what else f"{text.who}: "
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
        lines = wrap(text[:_LONGEST], self.width() - indent - 1)
        if len(text) > _LONGEST:
            lines.append(f"… {len(text) - _LONGEST} more characters: coterie log last")
        return lines


class PlainOutput(Surface):
    """An observer that prints a run as it happens: for pipes, files and terminals that cannot
    redraw.  What went wrong goes to stderr."""

    def __init__(self, call: Call, team: Team, renderer: type[RecordLines] = Transcript) -> None:
        self._call = call
        self._began = time.monotonic()
        self._ran = report.CommandLog()
        self._renderer = renderer(team, lambda: call.width, call.paint, fold=call.attended)

    def saw(self, record: Record) -> None:
        self._ran.saw(record)
        lines = self._renderer.lines(record)
        if isinstance(record, ErrorRecord) and lines:
            self._call.note("\n".join(lines))
        else:
            self._call.lines(lines)

    def finished(self, result: ResultRecord) -> None:
        """The report at the end."""
        if result.reason == "interrupted":
            self._call.note(report.stopped_line(result.task))
            return
        seconds, paint = time.monotonic() - self._began, self._call.paint
        self._call.lines(report.lines(result, seconds, paint, self._ran.lines()))
