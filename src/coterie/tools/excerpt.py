"""Output for a model: bounded, valid UTF-8, with a note where something was left out."""

from __future__ import annotations

import codecs
import re
from collections import deque

MOST = 30_000
"""Characters that one tool call may answer with."""
HEAD, TAIL = 20_000, 10_000
_HALF = re.compile("[\ud800-\udfff]")


class Excerpt:
    """The head and the tail of a stream of any length; what is between is only counted."""

    def __init__(self, head: int = HEAD, tail: int = TAIL) -> None:
        self._head_size, self._tail_size = head, tail
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._kept = 0
        self._total = 0

    def add(self, chunk: bytes) -> None:
        """Append a chunk."""
        self._total += len(chunk)
        room = self._head_size - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        # A copy: a slice that shared the chunk's memory would keep all of it.
        if chunk := bytes(chunk[-self._tail_size :]):
            self._tail.append(chunk)
            self._kept += len(chunk)
        while self._tail and self._kept - len(self._tail[0]) >= self._tail_size:
            self._kept -= len(self._tail.popleft())

    @property
    def left_out(self) -> int:
        """How many bytes are not in the text."""
        return max(0, self._total - self._head_size - self._tail_size)

    @property
    def text(self) -> str:
        """What is kept, with a note where something is missing."""
        tail = b"".join(self._tail)
        if not self.left_out:
            return readable(bytes(self._head) + tail)
        head = codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(self._head))
        end = _from_a_character(tail[-self._tail_size :])
        return f"{visible(head)}\n… {self.left_out:,} bytes left out …\n{readable(end)}"


def truncated(text: str, most: int = MOST) -> str:
    """The beginning of a text that is too long, and how much is missing."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n… {len(text) - most:,} characters left out …"


def readable(data: bytes) -> str:
    """Bytes as text; those that are no UTF-8 become U+FFFD."""
    return visible(data.decode("utf-8", "replace"))


def visible(text: str) -> str:
    """The text with visible NULs, and without what cannot be encoded as UTF-8."""
    return _HALF.sub("\ufffd", text.replace("\0", "␀"))


def _from_a_character(data: bytes) -> bytes:
    """Without the rest of a character whose first bytes were left out."""
    start = next((at for at in range(min(4, len(data))) if data[at] & 0xC0 != 0x80), 0)
    return data[start:]
