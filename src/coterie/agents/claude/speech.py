"""What Claude says in a turn: shown as it is streamed, kept as it is told in whole."""

from __future__ import annotations

GAP = "\n\n"


class Speech:
    """The texts of one turn.

    A stream that breaks is told again from its beginning, so only whole texts count; what was
    streamed of a text that never became whole counts where the turn is cut there.
    """

    def __init__(self) -> None:
        self._whole: list[str] = []
        self._streamed = ""
        self._shown = False

    @property
    def text(self) -> str:
        """All that was said so far."""
        return GAP.join(part for part in (*self._whole, self._streamed) if part.strip())

    @property
    def last(self) -> str:
        """The last thing that was said."""
        return self._streamed.strip() or (self._whole[-1].strip() if self._whole else "")

    def begin(self) -> None:
        """A new message of the model begins; one that broke off is forgotten."""
        self._streamed = ""

    def stream(self, piece: str) -> str:
        """A piece of a text that is not whole yet; what to show of it."""
        gap = GAP if self._shown and not self._streamed else ""
        self._streamed += piece
        self._shown = True
        return gap + piece

    def tell(self, text: str) -> str:
        """A whole text; what to show of it, if anything."""
        streamed, self._streamed = self._streamed, ""
        if not text:
            return ""
        self._whole.append(text)
        if streamed and text.startswith(streamed):
            return text[len(streamed) :]
        gap = GAP if self._shown else ""
        self._shown = True
        return gap + text
