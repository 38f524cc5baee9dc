"""A pipeline's phases drawn from top to bottom, with the arrows back beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING

from coterie.cli.graph import piece
from coterie.cli.text import Paint, clip, counted, pad
from coterie.model.phase_graph import PIPELINE_STEPS, Phase, PhaseGraph

if TYPE_CHECKING:
    from coterie.model.pipeline_state import PipelineState

_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8


def in_order(graph: PhaseGraph) -> list[str]:
    """Return the phases in run order; those that only a failed gate leads to come last."""
    names: list[str] = []
    for first in (graph.start, *graph.phases):
        name: str | None = first
        while name is not None and name not in names:
            names.append(name)
            name = graph.phases[name].next
    return names


def drawn(
    graph: PhaseGraph, width: int, paint: Paint, state: PipelineState | None = None
) -> list[str]:
    """Return the drawing as lines; given the state of a pipeline, mark where it is."""
    names = in_order(graph)
    margin = _margin(graph, names)
    room = max(map(len, names)) + (4 if state else 2)
    lines = [clip(f"{graph.name}: {graph.description or counted(len(names), 'phase')}", width), ""]
    for row, name in enumerate(names):
        phase = graph.phases[name]
        head = f" {margin[2 * row]}{pad(name, room)}"
        steps = clip(", ".join(phase.steps), max(width - len(head), 10))
        here = state is not None and state.phase == name
        shown = paint(pad(f"{name} ●" if here else name, room), "good" if here else "name")
        lines.append(f" {margin[2 * row]}{shown}{steps}".rstrip())
        leads_on = row + 1 < len(names) and phase.next == names[row + 1]
        gate = _gate(phase, state) or (f"then {phase.next}" if phase.next and not leads_on else "")
        if leads_on or gate:
            mark = "│" if leads_on else " "
            below = f" {margin[2 * row + 1]}  {mark}{' ' * (room - 3)}"
            lines.append(f"{below}{paint(clip(gate, max(width - len(below), 10)), 'dim')}".rstrip())
    return lines


def _gate(phase: Phase, state: PipelineState | None) -> str:
    if phase.gate is None:
        return ""
    if state is not None and phase.gate in state.meta.gates:
        return gate_text(phase.gate, state)
    failing = "you decide"
    if phase.back is not None:
        failing = f"back to {phase.back}, {counted(phase.rounds, 'time')} at most"
    return f"gate {phase.gate}; if it fails: {failing}"


def gate_text(gate: str, state: PipelineState) -> str:
    """Return how a gate was decided."""
    if gate in state.meta.overrides:
        return f"gate {gate} failed; you overrode it"
    decided = state.meta.gates[gate]
    return f"gate {gate} " + ("passed" if decided.passed else "failed")


def _margin(graph: PhaseGraph, names: Sequence[str]) -> list[str]:
    """Draw what is left of each phase and of the line below it: the edges outside the column."""
    rows = {name: 2 * row for row, name in enumerate(names)}
    ways: dict[str, list[int]] = {}
    for edge in graph.edges():
        if edge.rounds is not None or rows[edge.target] != rows[edge.source] + 2:
            ways.setdefault(edge.target, []).append(rows[edge.source])
    # Edges that lead to the same phase share a line.
    spans = {
        target: (min(rows[target], *sources), max(rows[target], *sources))
        for target, sources in ways.items()
    }
    columns = _columns(spans)
    width = 2 * (max(columns.values(), default=-1) + 1)
    cells: dict[tuple[int, int], int] = {}
    for target, place in columns.items():
        column = width - 2 * (place + 1)
        _draw_way(cells, spans[target], column)
        for row in (rows[target], *ways[target]):
            _put(cells, row, column, _RIGHT)
            for further in range(column + 1, width):
                _put(cells, row, further, _LEFT | _RIGHT)
    arrows = {rows[target] for target in ways}
    return [
        _row(cells, row, width) + (_arrow(row in arrows) if width else "")
        for row in range(2 * len(names))
    ]


def _columns(spans: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    """How far left of the names each line is drawn: the shortest closest, without overlaps."""
    lanes: dict[str, int] = {}
    for target in sorted(spans, key=lambda one: spans[one][1] - spans[one][0]):
        first, last = spans[target]
        taken = {
            lanes[other] for other in lanes if spans[other][0] <= last and first <= spans[other][1]
        }
        lanes[target] = next(place for place in count() if place not in taken)
    return lanes


def _arrow(leads_here: bool) -> str:
    return "→ " if leads_here else "  "


def _draw_way(cells: dict[tuple[int, int], int], span: tuple[int, int], column: int) -> None:
    first, last = span
    for row in range(first, last + 1):
        _put(cells, row, column, (_UP if row > first else 0) | (_DOWN if row < last else 0))


def _put(cells: dict[tuple[int, int], int], row: int, column: int, sides: int) -> None:
    cells[row, column] = cells.get((row, column), 0) | sides


def _row(cells: Mapping[tuple[int, int], int], row: int, width: int) -> str:
    return "".join(piece(cells.get((row, column), 0)) for column in range(width))


def phase_fields(graph: PhaseGraph) -> dict[str, object]:
    """The graph as an object."""
    return {
        **graph.model_dump(exclude_none=True),
        "edges": [edge._asdict() for edge in graph.edges()],
        "steps": {name: PIPELINE_STEPS[name].what for name in _steps(graph)},
    }


def _steps(graph: PhaseGraph) -> list[str]:
    return list(dict.fromkeys(step for phase in graph.phases.values() for step in phase.steps))
