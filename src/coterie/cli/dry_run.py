"""`--dry-run`: who would work, with what, where and within which limits; nothing is started."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.cli import budgets
from coterie.cli.call import Call
from coterie.cli.graph import graph
from coterie.cli.text import FULL, Paint, counted, one_line, warned, wrap
from coterie.config.project import Project
from coterie.config.registry import Registry
from coterie.config.roles_file import agents_of
from coterie.config.scan import place
from coterie.config.team_file import LoadedTeam
from coterie.model.paths import member_folder, shown
from coterie.model.scheduler import SchedulerConfig
from coterie.model.team import Member
from coterie.workspace.git import repository_of

if TYPE_CHECKING:
    from coterie.model.envelope import Plan

_NAME = 11


@dataclass(frozen=True)
class Intent:
    """What a command would do."""

    project: Project
    loaded: LoadedTeam
    registry: Registry
    workflow: str
    goal: str
    scheduler: SchedulerConfig
    yes: bool = False
    rehearsal: bool | Path = False
    """A path is the script of the replies."""

    @property
    def manager(self) -> Member:
        """Who plans and reviews, where there are tickets."""
        named = [one for one in self.loaded.team.ai_members if one.role.casefold() == "manager"]
        return (named or self.loaded.team.ai_members)[0]

    def duty(self, member: Member) -> str:
        """What a member does in it."""
        if self.workflow != "tickets":
            return one_line(member.role)
        if member.type == "human":
            return "answers"
        return "manager" if member.id == self.manager.id else "worker"

    def command(self, member: Member) -> tuple[str, bool]:
        """What is run for a member, and whether that is there; its adapter adds how to speak."""
        agents = {**self.registry.agents, **agents_of(self.loaded.team)}
        agent = agents.get(member.agent or "")
        if agent is None:
            return "", True
        words = (agent.command, *agent.base_args, *member.additional_args)
        model = ("--model", member.model) if member.model else ()
        return shlex.join([*words, *model]), place(self.registry.known, agent) is not None


def told(call: Call, intent: Intent) -> None:
    """Print it."""
    call.record("dry_run", _fields(intent))
    call.lines(_lines(intent, call.width, call.paint))


# -- for machines ------------------------------------------------------------------------------


def _fields(intent: Intent) -> dict[str, object]:
    team, root = intent.loaded.team, intent.project.root
    branches, plan = _branches(intent), _plan_of(intent)
    return {
        "workflow": intent.workflow,
        "goal": intent.goal,
        "project": str(root),
        "team": team.name,
        "team_file": str(intent.loaded.path) if intent.loaded.path else None,
        "members": [
            {
                "member": member.id,
                "duty": intent.duty(member),
                "agent": member.agent,
                "model": member.model,
                "command": intent.command(member)[0] or None,
                "installed": intent.command(member)[1],
                "folder": str(member_folder(root, team.name, member)),
                "permissions": member.permissions.mode,
                "allow": member.permissions.allow,
                "budget": member.budget.model_dump(exclude_none=True),
            }
            for member in team.in_order
        ],
        "budget": team.budget.model_dump(exclude_none=True),
        "scheduler": intent.scheduler.model_dump(),
        "branches": branches[0] if branches else [],
        "approves_plan": intent.yes,
        "rehearsal": bool(intent.rehearsal),
        "plan": plan.model_dump(mode="json") if plan else None,
    }


# -- for people --------------------------------------------------------------------------------


def _lines(intent: Intent, width: int, paint: Paint) -> list[str]:
    team = intent.loaded.team
    lines = [f"Would run {intent.workflow} with team {team.name}. Nothing was started or written."]
    lines += _field("goal", intent.goal, width)
    for member in team.in_order:
        lines += _member(intent, member, width, paint)
    for name, value in _facts(intent):
        lines += _field(name, value, width)
    plan = _plan_of(intent)
    if plan is None:
        return lines
    needs = {task.task_id: task.dependencies for task in plan.tasks}
    lines += [f"  plan       {counted(len(needs), 'ticket')}, in the script"]
    lines += [f"            {line}" for line in graph(needs, width - 13)]
    for task in plan.tasks:
        lines += _field("", f"{task.task_id}: {one_line(task.description)}", width)
    return lines


def _member(intent: Intent, member: Member, width: int, paint: Paint) -> list[str]:
    root, name = intent.project.root, intent.loaded.team.name
    command, is_there = intent.command(member)
    agent = f"{member.agent or 'human'}" + (f":{member.model}" if member.model else "")
    head = " · ".join(part for part in (intent.duty(member), agent) if part)
    mode = "" if member.type == "human" else f" · {member.permissions.mode}"
    lines = [f"  {paint(f'{member.id:<{_NAME - 2}}', 'name')}  {warned(head + mode, paint)}"]
    facts: list[tuple[str, str]] = []
    if command:
        facts.append(("runs", command + ("" if is_there else "   (not installed)")))
    facts.append(("in", shown(member_folder(root, name, member))))
    if member.permissions.mode == FULL:
        facts.append(("note", "never asks: whatever it wants to do, it does"))
    if member.permissions.allow:
        facts.append(("unasked", ", ".join(member.permissions.allow)))
    if limit := budgets.limits(member.budget):
        facts.append(("budget", limit))
    for fact, value in facts:
        first, *rest = wrap(one_line(value), width - _NAME - 12)
        lines.append(f"{'':{_NAME + 2}}{fact:<9}{first}")
        lines += [f"{'':{_NAME + 11}}{line}" for line in rest]
    return lines


def _facts(intent: Intent) -> Iterator[tuple[str, str]]:
    yield "budget", budgets.limits(intent.loaded.team.budget) or "none: nothing is limited"
    if intent.workflow == "tickets":
        yield from _of_tickets(intent)
    if intent.rehearsal:
        yield "rehearsal", "the models are stand-ins: no tokens, no login"


def _of_tickets(intent: Intent) -> Iterator[tuple[str, str]]:
    limits = intent.scheduler
    times = limits.time_limits
    yield (
        "limits",
        (
            f"{limits.concurrency} tickets at once · {limits.retries} retries · sent back at most "
            f"{limits.rework} times · {limits.replans} new plans · {limits.clarifications} rounds "
            f"of questions · minutes: {times.work:g} for work, {times.manager:g} for the manager, "
            f"{times.check:g} for a check · told after {limits.alerts.stalled:g} of standing still"
        ),
    )
    own = ", ".join(limits.checks)
    yield "checks", f"{own or 'none of yours'}; those of the plan as far as you allow them"
    branches = _branches(intent)
    if branches is None:
        yield "branches", "none: this is no git repository, all work in one folder"
    else:
        names, base = branches
        yield (
            "branches",
            f"{names[0]} for each ticket, {names[1]} for what is approved, from {base}; "
            "worktrees below .coterie/worktrees/<id>",
        )
    plan = "approved by --yes" if intent.yes else "shown to you, for your yes"
    yield (
        "then",
        (
            f"{intent.manager.id} asks what is unclear and plans (the plan is {plan}); workers "
            f"do their tickets, Coterie runs the checks, {intent.manager.id} reviews, approved "
            "work is merged. Your own branch and files are touched only by: coterie accept"
        ),
    )


def _plan_of(intent: Intent) -> Plan | None:
    """The plan that a script holds; nobody knows one that the manager has yet to make."""
    if not isinstance(intent.rehearsal, Path) or intent.workflow != "tickets":
        return None
    from coterie.model.envelope import Plan
    from coterie.rehearsal.script import read_script

    for rule in read_script(intent.rehearsal).rules:
        for line in rule.replies:
            text = line.text if isinstance(line.text, str) else "".join(line.text)
            with suppress(ValueError):
                return Plan.model_validate_json(text[text.index("{") : text.rindex("}") + 1])
    return None


def _branches(intent: Intent) -> tuple[list[str], str] | None:
    """The names that branches would have, and where they would begin."""
    git = repository_of(intent.project.root)
    if git is None or intent.workflow != "tickets":
        return None
    head = git.head()
    return ["coterie/<id>/T1", "coterie/<id>/merged"], head[:7] if head else "no commit yet"


def _field(name: str, value: str, width: int) -> list[str]:
    first, *rest = wrap(value, width - _NAME - 1)
    return [f"  {name:<{_NAME - 2}}  {first}", *(f"{'':{_NAME + 2}}{line}" for line in rest)]
