"""Graphs of pipelines, which are looked at without a task."""

from __future__ import annotations

from pathlib import Path

from coterie.config.pipeline_file import load_graph
from coterie.config.project import find_project
from coterie.errors import CoterieError
from coterie.model.phase_graph import PhaseGraph


def pipeline_graph(folder: Path | None, wanted: str | None = None) -> PhaseGraph:
    """The graph of a file, a shipped one by its name, or the one that holds in this project.

    Blocks.  Raises ConfigError with all that is wrong with it, and NotFound.
    """
    if wanted is not None:
        return load_graph(None, wanted)
    try:
        project = find_project(folder)
    except CoterieError:  # none here: what is shipped can be looked at all the same
        return load_graph(None)
    return load_graph(project if project.exists else None)
