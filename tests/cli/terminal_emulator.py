"""A terminal, as far as the chat needs one: what a person would see, including scrollback."""

from __future__ import annotations

import re

_PIECE = re.compile(
    r"\x1b\[(?P<args>[?\d;]*)(?P<final>[@-~])|\x1b[@-Z\\-_=>()][AB0]?|(?P<control>[\r\n\b\x07])"
    r"|(?P<text>[^\x1b\r\n\b\x07]+)|\x1b"
)


class TerminalEmulator:
    """Turns what a program writes into the lines that are visible."""

    def __init__(self) -> None:
        self._lines: list[list[str]] = [[]]
        self._row = self._column = 0

    def write(self, data: str) -> None:
        """Process the program's output."""
        for piece in _PIECE.finditer(data):
            if piece["text"]:
                for character in piece["text"]:
                    self._put(character)
            elif piece["control"]:
                self._control(piece["control"])
            elif piece["final"]:
                self._command(piece["final"], piece["args"])

    @property
    def shown(self) -> str:
        """All lines, from the first on."""
        return "\n".join("".join(line).rstrip() for line in self._lines)

    def _put(self, character: str) -> None:
        line = self._lines[self._row]
        line.extend(" " * (self._column + 1 - len(line)))
        line[self._column] = character
        self._column += 1

    def _control(self, which: str) -> None:
        if which == "\r":
            self._column = 0
        elif which == "\b":
            self._column = max(self._column - 1, 0)
        elif which == "\n":
            self._down(1)

    def _command(self, final: str, arguments: str) -> None:
        count = int(arguments) if arguments.isdigit() else 1
        match final:
            case "A":
                self._row = max(self._row - count, 0)
            case "B":
                self._down(count)
            case "C":
                self._column += count
            case "D":
                self._column = max(self._column - count, 0)
            case "J" | "K":
                del self._lines[self._row][self._column :]
                if final == "J":
                    del self._lines[self._row + 1 :]
            case _:
                pass

    def _down(self, count: int) -> None:
        self._row += count
        while len(self._lines) <= self._row:
            self._lines.append([])
