"""A graph for other programs: as Mermaid, and as an SVG image."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from coterie.cli.text import cells, clip
from coterie.model.visible import printable

_WIDTH, _HEIGHT = 200, 48
_BESIDE, _BELOW = 64, 40
_MARGIN = 24
_BOW = 28
"""How far a backward arrow keeps from the boxes, for each row that it passes."""
_LONGEST = 26
"""Characters per line that fit into a box."""
_TIP = (
    '<marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
    'orient="auto"><path d="M0 0 8 4 0 8z"/></marker>'
)
_STYLE = (
    "rect{fill:#fff;stroke:#444}path{fill:none;stroke:#444}.back{stroke-dasharray:5 4}"
    "marker path{fill:#444;stroke:none}text{font:13px sans-serif;fill:#222;text-anchor:middle}"
    ".more{font-size:11px;fill:#555}.way{text-anchor:start}"
)


class Box(NamedTuple):
    """A node of a graph and its position: columns from left to right, rows downwards."""

    name: str
    label: str
    more: str = ""
    column: int = 0
    row: int = 0


class Arrow(NamedTuple):
    """An arrow from one box to another."""

    source: str
    target: str
    label: str = ""
    is_back: bool = False


def mermaid(boxes: Sequence[Box], arrows: Sequence[Arrow], *, downwards: bool) -> list[str]:
    """Return the lines of a flowchart."""
    ids = {box.name: f"n{number}" for number, box in enumerate(boxes)}
    lines = [f"flowchart {'TD' if downwards else 'LR'}"]
    for box in boxes:
        label = "<br/>".join(_in_mermaid(text) for text in (box.label, box.more) if text)
        lines.append(f'  {ids[box.name]}["{label}"]')
    for arrow in arrows:
        line = "-.->" if arrow.is_back else "-->"
        label = f'|"{_in_mermaid(arrow.label)}"|' if arrow.label else ""
        lines.append(f"  {ids[arrow.source]} {line}{label} {ids[arrow.target]}")
    return lines


def _in_mermaid(text: str) -> str:
    """Escape text for Mermaid: special characters become numeric codes."""
    return re.sub(r"[^\w .,:;/()-]", lambda sign: f"#{ord(sign[0])};", printable(text))


def svg(boxes: Sequence[Box], arrows: Sequence[Arrow]) -> list[str]:
    """Return the lines of the image, which loads nothing from elsewhere and runs no script."""
    placed = {box.name: box for box in boxes}
    left = _MARGIN + max((_bow(placed, arrow) for arrow in arrows), default=0)
    width = left + (max((box.column for box in boxes), default=0) + 1) * (_WIDTH + _BESIDE)
    height = 2 * _MARGIN + (max((box.row for box in boxes), default=0) + 1) * (_HEIGHT + _BELOW)
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
        f"<style>{_STYLE}</style><defs>{_TIP}</defs>",
        *(_way(placed, arrow, left) for arrow in arrows),
        *(line for box in boxes for line in _rectangle(box, left)),
        "</svg>",
    ]


def _corner(box: Box, left: int) -> tuple[int, int]:
    return left + box.column * (_WIDTH + _BESIDE), _MARGIN + box.row * (_HEIGHT + _BELOW)


def _rectangle(box: Box, left: int) -> list[str]:
    x, y = _corner(box, left)
    middle = x + _WIDTH // 2
    rows = [(box.label, ""), (box.more, ' class="more"')] if box.more else [(box.label, "")]
    first = y + _HEIGHT // 2 + 5 - 9 * (len(rows) - 1)
    lines = [f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>']
    for number, (text, kind) in enumerate(rows):
        lines.append(f'<text x="{middle}" y="{first + 18 * number}"{kind}>{_in_svg(text)}</text>')
    return lines


def _way(placed: dict[str, Box], arrow: Arrow, left: int) -> str:
    source, target = placed[arrow.source], placed[arrow.target]
    (x, y), (to_x, to_y) = _corner(source, left), _corner(target, left)
    half, bow = _HEIGHT // 2, _bow(placed, arrow)
    if bow:
        bend = f"C{x - bow} {y + half} {to_x - bow} {to_y + half} {to_x} {to_y + half}"
        path = f"M{x} {y + half}{bend}"
    elif source.column == target.column:
        path = f"M{x + _WIDTH // 2} {y + _HEIGHT}V{to_y}"
    else:
        turn = (x + _WIDTH + to_x) // 2
        path = (
            f"M{x + _WIDTH} {y + half}C{turn} {y + half} {turn} {to_y + half} {to_x} {to_y + half}"
        )
    kind = ' class="back"' if arrow.is_back else ""
    drawn = f'<path d="{path}"{kind} marker-end="url(#tip)"/>'
    if not arrow.label:
        return drawn
    at = f'x="{x - bow * 3 // 4 + 8}" y="{(y + to_y) // 2 + half}"'
    return f'{drawn}<text class="more way" {at}>{_in_svg(arrow.label)}</text>'


def _bow(placed: dict[str, Box], arrow: Arrow) -> int:
    """How far an arrow bends around the boxes between its ends; 0 if it goes directly."""
    source, target = placed[arrow.source], placed[arrow.target]
    rows = target.row - source.row
    if source.column < target.column or (rows == 1 and not arrow.is_back):
        return 0
    return _BOW * (abs(rows) + 1) + 7 * cells(arrow.label) // 2


def _in_svg(text: str) -> str:
    return escape(printable(clip(text, _LONGEST)))
