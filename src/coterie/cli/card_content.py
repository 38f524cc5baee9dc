"""The content of a question, laid out so that every line can be reassembled exactly.

A line begins at the margin; a folded one continues after `↳`. Folding neither removes nor inserts
anything, so the lines without their margins, joined, are what `model.visible` made of the content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from coterie.cli.text import Meaning, Paint, cells, diff_meaning, one_line, pad, reach, table
from coterie.model.interaction import ContentKind, Display
from coterie.model.visible import CODE, LINE_END, visible

MARGIN = 5
FOLDED = "   ↳ "
_LONGEST = 200_000
"""How many characters of very long content a card lays out from each end."""
_LONGEST_CODE = len("<U+10FFFF>")
_WIDEST = 60
"""A wider cell makes a table unreadable; its rows are then listed field by field."""


@dataclass(frozen=True)
class ContentLine:
    """A line as it is shown, before it is coloured."""

    margin: str
    text: str
    meaning: Meaning | None

    def painted(self, paint: Paint) -> str:
        """Return the line with its text coloured."""
        return self.margin + paint(self.text, self.meaning) if self.text else ""


@dataclass(frozen=True)
class ContentExcerpt:
    """The beginning and the end of some content; if nothing is left out, `first` is all of it."""

    first: Sequence[ContentLine]
    last: Sequence[ContentLine] = ()
    left_out: str = ""
    """What is missing between them, in words."""


def content_lines(display: Display, width: int, paint: Paint) -> list[str]:
    """Return all the content of a question as lines."""
    return [
        line.painted(paint) for line in _lines(display.content_kind, display.content, _room(width))
    ]


def excerpt(display: Display, width: int, lines: int) -> ContentExcerpt:
    """Return as much of the content as a card with that many lines can show."""
    kind, text, room = display.content_kind, display.content, _room(width)
    most = max(_LONGEST, lines * room)
    if len(text) <= 2 * most:
        return ContentExcerpt(_lines(kind, text, room))
    plain: ContentKind = "Diff" if kind == "Diff" else "PlainText"
    left_out = f"{len(text) - 2 * most:,} more characters"
    return ContentExcerpt(
        _lines(plain, text[:most], room)[:lines],
        _lines(plain, text[-most:], room)[-lines:],
        left_out,
    )


def _room(width: int) -> int:
    return max(width - MARGIN - 1, 8)


@lru_cache(maxsize=16)
def _lines(kind: ContentKind, text: str, room: int) -> Sequence[ContentLine]:
    # Cached: a card is redrawn every second and may show a file of several megabytes.
    of_diff = kind == "Diff"
    lines: list[ContentLine] = []
    for line in _text(kind, text, room):
        meaning = diff_meaning(line) if of_diff else None
        first, *rest = _folded(line, room)
        lines.append(ContentLine(" " * MARGIN, first, meaning))
        lines += [ContentLine(FOLDED, part, meaning) for part in rest]
    return lines


def _text(kind: ContentKind, text: str, room: int) -> list[str]:
    if kind == "Diff":
        text = _INDENTED.sub(lambda tabs: tabs[0].expandtabs(4), text.strip("\n"))
    elif kind != "PlainText":
        if kind == "Table" and (rows := _table(text, room)):
            return rows
        text = _json(text)
    lines = visible(text)
    inner = lines.strip("\n")
    # Blank lines at either end would go unnoticed, so they are shown as codes.
    start, _, end = lines.partition(inner) if inner else (lines, "", "")
    shown = LINE_END * len(start) + inner + LINE_END * len(end)
    return shown.split("\n") if shown else []


_INDENTED = re.compile(r"(?m)^[ +-]?[ \t]*\t")
"""A patch line's indentation with tabs, which are expanded as in every patch viewer."""


def _folded(line: str, room: int) -> Iterator[str]:
    """Split a line into pieces that, joined, are the line."""
    start = 0
    while (end := reach(line, start, room)) < len(line):
        cut = _uncut(line, start, end)
        yield line[start:cut]
        start = cut
    yield line[start:]


def _uncut(line: str, start: int, end: int) -> int:
    """Find a place to fold: before a space, so that no piece ends in one, and not inside a code."""
    blank = line.rfind(" ", start, end + 1)
    if blank > start and (before := line[start:blank].rstrip(" ")):
        return start + len(before)
    for place in range(end - 1, max(end - _LONGEST_CODE, start), -1):
        code = CODE.match(line, place)
        if code:
            return place if code.end() > end else end
    return end


def _json(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text


def _table(text: str, room: int) -> list[str]:
    """Rows in columns if they fit, else listed field by field; empty if this is not a table."""
    try:
        rows = json.loads(text)
    except ValueError:
        return []
    names, cells_of = _grid(rows)
    if not names:
        return []
    grid = [names, *cells_of] if any(names) else cells_of
    sizes = [max(cells(row[column]) for row in grid) for column in range(len(names))]
    if sum(sizes) + 2 * len(sizes) <= room and max(sizes, default=0) <= _WIDEST:
        return table(grid, room)
    size = max(map(cells, names), default=0)
    lines: list[str] = []
    for row in cells_of:
        fields = zip(names, row, strict=True)
        lines += [*(f"{pad(name, size)}  {cell}".rstrip() for name, cell in fields), ""]
    return lines[:-1]


def _grid(rows: object) -> tuple[list[str], list[list[str]]]:
    """Return the column names and the cells of a list of objects or of lists."""
    if not isinstance(rows, list):
        return [], []
    listed = cast("list[object]", rows)
    if all(isinstance(row, dict) for row in listed):
        objects = cast("list[Mapping[str, object]]", listed)
        keys = list(dict.fromkeys(key for row in objects for key in row))
        return [one_line(key) for key in keys], [
            [_cell(row.get(k)) for k in keys] for row in objects
        ]
    if all(isinstance(row, list) for row in listed):
        lists = cast("list[Sequence[object]]", listed)
        size = max(map(len, lists), default=0)
        padded = [[_cell(cell) for cell in (*row, *[None] * (size - len(row)))] for row in lists]
        return [""] * size, padded
    return [], []


def _cell(value: object) -> str:
    if value is None:
        return ""
    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
