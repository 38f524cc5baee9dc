"""The record: tool calls with filters, whether the record is intact, and what turns cost."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from coterie.app.audit import AuditFilter, check_audit, read_audit
from coterie.app.costs import CostKey, cost_fields, grouped
from coterie.app.views import read_costs, read_report
from coterie.model.update import Usage
from coterie.web.hub import TheProject
from coterie.web.parameters import TheTask
from coterie.web.resources.timeline import ToolUseShown
from coterie.web.schema import RequestBody, Shown

router: APIRouter = APIRouter(tags=["record"])

Instant = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{3})?Z$")]
Since = Annotated[
    Instant | None, Query(description="Only from this time on, such as 2026-01-31T12:00:00Z.")
]
Word = Annotated[str, Field(min_length=1, max_length=100)]


class AuditShown(Shown):
    """Recorded tool calls, newest first."""

    calls: list[ToolUseShown]
    total: int
    """How many calls match."""


class AuditQuery(RequestBody):
    """Which calls to list; without any filter, all."""

    task: Annotated[str, Field(pattern=r"^[a-z][a-z0-9.]{3,63}(/T[0-9]{1,6})?$")] | None = None
    member: Word | None = None
    tool: Word | None = None
    """Part of a tool's name."""
    since: Instant | None = None
    errors: bool = False
    """Only calls that failed, were denied, or whose outcome is unknown."""
    limit: Annotated[int, Field(ge=1, le=500)] = 100


@router.get("/projects/{project}/audit")
async def list_audit(app: TheProject, wanted: Annotated[AuditQuery, Query()]) -> AuditShown:
    """List the tool calls of a project that match, newest first."""
    meant = AuditFilter(wanted.task, wanted.member, wanted.tool, wanted.since, wanted.errors)
    newest = list(reversed((await read_audit(app, meant)).uses))
    shown = [ToolUseShown.of(use) for use in newest[: wanted.limit]]
    return AuditShown(calls=shown, total=len(newest))


class VerificationShown(Shown):
    """Whether any row of the record was changed, added or removed."""

    whole: bool
    rows: int
    events: int
    envelopes: int
    signed: int
    problems: list[str]


@router.get("/projects/{project}/audit/verification")
async def verify_audit(app: TheProject) -> VerificationShown:
    """Check every page of the database, both hash chains, and the envelopes of all sessions."""
    verification = await check_audit(app)
    return VerificationShown.model_validate(verification.fields())


class CostShown(Shown):
    """The combined usage of turns, as far as agents reported it."""

    key: str
    turns: int
    untold: int
    """Attempts for which no agent reported the usage."""
    usage: Usage | None


class AllowedShown(Shown):
    """What may be used; null means no limit."""

    tokens: int | None
    usd: float | None
    turns: int | None


class TallyShown(Shown):
    """What was used, as budgets count it."""

    tokens: int
    usd: float
    turns: int


class BudgetShown(Shown):
    """A budget of a task, and how much of it was used."""

    member: str
    """`all` for the whole task."""
    limit: AllowedShown
    used: TallyShown


class CostsShown(Shown):
    """Costs by task, ticket, member, agent or day (UTC)."""

    by: CostKey
    costs: list[CostShown]
    budgets: list[BudgetShown]
    rehearsal: bool
    """Whether this was only a rehearsal, which uses nothing."""


By = Annotated[CostKey, Query(description="What to group by.")]


@router.get("/projects/{project}/cost")
async def show_costs(app: TheProject, by: By = "task", since: Since = None) -> CostsShown:
    """Show what the tasks of a project used."""
    return await _costs(app, None, by, since)


@router.get("/projects/{project}/tasks/{task}/cost")
async def show_task_costs(
    app: TheProject, task: TheTask, by: By = "member", since: Since = None
) -> CostsShown:
    """Show what a task and all tasks below it used, and the state of its budgets."""
    return await _costs(app, task, by, since)


async def _costs(app: TheProject, task: str | None, by: CostKey, since: str | None) -> CostsShown:
    costs = await read_costs(app, task, since)
    groups = grouped(costs.costs, by)
    return CostsShown.model_validate(
        {
            "by": by,
            "costs": [{"key": key, **cost_fields(group)} for key, group in groups.items()],
            "budgets": [
                {
                    "member": member,
                    "limit": {one: getattr(limit, one) for one in ("tokens", "usd", "turns")},
                    "used": asdict(used),
                }
                for member, (limit, used) in costs.budgets.items()
            ],
            "rehearsal": bool(costs.rehearsal),
        }
    )


class ReportShown(Shown):
    """The report of a session."""

    task: str
    files: int | None
    added: int | None
    removed: int | None
    branch: str
    tokens: dict[str, int]
    usd: float
    words: list[str]
    """What the user told the manager during the session."""
    summary: str


@router.get("/projects/{project}/tasks/{task}/report")
async def show_report(app: TheProject, task: TheTask) -> ReportShown:
    """Show the result of a task."""
    report = await read_report(app, task)
    files, added, removed = report.changed or (None, None, None)
    return ReportShown(
        task=task,
        files=files,
        added=added,
        removed=removed,
        branch=report.branch,
        tokens=dict(report.tokens),
        usd=report.money,
        words=list(report.words),
        summary=report.session.detail.state.summary,
    )
