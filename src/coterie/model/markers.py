"""Routing markers: `[NEXT: name]` and `[DONE]`, which count only at the end of a message."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_LAST = re.compile(r"\s*\[\s*(?:NEXT\s*:\s*(?P<names>[^\[\]\n]*)|(?P<done>DONE))\s*\]\s*\Z", re.I)
_FENCE = re.compile(r"^ {0,3}(?P<mark>`{3,}|~{3,})(?P<info>.*)$")
_TAIL = 2_000
"""Markers are looked for in this many last characters, so that a huge reply costs nothing."""


@dataclass(frozen=True)
class Marked:
    """A message without its markers, and what they said."""

    text: str
    names: tuple[str, ...] = ()
    """The names in `[NEXT: …]`, in the order they were written."""
    done: bool = False


def parse(message: str) -> Marked:
    """Take the markers off the end of a message; those elsewhere or in a code fence are text."""
    text, names, done = message.rstrip(), [], False
    found: list[list[str]] = []
    while match := _LAST.search(text, max(0, len(text) - _TAIL)):
        if match["done"]:
            done = True
        else:
            found.insert(0, [name.strip() for name in match["names"].split(",")])
        text = text[: match.start()].rstrip()
    if not found and not done:
        return Marked(message.strip("\n").rstrip())
    if _ends_in_fence(text):
        return Marked(message.strip("\n").rstrip())
    names = [name for group in found for name in group if name]
    return Marked(text.strip("\n"), tuple(names), done)


def _ends_in_fence(text: str) -> bool:
    """Whether what follows the text would stand inside a code fence that is still open."""
    opened = ""
    for line in text.splitlines():
        match = _FENCE.match(line)
        if match is None:
            continue
        mark, info = match["mark"], match["info"]
        if not opened:
            opened = "" if mark[0] == "`" and "`" in info else mark
        elif mark[0] == opened[0] and len(mark) >= len(opened) and not info.strip():
            opened = ""
    return bool(opened)


END = "/end"
"""What a person types to end a conversation."""

_MENTION = re.compile(r"(?<![\w@/.])@(?P<name>[A-Za-z0-9][\w.-]*)")


def parse_human(message: str) -> Marked:
    """As `parse`, for what a person wrote: `@name` picks the speaker, `/end` is `[DONE]`."""
    if message.strip().lower() == END:
        return Marked("", (), True)
    marked = parse(message)
    mentioned = [match["name"].rstrip(".-") for match in _MENTION.finditer(marked.text)]
    return replace(marked, names=(*marked.names, *mentioned))
