"""Graphs exported for other programs: labels stay plain text, whatever they contain."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from coterie.cli.graph_export import Arrow, Box, mermaid, svg

HOSTILE = [
    '"]; click n0 "javascript:x"',
    "<script>alert(1)</script>",
    "</text></svg><svg onload=x>",
    "]]>&amp;\x1b[31m\u202e",
    "end\nsubgraph x",
    "%%{init: {}}%%",
]


@pytest.mark.parametrize("label", HOSTILE)
def test_a_label_is_text_and_nothing_else(label: str) -> None:
    boxes = [Box("a", label, label), Box("b", "b", column=1), Box("c", "c", row=1)]
    arrows = [Arrow("a", "b"), Arrow("a", "c"), Arrow("c", "a", label, is_back=True)]
    root = ElementTree.fromstring("\n".join(svg(boxes, arrows)))
    kinds = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert kinds <= {"svg", "style", "defs", "marker", "path", "rect", "text"}
    assert len(root.findall(".//{*}rect")) == 3
    drawn = mermaid(boxes, arrows, downwards=True)
    assert len(drawn) == 1 + len(boxes) + len(arrows)
    assert all(line.count('"') in (0, 2) for line in drawn)
    assert not any(sign in line for line in drawn for sign in "\x1b\u202e{<" if "<br/>" not in line)


def test_ways_on_are_lines_and_ways_back_are_dashed() -> None:
    boxes = [Box("a", "a"), Box("b", "b", row=1)]
    arrows = [Arrow("a", "b"), Arrow("b", "a", "2 times", is_back=True)]
    lines = [line for line in svg(boxes, arrows) if line.startswith("<path")]
    assert ['class="back"' in line for line in lines] == [False, True]
    assert mermaid(boxes, arrows, downwards=False) == [
        "flowchart LR",
        '  n0["a"]',
        '  n1["b"]',
        "  n0 --> n1",
        '  n1 -.->|"2 times"| n0',
    ]
