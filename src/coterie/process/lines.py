"""What an agent prints: lines out of raw chunks, in time linear to their length, and their text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

LONGEST_LINE = 64 * 1024 * 1024


@dataclass(frozen=True)
class OutputLine:
    """One line without its end; `cut` when it was longer than is kept."""

    data: bytes
    cut: bool = False

    @property
    def text(self) -> str:
        """The line as text; bytes that are no UTF-8 become U+FFFD."""
        return self.data.decode("utf-8", "replace")


class LineSplitter:
    """Takes chunks as they come and gives back whole lines.

    The pieces of an unfinished line are kept in a list and joined once, at its end, so that a
    line of many megabytes costs no more than its length.
    """

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._pieces: list[bytes] = []
        self._size = 0
        self._cut = False
        self._skipping = False

    def feed(self, chunk: bytes) -> list[OutputLine]:
        """The lines that this chunk completes."""
        *ended, rest = chunk.split(b"\n")
        lines = [line for piece in ended if (line := self._end(piece)) is not None]
        self._add(rest)
        return lines

    def finish(self) -> OutputLine | None:
        """The half line that is left when nothing more will come."""
        if not (self._pieces or self._skipping):
            return None
        return self._end(b"")

    def discard_partial(self) -> None:
        """Drop the line that has begun, up to and with its newline, wherever that comes."""
        self._skipping = self._skipping or bool(self._pieces)
        self._forget()

    def _add(self, piece: bytes) -> None:
        room = self._longest - self._size
        if len(piece) > room:
            piece, self._cut = piece[:room], True
        if piece and not self._skipping:
            self._pieces.append(piece)
            self._size += len(piece)

    def _end(self, piece: bytes) -> OutputLine | None:
        self._add(piece)
        line = OutputLine(b"".join(self._pieces).removesuffix(b"\r"), self._cut)
        skipped, self._skipping = self._skipping, False
        self._forget()
        return None if skipped else line

    def _forget(self) -> None:
        self._pieces, self._size, self._cut = [], 0, False


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
    texts: list[str] = []
    for item in cast("list[object]", value):
        block = cast("dict[str, object]", item) if isinstance(item, dict) else {}
        if block.get("type") == "text" and isinstance(text := block.get("text"), str):
            texts.append(text)
    return clean("".join(texts)) if texts else None


def clean(text: str) -> str:
    """Text that any store and any terminal can take: no lone surrogates and no NULs."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")
