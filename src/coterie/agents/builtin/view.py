"""What of a thread a model is shown: all of it, or a summary and what came after."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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

SHORT = 400
"""So much of a result is shown once it has been trimmed."""
_Kind = TypeVar("_Kind", Summed, Trimmed)
_HIDDEN = frozenset({"digest"})
"""What a result holds for our own use."""


def shown(entries: Sequence[Entry]) -> list[Shown]:
    """The conversation that the model gets; the task's own words are always in it."""
    summed, trimmed = _last(entries, Summed), _last(entries, Trimmed)
    said = list(_from(entries, summed.upto if summed else 0, trimmed.upto if trimmed else 0))
    return [*map(Heard, _instead(entries, summed)), *said] if summed else said


def tail(entries: Sequence[Entry], place: int) -> list[Shown]:
    """What was said from this place on, as it was said."""
    return list(_from(entries, place - 1, 0))


def _last(entries: Sequence[Entry], kind: type[_Kind]) -> _Kind | None:
    return next((one for one in reversed(entries) if isinstance(one, kind)), None)


def _from(entries: Sequence[Entry], after: int, shortened: int) -> Iterator[Shown]:
    requests: dict[str, tuple[ToolCallRequest, bool]] = {}
    for place, entry in enumerate(entries[after:], after + 1):
        if isinstance(entry, Replied):
            requests |= {call.id: (call, entry.written) for call in entry.calls}
        yield from _of(entry, requests, short=place <= shortened)


def _instead(entries: Sequence[Entry], summed: Summed) -> Iterator[str]:
    """What stands for the older part: the first prompt, the summary, the newest prompt."""
    prompts = [(place, one) for place, one in enumerate(entries, 1) if isinstance(one, Prompted)]
    inside = [one for place, one in prompts if place <= summed.upto]
    if inside:
        yield inside[0].text
    yield f"[A summary of what followed, which was too long to keep]\n{summed.text}"
    if len(inside) > 1 and inside[-1] is prompts[-1][1]:
        yield inside[-1].text


def _of(
    entry: Entry, requests: Mapping[str, tuple[ToolCallRequest, bool]], *, short: bool
) -> Iterator[Shown]:
    match entry:
        case Prompted(text=text) | Noted(text=text):
            yield Heard(text)
        case Replied(text, calls, written) if text.strip() or calls:
            yield Spoke(text, calls, written)
        case Returned(call, output, is_error) if call in requests:
            text = rendered(output)
            request, written = requests[call]
            yield Got(request, _shortened(text) if short else text, is_error, written)
        case _:
            pass


def rendered(output: Mapping[str, object]) -> str:
    """A result as a model reads it best: small facts by name, then the long text as it is."""
    facts: list[str] = []
    texts: list[str] = []
    for name, value in output.items():
        if name in _HIDDEN:
            continue
        if isinstance(value, str) and "\n" in value:
            texts.append(value)
        else:
            facts.append(f"{name}: {value}")
    return "\n\n".join(part for part in ("\n".join(facts), *texts) if part)


def _shortened(text: str) -> str:
    if len(text) <= SHORT:
        return text
    return f"{text[:SHORT]}\n… cut here, {len(text):,} characters in all: call again to see it …"


def size(said: Iterable[Shown]) -> int:
    """About how many characters a conversation has."""
    return sum(map(_size, said))


def _size(one: Shown) -> int:
    match one:
        case Spoke(text, calls):
            return len(text) + sum(len(call.name) + len(str(call.arguments)) for call in calls)
        case Heard(text=text) | Got(text=text):
            return len(text)
