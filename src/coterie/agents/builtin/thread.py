"""A thread of the built-in agent: what is stored, what the model sees, when it is summarized."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from coterie.agents.builtin.conversation import (
    CallBegunEntry,
    Entry,
    InboundText,
    PromptEntry,
    ReplyEntry,
    ResultEntry,
    ShownItem,
    ShownResult,
    SummaryEntry,
    ToolCallRequest,
    TrimEntry,
    read,
    written,
)
from coterie.model.update import ThreadAppended, ToolCallFinished, ToolCallStarted

_SUMMARY = "[A summary of what came next, which was too long to keep]\n"
SHORT = 400
"""How many characters of a result are shown once it has been trimmed."""
Requests = dict[str, tuple[ToolCallRequest, bool]]
"""By id: the calls that are shown, and whether each was written as text."""
_Kind = TypeVar("_Kind", SummaryEntry, TrimEntry)


def shown(entries: Sequence[Entry], requests: Requests | None = None) -> list[ShownItem]:
    """Return the conversation that the model gets, which always includes the task's own words.

    The calls in it are added to `requests`.
    """
    requests = {} if requests is None else requests
    summed, trimmed = _last(entries, SummaryEntry), _last(entries, TrimEntry)
    places = summed.upto if summed else 0, trimmed.upto if trimmed else 0
    items = list(_from(entries, *places, requests))
    return [*map(InboundText, _instead(entries, summed)), *items] if summed else items


def tail(entries: Sequence[Entry], place: int) -> list[ShownItem]:
    """Return what was said from this place on, unshortened."""
    return list(_from(entries, place - 1, 0, {}))


def _last(entries: Sequence[Entry], kind: type[_Kind]) -> _Kind | None:
    return next((one for one in reversed(entries) if isinstance(one, kind)), None)


def _from(
    entries: Sequence[Entry], after: int, shortened: int, requests: Requests
) -> Iterator[ShownItem]:
    for place, entry in enumerate(entries[after:], after + 1):
        yield from _of(entry, requests, short=place <= shortened)


def _instead(entries: Sequence[Entry], summed: SummaryEntry) -> Iterator[str]:
    """Yield what replaces the older part: the first prompt, the summary, the newest prompt."""
    prompts = [(place, one) for place, one in enumerate(entries, 1) if isinstance(one, PromptEntry)]
    inside = [one for place, one in prompts if place <= summed.upto]
    if inside:
        yield inside[0].text
    yield f"{_SUMMARY}{summed.text}"
    if len(inside) > 1 and inside[-1] is prompts[-1][1]:
        yield inside[-1].text


def _of(entry: Entry, requests: Requests, *, short: bool) -> Iterator[ShownItem]:
    match entry:
        case InboundText():
            yield entry
        case PromptEntry(text=text):
            yield InboundText(text)
        case ReplyEntry(text, calls, written) if text.strip() or calls:
            requests |= {call.id: (call, written) for call in calls}
            yield entry
        case ResultEntry(call, is_error=is_error) if call in requests:
            text = entry.text
            request, written = requests[call]
            yield ShownResult(request, _shortened(text) if short else text, is_error, written)
        case _:
            pass


def _shortened(text: str) -> str:
    if len(text) <= SHORT:
        return text
    return (
        f"{text[:SHORT]}\n… truncated from {len(text):,} characters: call again to see them all …"
    )


def size(items: Iterable[ShownItem]) -> int:
    """Return roughly how many characters a conversation has."""
    return sum(map(_size, items))


def most_characters(entry: Entry) -> int:
    """Return the most characters that an entry can add to a conversation."""
    match entry:
        case ReplyEntry():
            return _size(entry)
        case SummaryEntry(text=text):
            return len(text) + len(_SUMMARY)
        case PromptEntry() | InboundText() | ResultEntry():
            return len(entry.text)
        case _:
            return 0


def _size(one: ShownItem) -> int:
    match one:
        case ReplyEntry(text, calls):
            return len(text) + sum(len(call.name) + len(str(call.arguments)) for call in calls)
        case InboundText(text=text) | ShownResult(text=text):
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

    A call with an unknown outcome does not count: repeating it is not the model's mistake.
    """

    length: int
    before: int
    """How many of them were made in earlier replies."""


class BuiltinThread:
    """The entries of a thread, in order; append-only."""

    def __init__(self, thread_id: str, entries: Iterable[Entry] = ()) -> None:
        self.id = thread_id
        self.entries: list[Entry] = []
        self._shown: list[ShownItem] = []
        self._requests: Requests = {}
        self._unknown: set[str] = set()
        """The calls whose outcome is unknown."""
        self._prompt: PromptEntry | None = None
        self.replies: list[ReplyEntry] = []
        """What the model said in the last turn."""
        self.characters: int = 0
        """An upper bound for the size of any conversation made from it."""
        self._add(entries)

    def append(
        self,
        *entries: Entry,
        calls: tuple[ToolCallStarted | ToolCallFinished, ...] = (),
        gates: bool = False,
    ) -> ThreadAppended:
        """Add entries and return the update that has them stored."""
        place = len(self.entries) + 1
        self._add(entries)
        return ThreadAppended(self.id, place, tuple(map(written, entries)), calls, gates)

    def _add(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            if isinstance(entry, PromptEntry):
                self._prompt = entry
                self.replies: list[ReplyEntry] = []
            elif isinstance(entry, ReplyEntry):
                self.replies.append(entry)
            elif isinstance(entry, ResultEntry) and entry.is_unknown:
                self._unknown.add(entry.call)
            self.entries.append(entry)
            if isinstance(
                entry, PromptEntry | SummaryEntry | TrimEntry
            ):  # these change the earlier part
                self._requests = {}
                self._shown = shown(self.entries, self._requests)
            else:
                self._shown.extend(_of(entry, self._requests, short=False))
            self.characters += most_characters(entry)

    def shown(self) -> list[ShownItem]:
        """Return the conversation that the model gets."""
        return self._shown.copy()

    def numbered(self, calls: Iterable[ToolCallRequest]) -> tuple[ToolCallRequest, ...]:
        """Return the calls of the reply to be remembered next, each with a unique id."""
        prefix = f"call_{self.id[:8]}_{len(self.entries) + 1}"
        return tuple(
            ToolCallRequest(call.name, call.arguments, call.problem, f"{prefix}_{n}")
            for n, call in enumerate(calls, 1)
        )

    @property
    def turn(self) -> str | None:
        return self._prompt.turn if self._prompt else None

    @property
    def ends_with_note(self) -> bool:
        """Whether the newest entry is a note from Coterie that the model has yet to answer."""
        return bool(self.entries) and isinstance(self.entries[-1], InboundText)

    @property
    def final(self) -> ReplyEntry | None:
        """The reply that ended the last turn; None while that is still running."""
        last = self.replies[-1] if self.replies else None
        return last if last and not last.calls and not self.ends_with_note else None

    def pending(self) -> list[Pending]:
        """Return the calls of the last reply that have no result, in order."""
        begun: set[str] = set()
        ended: set[str] = set()
        for entry in reversed(self.entries):
            match entry:
                case CallBegunEntry(call):
                    begun.add(call)
                case ResultEntry(call):
                    ended.add(call)
                case ReplyEntry(calls=calls):
                    open_calls = [call for call in calls if call.id not in ended]
                    return [Pending(call, call.id in begun) for call in open_calls]
                case _:
                    pass
        return []

    def streak(self, request: ToolCallRequest) -> Streak:
        """Return how often in a row this call has been made by now."""
        length = before = 0
        for reply in reversed(self.replies):
            calls = list(reply.calls)
            here = any(call.id == request.id for call in calls)
            while here and calls[-1].id != request.id:
                calls.pop()  # the ones after it
            for call in reversed(calls):
                if (call.name, call.arguments) != (request.name, request.arguments):
                    return Streak(length, before)
                length += call.id not in self._unknown
                before += call.id not in self._unknown and not here
        return Streak(length, before)


def unstarted(entries: Iterable[str]) -> list[str]:
    """Return the ids of calls that were never made, in a thread that will not continue."""
    first, *others = BuiltinThread("", map(read, entries)).pending() or (None,)
    # The first may be running: a read-only call leaves no record of having begun.
    known = [first] if first and first.request.name in SERVED_BY_TURN else []
    return [one.request.id for one in (*known, *others) if one and not one.begun]


SERVED_BY_TURN = frozenset({"askUser", "assignSubtask"})
"""The tools that wait for a person before they do anything."""


# -- making room -------------------------------------------------------------------------------


PER_TOKEN = 4
"""Roughly how many characters make a token."""
_RECENT = 0.4
"""The share of the room that is left to the newest part, unshortened."""
_ENOUGH = 0.7
"""Trimming results is enough if the conversation then fills no more than this share."""
_CALLS_NAMED = 40


@dataclass(frozen=True)
class SummaryDue:
    """The entries up to a place need to be summarized."""

    upto: int
    transcript: str


def room_for(entries: Sequence[Entry], characters: int) -> TrimEntry | SummaryDue | None:
    """Return what to do so that the conversation fits this size; None if it fits, or cannot."""
    if size(shown(entries)) <= characters:
        return None
    upto = _recent(entries, characters * _RECENT) - 1
    trimmed = TrimEntry(upto)
    if trimmed not in entries and size(shown([*entries, trimmed])) <= characters * _ENOUGH:
        return trimmed
    before = max((one.upto for one in entries if isinstance(one, SummaryEntry)), default=0)
    if upto <= before:
        return None  # the newest part alone is too long: nothing more can be left out
    return SummaryDue(upto, _transcript(entries, trimmed, characters))


def _recent(entries: Sequence[Entry], characters: float) -> int:
    """Return the place from which everything is kept: at a reply or a prompt, so that no result
    is separated from its call."""
    starts = [at for at, one in enumerate(entries, 1) if isinstance(one, ReplyEntry | PromptEntry)]
    first = starts[-1] if starts else 1
    for place in reversed(starts):
        if size(tail(entries, place)) > characters:
            break
        first = place
    return first


def _transcript(entries: Sequence[Entry], trimmed: TrimEntry, characters: int) -> str:
    """Return the older part as a text, for the model that summarizes it."""
    earlier = [one for one in entries[trimmed.upto :] if isinstance(one, SummaryEntry)]
    text = "\n\n".join(_lines(shown([*entries[: trimmed.upto], *earlier, trimmed])))
    if len(text) <= characters:
        return text
    half = characters // 2
    return f"{text[:half]}\n\n… {len(text) - 2 * half:,} characters left out …\n\n{text[-half:]}"


def _lines(items: Sequence[ShownItem]) -> Iterator[str]:
    for one in items:
        match one:
            case InboundText(text):
                yield f"PROMPT:\n{text}"
            case ReplyEntry(text, calls):
                called = [f"CALLED {call.name} {dict(call.arguments)}" for call in calls]
                yield "\n".join([f"YOU:\n{text}" if text.strip() else "YOU:", *called])
            case ShownResult(call, text, is_error):
                yield f"{'FAILED' if is_error else 'RESULT'} of {call.name}:\n{text}"


def left_out(entries: Sequence[Entry], upto: int) -> str:
    """Return what replaces a summary if no model made one."""
    calls = [call for one in entries[:upto] if isinstance(one, ReplyEntry) for call in one.calls]
    last = [f"- {call.name} {str(dict(call.arguments))[:120]}" for call in calls[-_CALLS_NAMED:]]
    return "\n".join(
        [
            "What was said and done here no longer fits and is left out. Files can be read again.",
            *(["The last calls in it, which all have ended:", *last] if last else []),
        ]
    )
