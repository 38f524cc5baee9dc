"""Values as text on a terminal: visible, measured in cells, coloured; members, tasks, figures.

Agents' replies, file names and questions are written by others; an escape sequence or a direction
mark in them must not reach the terminal, where it could hide half of a command that somebody
approves. So renderers make foreign text visible (`printable`, `one_line`, `model.visible`), and all
that they put together is checked once more on its way out, in `for_stream`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal, TextIO

import click

from coterie.model.visible import printable, terminal_safe

if TYPE_CHECKING:
    from coterie.model.record import TaskView
    from coterie.model.team import Member, Mode
    from coterie.model.update import Usage

_PAINTED = re.compile("(\x1b\\[(?:0|1|2|31|32|33|36)m)")
"""The sequences that `Paint` makes: the only ones ever sent to a terminal within a text."""

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
"""Replacements for our own symbols in other encodings; words next to them say the same."""


def for_stream(text: str, stream: TextIO) -> str:
    """Make a text safe for a stream: nothing hidden, and only symbols that its encoding has."""
    if "\x1b" in text:
        text = "".join(
            part if place % 2 else terminal_safe(part)
            for place, part in enumerate(_PAINTED.split(text))
        )
    else:
        text = terminal_safe(text)
    encoding = (stream.encoding or "ascii").lower()
    return text if encoding.replace("-", "").startswith("utf") else text.translate(ASCII)


def write(stream: TextIO, shown: str) -> None:
    """Write lines for a reader, and flush."""
    write_data(stream, for_stream(shown, stream))


def write_data(stream: TextIO, line: str) -> None:
    """Write a line for a program, exactly as it is, and flush."""
    stream.write(line + "\n")
    stream.flush()


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
    """Clip a text to at most `width` columns, its end replaced by … if it is longer."""
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
    """Pad a text with spaces to `width` columns."""
    return text + " " * (width - cells(text))


def ends(left: str, right: str, width: int) -> str:
    """Two texts at the two ends of a line; the left one is clipped if they do not fit."""
    room = width - cells(right) - 1
    if room < 8:
        return clip(left, width)
    return pad(clip(left, room), room) + " " + right


def wrap(text: str, width: int) -> list[str]:
    """Wrap a text into lines of at most `width` columns, broken at spaces where possible.

    A line keeps its own indentation, so that code and lists stay readable.
    """
    lines: list[str] = []
    for line in text.split("\n"):
        lines += _folded(line.rstrip(), max(width, 8))
    return lines


def _folded(line: str, width: int) -> list[str]:
    if cells(line) <= width:
        return [line]
    indent = line[: len(line) - len(line.lstrip())][: width // 2]
    done: list[str] = []
    start, before = 0, ""
    while (end := reach(line, start, width - cells(before))) < len(line):
        cut = line.rfind(" ", start, end)
        if cut <= (start if before or start else len(indent)):
            cut = end
        done.append((before + line[start:cut]).rstrip())
        start, before = cut, indent
        while line[start : start + 1].isspace():
            start += 1
    return [*done, before + line[start:]]


def reach(text: str, start: int, width: int) -> int:
    """Return where the part that fits ends, from `start` on; at least one character further."""
    if text.isascii():
        return min(start + max(width, 1), len(text))
    room = width
    for place in range(start, len(text)):
        room -= _cell(text[place])
        if room < 0:
            return max(place, start + 1)
    return len(text)


def hanging(head: str, value: str, width: int, indent: int) -> list[str]:
    """A value after its head, in at most `width` columns; further lines begin at `indent`."""
    first, *rest = wrap(value, max(width - indent, 20))
    return [(head + first).rstrip(), *(" " * indent + line for line in rest)]


_EVENT_LINES = 3
"""How many terminal lines an event may take; the log has all of it."""
_NARROW = 16
"""With less room than this beside its head, an event begins below it."""


def event(head: str, what: str, width: int | None, painted: Callable[[str], str]) -> list[str]:
    """One line; on a terminal, which has a width, a few more if it is long."""
    parts, indent = [one_line(what)], cells(head)
    if width is not None:
        if width - indent <= _NARROW:
            head, indent = f"{head.rstrip()}\n  ", 2
        room = max(width - indent - 1, 8)
        parts = wrap(clip(parts[0], room * _EVENT_LINES - room // 3), room)
    first, *rest = map(painted, parts)
    return [*(head + first).split("\n"), *(" " * indent + part for part in rest)]


def field(name: str, value: str, width: int, size: int = 9) -> list[str]:
    """A named value; its further lines are aligned below the first."""
    return hanging(f"  {name:<{size}}", value, width, size + 2)


def packed(parts: Iterable[str], between: str, width: int, head: str = "") -> list[str]:
    """Parts after a head, as many per line as fit; a part, such as a command, is never broken."""
    lines: list[str] = []
    for part in parts:
        if lines and cells(lines[-1]) + cells(between) + cells(part) <= width:
            lines[-1] += between + part
        else:
            lines.append((" " * cells(head) if lines else head) + part)
    return lines


def table(
    rows: Sequence[Sequence[str]],
    width: int,
    *,
    folds: bool = False,
    gap: int = 2,
    painted: Callable[[str, int, int], str] = lambda cell, _row, _column: cell,
) -> list[str]:
    """Rows in columns; the last gets the rest of the width and is clipped, or folded if `folds`.

    `painted` colours a cell after it was measured, and gets the numbers of its row and column.
    """
    if not rows:
        return []
    sizes = [max(cells(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    room = max(width - sum(sizes) - gap * len(sizes), 12)
    lines: list[str] = []
    for number, row in enumerate(rows):
        *first, last = row
        start = "".join(
            painted(cell, number, column) + " " * (size + gap - cells(cell))
            for column, (cell, size) in enumerate(zip(first, sizes, strict=True))
        )
        shown, *more = (
            painted(line, number, len(sizes))
            for line in (wrap(last, room) if folds else [clip(last, room)])
        )
        lines.append((start + shown).rstrip())
        lines += [" " * (sum(sizes) + gap * len(sizes)) + line for line in more]
    return lines


Meaning = Literal["name", "dim", "good", "asks", "bad", "title", "added", "removed", "place"]

_DIFF: dict[str, Meaning] = {
    "diff --git ": "title",
    "--- ": "title",
    "+++ ": "title",
    "@@ ": "place",
    "+": "added",
    "-": "removed",
}


def diff_meaning(line: str) -> Meaning | None:
    """Tell what a line of a patch is by how it starts."""
    return next((meaning for start, meaning in _DIFF.items() if line.startswith(start)), None)


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
    """Colours text if colour is wanted; without it the words say the same."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted

    def __call__(self, shown: str, meaning: Meaning | None) -> str:
        if not self._wanted or not shown or meaning is None:
            return shown
        colour, bold, dim = _COLOURS[meaning]
        return click.style(shown, fg=colour, bold=bold or None, dim=dim or None)


NO_COLOUR = Paint(wanted=False)


FULL = "full"


def about(member: Member) -> str:
    """A member's agent, and its permission mode unless that is `ask`."""
    from coterie.model.team import YOU

    mode = "" if member.permissions.mode == "ask" else f" · {member.permissions.mode}"
    return f"{member.agent or YOU}{mode}"


def asking(member: Member | None, name: str) -> str:
    """Who asks: `ada (claude)` or Coterie itself; empty when it is a human's own turn."""
    from coterie.model.team import YOU

    if member is None:
        return "" if name == YOU else name
    return f"{member.id} ({about(member)})" if member.agent else ""


def state_of(view: TaskView) -> str:
    """A task's state in a word or two, as a person would say it."""
    if view.standing == "waiting":
        asks = " ".join(view.questions)
        return f"waiting for {asks}"
    if view.standing == "running" and view.machine:
        return f"running on {view.machine}"
    return "offered" if view.offered and view.standing == "parked" else view.standing


def warned(shown: str, mode: Mode, paint: Paint, meaning: Meaning | None = None) -> str:
    """Colour what `about` returned, or anything that ends with the mode; `full` is red."""
    if mode != FULL:
        return paint(shown, meaning)
    return paint(shown.removesuffix(FULL), meaning) + paint(FULL, "bad")


def duration(seconds: float) -> str:
    """`0.1s`, `41s`, `1m 22s`, `2h 03m`."""
    if seconds < 9.95:
        return f"{max(seconds, 0):.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, left = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m {left:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02d}m" if hours < 48 else f"{hours // 24}d {hours % 24}h"


def clocked(seconds: float) -> str:
    """The same in whole seconds, for what is redrawn every second."""
    return f"{int(seconds)}s" if seconds < 60 else duration(int(seconds))


def ago(earlier: str) -> str:
    """How long ago an instant was; empty if it is unknown."""
    from coterie.model import instant

    return duration(instant.seconds_between(earlier, instant.now())) if earlier else ""


def clock(at: str) -> str:
    """An instant as local time of day, with the date if it was not today."""
    from coterie.model import instant

    return instant.local(at)


def usage_text(usage: Usage | None) -> str:
    """What a turn or a task cost, as far as agents reported it; empty if they did not."""
    if usage is None:
        return ""
    from coterie.model.update import token_count

    count = (usage.input_tokens or 0) + (usage.output_tokens or 0)
    parts = [f"{token_count(count)} tokens"] if count else []
    if usage.cost_usd:
        parts.append(f"${usage.cost_usd:.2f}")
    return " · ".join(parts)


def counted(number: int, noun: str) -> str:
    """`1 turn`, `5 turns`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


_SPAN = re.compile(r"(?:(\d+)h)?\s*(?:(\d+)m)?\s*(?:(\d+)s?)?")


def parse_span(text: str) -> float | None:
    """Parse `30m`, `1h30m`, `45s` or `90` into seconds; None if it is not a time span."""
    match = _SPAN.fullmatch(text.strip().lower())
    if match is None or not any(match.groups()):
        return None
    hours, minutes, seconds = (int(group or 0) for group in match.groups())
    return float(hours * 3600 + minutes * 60 + seconds)


class Span(click.ParamType[float]):
    """A time such as `30m`, in seconds."""

    name = "span"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        seconds = parse_span(str(value))
        if seconds is None:
            self.fail(f"{value!r} is not a duration; write it like 90s, 30m or 1h30m.", param, ctx)
        return seconds
