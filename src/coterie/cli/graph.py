"""What waits for what, drawn from left to right: a column for each step, lines between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from coterie.cli.graph_layout import Needs, Node, Tangled, alone, depths_of, layers_of, tracks_of
from coterie.cli.text import cells, clip

_MOST = 60
"""More than so many are listed: nobody follows lines through such a picture."""
_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_LINES = " ╵╷│╴┘┐┤╶└┌├─┴┬┼"
"""A piece of line by the sides on which it goes on."""

Shown = Callable[[str], str]


def graph(needs: Needs, width: int, shown: Shown = str, painted: Shown = str) -> list[str]:
    """The lines of the picture; a list of steps where it would be too wide or too crowded.

    `shown` gives the words for a name, and `painted` the same words in their colour.
    """
    known = {name: [one for one in before if one in needs] for name, before in needs.items()}
    free = dict.fromkeys(alone(known))
    joined = {name: before for name, before in known.items() if name not in free}
    picture = _drawn(joined, width, shown) if joined else None
    if joined and picture is None:
        return _listed(known, width, shown)
    rest = [f" {line}" for line in _packed([shown(name) for name in free], "   ", width - 1)]
    return [*(picture.lines(painted) if picture else []), *rest]


def _drawn(needs: Needs, width: int, shown: Shown) -> _Picture | None:
    """The picture, in the first order of its names in which it can be read."""
    if len(needs) > _MOST:
        return None
    names = list(needs)
    for turn in range(len(names)):
        with suppress(Tangled):
            order = [*names[turn:], *names[:turn]]
            picture = _Picture({name: needs[name] for name in order}, shown)
            if picture.width <= width:
                return picture
    return None


def _listed(needs: Needs, width: int, shown: Shown) -> list[str]:
    """Step by step, each with what it waits for."""
    depths = depths_of(needs)
    lines: list[str] = []
    for number, step in enumerate(sorted(set(depths.values())), 1):
        told = [
            f"{shown(name)} ({' '.join(needs[name])})" if needs[name] else shown(name)
            for name in needs
            if depths[name] == step
        ]
        first, *rest = _packed(told, " · ", width - 10)
        lines += [f" step {number:<3} {first}", *(f"{'':10}{line}" for line in rest)]
    return lines


def _packed(words: Sequence[str], between: str, width: int) -> list[str]:
    """Words one after the other, none of them broken; what is longer than a line is clipped."""
    lines: list[str] = []
    for word in words:
        if lines and cells(lines[-1]) + cells(between) + cells(word) <= width:
            lines[-1] += between + word
        else:
            lines.append(clip(word, width))
    return lines


# -- lines -------------------------------------------------------------------------------------


class _Picture:
    """Names in columns, and between them lines that are drawn piece by piece."""

    def __init__(self, needs: Needs, shown: Shown) -> None:
        self._shown = shown
        self._names: dict[tuple[int, int], str] = {}
        self._pieces: dict[tuple[int, int], dict[Node, int]] = {}
        """By row and column: what each line that passes there is made of."""
        left = 1
        for layer in layers_of(needs):
            left = self._layer(layer, left)
        ends = [column + cells(shown(name)) for (_, column), name in self._names.items()]
        self.width: int = max([*ends, *(column + 1 for _, column in self._pieces)])

    def _layer(self, layer: Sequence[Node], left: int) -> int:
        """Draw a layer and the lines that leave it; returns where the next one begins."""
        room = max((cells(self._shown(node.name)) for node in layer if node.name), default=1)
        tracks = tracks_of(layer)
        first = left + room + 2
        following = first + max(tracks.values(), default=0) + 3
        for node in layer:
            begin = left
            if node.name:
                self._names[node.row, left] = node.name
                begin += cells(self._shown(node.name)) + 1
            if node.after:
                track = tracks.get(node)
                self._line(node, begin, None if track is None else first + track, following)
        return following

    def _line(self, node: Node, begin: int, upright: int | None, following: int) -> None:
        """From one to all that come after it, which begin at `following`."""
        if upright is None:
            self._across(node, node.row, begin, _end(node.after[0], following))
            return
        self._across(node, node.row, begin, upright)
        self._put(node, node.row, upright, _LEFT)
        first, last = node.span
        for row in range(first, last + 1):
            self._put(node, row, upright, (_UP if row > first else 0) | (_DOWN * (row < last)))
        for one in node.after:
            self._put(node, one.row, upright, _RIGHT)
            self._across(node, one.row, upright + 1, _end(one, following))

    def _across(self, line: Node, row: int, begin: int, end: int) -> None:
        for column in range(begin, end):
            self._put(line, row, column, _LEFT | _RIGHT)

    def _put(self, line: Node, row: int, column: int, sides: int) -> None:
        pieces = self._pieces.setdefault((row, column), {})
        pieces[line] = pieces.get(line, 0) | sides

    def lines(self, painted: Shown) -> list[str]:
        """The picture, row by row."""
        places = sorted({*self._names, *self._pieces})
        rows: dict[int, str] = {}
        ends: dict[int, int] = {}
        for row, column in places:
            before = rows.get(row, "") + " " * (column - ends.get(row, 0))
            name = self._names.get((row, column))
            if name is None:
                rows[row] = before + _glyph(self._pieces[row, column])
            else:
                rows[row] = before + painted(name)
            ends[row] = column + (1 if name is None else cells(self._shown(name)))
        return [rows.get(row, "") for row in range(max(rows) + 1)]


def _end(node: Node, following: int) -> int:
    """Where a line to something ends: before its name, or where it goes on as a line."""
    return following - 1 if node.name else following


def _glyph(pieces: Mapping[Node, int]) -> str:
    sides = 0
    for one in pieces.values():
        sides |= one
    if set(pieces.values()) == {_UP | _DOWN, _LEFT | _RIGHT}:
        return "│"  # two lines that only cross
    return _LINES[sides]
