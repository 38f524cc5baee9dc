"""What is sent to an agent for one turn, and the clocks above it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from coterie.model.message import Message


@dataclass(frozen=True)
class Limits:
    """The clocks that stand above a turn, in seconds.  They stop while a person is asked."""

    total: float
    """After this the turn has failed (stuck)."""
    quiet_after: float
    """After this long without an update the member is shown as quiet."""


@dataclass(frozen=True)
class Prompt:
    """What is sent for one turn; the role text is the adapter's own business."""

    text: str
    tries: int = 1
    """Which try at the turn this is."""
    turn: str = ""
    """The turn's name in the journal: the same for every try at it."""
    schema: Mapping[str, object] | None = None
    """The JSON Schema that the reply must fit, for an agent that can be held to one."""
    newest: str = ""
    """The last message alone, without context: all that a person has to read."""


@dataclass(frozen=True)
class Brief:
    """A turn on a prompt of its own, apart from the conversation."""

    text: str
    intent: object
    """What the turn is for, as JSON data: the journal knows it by this, never by its text."""
    schema: Mapping[str, object] | None = None
    tries: int | None = None
    """How often it is tried where its agent fails; None: as often as any turn."""
    topic: str = ""
    """What it is about: each topic has a thread of its own; empty: the conversation's."""


def compose(
    messages: Sequence[Message],
    name_of: Callable[[str], str],
    *,
    count: int,
    characters: int,
) -> str:
    """`[CONTEXT]` with one `name: text` line per message, an empty line, `[MESSAGE]`, the newest.

    At most `count` messages stand in the context, and no more of them than fit `characters`.
    """
    if not messages:
        return ""
    *past, newest = messages
    lines: list[str] = []
    room = characters
    for message in reversed(past[-count:] if count > 0 else ()):
        line = f"{name_of(message.member)}: {message.text}"
        room -= len(line)
        if room < 0:
            break
        lines.append(line)
    head = ["[CONTEXT]", *reversed(lines), ""] if lines else []
    return "\n".join([*head, "[MESSAGE]", newest.text])
