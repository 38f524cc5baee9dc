"""Dependencies drawn as an unambiguous graph, or as a list where that is not possible."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from coterie.cli.graph import graph
from coterie.cli.text import cells


def drawn(needs: dict[str, list[str]], width: int = 80) -> str:
    return "\n".join(graph(needs, width))


def test_what_forks_and_joins() -> None:
    needs = {"T1": [], "T2": [], "T3": ["T1", "T2"], "T4": ["T3"], "T5": ["T3"], "T7": []}
    assert drawn({**needs, "T6": ["T4", "T5"]}) == snapshot("""\
 T1 ─┬─ T3 ─┬─ T4 ─┬─ T6
 T2 ─┘      └─ T5 ─┘
 T7\
""")


def test_a_line_passes_what_it_does_not_lead_to() -> None:
    needs = {"T1": [], "T2": [], "T3": ["T1"], "T4": ["T2", "T3"], "T5": ["T1"]}
    assert drawn({**needs, "T6": ["T4", "T5"]}) == snapshot("""\
 T1 ─┬── T3 ─┬─ T4 ─┬─ T6
 T2 ─│┐      │      │
     └│─ T5 ─│──────┘
      └──────┘\
""")


def test_what_follows_from_the_rest_is_not_drawn() -> None:
    assert drawn({"T1": [], "T2": ["T1"], "T10": ["T1", "T2"]}) == snapshot(" T1 ─── T2 ─── T10")


def test_a_line_that_goes_on_is_not_joined_by_another() -> None:
    needs = {"T1": [], "T2": [], "T3": ["T1"], "T4": ["T2"], "T5": ["T1", "T2"]}
    assert drawn(needs) == snapshot("""\
 T1 ──┬─ T3
 T2 ─┐│
     ├┴─ T5
     └── T4\
""")


def test_what_cannot_be_read_as_a_picture_is_listed() -> None:
    crossed = {"T4": ["T1", "T3"], "T5": ["T2", "T3"], "T6": ["T1", "T2"]}
    assert drawn({"T1": [], "T2": [], "T3": [], **crossed}) == snapshot("""\
 step 1   T1 · T2 · T3
 step 2   T4 (T1 T3) · T5 (T2 T3) · T6 (T1 T2)\
""")


def test_words_and_colours() -> None:
    lines = graph({"T1": [], "T2": ["T1"]}, 80, lambda name: f"✓ {name}", lambda name: f"<{name}>")
    assert lines == snapshot([" <T1> ─── <T2>"])


def test_nothing_and_what_cannot_be() -> None:
    assert graph({}, 80) == []
    assert graph({"T1": []}, 80) == [" T1"]
    assert "T2" in drawn({"T1": ["T2"], "T2": ["T1"]})


@st.composite
def plans(draw: st.DrawFn, most: int) -> dict[str, list[str]]:
    size = draw(st.integers(1, most))
    earlier = st.integers(0, 10_000)
    return {
        f"T{n}": [f"T{1 + one % (n - 1)}" for one in draw(st.lists(earlier, max_size=3)) if n > 1]
        for n in range(1, size + 1)
    }


@given(plans(most=200), st.integers(24, 120))
def test_every_ticket_is_there_and_every_line_fits(plan: dict[str, list[str]], width: int) -> None:
    lines = graph(plan, width)
    assert max(map(cells, lines)) <= width or any(len(name) > width - 10 for name in plan)
    text = re.sub(r"\([^)]*\)", "", "\n".join(lines))
    clipped = any("…" in line for line in lines)
    assert clipped or sorted(re.findall(r"T\d+", text)) == sorted(plan)
