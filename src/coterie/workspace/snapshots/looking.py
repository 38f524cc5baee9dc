"""Looking at what a task did to files, as far as it was kept."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from coterie.model import instant
from coterie.workspace.snapshots.changes import Found, changes_of
from coterie.workspace.snapshots.history import History, belongs
from coterie.workspace.snapshots.keeping import Present, Record, lasts
from coterie.workspace.snapshots.values import Change, Moment, Span

_LAST = sys.maxsize
"""After all that was kept."""


@dataclass(frozen=True)
class Look:
    """All that was kept, seen from one task; the lock is held."""

    record: Record
    task: str
    spans: Sequence[Span]

    @classmethod
    def at(cls, record: Record, task: str) -> Look:
        """Read the record."""
        return cls(record, task, record.spans())

    @property
    def mine(self) -> list[Span]:
        """The spans of the task and of the parts it handed out."""
        return [span for span in self.spans if belongs(span, self.task)]

    @property
    def history(self) -> History:
        """What the task did, and what of it was taken back."""
        return History.of(self.mine)

    def found(self, wanted: Sequence[Span]) -> Found:
        """What some spans changed; one that has no end lasts until now."""
        present, now = Present(self.record.shadow), instant.now()

        def ended(spans: Iterable[Span]) -> list[Span]:
            return [
                span if span.after else replace(span, after=Moment(present.of(span), now, _LAST))
                for span in spans
            ]

        others = (span for span in self.spans if not belongs(span, self.task))
        there = [span for span in others if span.after is not None or lasts(span)]
        folders = {span.folder for span in wanted}
        return changes_of(
            self.record.shadow, ended(wanted), ended(one for one in there if one.folder in folders)
        )


def by_folder(changes: Iterable[Change]) -> dict[Path, list[Change]]:
    """The changes to each folder, in their order."""
    found: dict[Path, list[Change]] = {}
    for change in changes:
        found.setdefault(change.folder, []).append(change)
    return found
