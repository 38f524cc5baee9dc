"""What a task changed: show it, accept it into the user's branch, revert it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from coterie.app.accept import accept_work
from coterie.web.changes import DiffShown, FileShown, SkippedShown
from coterie.web.hub import TheProject
from coterie.web.parameters import TheTask
from coterie.web.schema import RequestBody, ShownText

router: APIRouter = APIRouter(tags=["changes"])

_TASK = "/projects/{project}/tasks/{task}"


@router.get(f"{_TASK}/changes")
async def show_changes(app: TheProject, task: TheTask) -> DiffShown:
    """Show what a task has changed so far; for a session, what was approved."""
    return DiffShown.of(task, await app.diff(task))


class AcceptGiven(RequestBody):
    """How to accept the work."""

    message: Annotated[str, Field(min_length=1, max_length=20_000)] | None = None
    """For a build: the message of its commit."""
    recheck: bool = False
    """If your branch has moved: merge both, and run the checks again."""
    override: bool = False
    """For a build: commit even though a gate failed."""


class CheckShown(ShownText):
    """A check that was run again."""

    command: str
    exit_code: int | None
    output: str
    duration_ms: int
    tree: str
    log: str
    digest: str
    size_bytes: int | None


class LeftoverShown(ShownText):
    """A worktree that was not removed because it contains something else."""

    kind: str
    task: str
    name: str
    bytes: int
    kept: str


class AcceptedShown(ShownText):
    """Work that is now in the user's branch."""

    task: str
    branch: str
    before: str
    commit: str
    files: list[FileShown]
    checks: list[CheckShown]
    kept: list[LeftoverShown]


@router.post(f"{_TASK}/accept")
async def accept(app: TheProject, task: TheTask, given: AcceptGiven | None = None) -> AcceptedShown:
    """Take approved work into the branch that is checked out; if refused, nothing changes."""
    wanted = given or AcceptGiven()
    done = await accept_work(
        app, task, wanted.message, recheck=wanted.recheck, override=wanted.override
    )
    return AcceptedShown.model_validate(asdict(done))


class RevertGiven(RequestBody):
    """What to revert."""

    undo: bool = False
    """Undo the last revert instead of reverting the task's changes."""
    dry_run: bool = False
    """Only report what would be done."""


class RevertedShown(ShownText):
    """What happened to each file."""

    task: str
    undo: bool
    dry_run: bool
    restored: list[str]
    merged: list[str]
    removed: list[str]
    kept: list[SkippedShown]


@router.post(f"{_TASK}/revert")
async def revert(app: TheProject, task: TheTask, given: RevertGiven | None = None) -> RevertedShown:
    """Revert what a task changed, and nothing that anybody else did."""
    wanted = given or RevertGiven()
    done = await app.revert(task, undo=wanted.undo, dry_run=wanted.dry_run)
    return RevertedShown.model_validate({"task": task, **wanted.model_dump(), **asdict(done)})
