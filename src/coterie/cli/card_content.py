"""What a question is about, laid out so that each line can be put together again exactly.

A line begins at the margin; what had to be folded goes on after `↳`.  Nothing is taken away or
put in where a line is folded, so the lines without their margins, joined, are what
`model.visible` made of the content.
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
"""Of longer content only as much is laid out for a card, from both ends."""
_LONGEST_CODE = len("<U+10FFFF>")
_WIDEST = 60
"""A cell that is wider makes a table unreadable; its rows are then told one by one."""


@dataclass(frozen=True)
class ContentLine:
    """A line as it is shown, before it has a colour."""

    margin: str
    text: str
    meaning: Meaning | None

    def painted(self, paint: Paint) -> str:
        """The line, its text in its colour."""
        return self.margin + paint(self.text, self.meaning) if self.text else ""


@dataclass(frozen=True)
class ContentExcerpt:
    """The beginning of some content and its end; where nothing is left out, `first` is all."""

    first: Sequence[ContentLine]
    last: Sequence[ContentLine] = ()
    left_out: str = ""
    """What is missing between them, in words."""


def whole(display: Display, width: int, paint: Paint) -> list[str]:
    """All the content of a question."""
    return [
        line.painted(paint) for line in _lines(display.content_kind, display.content, _room(width))
    ]


def excerpt(display: Display, width: int, lines: int) -> ContentExcerpt:
    """The content as far as a card of so many lines can show it."""
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
def _lines(kind: ContentKind, given: str, room: int) -> Sequence[ContentLine]:
    # Kept, because a card is drawn every second and may be about a file of megabytes.
    of_diff = kind == "Diff"
    lines: list[ContentLine] = []
    for line in _text(kind, given, room):
        meaning = diff_meaning(line) if of_diff else None
        first, *rest = _folded(line, room)
        lines.append(ContentLine(" " * MARGIN, first, meaning))
        lines += [ContentLine(FOLDED, part, meaning) for part in rest]
    return lines


def _text(kind: ContentKind, given: str, room: int) -> list[str]:
    if kind == "Diff":
        given = _INDENTED.sub(lambda tabs: tabs[0].expandtabs(4), given.strip("\n"))
    elif kind != "PlainText":
        if kind == "Table" and (rows := _table(given, room)):
            return rows
        given = _json(given)
    lines = visible(given)
    inner = lines.strip("\n")
    # An empty line at either end is seen by nobody.
    start, _, end = lines.partition(inner) if inner else (lines, "", "")
    shown = LINE_END * len(start) + inner + LINE_END * len(end)
    return shown.split("\n") if shown else []


_INDENTED = re.compile(r"(?m)^[ +-]?[ \t]*\t")
"""The indentation of a line of a patch, as every program that shows patches lays it out."""


def _folded(line: str, room: int) -> Iterator[str]:
    """The pieces of a line, which joined are the line."""
    start = 0
    while (end := reach(line, start, room)) < len(line):
        cut = _uncut(line, start, end)
        yield line[start:cut]
        start = cut
    yield line[start:]


def _uncut(line: str, start: int, end: int) -> int:
    """A place to fold at: before a blank, so that no piece ends with one, and in no code."""
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
    """Rows in columns where they fit, else each row told field by field; none: it is no table."""
    try:
        rows = json.loads(text)
    except ValueError:
        return []
    names, cells_of = _grid(rows)
    if not cells_of:
        return []
    grid = [names, *cells_of] if any(names) else cells_of
    sizes = [max(cells(row[column]) for row in grid) for column in range(len(names))]
    if sum(sizes) + 2 * len(sizes) <= room and max(sizes, default=0) <= _WIDEST:
        return table(grid, room)
    size = max(map(cells, names), default=0)
    told: list[str] = []
    for row in cells_of:
        fields = zip(names, row, strict=True)
        told += [*(f"{pad(name, size)}  {cell}".rstrip() for name, cell in fields), ""]
    return told[:-1]


def _grid(rows: object) -> tuple[list[str], list[list[str]]]:
    """The names of the columns and the cells of a list of objects or of lists."""
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
