"""What a task changed: looked at, accepted into the user's branch, taken back."""

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
    """What a task changed so far; of a session, what was approved."""
    return DiffShown.of(task, await app.diff(task))


class AcceptGiven(RequestBody):
    """How work is to be accepted."""

    message: Annotated[str, Field(min_length=1, max_length=20_000)] | None = None
    """Of a build: the message of its commit."""
    recheck: bool = False
    """Your branch has moved: merge both, and run the checks again."""
    override: bool = False
    """Of a build: commit although a gate failed."""


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
    """A worktree that was not removed, as it holds something more."""

    kind: str
    task: str
    name: str
    bytes: int
    kept: str


class AcceptedShown(ShownText):
    """Work that is in the user's branch now."""

    task: str
    branch: str
    before: str
    commit: str
    files: list[FileShown]
    checks: list[CheckShown]
    kept: list[LeftoverShown]


@router.post(f"{_TASK}/accept")
async def accept(app: TheProject, task: TheTask, given: AcceptGiven | None = None) -> AcceptedShown:
    """Take approved work into the branch that is checked out; nothing is changed if refused."""
    wanted = given or AcceptGiven()
    done = await accept_work(
        app, task, wanted.message, recheck=wanted.recheck, override=wanted.override
    )
    return AcceptedShown.model_validate(asdict(done))


class RevertGiven(RequestBody):
    """What is to be taken back."""

    undo: bool = False
    """The last revert, instead of the task's changes."""
    dry_run: bool = False
    """Only say what would be done."""


class RevertedShown(ShownText):
    """What became of each file."""

    task: str
    undo: bool
    dry_run: bool
    restored: list[str]
    merged: list[str]
    removed: list[str]
    kept: list[SkippedShown]


@router.post(f"{_TASK}/revert")
async def revert(app: TheProject, task: TheTask, given: RevertGiven | None = None) -> RevertedShown:
    """Take back what a task changed, and nothing that anybody else did."""
    wanted = given or RevertGiven()
    done = await app.revert(task, undo=wanted.undo, dry_run=wanted.dry_run)
    return RevertedShown.model_validate({"task": task, **wanted.model_dump(), **asdict(done)})
