"""`--dry-run`: who would work, with what, where and within which limits; nothing is started."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from coterie.app.dry_run import DryRun, MemberPlan, Spawn
from coterie.cli import budgets
from coterie.cli.graph import graph
from coterie.cli.main import Call
from coterie.cli.text import FULL, Paint, counted, duration, field, hanging, one_line, warned
from coterie.model.conversation import MAX_UNCAPPED_TURNS
from coterie.model.task import Caps
from coterie.model.team import CHAT, PIPELINE, TICKETS
from coterie.model.visible import printable
from coterie.model.workspace import shown

_NAME = 11


def show(call: Call, dry_run: DryRun) -> None:
    """Print what would be done."""
    call.record("dry_run", _fields(dry_run))
    call.lines(_lines(dry_run, call.width, call.paint))


def _fields(dry_run: DryRun) -> dict[str, object]:
    team, path = dry_run.request.team, dry_run.request.team_file
    return {
        "task": dry_run.task,
        "workflow": dry_run.request.workflow,
        "goal": dry_run.request.goal,
        "project": str(dry_run.root),
        "team": team.name,
        "team_file": str(path) if path else None,
        "members": [
            {
                "member": plan.member.id,
                "duty": one_line(dry_run.duty(plan.member)),
                "agent": plan.member.agent,
                "model": plan.member.model,
                **_process(plan.start),
                "installed": plan.installed,
                "folder": str(dry_run.folder(plan.member)),
                "permissions": plan.member.permissions.mode,
                "allow": plan.member.permissions.allow,
                "budget": plan.member.budget.model_dump(exclude_none=True),
                "timeout_ms": plan.timeout_ms,
                "silence_ms": plan.silence_ms,
            }
            for plan in dry_run.members
        ],
        "budget": team.budget.model_dump(exclude_none=True),
        "scheduler": dry_run.scheduler.model_dump(),
        "branches": list(dry_run.branches),
        "approves_plan": dry_run.request.caps.yes,
        "caps": dry_run.request.caps.model_dump(include={"max_turns", "max_rounds"}),
        "rehearsal": dry_run.request.rehearsal is not False,
        "plan": dry_run.plan.model_dump(mode="json") if dry_run.plan else None,
    }


def _process(start: Spawn | str | None) -> dict[str, object]:
    if not isinstance(start, Spawn):
        return {"command": None, "words": None, "cwd": None, "variables": None, "problem": start}
    words = (start.command, *start.args)
    return {
        "command": shlex.join(words),
        "words": words,
        "cwd": start.cwd,
        "variables": sorted(start.marked_env),  # names only, never values
        "problem": None,
    }


def _lines(dry_run: DryRun, width: int, paint: Paint) -> list[str]:
    team = dry_run.request.team
    workflow, goal = dry_run.request.workflow, dry_run.request.goal
    does = f"resume {dry_run.task}:" if dry_run.task else "run"
    lines = [f"Would {does} {workflow} with team {team.name}. Nothing was started or written."]
    lines += field("goal", printable(goal or "typed when it starts"), width, _NAME)
    for plan in dry_run.members:
        lines += _member(dry_run, plan, width, paint)
    for name, value in _workflow_facts(dry_run):
        lines += field(name, value, width, _NAME)
    if dry_run.plan is None:
        return lines
    needs = {task.task_id: task.dependencies for task in dry_run.plan.tasks}
    lines += [f"  plan       {counted(len(needs), 'ticket')}, in the script"]
    lines += [f"            {line}" for line in graph(needs, width - 13)]
    for task in dry_run.plan.tasks:
        lines += field("", f"{task.task_id}: {one_line(task.description)}", width, _NAME)
    return lines


def _member(dry_run: DryRun, plan: MemberPlan, width: int, paint: Paint) -> list[str]:
    member = plan.member
    agent = f"{member.agent or 'human'}" + (f":{member.model}" if member.model else "")
    head = " · ".join(part for part in (one_line(dry_run.duty(member)), agent) if part)
    mode = "ask" if member.type == "human" else member.permissions.mode
    head = head if member.type == "human" else f"{head} · {mode}"
    lines = [f"  {paint(f'{member.id:<{_NAME - 2}}', 'name')}  {warned(head, mode, paint)}"]
    facts = [*_started(plan), ("folder", shown(dry_run.folder(member)))]
    if plan.timeout_ms is not None:
        facts.append(("turns", _turns(plan.timeout_ms, plan.silence_ms)))
    if member.permissions.mode == FULL:
        facts.append(("note", "never asks before it does anything"))
    if member.permissions.allow:
        facts.append(("allowed", ", ".join(member.permissions.allow)))
    if limit := budgets.limits(member.budget):
        facts.append(("budget", limit))
    for fact, value in facts:
        head = f"{'':{_NAME + 2}}{fact:<9}"
        lines += hanging(head, one_line(value), width - 1, _NAME + 11)
    return lines


def _started(plan: MemberPlan) -> Iterator[tuple[str, str]]:
    """Describe the process that the member's agent would run in, if any."""
    if isinstance(plan.start, Spawn):
        missing = "" if plan.installed else "   (not installed)"
        yield "runs", shlex.join((plan.start.command, *plan.start.args)) + missing
        yield "in", shown(Path(plan.start.cwd))
        yield "with", ", ".join(sorted(plan.start.marked_env))
    elif plan.start is not None:
        yield "!", plan.start
    elif plan.member.type == "ai":
        yield "runs", "no process of its own: it is part of Coterie"


def _turns(timeout_ms: int, silence_ms: int | None) -> str:
    """How long a turn may take, and whether silence ends it."""
    end = f"; a reply ends with {silence_ms / 1000:g} s of silence" if silence_ms else ""
    return f"fail after {duration(timeout_ms / 1000)}{end}"


def _workflow_facts(dry_run: DryRun) -> Iterator[tuple[str, str]]:
    yield "budget", budgets.limits(dry_run.request.team.budget) or "none: nothing is limited"
    if dry_run.request.workflow == TICKETS:
        yield from _ticket_facts(dry_run)
    elif dry_run.request.workflow == PIPELINE:
        yield from _pipeline_facts(dry_run)
    elif dry_run.request.workflow == CHAT:
        yield "ends", _end_condition(dry_run.request.caps, dry_run.request.team.routing)
    if dry_run.request.rehearsal is not False:
        yield "rehearsal", "the models are stand-ins: no tokens, no login"


def _pipeline_facts(dry_run: DryRun) -> Iterator[tuple[str, str]]:
    from coterie.cli.phase_graph import in_order
    from coterie.model.pipeline_state import PipelineSettings

    if dry_run.request.pipeline is not None:
        settings = PipelineSettings.model_validate(dry_run.request.pipeline)
        yield "phases", " → ".join(in_order(settings.graph))
        yield (
            "tests",
            ", ".join(settings.evals) or "those of .coterie/eval.conf, else detected ones",
        )
    if dry_run.base is None:  # a task that has not begun yet, and whose folder left git since
        yield "branch", "none: not in a git repository, and a build cannot begin without one"
        return
    branch, base = ", ".join(dry_run.branches), dry_run.base[:7]
    yield "branch", f"{branch}, from {base}; all work in its worktree, none in your tree"
    yield "then", "one commit on your branch, once you approve"


def _end_condition(caps: Caps, routing: str) -> str:
    """When a chat would end."""
    if caps.max_turns is not None:
        return f"after {counted(caps.max_turns, 'turn')}"
    if caps.max_rounds is not None:
        rounds = "once" if caps.max_rounds == 1 else f"{caps.max_rounds} times"
        return f"when every member has spoken {rounds}; on a terminal it is then your turn"
    named = "" if routing == "round_robin" else "when nobody hands over, or "
    return f"{named}after {MAX_UNCAPPED_TURNS} turns without a message from you"


def _ticket_facts(dry_run: DryRun) -> Iterator[tuple[str, str]]:
    limits, manager = dry_run.scheduler, dry_run.request.team.manager.id
    times = limits.time_limits
    yield (
        "limits",
        (
            f"{limits.concurrency} tickets at once · {limits.retries} retries · sent back at most "
            f"{limits.rework} times · {limits.replans} new plans · {limits.clarifications} rounds "
            f"of questions · minutes: {times.work:g} for work, {times.manager:g} for the manager, "
            f"{times.check:g} for a check · alert after {limits.alerts.stalled:g} without progress"
        ),
    )
    own = ", ".join(limits.checks)
    yield "checks", f"{own or 'none of yours'}; plus those of the plan that you allow"
    if not dry_run.branches:
        yield "branches", "none: not a git repository, all work in one folder"
    else:
        ticket, approved = dry_run.branches
        base = (dry_run.base or "")[:7]
        yield (
            "branches",
            f"{ticket} for each ticket, {approved} for what is approved, from {base}; "
            "worktrees below .coterie/worktrees/<id>",
        )
    plan = "approved by --yes" if dry_run.request.caps.yes else "shown to you for approval"
    report = "confirmed by --yes" if dry_run.request.caps.yes else "confirmed by you"
    yield (
        "then",
        (
            f"{manager} asks what is unclear and plans (the plan is {plan}); workers "
            f"do their tickets, Coterie runs the checks, {manager} reviews, approved "
            f"work is merged, and the final report is {report}. Your own branch and files are "
            "touched only by: coterie accept"
        ),
    )
