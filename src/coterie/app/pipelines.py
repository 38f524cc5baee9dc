"""Pipelines: what they are started with, and what surfaces show of them and do with them."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.config.pipeline_file import load_graph
from coterie.config.project import Project
from coterie.config.settings import load_scheduler
from coterie.model.pipeline_state import PipelineSettings
from coterie.model.team import Team
from coterie.model.ticket import SchedulerConfig
from coterie.workflows.pipeline import check_pipeline_team


def pipeline_settings(
    project: Project,
    graph: str | None,
    accept: str | None,
    evals: tuple[str, ...],
    *,
    attended: bool,
) -> PipelineSettings:
    """What a pipeline is started with.  Reads files; raises ConfigError for a wrong graph."""
    found = load_graph(project if project.exists else None, graph)
    return PipelineSettings(graph=found, accept=accept, evals=evals, attended=attended)


def settings_for(
    project: Project, team: Team, given: Mapping[str, object] | None
) -> tuple[Mapping[str, object], SchedulerConfig]:
    """What a new pipeline keeps: as given, else by the project's own graph; and its limits."""
    check_pipeline_team(team)
    if given is None:
        made = pipeline_settings(project, None, None, (), attended=False)
        given = made.model_dump(mode="json")
    return given, load_scheduler(project)
