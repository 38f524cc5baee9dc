"""A run told in plain lines, as it happens: for pipes, files and terminals that cannot redraw."""

from __future__ import annotations

import time

from coterie.cli import report
from coterie.cli.call import Call
from coterie.cli.ran import CommandLog
from coterie.cli.transcript import Transcript
from coterie.model.message import YOU
from coterie.model.record import ErrorRecord, MessageRecord, Record, ResultRecord
from coterie.model.team import Team


class Plain:
    """An observer that prints; what went wrong goes to stderr."""

    def __init__(self, call: Call, team: Team) -> None:
        self._call = call
        self._began = time.monotonic()
        self._ran = CommandLog()
        fold = call.attended  # a pipe gets lines as they were said, to be searched and cut
        self._transcript = Transcript(team, lambda: call.width, call.paint, fold=fold)

    def opened(self, goal: str, author: str = YOU) -> None:
        """The word that a task starts with."""
        self.saw(MessageRecord(task="", turn=0, member=author, text=goal))

    def saw(self, record: Record) -> None:
        self._ran.saw(record)
        lines = self._transcript.lines(record)
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
