"""A thread of the built-in agent: what is kept, what the model sees, and when it is summed up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from coterie.agents.builtin.conversation import (
    Begun,
    Entry,
    Got,
    Heard,
    Noted,
    Prompted,
    Replied,
    Returned,
    Shown,
    Summed,
    ToolCallRequest,
    Trimmed,
    read,
    written,
)
from coterie.model.update import Remembered, ToolCallFinished, ToolCallStarted

_SUMMARY = "[A summary of what followed, which was too long to keep]\n"
SHORT = 400
"""So much of a result is shown once it has been trimmed."""
Requests = dict[str, tuple[ToolCallRequest, bool]]
"""By id: the calls that are shown, and whether each was written."""
_Kind = TypeVar("_Kind", Summed, Trimmed)


def shown(entries: Sequence[Entry], requests: Requests | None = None) -> list[Shown]:
    """The conversation that the model gets; the task's own words are always in it.

    The calls in it are added to `requests`.
    """
    requests = {} if requests is None else requests
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
            yield entry
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
        case Replied():
            return _size(entry)
        case Summed(text=text):
            return len(text) + len(_SUMMARY)
        case Prompted() | Noted() | Returned():
            return len(entry.text)
        case _:
            return 0


def _size(one: Shown) -> int:
    match one:
        case Replied(text, calls):
            return len(text) + sum(len(call.name) + len(str(call.arguments)) for call in calls)
        case Heard(text=text) | Got(text=text):
            return len(text)


@dataclass(frozen=True)
class Pending:
    """A call that has no result yet."""

    request: ToolCallRequest
    begun: bool
    """Whether it may have been run, wholly or in part."""


@dataclass(frozen=True)
class Streak:
    """How often in a row a call was made with the same arguments.

    One that we were cut off in does not count: to make it again is no mistake of the model's.
    """

    length: int
    before: int
    """How many of them were made in earlier replies."""


class BuiltinThread:
    """The entries of a thread, in order; only ever added to."""

    def __init__(self, thread_id: str, entries: Iterable[Entry] = ()) -> None:
        self.id = thread_id
        self.entries: list[Entry] = []
        self._shown: list[Shown] = []
        self._requests: Requests = {}
        self._unknown: set[str] = set()
        """The calls that nobody knows the end of."""
        self._prompt: Prompted | None = None
        self.replies: list[Replied] = []
        """What the model said in the last turn."""
        self.characters: int = 0
        """No conversation that is made of it has more than this."""
        self._add(entries)

    def remember(
        self,
        *entries: Entry,
        calls: tuple[ToolCallStarted | ToolCallFinished, ...] = (),
        gates: bool = False,
    ) -> Remembered:
        """Add entries; the update has them kept."""
        place = len(self.entries) + 1
        self._add(entries)
        return Remembered(self.id, place, tuple(map(written, entries)), calls, gates)

    def _add(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            if isinstance(entry, Prompted):
                self._prompt = entry
                self.replies: list[Replied] = []
            elif isinstance(entry, Replied):
                self.replies.append(entry)
            elif isinstance(entry, Returned) and entry.is_unknown:
                self._unknown.add(entry.call)
            self.entries.append(entry)
            if isinstance(entry, Prompted | Summed | Trimmed):  # these say what stands before them
                self._requests = {}
                self._shown = shown(self.entries, self._requests)
            else:
                self._shown.extend(_of(entry, self._requests, short=False))
            self.characters += at_most(entry)

    def shown(self) -> list[Shown]:
        """The conversation that the model gets."""
        return self._shown.copy()

    def numbered(self, calls: Iterable[ToolCallRequest]) -> tuple[ToolCallRequest, ...]:
        """The calls of the reply that is remembered next, each with an id that no other has."""
        prefix = f"call_{self.id[:8]}_{len(self.entries) + 1}"
        return tuple(
            ToolCallRequest(call.name, call.arguments, call.problem, f"{prefix}_{n}")
            for n, call in enumerate(calls, 1)
        )

    @property
    def turn(self) -> str | None:
        return self._prompt.turn if self._prompt else None

    @property
    def was_told(self) -> bool:
        """Whether the newest entry is a word of Coterie's, which the model has yet to answer."""
        return bool(self.entries) and isinstance(self.entries[-1], Noted)

    @property
    def final(self) -> Replied | None:
        """The reply that ended the last turn; None while it goes on."""
        last = self.replies[-1] if self.replies else None
        return last if last and not last.calls and not self.was_told else None

    def pending(self) -> list[Pending]:
        """The calls of the last reply that have no result, in order."""
        begun: set[str] = set()
        ended: set[str] = set()
        for entry in reversed(self.entries):
            match entry:
                case Begun(call):
                    begun.add(call)
                case Returned(call):
                    ended.add(call)
                case Replied(calls=calls):
                    left = [call for call in calls if call.id not in ended]
                    return [Pending(call, call.id in begun) for call in left]
                case _:
                    pass
        return []

    def streak(self, request: ToolCallRequest) -> Streak:
        """How often in a row this call was made by now."""
        length = before = 0
        for reply in reversed(self.replies):
            calls = list(reply.calls)
            here = any(call.id == request.id for call in calls)
            while here and calls[-1].id != request.id:
                calls.pop()  # those that come after it
            for call in reversed(calls):
                if (call.name, call.arguments) != (request.name, request.arguments):
                    return Streak(length, before)
                length += call.id not in self._unknown
                before += call.id not in self._unknown and not here
        return Streak(length, before)


def unbegun(entries: Iterable[str]) -> list[str]:
    """The ids of calls that were never made, in a thread that does not go on."""
    first, *others = BuiltinThread("", map(read, entries)).pending() or (None,)
    # The first may be under way, and what only looks leaves no sign of that.
    known = [first] if first and first.request.name in SERVED_BY_TURN else []
    return [one.request.id for one in (*known, *others) if one and not one.begun]


SERVED_BY_TURN = frozenset({"askUser", "assignSubtask"})
"""The tools that wait for a person before they do anything."""


# -- making room -------------------------------------------------------------------------------


PER_TOKEN = 4
"""About so many characters make a token."""
_RECENT = 0.4
"""So much of the room is left to what is newest, as it is."""
_ENOUGH = 0.7
"""Cutting results is enough where the rest fills no more than this."""
_CALLS_NAMED = 40


@dataclass(frozen=True)
class Fold:
    """The entries up to a place are to be summed up."""

    upto: int
    transcript: str


def room_for(entries: Sequence[Entry], characters: int) -> Trimmed | Fold | None:
    """What must be done so that the conversation fits so many characters; None when it does."""
    if size(shown(entries)) <= characters:
        return None
    upto = _recent(entries, characters * _RECENT) - 1
    trimmed = Trimmed(upto)
    if trimmed not in entries and size(shown([*entries, trimmed])) <= characters * _ENOUGH:
        return trimmed
    before = max((one.upto for one in entries if isinstance(one, Summed)), default=0)
    if upto <= before:
        return None  # what is newest is too long by itself: nothing more can be left out
    return Fold(upto, _transcript(entries, trimmed, characters))


def _recent(entries: Sequence[Entry], characters: float) -> int:
    """The place from which on everything is kept: where the model speaks or a prompt comes, so
    that no result is torn from its call."""
    starts = [at for at, one in enumerate(entries, 1) if isinstance(one, Replied | Prompted)]
    kept = starts[-1] if starts else 1
    for place in reversed(starts):
        if size(tail(entries, place)) > characters:
            break
        kept = place
    return kept


def _transcript(entries: Sequence[Entry], trimmed: Trimmed, characters: int) -> str:
    """The older part as a text, for whoever sums it up."""
    earlier = [one for one in entries[trimmed.upto :] if isinstance(one, Summed)]
    text = "\n\n".join(_lines(shown([*entries[: trimmed.upto], *earlier, trimmed])))
    if len(text) <= characters:
        return text
    half = characters // 2
    return f"{text[:half]}\n\n… {len(text) - 2 * half:,} characters left out …\n\n{text[-half:]}"


def _lines(said: Sequence[Shown]) -> Iterator[str]:
    for one in said:
        match one:
            case Heard(text):
                yield f"PROMPT:\n{text}"
            case Replied(text, calls):
                called = [f"CALLED {call.name} {dict(call.arguments)}" for call in calls]
                yield "\n".join([f"YOU:\n{text}" if text.strip() else "YOU:", *called])
            case Got(call, text, is_error):
                yield f"{'FAILED' if is_error else 'RESULT'} of {call.name}:\n{text}"


def left_out(entries: Sequence[Entry], upto: int) -> str:
    """What is said in place of a summary where no model made one."""
    calls = [call for one in entries[:upto] if isinstance(one, Replied) for call in one.calls]
    made = [f"- {call.name} {str(dict(call.arguments))[:120]}" for call in calls[-_CALLS_NAMED:]]
    return "\n".join(
        [
            "What was said and done here no longer fits and is left out. Files can be read again.",
            *(["The last calls in it, which all have ended:", *made] if made else []),
        ]
    )
