"""What of a thread a model is shown: all of it, or a summary and what came after."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from coterie.agents.builtin.entries import (
    Entry,
    Noted,
    Prompted,
    Replied,
    Returned,
    Summed,
    Trimmed,
)
from coterie.agents.builtin.speech import Got, Heard, Shown, Spoke, ToolCallRequest

_SUMMARY = "[A summary of what followed, which was too long to keep]\n"
SHORT = 400
"""So much of a result is shown once it has been trimmed."""
Requests = dict[str, tuple[ToolCallRequest, bool]]
"""By id: the calls that are shown, and whether each was written."""
_Kind = TypeVar("_Kind", Summed, Trimmed)


class View:
    """The conversation that the model gets, kept up as its thread grows."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        self._said: list[Shown] = []
        self._requests: Requests = {}

    def add(self, entry: Entry) -> None:
        """The thread has one entry more."""
        if isinstance(entry, Prompted | Summed | Trimmed):  # these say what stands before them
            self._requests = {}
            self._said = _shown(self._entries, self._requests)
        else:
            self._said.extend(_of(entry, self._requests, short=False))

    def said(self) -> list[Shown]:
        """All of it, as it is now."""
        return self._said.copy()


def shown(entries: Sequence[Entry]) -> list[Shown]:
    """The conversation that the model gets; the task's own words are always in it."""
    return _shown(entries, {})


def _shown(entries: Sequence[Entry], requests: Requests) -> list[Shown]:
    summed, trimmed = _last(entries, Summed), _last(entries, Trimmed)
    places = summed.upto if summed else 0, trimmed.upto if trimmed else 0
    said = list(_from(entries, *places, requests))
    return [*map(Heard, _instead(entries, summed)), *said] if summed else said


def tail(entries: Sequence[Entry], place: int) -> list[Shown]:
    """What was said from this place on, as it was said."""
    return list(_from(entries, place - 1, 0, {}))


def _last(entries: Sequence[Entry], kind: type[_Kind]) -> _Kind | None:
    return next((one for one in reversed(entries) if isinstance(one, kind)), None)


def _from(
    entries: Sequence[Entry], after: int, shortened: int, requests: Requests
) -> Iterator[Shown]:
    for place, entry in enumerate(entries[after:], after + 1):
        yield from _of(entry, requests, short=place <= shortened)


def _instead(entries: Sequence[Entry], summed: Summed) -> Iterator[str]:
    """What stands for the older part: the first prompt, the summary, the newest prompt."""
    prompts = [(place, one) for place, one in enumerate(entries, 1) if isinstance(one, Prompted)]
    inside = [one for place, one in prompts if place <= summed.upto]
    if inside:
        yield inside[0].text
    yield f"{_SUMMARY}{summed.text}"
    if len(inside) > 1 and inside[-1] is prompts[-1][1]:
        yield inside[-1].text


def _of(entry: Entry, requests: Requests, *, short: bool) -> Iterator[Shown]:
    match entry:
        case Prompted(text=text) | Noted(text=text):
            yield Heard(text)
        case Replied(text, calls, written) if text.strip() or calls:
            requests |= {call.id: (call, written) for call in calls}
            yield Spoke(text, calls, written)
        case Returned(call, is_error=is_error) if call in requests:
            text = entry.text
            request, written = requests[call]
            yield Got(request, _shortened(text) if short else text, is_error, written)
        case _:
            pass


def _shortened(text: str) -> str:
    if len(text) <= SHORT:
        return text
    return f"{text[:SHORT]}\n… cut here, {len(text):,} characters in all: call again to see it …"


def size(said: Iterable[Shown]) -> int:
    """About how many characters a conversation has."""
    return sum(map(_size, said))


def at_most(entry: Entry) -> int:
    """How many characters an entry can add to a conversation."""
    match entry:
        case Replied(text, calls):
            return _size(Spoke(text, calls))
        case Summed(text=text):
            return len(text) + len(_SUMMARY)
        case Prompted() | Noted() | Returned():
            return len(entry.text)
        case _:
            return 0


def _size(one: Shown) -> int:
    match one:
        case Spoke(text, calls):
            return len(text) + sum(len(call.name) + len(str(call.arguments)) for call in calls)
        case Heard(text=text) | Got(text=text):
            return len(text)
