"""What a question is about, as lines: text as it is, a diff in colour, a table, JSON indented.

Somebody says yes to what stands here.  So a line that had to be folded says that it was, and what
would take no room on the screen is written out.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import cast

from coterie.cli.text import Meaning, Paint, cells, one_line, pad, printable, wrap
from coterie.model.interaction import ContentKind, Display

MARGIN = 5
_FOLDED = "   ↳ "
_WIDEST = 60
"""A cell that is wider makes a table unreadable; its rows are then told one by one."""


def content(
    display: Display, width: int, paint: Paint, most: int | None = None
) -> tuple[list[str], int]:
    """The content of a question, indented, in at most `width` columns and about `most` lines.

    Also how many lines there are besides.
    """
    room = max(width - MARGIN - 1, 8)
    raw = _text(display.content_kind, display.content, room).split("\n")
    if raw == [""]:
        return [], 0
    of_diff = display.content_kind == "Diff"
    lines: list[str] = []
    for place, line in enumerate(raw):
        if most is not None and len(lines) >= most:
            return lines, len(raw) - place
        seen = line if most is None else line[: most * room]
        meaning = _meaning(line) if of_diff else None
        first, *rest = wrap(seen, room)
        lines.append(" " * MARGIN + _painted(first, meaning, paint) if first else "")
        lines += [_FOLDED + _painted(part, meaning, paint) for part in rest]
        if len(seen) < len(line):
            return lines, len(raw) - place + (len(line) - len(seen)) // room
    return lines, 0


@lru_cache(maxsize=16)
def _text(kind: ContentKind, given: str, room: int) -> str:
    # Kept, because a card is drawn every second and may be about a file of megabytes.
    text = printable(_TEXTS[kind](given, room)).strip("\n")
    return _visible(text) if text.strip() else ""


def _painted(line: str, meaning: Meaning | None, paint: Paint) -> str:
    return paint(line, meaning) if meaning else line


def _meaning(line: str) -> Meaning | None:
    if line.startswith(("---", "+++")):
        return "title"
    starts: dict[str, Meaning] = {"+": "added", "-": "removed", "@": "place"}
    return starts.get(line[:1])


def _visible(text: str) -> str:
    """The text with what would be seen by nobody (a blank of no width, a tag) written out."""
    if text.isascii():
        return text
    return "".join(
        f"<U+{ord(sign):04X}>" if unicodedata.category(sign) == "Cf" else sign for sign in text
    )


# -- kinds -------------------------------------------------------------------------------------


def _plain(text: str, _: int) -> str:
    return text


def _json(text: str, _: int) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text


def _table(text: str, room: int) -> str:
    """Rows in columns where they fit, else each row told field by field."""
    try:
        rows = json.loads(text)
    except ValueError:
        return text
    names, cells_of = _grid(rows)
    if not cells_of:
        return _json(text, room)
    grid = [names, *cells_of] if any(names) else cells_of
    sizes = [max(cells(row[column]) for row in grid) for column in range(len(names))]
    if sum(sizes) + 2 * len(sizes) <= room and max(sizes, default=0) <= _WIDEST:
        return "\n".join(
            "  ".join(pad(cell, size) for cell, size in zip(row, sizes, strict=True)).rstrip()
            for row in grid
        )
    size = max(map(cells, names), default=0)
    told = [
        "\n".join(f"{pad(name, size)}  {cell}" for name, cell in zip(names, row, strict=True))
        for row in cells_of
    ]
    return "\n\n".join(told)


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


_TEXTS: Mapping[ContentKind, Callable[[str, int], str]] = {
    "PlainText": _plain,
    "Json": _json,
    "Diff": _plain,
    "Table": _table,
}
