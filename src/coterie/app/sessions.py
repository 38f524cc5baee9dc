"""Sessions with tickets: what they need to run, and what surfaces show of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from coterie.app.run import StartRequest
from coterie.config.project import Project, passthrough, user_home
from coterie.config.settings import load_scheduler
from coterie.engine import steering
from coterie.engine.reader import TaskReader
from coterie.engine.steering import Answered
from coterie.engine.task_run import RunServices
from coterie.errors import GitFailed, UsageError
from coterie.model import instant
from coterie.model.check import check_results, check_scores
from coterie.model.journal import Fence, Turn
from coterie.model.record import ErrorRecord, ResultRecord
from coterie.model.redaction import Redactor
from coterie.model.step_name import parse
from coterie.model.task import ENDED, TaskCreated, is_part, ticket_id_of
from coterie.model.team import PIPELINE, TICKETS, Team
from coterie.model.ticket import (
    BASE_COMMIT,
    CheckScore,
    SchedulerConfig,
    Ticket,
    TicketView,
    after_session,
    named_ticket,
    no_ticket,
)
from coterie.model.update import sum_of
from coterie.ports import Checks, Observer, Storage
from coterie.workflows.tickets import check_team
from coterie.workspace.session_files import make_session_key, put_session_key
from coterie.workspace.snapshots.folder_snapshots import FolderSnapshots
from coterie.workspace.ticket_worktrees import TicketWorktrees, open_ticket_worktrees

if TYPE_CHECKING:
    from coterie.app.store import SharedStore
    from coterie.model.envelope import Envelope
    from coterie.model.envelope_fault import EnvelopeCheck, EnvelopeFault
    from coterie.stores.envelope_files import EnvelopeFiles


@dataclass(frozen=True)
class Sessions:
    """The sessions of a project, whoever runs them."""

    look: TaskReader
    shared: SharedStore | None = None
    """The store shared with other machines; None if there is none."""

    async def tickets(self, task_id: str) -> list[TicketView]:
        """Return a session's tickets in their current state, in the order of their creation."""
        session = await self._session(task_id)
        store = self.look.storage.tickets
        scores = check_scores(one for _, one in await store.envelopes(session))
        turns: dict[str, list[Turn]] = {}
        for turn in await self.look.storage.journal.spending(task_id=session):
            about = ticket_id_of(turn.task_id) or parse(turn.step).ticket
            if about is not None:
                turns.setdefault(about, []).append(turn)
        return [
            _view(ticket, scores.get(ticket.id), turns.get(ticket.id, []))
            for ticket in await store.tickets(session)
        ]

    async def envelopes(self, task_id: str) -> list[Envelope]:
        """Return all envelopes about a session's tickets, in order."""
        session = await self._session(task_id)
        return [one for _, one in await self.look.storage.tickets.envelopes(session)]

    async def branch(self, task_id: str, ticket: str = "") -> str:
        """Return the branch of a session's approved work, or of one of its tickets; empty if it
        works in the folder."""
        worktrees = await self.worktrees_here(task_id)
        return worktrees.branch_of(ticket or worktrees.approved) if worktrees else ""

    async def worktrees(self, task_id: str) -> TicketWorktrees | None:
        """Return the worktrees of a session's tickets, with the branches that other machines sent;
        None if it has not begun or has no git, and for a subtask, which has no branch."""
        worktrees = await self.worktrees_here(task_id)
        if worktrees is not None and self.shared is not None:
            from coterie.workflows.shared_branches import SharedBranches

            sharing = self.shared.sharing(Fence(worktrees.session, 0))
            await SharedBranches(sharing, worktrees).take_in_all(to_look=True)
        return worktrees

    async def worktrees_here(self, task_id: str) -> TicketWorktrees | None:
        """Like `worktrees`, but only with what this clone has."""
        session = await self._session(task_id)
        is_subtask = task_id != session and not ticket_id_of(task_id)
        base = None if is_subtask else await self.step(session, BASE_COMMIT)
        if base is None:
            return None
        root = self.look.root
        if (await self.look.state(session)).created.workflow == PIPELINE:
            from coterie.workspace.pipeline_work import open_work

            work = await anyio.to_thread.run_sync(open_work, root, session, str(base))
            return work.worktrees
        return await anyio.to_thread.run_sync(open_ticket_worktrees, root, session, str(base))

    async def require_here(self, task_id: str) -> None:
        """Raise UsageError if a task's files are on another machine: nothing transfers them."""
        here = self.shared.machine if self.shared else None
        # A worker's name may differ from its machine's: kept snapshots prove that it ran here.
        if here is None or await anyio.to_thread.run_sync(_are_kept, self.look.root, task_id):
            return
        for turn in await self.look.storage.journal.turns(task_id):
            if turn.machine not in (None, here):
                problem = f"{task_id} was worked on at {turn.machine}: its files are there."
                raise UsageError(
                    problem, f"Run this command on {turn.machine}, in the clone of its worker."
                )

    async def step(self, task_id: str, name: str) -> object:
        """Return the result of a step; None if it was not completed."""
        for step in await self.look.storage.journal.steps(task_id):
            if step.name == name and step.result is not None:
                result: object = json.loads(step.result)
                return result
        return None

    async def reset(self, task_id: str, ticket_id: str, author: str) -> Answered:
        """Have a failed ticket tried again by answering the question about it."""
        session = await self._session(task_id)
        tickets = {one.id: one for one in await self.look.storage.tickets.tickets(session)}
        _, wanted = named_ticket(ticket_id) or (session, ticket_id.upper())
        ticket = tickets.get(wanted)
        if ticket is None:
            raise no_ticket(wanted, session, tickets)
        for question in await self.look.storage.inbox.questions():
            interaction, step = question.interaction, parse(question.step)
            is_about_ticket = step.is_failed_ticket and step.ticket == ticket.id
            if is_part(interaction.task_id, task_id) and is_about_ticket:
                return await steering.answer(
                    self.look, interaction.interaction_id, "reset", None, author
                )
        raise _no_question(task_id, ticket)

    async def complete_files(self, task_id: str) -> None:
        """Write the files that a cut run left unwritten; a running session does so itself."""
        created = (await self.look.state(task_id)).created
        if created.workflow == TICKETS and await self.look.runner_of(task_id) is None:
            await session_files_of(self.look.root, self.look.storage, created).flush()

    async def check_envelopes(self, task_id: str) -> EnvelopeCheck:
        """Check that every envelope of a session is unchanged: in the database by its signature,
        and in its file, which is rewritten from the database if it was changed."""
        from coterie.model.envelope_fault import EnvelopeCheck

        state = await self.look.state(task_id)
        if state.created.workflow != TICKETS:
            return EnvelopeCheck(task_id, 0, signed=False)
        await self.bring_key(state.created)
        files = session_files_of(self.look.root, self.look.storage, state.created)
        if await self.look.runner_of(task_id) is not None:
            return await files.verify("live")
        return await files.verify("whole" if state.status in ENDED else "cut")

    async def bring_key(self, created: TaskCreated) -> None:
        """Make sure that this machine has a session's signing key, whichever machine made it."""
        if self.shared is not None and created.scheduler.sign:
            folder, session = self.look.root / ".coterie", created.session_id
            own_key = await anyio.to_thread.run_sync(make_session_key, folder, session)
            key = await self.shared.blobs.session_key(session, own_key)
            if key != own_key:
                await anyio.to_thread.run_sync(put_session_key, folder, session, key)

    async def concluded(self, result: ResultRecord) -> ResultRecord:
        """Complete the result of a run with its session's checks and the next steps."""
        envelopes = await self.envelopes(result.task)
        checks = tuple(
            {"ticket": ticket, "command": command, "passed": passed}
            for ticket, results in check_results(envelopes).items()
            for command, passed in results.items()
        )
        onward = result.next
        if result.status == "completed":
            branch = await self.branch(result.task)
            onward = after_session(result.task, has_branch=bool(branch))
        return replace(result, checks=checks, next=onward)

    async def _session(self, task_id: str) -> str:
        return (await self.look.state(task_id)).created.session_id


def _view(ticket: Ticket, checks: CheckScore | None, turns: Iterable[Turn]) -> TicketView:
    taken = list(turns)
    seconds = sum(
        instant.seconds_between(turn.opened_at, turn.closed_at) for turn in taken if turn.closed_at
    )
    used = sum_of(usage for turn in taken if (usage := turn.used) is not None)
    tokens = None if used is None else (used.input_tokens or 0) + (used.output_tokens or 0)
    done = sum(turn.outcome in ("completed", "interrupted") for turn in taken)
    return TicketView(ticket, checks, done, seconds, tokens)


def _no_question(task_id: str, ticket: Ticket) -> UsageError:
    if ticket.closed_by is not None:
        why = f"{ticket.id} no longer counts ({ticket.closed_by}): {ticket.reason}."
        return UsageError(why, f"coterie say {task_id} TEXT")
    if ticket.state != "error":
        why = f"{ticket.id} is {ticket.state}; only a ticket that failed can be reset."
        return UsageError(why, f"coterie show {task_id}")
    why = f"There is no question about {ticket.id} yet: its manager may still replan it."
    return UsageError(why, f"coterie resume {task_id}")


def kept_settings(
    project: Project, team: Team, start: StartRequest
) -> tuple[SchedulerConfig, Mapping[str, object] | None]:
    """Return what a new session keeps: the project's limits and, for a pipeline, its graph.

    Reads files; raises UsageError if the team does not suit the workflow, or the repository has no
    commit to start from.
    """
    scheduler, pipeline = load_scheduler(project), start.pipeline
    if start.workflow == TICKETS:
        check_team(team)
        open_ticket_worktrees(project.root, "", None)
    elif pipeline is None:
        from coterie.app.graphs import default_settings

        pipeline = default_settings(project, team)
    return scheduler, pipeline


def base_commit(root: Path, workflow: str) -> str | None:
    """Return the commit that work on a branch starts from, for other machines.  Blocks."""
    if workflow not in (TICKETS, PIPELINE):
        return None
    from coterie.workspace.git import repository_of

    git = repository_of(root)
    return git.head() if git else None


def with_session(
    services: RunServices,
    root: Path,
    storage: Storage,
    created: TaskCreated,
    observer: Observer,
) -> RunServices:
    """Add the checks of a task to its services and, for a session with tickets, its files."""
    services = replace(services, checks=checks_of(root, created, services.redactor))
    if created.workflow != TICKETS:
        return services
    return replace(services, session_files=session_files_of(root, storage, created, observer))


def session_files_of(
    root: Path, storage: Storage, created: TaskCreated, observer: Observer | None = None
) -> EnvelopeFiles:
    """Return what writes a session's envelopes to files; the observer hears of changes to them."""
    from coterie.stores.envelope_files import EnvelopeFiles

    folder, session = Project(root).folder, created.session_id

    def tell(fault: EnvelopeFault) -> None:
        if observer is not None:
            hint = f"coterie audit {session} --verify"
            observer.saw(ErrorRecord("envelope_changed", f"{fault}.", hint, task=created.task_id))

    signed, shared = created.scheduler.sign, created.root is not None
    return EnvelopeFiles(folder, storage.tickets, session, signed=signed, shared=shared, tell=tell)


def checks_of(root: Path, created: TaskCreated, redactor: Redactor) -> Checks:
    """Return what runs the checks of a session."""
    from coterie.tools.run_command import SandboxedChecks

    minutes = created.scheduler.time_limits.check
    return SandboxedChecks(root, created.session_id, passthrough(), minutes, redactor, user_home())


def _are_kept(root: Path, task_id: str) -> bool:
    """Whether this clone has snapshots of a task's files."""
    try:
        return bool(FolderSnapshots(root).spans(task_id))
    except GitFailed:
        return False
