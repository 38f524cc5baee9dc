"""A ticket's turn that any machine may take: a task of its own, and the transfer of its commits.

The session sends the ticket's branch and offers the turn.  The machine that takes it opens a
worktree, has the worker take the turn, commits and sends the branch back; the session takes it in
and continues.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import cast, get_args

import anyio.to_thread
from pydantic import BaseModel

from coterie.errors import GitFailed, NotSent
from coterie.model import instant, step_name
from coterie.model.interaction import COTERIE
from coterie.model.task import TICKET_TURN, Ended, TaskCreated, ticket_task
from coterie.model.team import Member
from coterie.model.update import FailureKind, TurnFailed
from coterie.ports import Context, HandedOut, Sharing
from coterie.tools.workspace_files import NEVER_EDITED
from coterie.workflows.shared_branches import SharedBranches
from coterie.workflows.structured_turns import (
    StructuredRequest,
    StructuredTurns,
    UnreadableReply,
)
from coterie.workflows.tickets.replies import ReportReply, kind_of, parse_reply
from coterie.workflows.tickets.ticket_run import TicketRun
from coterie.workspace.beneath import open_folder_below, open_within, replace_file
from coterie.workspace.session_files import LARGEST
from coterie.workspace.ticket_worktrees import open_ticket_worktrees

_SEND = "send"
NOT_SENT: FailureKind = "not_sent"


class HandedOutTurn(BaseModel, frozen=True):
    """The subject of such a task; stored with it."""

    ticket: str
    title: str
    number: int
    """The number of lines in the ticket's history."""
    base: str
    """The commit that the session began at."""
    prompt: str
    timeout_ms: int


async def take_turn(task: TaskCreated, context: Context) -> Ended:
    """Take a turn that was handed out, and send its result."""
    part, sharing = HandedOutTurn.model_validate(task.turn), context.sharing
    if sharing is None:
        raise GitFailed("bundle", str(context.root), "the store is not shared any more")
    opening = (open_ticket_worktrees, context.root, task.session_id, part.base)
    worktrees = await anyio.to_thread.run_sync(*opening)
    assert worktrees is not None  # the turn has a base commit
    timeout = part.timeout_ms / 1000
    branches = SharedBranches(sharing, worktrees, timeout, context.tell)
    await branches.take_in(part.ticket, files=True)
    folder = await anyio.to_thread.run_sync(worktrees.open, part.ticket)
    own = {"execution_dir": str(folder), "work": "link", "timeout_ms": part.timeout_ms}
    worker = task.team.ai_members[0].model_copy(update=own)
    reply = await _report(context, worker, part)

    async def send() -> object:
        at = await context.last_turn_at()
        if at not in (None, sharing.machine):  # that machine was gone before it sent anything
            why = f"the task continued on {sharing.machine} before that"
            raise NotSent(at, worktrees.ref_of(part.ticket), why)
        message = f"{part.ticket}: {part.title}"
        await anyio.to_thread.run_sync(worktrees.commit, part.ticket, message)
        await branches.send(part.ticket)
        named = () if isinstance(reply, TurnFailed) else _named(reply)
        return await _sent_files(sharing, folder, named)

    try:
        await context.step(_SEND, [part.ticket], send)
    except NotSent as problem:
        return Ended(NOT_SENT, str(problem), failed=True)
    except GitFailed as problem:
        return Ended("not_committed", problem.output, failed=True)
    if isinstance(reply, TurnFailed):
        return Ended(reply.kind, reply.message, failed=True)
    return Ended("done", f"{part.ticket} was worked on")


async def _report(
    context: Context, worker: Member, part: HandedOutTurn
) -> ReportReply | TurnFailed:
    # A failure blocks the ticket, which is then retried by any worker who can.
    asked = StructuredRequest(part.prompt, ReportReply, kind_of(ReportReply), 1, part.ticket)
    name = step_name.ticket(part.ticket, part.number, "work")
    return await StructuredTurns(context).ask(
        name, worker, asked, lambda text: parse_reply(text, ReportReply, part.ticket)
    )


def _named(reply: ReportReply) -> Sequence[str]:
    """Return the files that a report names, committed or not."""
    return [*reply.outputs, *(one.uri for one in reply.artifacts)]


async def _sent_files(sharing: Sharing, folder: Path, names: Sequence[str]) -> object:
    """Send files that may be in no commit; return their digests by path in the worktree."""
    sent: dict[str, str] = {}
    for name in dict.fromkeys(names):
        data = await anyio.to_thread.run_sync(_content, folder, name)
        if data is not None:
            sent[name] = await sharing.put(data)
    return sent


def _content(folder: Path, name: str) -> bytes | None:
    """Read a file of the worktree; no link may lead out of it."""
    try:
        with open_within(folder, folder / name) as file:
            data = file.read(LARGEST + 1)
    except (OSError, ValueError):
        return None
    return data if len(data) <= LARGEST else None


def handed_out_task(
    session: TaskCreated, root: Path, worker: Member, part: HandedOutTurn, at: str
) -> TaskCreated:
    """Build the task of a turn: below its ticket, and run by whichever machine takes it."""
    above = ticket_task(session.task_id, part.ticket)
    people = [one for one in session.team.members if one.type == "human"]
    return TaskCreated(
        task_id=f"{above}.{part.number}",
        at=at,
        session_id=session.session_id,
        parent_id=above,
        workflow=TICKET_TURN,
        workflow_version=1,
        goal=f"{part.ticket}: {part.title}",
        author=COTERIE,  # no person wrote it: it is part of the session's goal
        team=session.team.model_copy(update={"members": (worker, *people)}),
        team_file=session.team_file,
        allowed=None,
        turn=part.model_dump(mode="json"),
        rehearsal=session.rehearsal,
        script=session.script,
        root=str(root),
    )


async def run_turn_remotely(
    run: TicketRun, worker: Member, at_work: Member, text: str
) -> ReportReply | TurnFailed:
    """Have a worker's turn on a ticket taken by whichever machine can, and bring its work here.

    Fails with NOT_SENT if its work, or the branch it starts from, was not sent in time.
    """
    services = run.services
    worktrees, branches, context = services.worktrees, services.branches, services.context
    assert worktrees is not None
    assert branches is not None
    sharing = context.sharing
    assert sharing is not None
    try:
        await branches.send(run.id)
    except NotSent as problem:
        return TurnFailed(NOT_SENT, str(problem))
    part = HandedOutTurn(
        ticket=run.id,
        title=run.ticket.title,
        number=len(run.ticket.history),
        base=worktrees.base,
        prompt=text,
        timeout_ms=at_work.timeout_ms or 0,
    )
    made = handed_out_task(services.task, context.root, worker, part, instant.now())
    done = await context.hand_out(run.step("work/elsewhere"), made)
    await branches.take_in(run.id, files=True)
    await write_sent_files(sharing, Path(at_work.execution_dir or context.root), done)
    return reply_of(done, run.id)


async def write_sent_files(sharing: Sharing, folder: Path, done: HandedOut) -> None:
    """Write the files that came with a turn, unless the worktree has them."""
    sent = cast("Mapping[str, str]", done.steps.get(_SEND) or {})
    for name, digest in sent.items():
        data = await sharing.get(digest)
        if data is not None and hashlib.sha256(data).hexdigest() == digest:
            await anyio.to_thread.run_sync(_write, folder, name, data)


def _write(folder: Path, name: str, data: bytes) -> None:
    """Write a file unless it exists: through no link, and nothing that git or Coterie would read.

    The name is what an agent on another machine reported.
    """
    *above, last = PurePosixPath(os.path.normpath(name)).parts or ("..",)
    used = {part.casefold() for part in (*above, last)}
    if not used.isdisjoint({"/", "..", *NEVER_EDITED}):
        return
    # A name that cannot be made here is left to what looks for the file later, and misses it.
    with suppress(OSError, ValueError), open_folder_below(folder, above, make=True) as inner:
        if last not in os.listdir(inner):  # noqa: PTH208 - a descriptor is not a path
            replace_file(inner, last, data, mode=0o644)


def reply_of(done: HandedOut, ticket: str) -> ReportReply | TurnFailed:
    """Return a worker's reply from another machine, or why its turn failed."""
    if done.status != "completed":
        kind = done.reason if done.reason in get_args(FailureKind) else "exit"
        return TurnFailed(cast("FailureKind", kind), done.summary or done.status)
    try:
        return parse_reply(done.text, ReportReply, ticket)
    except UnreadableReply as why:
        return TurnFailed("protocol", f"its reply was not a valid {kind_of(ReportReply)}: {why}")
