"""Text as it may be shown: without what could steer a terminal, measured in its cells.

Agents, file names and questions are written by others; an escape sequence or a direction mark in
them must not reach the terminal, where it could hide half of a command that somebody approves.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Literal

import click

_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)

ASCII = str.maketrans(
    {
        "·": "-",
        "─": "-",
        "…": "...",
        "→": "->",
        "✓": "+",
        "✗": "x",
        "●": "*",
        "▲": "!",
        "◌": "~",
        "■": "#",
        "○": "o",
        "↳": ">",
        "│": "|",
        "█": "#",
        "░": ".",
        **dict.fromkeys("┌┐└┘├┤┬┴┼", "+"),
        "“": '"',
        "”": '"',
        "’": "'",
    }
)
"""Our own symbols where the encoding has none of them; the word always stands beside."""


def printable(text: str) -> str:
    """The text without control characters (lines and tabs stay) and escape sequences."""
    if text.isascii() and text.isprintable():
        return text
    return _CONTROL.sub("\ufffd", _SEQUENCE.sub("", text.replace("\r\n", "\n").expandtabs(4)))


def one_line(text: str) -> str:
    """The text on one line, for titles and tables."""
    return " ".join(printable(text).split())


def cells(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_cell, text))


def _cell(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def clip(text: str, width: int) -> str:
    """The text in at most `width` columns, its end replaced by … where it is longer."""
    if cells(text) <= width:
        return text
    kept, room = "", width - 1
    for character in text:
        room -= _cell(character)
        if room < 0:
            break
        kept += character
    return kept + "…" if width > 0 else ""


def pad(text: str, width: int) -> str:
    """The text, filled with blanks to `width` columns."""
    return text + " " * (width - cells(text))


def ends(left: str, right: str, width: int) -> str:
    """Two texts at the two ends of a line; the left one is clipped where they do not fit."""
    room = width - cells(right) - 1
    if room < 8:
        return clip(left, width)
    return pad(clip(left, room), room) + " " + right


def wrap(text: str, width: int) -> list[str]:
    """The lines of a text in at most `width` columns each, broken at blanks where possible.

    A line keeps its own indentation, so that code and lists stay readable.
    """
    lines: list[str] = []
    for line in printable(text).split("\n"):
        lines += _folded(line.rstrip(), max(width, 8))
    return lines


def _folded(line: str, width: int) -> list[str]:
    if cells(line) <= width:
        return [line]
    indent = line[: len(line) - len(line.lstrip())][: width // 2]
    done: list[str] = []
    start, before = 0, ""
    while (end := _reach(line, start, width - cells(before))) < len(line):
        cut = line.rfind(" ", start, end)
        if cut <= (start if before or start else len(indent)):
            cut = end
        done.append((before + line[start:cut]).rstrip())
        start, before = cut, indent
        while line[start : start + 1].isspace():
            start += 1
    return [*done, before + line[start:]]


def _reach(text: str, start: int, width: int) -> int:
    """Where what fits of the text ends, from `start` on; at least one character further."""
    if text.isascii():
        return min(start + max(width, 1), len(text))
    room = width
    for place in range(start, len(text)):
        room -= _cell(text[place])
        if room < 0:
            return max(place, start + 1)
    return len(text)


def table(
    rows: Sequence[Sequence[str]],
    width: int,
    *,
    gap: int = 2,
    painted: Callable[[str], str] = str,
) -> list[str]:
    """Rows in columns; the last column takes what is left of the width.

    `painted` gives a cell its colour, after it was measured.
    """
    if not rows:
        return []
    sizes = [max(cells(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    room = max(width - sum(sizes) - gap * len(sizes), 12)
    lines: list[str] = []
    for row in rows:
        *first, last = row
        start = "".join(
            painted(cell) + " " * (size + gap - cells(cell))
            for cell, size in zip(first, sizes, strict=True)
        )
        lines.append((start + painted(clip(last, room))).rstrip())
    return lines


# -- colour --------------------------------------------------------------------------------------

Meaning = Literal["name", "dim", "good", "asks", "bad", "title", "added", "removed", "place"]

_COLOURS: dict[Meaning, tuple[str | None, bool, bool]] = {
    "name": ("cyan", True, False),
    "dim": (None, False, True),
    "good": ("green", False, False),
    "asks": ("yellow", True, False),
    "bad": ("red", True, False),
    "title": (None, True, False),
    "added": ("green", False, False),
    "removed": ("red", False, False),
    "place": ("cyan", False, False),
}


class Paint:
    """Puts colour on text where colour is wanted; without it the words say the same."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted

    def __call__(self, shown: str, meaning: Meaning) -> str:
        """The text, in its colour."""
        if not self._wanted or not shown:
            return shown
        colour, bold, dim = _COLOURS[meaning]
        return click.style(shown, fg=colour, bold=bold or None, dim=dim or None)
