"""Build the requests that tasks are started with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from coterie.app.run import WORKFLOWS, Rehearsal, StartRequest
from coterie.app.teams import Teams, TeamView
from coterie.errors import UsageError
from coterie.model.task import Caps
from coterie.model.team import PIPELINE, SOLO, TICKETS
from coterie.workflows.chat import first_ai
from coterie.workflows.pipeline import check_pipeline_team
from coterie.workflows.tickets import check_team

if TYPE_CHECKING:
    from coterie.model.pipeline_state import PipelineSettings


def chat(
    view: TeamView, goal: str | None, caps: Caps, rehearsal: Rehearsal = False
) -> StartRequest:
    """Request a conversation of a team."""
    return StartRequest(view.team, goal, caps, view.loaded.path, rehearsal)


def solo(
    view: TeamView, goal: str | None, name: str | None = None, rehearsal: Rehearsal = False
) -> StartRequest:
    """Request a job for one member: the named one, else the first with an agent.

    The others may be handed parts of it.
    """
    team = view.team
    member = first_ai(team) if name is None else team.find(name) or team.member(name)
    if member.type == "human":
        raise UsageError(
            f"{member.id} is a human: only a member with an agent can do a job.",
            "coterie team show",
        )
    return StartRequest(team, goal, Caps(), view.loaded.path, rehearsal, SOLO, member.id)


def run(
    view: TeamView,
    goal: str | None,
    caps: Caps,
    rehearsal: Rehearsal = False,
    workflow: str | None = None,
) -> StartRequest:
    """Request a goal, carried out by the workflow that `workflow_of` returns."""
    workflow = workflow_of(view, workflow)
    if workflow == SOLO:
        return solo(view, goal, None, rehearsal)
    if workflow == TICKETS:
        check_team(view.team)
        caps = Caps(yes=caps.yes)
    return StartRequest(view.team, goal, caps, view.loaded.path, rehearsal, workflow)


def build(
    view: TeamView, goal: str | None, caps: Caps, rehearsal: Rehearsal, settings: PipelineSettings
) -> StartRequest:
    """Request a goal that goes through the phases of a pipeline."""
    check_pipeline_team(view.team)
    fields = settings.model_dump(mode="json")
    file = view.loaded.path
    return StartRequest(view.team, goal, caps, file, rehearsal, PIPELINE, pipeline=fields)


@dataclass(frozen=True)
class RequestedTask:
    """What a person at a screen wants done, and by whom."""

    verb: Literal["chat", "do", "run", "build"]
    goal: str
    team: str | None = None
    """A team's name; without this and `agents`, the project's default team."""
    agents: str | None = None
    """`claude,sec=codex:gpt-5.5`."""
    member: str | None = None
    """For `do`: the member who does the job."""
    rehearsal: bool = False
    yes: bool = False
    """Whether a plan is approved without asking; never applies to a tool."""


def request_for(teams: Teams, wanted: RequestedTask) -> StartRequest:
    """Return the request for a person who will see the questions of the task.  Blocks.

    Raises NotTrusted, or UsageError if a member was edited, as `Teams.require_usable` does.
    """
    chosen = teams.choose(wanted.team, wanted.agents, or_roles=wanted.verb == "run")
    view, goal, rehearsal = teams.require_usable(chosen), wanted.goal, wanted.rehearsal
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
    """Return how a team carries out a goal: as wanted, else as its file says, else by tickets.

    Raises UsageError if there is no such workflow.
    """
    name = wanted or view.loaded.stated_workflow or TICKETS
    WORKFLOWS.check(name)
    return name


def rehearsal_of(script: str | None, *, wanted: bool) -> Rehearsal:
    """Return whether models are replaced, and by which script; raises if that cannot be read."""
    if script is None:
        return wanted
    from coterie.app.rehearsals import script_in

    path = Path(script).expanduser().absolute()  # the task may be resumed from elsewhere
    script_in(path)
    return path
