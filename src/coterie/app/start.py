"""What a task is started with, and what it would do: who, with what, where, within which limits."""

from __future__ import annotations

import shlex
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from coterie.app.run import TICKETS, WORKFLOWS, Rehearsal, StartRequest
from coterie.app.teams import Teams, TeamView
from coterie.config.registry_edit import place
from coterie.config.settings import load_scheduler
from coterie.config.team_members import agents_of
from coterie.errors import UsageError
from coterie.model.envelope import Plan
from coterie.model.task import Caps
from coterie.model.team import Member, Team, member_folder
from coterie.model.ticket import SchedulerConfig
from coterie.workspace.git import repository_of


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


@dataclass(frozen=True)
class MemberPlan:
    """What a member would do, with what, and where."""

    member: Member
    duty: str
    command: str
    """Empty for a human; its adapter adds how to speak."""
    installed: bool
    folder: Path


@dataclass(frozen=True)
class DryRun:
    """What a command would do.  Nothing was started or written."""

    view: TeamView
    root: Path
    goal: str
    workflow: str
    members: tuple[MemberPlan, ...]
    scheduler: SchedulerConfig
    branches: tuple[str, ...]
    """For a ticket, and for what is approved; empty where all work in one folder."""
    base: str | None
    """The commit where branches would begin; None where there is none."""
    plan: Plan | None
    """The plan that a script holds; nobody knows one that the manager has yet to make."""
    approves_plan: bool
    rehearsal: bool


def dry_run(
    teams: Teams,
    view: TeamView,
    goal: str,
    workflow: str | None = None,
    *,
    approves_plan: bool,
    rehearsal: bool | Path,
) -> DryRun:
    """What running a goal with a team would do."""
    root, workflow = teams.project.root, workflow_of(view, workflow)
    git = repository_of(root) if workflow == TICKETS else None
    return DryRun(
        view,
        root,
        goal,
        workflow,
        tuple(_member_plan(teams, view.team, workflow, member) for member in view.team.in_order),
        load_scheduler(teams.project),
        ("coterie/<id>/T1", "coterie/<id>/merged") if git else (),
        git.head() if git else None,
        _plan_of(rehearsal) if workflow == TICKETS and isinstance(rehearsal, Path) else None,
        approves_plan,
        bool(rehearsal),
    )


def _member_plan(teams: Teams, team: Team, workflow: str, member: Member) -> MemberPlan:
    duty = member.role
    if workflow == TICKETS:
        duty = "manager" if member.id == team.manager.id else "worker"
        duty = "answers" if member.type == "human" else duty
    agent = {**teams.registry.agents, **agents_of(team)}.get(member.agent or "")
    folder = member_folder(teams.project.root, team.name, member)
    if agent is None:
        return MemberPlan(member, duty, "", True, folder)
    model = ("--model", member.model) if member.model else ()
    command = shlex.join([agent.command, *agent.base_args, *member.additional_args, *model])
    return MemberPlan(member, duty, command, place(teams.registry.known, agent) is not None, folder)


def _plan_of(script: Path) -> Plan | None:
    from coterie.app.rehearsals import script_in

    for rule in script_in(script).rules:
        for line in rule.replies:
            text = line.text if isinstance(line.text, str) else "".join(line.text)
            with suppress(ValueError):
                return Plan.model_validate_json(text[text.index("{") : text.rindex("}") + 1])
    return None
