"""Pipeline graphs: for inspection without a task, and as the settings of a new pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from coterie.config.pipeline_file import load_graph
from coterie.config.project import Project, find_project
from coterie.errors import CoterieError
from coterie.model.phase_graph import PhaseGraph
from coterie.model.pipeline_state import PipelineSettings
from coterie.model.team import Team
from coterie.workflows.pipeline import check_pipeline_team
from coterie.workspace.eval_conf import configured_commands
from coterie.workspace.pipeline_work import starting_commit
from coterie.workspace.role_prompts import role_prompts


def pipeline_graph(folder: Path | None, wanted: str | None = None) -> PhaseGraph:
    """Return the graph in a file, a shipped one by its name, or the one this project uses.

    Blocks.  Raises ConfigError listing everything that is wrong with it, and NotFound.
    """
    if wanted is not None:
        return load_graph(None, wanted)
    try:
        project = find_project(folder)
    except CoterieError:  # no project here: use what is shipped
        return load_graph(None)
    return load_graph(project if project.exists else None)


def pipeline_settings(
    project: Project,
    graph: str | None,
    accept: str | None,
    evals: tuple[str, ...],
    *,
    attended: bool,
) -> PipelineSettings:
    """Return the settings of a new pipeline.  Reads files.

    Raises ConfigError for a bad graph, prompt or `eval.conf`, and UsageError without a commit to
    start from: now, not after hours of work.
    """
    phase_graph = load_graph(project if project.exists else None, graph)
    if project.exists:
        role_prompts(project.root)
        configured_commands(project.root)
    starting_commit(project.root)
    return PipelineSettings(graph=phase_graph, accept=accept, evals=evals, attended=attended)


def default_settings(project: Project, team: Team) -> Mapping[str, object]:
    """Return the settings of a pipeline that was given none: the project's graph.  Reads files."""
    check_pipeline_team(team)
    return pipeline_settings(project, None, None, (), attended=False).model_dump(mode="json")
