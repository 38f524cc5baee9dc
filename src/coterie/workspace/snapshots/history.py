"""Which spans of a task still count: not those that were taken back, nor a part twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from coterie.workspace.snapshots.values import Span


def belongs(span: Span, task: str) -> bool:
    """Whether a span is of a task or of a part that it handed out."""
    return span.task == task or span.task.startswith(f"{task}.")


@dataclass
class History:
    """What a task did, and what of it was taken back since."""

    turns: list[Span] = field(default_factory=list[Span])
    """The turns whose changes count, oldest first."""
    reverts: list[list[Span]] = field(default_factory=list[list[Span]])
    """The reverts that count, oldest first; each with its spans, one per folder."""
    _set_aside: list[list[Span]] = field(default_factory=list[list[Span]])

    @classmethod
    def of(cls, spans: Iterable[Span]) -> History:
        """The history of a task, from all its spans in their order."""
        history = cls()
        number: tuple[str, int] | None = None
        for span in spans:
            if span.does == "turn":
                history.turns.append(span)
            elif number == (span.task, span.number):
                if span.does == "revert":
                    history.reverts[-1].append(span)
            elif span.does == "revert":
                history._revert(span)
            else:
                history._undo()
            number = (span.task, span.number)
        history.turns = _outermost(history.turns)
        return history

    @property
    def reverted_at(self) -> str | None:
        """When all of it was taken back; None if something still counts, or nothing ever did."""
        if self.turns or not self.reverts:
            return None
        return self.reverts[-1][0].before.at

    def _revert(self, span: Span) -> None:
        self.reverts.append([span])
        # One that was cut, or had to leave something, took nothing off the record: it may be
        # tried again, and finds done what is done.
        whole = span.after is not None and span.after.whole
        self._set_aside.append(self.turns if whole else [])
        self.turns = [] if whole else self.turns

    def _undo(self) -> None:
        self.reverts.pop()
        self.turns = self._set_aside.pop() + self.turns


def _outermost(turns: Sequence[Span]) -> list[Span]:
    """The turns but for those of a part that was done while its whole was watched anyway."""
    return [turn for turn in turns if not any(_covers(other, turn) for other in turns)]


def _covers(whole: Span, part: Span) -> bool:
    within = whole.after is None or (
        part.after is not None and part.after.place < whole.after.place
    )
    return (
        within
        and part.task.startswith(f"{whole.task}.")
        and part.folder == whole.folder
        and whole.before.place < part.before.place
    )
