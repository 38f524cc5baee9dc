"""A dependency graph drawn from left to right: a column for each step, lines between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from coterie.cli.text import cells, clip, packed

_MOST = 60
"""Graphs with more names are listed: nobody could follow the lines in such a drawing."""
_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_LINES = " ╵╷│╴┘┐┤╶└┌├─┴┬┼"
"""Line characters, indexed by the sides they connect."""

Dependencies = Mapping[str, Sequence[str]]
"""For each name: what must be done before it."""
Shown = Callable[[str], str]


def graph(needs: Dependencies, width: int, shown: Shown = str, painted: Shown = str) -> list[str]:
    """Return the drawing as lines; a list of steps if it would be too wide or too crowded.

    `shown` returns the text for a name, `painted` the same text in colour.
    """
    known = {name: [one for one in before if one in needs] for name, before in needs.items()}
    free = dict.fromkeys(isolated_names(known))
    joined = {name: before for name, before in known.items() if name not in free}
    picture = _drawn(joined, width, shown) if joined else None
    if joined and picture is None:
        return _listed(known, width, shown)
    rest = packed([clip(shown(name), width - 1) for name in free], "   ", width, " ")
    return [*(picture.lines(painted) if picture else []), *rest]


def _drawn(needs: Dependencies, width: int, shown: Shown) -> _Picture | None:
    """Draw the graph with the first rotation of its names that is readable and fits."""
    if len(needs) > _MOST:
        return None
    names = list(needs)
    for turn in range(len(names)):
        with suppress(AmbiguousLines):
            order = [*names[turn:], *names[:turn]]
            picture = _Picture({name: needs[name] for name in order}, shown)
            if picture.width <= width:
                return picture
    return None


def _listed(needs: Dependencies, width: int, shown: Shown) -> list[str]:
    """List the names step by step, each with what it waits for."""
    depths = depths_of(needs)
    lines: list[str] = []
    for number, step in enumerate(sorted(set(depths.values())), 1):
        labels = [
            f"{shown(name)} ({' '.join(needs[name])})" if needs[name] else shown(name)
            for name in needs
            if depths[name] == step
        ]
        clipped = [clip(text, width - 10) for text in labels]
        lines += packed(clipped, " · ", width, f" step {number:<3} ")
    return lines


class _Picture:
    """Names in columns, with lines between them that are drawn piece by piece."""

    def __init__(self, needs: Dependencies, shown: Shown) -> None:
        self._shown = shown
        self._names: dict[tuple[int, int], str] = {}
        self._pieces: dict[tuple[int, int], dict[Node, int]] = {}
        """By row and column: the sides that each line passing there connects."""
        left = 1
        for layer in layers_of(needs):
            left = self._layer(layer, left)
        ends = [column + cells(shown(name)) for (_, column), name in self._names.items()]
        self.width: int = max([*ends, *(column + 1 for _, column in self._pieces)])

    def _layer(self, layer: Sequence[Node], left: int) -> int:
        """Draw a layer and the lines that leave it; return the column where the next begins."""
        room = max((cells(self._shown(node.name)) for node in layer if node.name), default=1)
        tracks = assign_tracks(layer)
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

    def _line(self, node: Node, begin: int, track_column: int | None, following: int) -> None:
        """Draw the line from a node to all that come after it, which begin at `following`."""
        if track_column is None:
            self._across(node, node.row, begin, _end(node.after[0], following))
            return
        self._across(node, node.row, begin, track_column)
        self._put(node, node.row, track_column, _LEFT)
        first, last = node.span
        for row in range(first, last + 1):
            self._put(node, row, track_column, (_UP if row > first else 0) | (_DOWN * (row < last)))
        for one in node.after:
            self._put(node, one.row, track_column, _RIGHT)
            self._across(node, one.row, track_column + 1, _end(one, following))

    def _across(self, line: Node, row: int, begin: int, end: int) -> None:
        for column in range(begin, end):
            self._put(line, row, column, _LEFT | _RIGHT)

    def _put(self, line: Node, row: int, column: int, sides: int) -> None:
        pieces = self._pieces.setdefault((row, column), {})
        pieces[line] = pieces.get(line, 0) | sides

    def lines(self, painted: Shown) -> list[str]:
        """Return the drawing, row by row."""
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
    """Where a line to a node ends: before its name, or where it continues as a line."""
    return following - 1 if node.name else following


def _glyph(pieces: Mapping[Node, int]) -> str:
    sides = 0
    for one in pieces.values():
        sides |= one
    if set(pieces.values()) == {_UP | _DOWN, _LEFT | _RIGHT}:
        return "│"  # two lines that only cross
    return piece(sides)


def piece(sides: int) -> str:
    """Return the line character that connects some sides: 1 up, 2 down, 4 left, 8 right."""
    return _LINES[sides]


class AmbiguousLines(Exception):
    """Lines that are not joined would look as if they were."""


@dataclass(eq=False)
class Node:
    """A place in a layer: a name, or a line that passes the layer."""

    name: str
    """Empty for a line."""
    layer: int
    row: int = 0
    before: list[Node] = field(default_factory=list["Node"])
    after: list[Node] = field(default_factory=list["Node"])

    @property
    def span(self) -> tuple[int, int]:
        """The topmost and the bottommost row that its line reaches."""
        rows = [self.row, *(one.row for one in self.after)]
        return min(rows), max(rows)

    @property
    def is_bent(self) -> bool:
        """Whether its line leaves its row."""
        return self.span[0] != self.span[1]

    def passes(self, row: int) -> bool:
        """Whether its line continues both above and below a row."""
        return self.span[0] < row < self.span[1]

    def fits_beside(self, left: Node) -> bool:
        """Whether both may share a row without wrongly looking joined."""
        if not left.after or not self.before:
            return True
        return self in left.after and (len(left.after) == 1 or len(self.before) == 1)


def isolated_names(needs: Dependencies) -> list[str]:
    """Return the names that wait for nothing and that nothing waits for."""
    needed = {one for before in needs.values() for one in before}
    return [name for name, before in needs.items() if not before and name not in needed]


def depths_of(needs: Dependencies) -> dict[str, int]:
    """Return how many steps must precede each name, in the order of the steps."""
    depths: dict[str, int] = {}
    rest = dict(needs)
    while rest:
        ready = [name for name, before in rest.items() if all(one in depths for one in before)]
        step = {name: 1 + max((depths[one] for one in rest[name]), default=-1) for name in ready}
        # Cycles are refused before they are stored; one that got in must not hang a screen.
        depths |= step or dict.fromkeys(rest, len(needs))
        rest = {name: before for name, before in rest.items() if name not in depths}
    return depths


def _reduced(needs: Dependencies, depths: Mapping[str, int]) -> dict[str, list[str]]:
    """Drop implied needs: what waits for B, which itself waits for A, waits for A anyway."""
    above: dict[str, set[str]] = {}
    for name in depths:
        above[name] = {far for one in needs[name] for far in (one, *above.get(one, ()))}
    return {
        name: [one for one in before if not any(one in above[other] for other in before)]
        for name, before in needs.items()
    }


def layers_of(needs: Dependencies) -> list[list[Node]]:
    """Return the names by depth, with the lines that pass other layers, each assigned a row."""
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
    """Assign each node a row, close to its predecessors."""
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


def assign_tracks(layer: Sequence[Node]) -> dict[Node, int]:
    """Assign a vertical track to each node whose line branches or bends; straight ones need none.

    Where several lines come to one place, the one that continues past it must be left of the
    others, or they would look joined to all that it leads to. Raises AmbiguousLines if that cannot
    be.
    """
    bent = [node for node in sorted(layer, key=lambda one: one.row) if node.is_bent]
    waiting = {node: _left_of(node) for node in bent}
    taken: list[list[tuple[int, int]]] = []
    tracks: dict[Node, int] = {}
    while waiting:
        node = next((one for one, others in waiting.items() if others <= tracks.keys()), None)
        if node is None:
            raise AmbiguousLines
        first = 1 + max((tracks[other] for other in waiting.pop(node)), default=-1)
        tracks[node] = _free(taken, node.span, first)
    return tracks


def _left_of(node: Node) -> set[Node]:
    """Return the nodes whose tracks must be left of this one's."""
    nodes: set[Node] = set()
    for one in node.after:
        passing = {other for other in one.before if other.passes(one.row)}
        ending = [other for other in one.before if other not in passing]
        straight = [other for other in ending if not other.is_bent]
        if len(passing) > 1 or (passing and straight):
            raise AmbiguousLines
        if node not in passing:
            nodes |= passing
    return nodes


def _free(taken: list[list[tuple[int, int]]], span: tuple[int, int], first: int) -> int:
    """Take the first track, from `first` on, that is free in these rows."""
    number = first
    while True:
        while number >= len(taken):
            taken.append([])
        if all(span[1] < begin or end < span[0] for begin, end in taken[number]):
            taken[number].append(span)
            return number
        number += 1
