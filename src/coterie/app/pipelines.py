"""Pipelines: what they are started with, and what surfaces show of them and do with them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from coterie.app.run import PIPELINE, Rehearsal, StartRequest
from coterie.app.teams import TeamView
from coterie.config.pipeline_file import load_graph
from coterie.config.project import Project
from coterie.config.settings import load_scheduler
from coterie.model.pipeline_state import PipelineSettings
from coterie.model.task import Caps
from coterie.model.team import Team
from coterie.model.ticket import SchedulerConfig
from coterie.workflows.pipeline import check_pipeline_team


def start_build(
    view: TeamView, goal: str | None, caps: Caps, rehearsal: Rehearsal, settings: PipelineSettings
) -> StartRequest:
    """A goal that goes through the phases of a graph."""
    check_pipeline_team(view.team)
    return StartRequest(
        view.team,
        goal,
        caps,
        view.loaded.path,
        rehearsal,
        PIPELINE,
        pipeline=settings.model_dump(mode="json"),
    )


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


def graph_file(name: str | None) -> str | None:
    """A graph by its name, or by its file from wherever the command was started."""
    return str(Path(name).expanduser()) if name and Path(name).is_file() else name
