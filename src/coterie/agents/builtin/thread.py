"""A thread: the memory of one member, and how far its last turn has come.

Everything that decides how a turn goes on is read from the entries, so a turn that was cut by a
crash goes on as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from coterie.agents.builtin.entries import Begun, Entry, Prompted, Replied, Returned, written
from coterie.agents.builtin.speech import Shown, ToolCallRequest
from coterie.agents.builtin.view import View, at_most
from coterie.model.update import Remembered, ToolCallFinished, ToolCallStarted


@dataclass(frozen=True)
class Pending:
    """A call that has no result yet."""

    request: ToolCallRequest
    begun: bool
    """Whether it may have been run, wholly or in part."""


@dataclass(frozen=True)
class Streak:
    """How often in a row a call was made with the same arguments."""

    length: int
    before: int
    """How many of them were made in earlier replies."""


class Thread:
    """The entries of a thread, in order; only ever added to."""

    def __init__(self, thread_id: str, entries: Iterable[Entry] = ()) -> None:
        self.id = thread_id
        self.entries: list[Entry] = []
        self._view = View(self.entries)
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
            self.entries.append(entry)
            self._view.add(entry)
            self.characters += at_most(entry)

    def shown(self) -> list[Shown]:
        """The conversation that the model gets."""
        return self._view.said()

    def numbered(self, calls: Iterable[ToolCallRequest]) -> tuple[ToolCallRequest, ...]:
        """The calls of the reply that is remembered next, each with an id that no other has."""
        prefix = f"call_{self.id[:8]}_{len(self.entries) + 1}"
        return tuple(
            ToolCallRequest(call.name, call.arguments, call.problem, f"{prefix}_{n}")
            for n, call in enumerate(calls, 1)
        )

    # -- the last turn -------------------------------------------------------------------------

    @property
    def turn(self) -> str | None:
        """The name of the last turn."""
        return self._prompt.turn if self._prompt else None

    @property
    def final(self) -> Replied | None:
        """The reply that ended the last turn; None while it goes on."""
        last = self.replies[-1] if self.replies else None
        return last if last and not last.calls else None

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
                length += 1
                before += not here
        return Streak(length, before)
