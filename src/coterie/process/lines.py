"""Lines out of raw chunks: whatever an agent prints, in time linear to its length."""

from __future__ import annotations

from dataclasses import dataclass

LONGEST_LINE = 64 * 1024 * 1024


@dataclass(frozen=True)
class Line:
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

    def feed(self, chunk: bytes) -> list[Line]:
        """The lines that this chunk completes."""
        *ended, rest = chunk.split(b"\n")
        lines = [line for piece in ended if (line := self._end(piece)) is not None]
        self._add(rest)
        return lines

    def finish(self) -> Line | None:
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

    def _end(self, piece: bytes) -> Line | None:
        self._add(piece)
        line = Line(b"".join(self._pieces).removesuffix(b"\r"), self._cut)
        skipped, self._skipping = self._skipping, False
        self._forget()
        return None if skipped else line

    def _forget(self) -> None:
        self._pieces, self._size, self._cut = [], 0, False
