"""What a task is started with, and what it would do: who, with what, where, within which limits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from coterie.app.run import PIPELINE, TICKETS, WORKFLOWS, Rehearsal, StartRequest
from coterie.app.teams import Teams, TeamView
from coterie.errors import UsageError
from coterie.model.task import Caps
from coterie.workflows.pipeline import check_pipeline_team

if TYPE_CHECKING:
    from coterie.model.pipeline_state import PipelineSettings


def chat(
    view: TeamView, goal: str | None, caps: Caps, rehearsal: Rehearsal = False
) -> StartRequest:
    """A conversation of a team."""
    return StartRequest(view.team, goal, caps, view.loaded.path, rehearsal)


def solo(
    view: TeamView, goal: str | None, name: str | None = None, rehearsal: Rehearsal = False
) -> StartRequest:
    """A job for one member: who is named, else the first with an agent.

    The others are there to be handed parts of it.
    """
    team = view.team
    if name is None and not team.ai_members:
        raise UsageError(f"Team {team.name} has nobody with an agent.", "coterie team add")
    member = team.ai_members[0] if name is None else team.find(name) or team.member(name)
    if member.type == "human":
        raise UsageError(f"{member.id} is a human: nobody can make you do it.", "coterie team show")
    return StartRequest(team, goal, Caps(), view.loaded.path, rehearsal, "solo", member.id)


def run(
    view: TeamView,
    goal: str | None,
    caps: Caps,
    rehearsal: Rehearsal = False,
    workflow: str | None = None,
) -> StartRequest:
    """A goal, carried out as `workflow_of` says."""
    workflow = workflow_of(view, workflow)
    if workflow == "solo":
        return solo(view, goal, None, rehearsal)
    if workflow == TICKETS:
        caps = Caps(yes=caps.yes)
    return StartRequest(view.team, goal, caps, view.loaded.path, rehearsal, workflow)


def build(
    view: TeamView, goal: str | None, caps: Caps, rehearsal: Rehearsal, settings: PipelineSettings
) -> StartRequest:
    """A goal that goes through the phases of a pipeline."""
    check_pipeline_team(view.team)
    kept = settings.model_dump(mode="json")
    file = view.loaded.path
    return StartRequest(view.team, goal, caps, file, rehearsal, PIPELINE, pipeline=kept)


@dataclass(frozen=True)
class WantedTask:
    """What a person who sits before a screen wants done, and by whom."""

    verb: Literal["chat", "do", "run", "build"]
    goal: str
    team: str | None = None
    """A team by name; with neither this nor agents, the project's default one."""
    agents: str | None = None
    """`claude,sec=codex:gpt-5.5`."""
    member: str | None = None
    """For `do`: whose job it is."""
    rehearsal: bool = False
    yes: bool = False
    """Whether a plan is approved unasked; never a tool."""


def requested(teams: Teams, wanted: WantedTask) -> StartRequest:
    """What is to be started for somebody who will see what is asked.  Blocks.

    Raises NotTrusted, or UsageError where a member was edited, as `Teams.usable` does.
    """
    chosen = teams.choose(wanted.team, wanted.agents, or_roles=wanted.verb == "run")
    view, goal, rehearsal = teams.usable(chosen), wanted.goal, wanted.rehearsal
    caps = Caps.of(view.team, yes=wanted.yes, floor="ask")
    match wanted.verb:
        case "chat":
            return chat(view, goal, caps, rehearsal)
        case "do":
            return solo(view, goal, wanted.member, rehearsal)
        case "run":
            return run(view, goal, caps, rehearsal)
        case "build":
            from coterie.app.graphs import pipeline_settings

            attended = not wanted.yes
            settings = pipeline_settings(teams.project, None, None, (), attended=attended)
            return build(view, goal, Caps(yes=wanted.yes), rehearsal, settings)


def workflow_of(view: TeamView, wanted: str | None) -> str:
    """How a team carries out a goal: as is wanted, else as its file says, else by tickets.

    Raises UsageError where there is no such workflow.
    """
    name = wanted or view.loaded.stated_workflow or TICKETS
    WORKFLOWS.check(name)
    return name


def rehearsal_of(script: str | None, *, wanted: bool) -> Rehearsal:
    """Whether models are stood in for, and by which file; raises where that cannot be read."""
    if script is None:
        return wanted
    from coterie.app.rehearsals import script_in

    path = Path(script).expanduser().absolute()  # the task may be resumed from elsewhere
    script_in(path)
    return path
