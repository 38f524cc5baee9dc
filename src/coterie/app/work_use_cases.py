"""What surfaces call for sessions and their work: tickets, envelopes, diff, accept, revert."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from coterie.app import run
from coterie.app.changes import Accepted, Changes
from coterie.app.sessions import Sessions, checks_of
from coterie.engine.steering import Answered
from coterie.model.record import ResultRecord
from coterie.model.task import TaskCreated
from coterie.model.team import PIPELINE, TICKETS, YOU
from coterie.model.ticket import TicketView
from coterie.workspace.snapshots.folder_snapshots import FolderSnapshots, TaskDiff
from coterie.workspace.snapshots.revert import RevertResult

if TYPE_CHECKING:
    from coterie.app.pipelines import Pipelines
    from coterie.app.store import SharedStore
    from coterie.engine.lease import Claimant
    from coterie.engine.reader import TaskReader
    from coterie.model.envelope import Envelope
    from coterie.model.envelope_fault import EnvelopeCheck


class WorkUseCases:
    """One part of an open project; `App` is the rest."""

    shared: SharedStore | None

    if TYPE_CHECKING:

        @property
        def root(self) -> Path: ...

        @property
        def _look(self) -> TaskReader: ...

        async def claimant(self) -> Claimant: ...

        async def _unchecked(self, created: TaskCreated) -> run.Members: ...

    async def diff(self, task_id: str) -> TaskDiff:
        """Return what a task has changed so far; for a session, what was approved."""
        changes = self._changes_of((await self._look.state(task_id)).created)
        return await changes.diff(task_id)

    async def tickets(self, task_id: str) -> list[TicketView]:
        """Return a session's tickets in their current state, in the order of their creation."""
        return await self.sessions.tickets(task_id)

    async def envelopes(self, task_id: str) -> list[Envelope]:
        """Return all envelopes about a session's tickets, in order."""
        return await self.sessions.envelopes(task_id)

    async def check_envelopes(self, task_id: str) -> EnvelopeCheck:
        """Check that every envelope of a session is unchanged; changed files are rewritten."""
        return await self.sessions.check_envelopes(task_id)

    async def branch(self, task_id: str, ticket: str = "") -> str:
        """Return the branch of a session's approved work, or of a ticket; empty if it has none."""
        return await self.sessions.branch(task_id, ticket)

    async def revert(
        self, task_id: str, *, undo: bool = False, dry_run: bool = False
    ) -> RevertResult:
        """Revert what a task changed, leaving alone what others changed since.

        `undo` undoes the last revert instead.  Raises TaskBusy while the task runs.
        For an accepted session, a commit takes its work out of the branch again; one that was not
        accepted is only marked, since no files of the user's were changed.
        """
        changes = self._changes_of((await self._look.state(task_id)).created)
        return await changes.revert(task_id, await self.claimant(), undo=undo, dry_run=dry_run)

    async def accept(self, task_id: str, *, recheck: bool = False) -> Accepted:
        """Bring a session's approved work into the branch that the user has checked out.

        If NotAccepted is raised, nothing was changed; `recheck` merges the work with a branch that
        has moved, and accepts it only if the checks pass there too.  Hooks are not run.
        """
        claimant, created = await self.claimant(), (await self._look.state(task_id)).created
        members = await self._unchecked(created)
        checks = checks_of(self.root, created, members.redactor())
        changes = self._changes_of(created)
        return await changes.accept(task_id, claimant, checks, recheck=recheck)

    async def result(self, task_id: str) -> ResultRecord:
        """Return how a task ended, or why nobody runs it, whoever ran it last."""
        from coterie.engine.stored_result import stored_result  # whoever runs it knows

        created = (await self._look.state(task_id)).created
        snapshots = await anyio.to_thread.run_sync(FolderSnapshots, self.root)
        stored = await stored_result(self._look, task_id)
        result = await run.with_changes(snapshots, stored)
        is_session = created.workflow in (TICKETS, PIPELINE)
        return await self._changes_of(created).concluded(result) if is_session else result

    async def reset_ticket(self, task_id: str, ticket_id: str, author: str = YOU) -> Answered:
        """Have a failed ticket tried again; raises UsageError if that is not possible."""
        return await self.sessions.reset(task_id, ticket_id, author)

    @property
    def sessions(self) -> Sessions:
        return Sessions(self._look, self.shared)

    @property
    def changes(self) -> Changes:
        return Changes(self.sessions)

    @property
    def pipelines(self) -> Pipelines:
        from coterie.app.pipelines import Pipelines

        return Pipelines(self.sessions)

    def _changes_of(self, created: TaskCreated) -> Changes:
        return self.pipelines if created.workflow == PIPELINE else self.changes
