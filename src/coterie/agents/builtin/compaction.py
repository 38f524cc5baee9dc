"""Making room: long results of long ago are cut first; then the older part is summed up.

The task stays word for word: the first prompt of the thread and the newest one are never summed
up, and the role is no part of the thread at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from coterie.agents.builtin.entries import Entry, Prompted, Replied, Summed, Trimmed
from coterie.agents.builtin.speech import Got, Heard, Shown, Spoke
from coterie.agents.builtin.view import shown, size, tail

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
            case Spoke(text, calls):
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
