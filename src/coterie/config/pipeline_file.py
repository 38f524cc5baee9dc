"""`pipeline.json`: the graph of a pipeline's phases, either the project's own or a shipped one."""

from __future__ import annotations

import json
from pathlib import Path

from coterie.config import files
from coterie.config.mistakes import did_you_mean, listing, quoted, refusal, validated
from coterie.config.project import Project
from coterie.errors import NotFound
from coterie.model.phase_graph import Phase, PhaseGraph, graph_mistakes

PIPELINE_FILE = "pipeline.json"
STANDARD = "standard"
_SHIPPED = Path(__file__).with_name("graphs")


def shipped_graphs() -> tuple[str, ...]:
    """The names of the graphs that come with Coterie."""
    return tuple(sorted((path.stem for path in _SHIPPED.glob("*.json")), key=_standard_first))


def _standard_first(name: str) -> tuple[bool, str]:
    return name != STANDARD, name


def load_graph(project: Project | None, wanted: str | None = None) -> PhaseGraph:
    """Load a graph: a file, a shipped one by name, or by default the project's or the standard one.

    Raises ConfigError with all that is wrong with it, and NotFound.
    """
    own = project.folder / PIPELINE_FILE if project else None
    if wanted is None:
        return _read(own if own and own.exists() else _SHIPPED / f"{STANDARD}.json")
    if wanted in shipped_graphs():
        return _read(_SHIPPED / f"{wanted}.json")
    path = Path(wanted)
    if not path.is_file():
        names = listing(shipped_graphs())
        guess = did_you_mean(wanted, shipped_graphs())
        raise NotFound(f"No graph or file {quoted(wanted)}. Shipped are: {names}.{guess}")
    return _read(path)


def _read(path: Path) -> PhaseGraph:
    def strictly(given: dict[str, object]) -> PhaseGraph:
        return PhaseGraph.model_validate_json(json.dumps(given), strict=True)

    document = files.read_document(path)
    graph = validated(document, strictly, _keys)
    if mistakes := graph_mistakes(graph):
        raise refusal(document, [files.Mistake(*one) for one in mistakes])
    return graph


def _keys(place: files.Place) -> tuple[str, ...]:
    """The keys that an object may have at a place."""
    return tuple((PhaseGraph if not place else Phase).model_fields)
