"""Tasks written straight into a project's database, without running anything."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from coterie.config.project import Project, make_project
from coterie.model.about import ToolPermission
from coterie.model.conversation import Message
from coterie.model.interaction import (
    APPROVE,
    APPROVE_BY_RULE,
    APPROVE_FOR_TASK,
    REJECT,
    Display,
    Interaction,
    Kind,
    Option,
    Validation,
)
from coterie.model.journal import AppendEvent, Fence, Write
from coterie.model.task import TaskCreated, TaskStarted, UserInteractionRequested
from coterie.model.team import Member, Team
from coterie.model.visible import decoded
from coterie.stores.sqlite import SqliteStorage
from tests.cli.command import Cli

DAY = "2026-01-31"

TEAM = Team(
    name="pair",
    members=(
        Member(id="ada", name="ada", display_name="Ada", agent="claude", order=1),
        Member(id="rex", name="rex", display_name="Rex", agent="codex", order=2),
    ),
)


def at(second: int, day: str = DAY) -> str:
    """A timestamp."""
    return f"{day}T12:00:{second:02}.000Z"


def record(
    cli: Cli,
    *writes: Write,
    task: str = "k3f9",
    team: Team = TEAM,
    goal: str = "Add coupons",
    parent: str | None = None,
) -> None:
    """Record a parked task with these writes; with a `parent`, as a child task of it."""
    anyio.run(_record, cli, writes, task, team, goal, parent)


async def _record(
    cli: Cli, writes: tuple[Write, ...], task: str, team: Team, goal: str, parent: str | None
) -> None:
    project = Project(cli.user.project)
    make_project(project)
    storage = await SqliteStorage.open(project.database)
    created = TaskCreated(
        task_id=task,
        at=at(0),
        session_id=parent or task,
        parent_id=parent,
        workflow="chat",
        workflow_version=1,
        goal=goal,
        author="you",
        team=team,
    )
    fence = await storage.create(created, "gone", Message(task, 1, "you", goal, at(0)))
    assert fence is not None
    await storage.commit(fence, AppendEvent(TaskStarted(task_id=task, at=at(1))), *writes)
    await storage.leases.park(Fence(task, fence.token))
    await storage.close()


def asks(question: Interaction, second: int = 5) -> AppendEvent:
    """The event that asks the user a question."""
    event = UserInteractionRequested(task_id=question.task_id, at=at(second), interaction=question)
    return AppendEvent(event, step=f"turn/1/asked/{question.interaction_id}")


def wants_to_run(
    name: str,
    command: str,
    *,
    rule: str = "",
    task: str = "k3f9",
    member: str = "ada",
    note: str = "",
) -> Interaction:
    """The question about a command, in the form that all agents share."""
    return Interaction(
        interaction_id=name,
        task_id=task,
        author_actor_id=member,
        kind="Confirm",
        purpose="confirm_risky_action",
        display=Display(title="Run a command", content=command),
        options=risky_options(rule, task, member),
        about=ToolPermission(
            tool="Bash",
            cwd="/srv/shop",
            effect="run",
            command=command,
            why="The endpoint needs the Stripe client.",
            said="I install it.",
            note=note,
        ),
    )


def risky_options(rule: str, task: str = "k3f9", member: str = "ada") -> tuple[Option, ...]:
    """The options for a risky action."""
    until = f"exactly this command, {member} only, until {task} ends"
    options = (
        Option(id=APPROVE, label="once", style="primary"),
        Option(id=REJECT, label="deny", style="danger", detail=f"--say tells {member} why"),
        Option(id=APPROVE_FOR_TASK, label="this task", detail=until),
    )
    return (*options, Option(id=APPROVE_BY_RULE, label="rule", detail=rule)) if rule else options


def plain(
    name: str, kind: Kind, *options: str, task: str = "k3f9", validation: Validation | None = None
) -> Interaction:
    """A question that is not about a risky action."""
    return Interaction(
        interaction_id=name,
        task_id=task,
        author_actor_id="ada",
        kind=kind,
        purpose="request_info",
        display=Display(title="Which way?"),
        options=tuple(Option(id=one, label=one) for one in options),
        validation=validation or Validation(),
    )


def command_on(card: Sequence[str]) -> str:
    """The exact text that a card asks about, reassembled from its lines."""
    rows = card[2 : next(n for n, line in enumerate(card) if line.startswith(" in    ")) - 1]
    folded = "\n".join(row[5:] if row[:5].strip() != "↳" else f"\0{row[5:]}" for row in rows)
    return decoded(folded.removeprefix("\n").replace("\n\0", ""))
