"""What waits for what, drawn from left to right: a column for each step, lines between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from coterie.cli.text import cells, clip, packed

_MOST = 60
"""More than so many are listed: nobody follows lines through such a picture."""
_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_LINES = " ╵╷│╴┘┐┤╶└┌├─┴┬┼"
"""A piece of line by the sides on which it goes on."""

Needs = Mapping[str, Sequence[str]]
"""Of each: what must be done before it."""
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
    rest = packed([clip(shown(name), width - 1) for name in free], "   ", width, " ")
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
        clipped = [clip(text, width - 10) for text in told]
        lines += packed(clipped, " · ", width, f" step {number:<3} ")
    return lines


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
    return piece(sides)


def piece(sides: int) -> str:
    """A piece of line by the sides on which it goes on: 1 up, 2 down, 4 left, 8 right."""
    return _LINES[sides]


class Tangled(Exception):
    """Lines would seem to be joined that are not."""


@dataclass(eq=False)
class Node:
    """A place in a layer: one of the things, or a line on its way past them."""

    name: str
    """Empty for a line."""
    layer: int
    row: int = 0
    before: list[Node] = field(default_factory=list["Node"])
    after: list[Node] = field(default_factory=list["Node"])

    @property
    def span(self) -> tuple[int, int]:
        """From the highest to the lowest row that its line comes to."""
        rows = [self.row, *(one.row for one in self.after)]
        return min(rows), max(rows)

    @property
    def is_bent(self) -> bool:
        """Whether its line leaves its row."""
        return self.span[0] != self.span[1]

    def passes(self, row: int) -> bool:
        """Whether its line comes to a row from one side and goes on to the other."""
        return self.span[0] < row < self.span[1]

    def fits_beside(self, left: Node) -> bool:
        """Whether both may stand on one row without seeming to be joined by mistake."""
        if not left.after or not self.before:
            return True
        return self in left.after and (len(left.after) == 1 or len(self.before) == 1)


def alone(needs: Needs) -> list[str]:
    """Those that wait for nothing and that nothing waits for."""
    needed = {one for before in needs.values() for one in before}
    return [name for name, before in needs.items() if not before and name not in needed]


def depths_of(needs: Needs) -> dict[str, int]:
    """How many steps must be behind each; in the order of the steps."""
    depths: dict[str, int] = {}
    left = dict(needs)
    while left:
        found = [name for name, before in left.items() if all(one in depths for one in before)]
        step = {name: 1 + max((depths[one] for one in left[name]), default=-1) for name in found}
        # A circle is refused before it is kept; if one is, it must not hang a screen.
        depths |= step or dict.fromkeys(left, len(needs))
        left = {name: before for name, before in left.items() if name not in depths}
    return depths


def _reduced(needs: Needs, depths: Mapping[str, int]) -> dict[str, list[str]]:
    """Without what follows from the rest: who waits for B, which waits for A, waits for A too."""
    above: dict[str, set[str]] = {}
    for name in depths:
        above[name] = {far for one in needs[name] for far in (one, *above.get(one, ()))}
    return {
        name: [one for one in before if not any(one in above[other] for other in before)]
        for name, before in needs.items()
    }


def layers_of(needs: Needs) -> list[list[Node]]:
    """The things by how deep they are, with the lines that pass other layers, in rows."""
    depths = depths_of(needs)
    nodes = {name: Node(name, depth) for name, depth in depths.items()}
    layers: list[list[Node]] = [[] for _ in range(max(depths.values()) + 1)]
    for name in needs:
        layers[depths[name]].append(nodes[name])
    passing: dict[tuple[str, int], Node] = {}
    for name, before in _reduced(needs, depths).items():
        for one in before:
            node = nodes[one]
            for layer in range(node.layer + 1, depths[name]):
                if (one, layer) not in passing:
                    passing[one, layer] = line = Node("", layer)
                    layers[layer].append(line)
                    _join(node, line)
                node = passing[one, layer]
            _join(node, nodes[name])
    _place(layers)
    return layers


def _join(before: Node, after: Node) -> None:
    before.after.append(after)
    after.before.append(before)


def _place(layers: Sequence[list[Node]]) -> None:
    """Give everything its row, near to what it comes from."""
    for row, node in enumerate(layers[0]):
        node.row = row
    for left, layer in pairwise(layers):
        beside = {node.row: node for node in left}
        layer.sort(key=lambda node: median([one.row for one in node.before] or [0]))
        row = -1
        for node in layer:
            row = max(row + 1, min((one.row for one in node.before), default=0))
            while row in beside and not node.fits_beside(beside[row]):
                row += 1
            node.row = row


def tracks_of(layer: Sequence[Node]) -> dict[Node, int]:
    """Which upright each of them has that branches or bends; none for a straight line.

    Where several lines come to one place, the one that goes on past it must stand left of the
    others, or they would seem to be joined to all that it leads to.  Raises Tangled.
    """
    bent = [node for node in sorted(layer, key=lambda one: one.row) if node.is_bent]
    waiting = {node: _left_of(node) for node in bent}
    taken: list[list[tuple[int, int]]] = []
    found: dict[Node, int] = {}
    while waiting:
        node = next((one for one, others in waiting.items() if others <= found.keys()), None)
        if node is None:
            raise Tangled
        first = 1 + max((found[other] for other in waiting.pop(node)), default=-1)
        found[node] = _free(taken, node.span, first)
    return found


def _left_of(node: Node) -> set[Node]:
    """The lines whose uprights must stand left of this one's."""
    found: set[Node] = set()
    for one in node.after:
        passing = {other for other in one.before if other.passes(one.row)}
        ending = [other for other in one.before if other not in passing]
        straight = [other for other in ending if not other.is_bent]
        if len(passing) > 1 or (passing and straight):
            raise Tangled
        if node not in passing:
            found |= passing
    return found


def _free(taken: list[list[tuple[int, int]]], span: tuple[int, int], first: int) -> int:
    """The first upright from `first` on that nobody has in these rows; it is then taken."""
    number = first
    while True:
        while number >= len(taken):
            taken.append([])
        if all(span[1] < begin or end < span[0] for begin, end in taken[number]):
            taken[number].append(span)
            return number
        number += 1
