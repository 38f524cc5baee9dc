"""How the end of a reply is known: an event, silence, or a detector of the user's own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, cast

TEXT_FIELDS = ("result", "text", "content", "message")


class Strategy(Protocol):
    """One way to know the end.  A line is judged as it comes, whatever it holds."""

    @property
    def silence(self) -> float | None:
        """After so many seconds without output the reply is whole; None: silence says nothing."""
        ...

    @property
    def prints_reply(self) -> bool:
        """Whether what is printed is the reply, or only speaks of it."""
        ...

    def ended_by(self, line: str) -> str | None:
        """What this line adds to the reply if it ends it; None if it does not."""
        ...


@dataclass(frozen=True)
class JsonEvent:
    """The end is a JSON line whose `type` is one of these; the reply is in one of its fields."""

    types: frozenset[str]
    text_field: str | None = None

    silence = None
    prints_reply = False

    def ended_by(self, line: str) -> str | None:
        event = parse_object(line)
        kind = None if event is None else event.get("type")
        if event is None or not isinstance(kind, str) or kind not in self.types:
            return None
        names = (self.text_field, *TEXT_FIELDS) if self.text_field else TEXT_FIELDS
        texts = (text_of(event.get(name)) for name in names)
        return next((text for text in texts if text is not None), "")


@dataclass(frozen=True)
class Silence:
    """The end is that nothing has been printed for a while, from the prompt on."""

    milliseconds: int = 2000

    prints_reply = True

    @property
    def silence(self) -> float:
        return self.milliseconds / 1000

    def ended_by(self, line: str) -> str | None:
        return None


@dataclass(frozen=True)
class Custom:
    """The end is a line that a detector knows.

    The detector answers True (the line is the last of the reply), a string (which stands in
    the line's place), or False or None (the reply goes on).
    """

    detect: Callable[[str], str | bool | None]

    silence = None
    prints_reply = True

    def ended_by(self, line: str) -> str | None:
        found = self.detect(line)
        if isinstance(found, str):
            return found
        return line if found else None

    @classmethod
    def pattern(cls, expression: str) -> Custom:
        """A regular expression found in a line; a group named `text` is what is kept of it."""
        compiled = re.compile(expression)

        def detect(line: str) -> str | bool:
            match = compiled.search(line)
            if match is None or "text" not in compiled.groupindex:
                return match is not None
            return match["text"] or ""

        return cls(detect)


def parse_object(line: str) -> Mapping[str, object] | None:
    """The JSON object in a line; None where there is none, however the line tries to harm us."""
    if not line.lstrip().startswith("{"):
        return None
    try:
        # Not strict: a raw control character in a string is no reason to lose the reply.
        value: object = json.loads(line, strict=False)
    except (ValueError, RecursionError):  # ValueError: also a number of too many digits
        return None
    return cast("dict[str, object]", value) if isinstance(value, dict) else None


def text_of(value: object) -> str | None:
    """The text in a field: a string, or a list of `{"type": "text", "text": …}` blocks."""
    if isinstance(value, str):
        return clean(value)
    if not isinstance(value, list):
        return None
    blocks = [cast("dict[str, object]", b) for b in cast("list[object]", value) if _is_dict(b)]
    texts = [block.get("text") for block in blocks if block.get("type") == "text"]
    found = [text for text in texts if isinstance(text, str)]
    return clean("".join(found)) if found else None


def clean(text: str) -> str:
    """Text that any store and any terminal can take: no lone surrogates and no NULs."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")


def _is_dict(value: object) -> bool:
    return isinstance(value, dict)
