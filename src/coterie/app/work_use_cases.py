"""What surfaces call about sessions and their work: tickets, envelopes, diff, accept, revert."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from coterie.app import run
from coterie.app.changes import Accepted, Changes
from coterie.app.sessions import Sessions, checks_of
from coterie.engine.steering import Answered
from coterie.model.conversation import YOU
from coterie.model.task import TaskCreated
from coterie.model.ticket import TicketView
from coterie.workspace.snapshots.folder_snapshots import TaskDiff
from coterie.workspace.snapshots.revert import RevertResult

if TYPE_CHECKING:
    from coterie.app.pipelines import Pipelines
    from coterie.app.store import SharedStore
    from coterie.engine.lease import Claimant
    from coterie.engine.reader import TaskReader
    from coterie.model.envelope import Envelope
    from coterie.model.envelope_fault import EnvelopeCheck


class WorkUseCases:
    """Part of an open project; the rest of it is `App`."""

    root: Path
    shared: SharedStore | None

    if TYPE_CHECKING:

        @property
        def _look(self) -> TaskReader: ...

        async def claimant(self) -> Claimant: ...

        async def _unchecked(self, created: TaskCreated) -> run.Members: ...

    async def diff(self, task_id: str) -> TaskDiff:
        """What a task changed so far; of a session, what was approved."""
        return await self.changes.diff(task_id)

    async def tickets(self, task_id: str) -> list[TicketView]:
        """A session's tickets as they stand, in the order in which they were made."""
        return await self.sessions.tickets(task_id)

    async def envelopes(self, task_id: str) -> list[Envelope]:
        """All that was said about a session's tickets, in order."""
        return await self.sessions.envelopes(task_id)

    async def check_envelopes(self, task_id: str) -> EnvelopeCheck:
        """Whether every envelope of a session is what was written; files are written anew."""
        return await self.sessions.check_envelopes(task_id)

    async def branch(self, task_id: str) -> str:
        """The branch of a session's approved work; empty where it has none."""
        return await self.sessions.branch(task_id)

    async def revert(
        self, task_id: str, *, undo: bool = False, dry_run: bool = False
    ) -> RevertResult:
        """Take back what a task changed, what others did since left alone.

        `undo` takes the last revert back instead.  Raises TaskBusy while the task runs.
        Of a session that was accepted, a commit takes the work back out of the branch; one that
        was not is only marked: nobody's files were changed.
        """
        changes = self._changes_of((await self._look.state(task_id)).created)
        return await changes.revert(task_id, await self.claimant(), undo=undo, dry_run=dry_run)

    async def accept(self, task_id: str, *, recheck: bool = False) -> Accepted:
        """Bring a session's approved work into the branch that the user has checked out.

        Raises NotAccepted, and then nothing was changed; `recheck` merges it with a branch that
        moved meanwhile, and accepts it only if the checks pass there too.  Hooks are not run.
        """
        claimant, created = await self.claimant(), (await self._look.state(task_id)).created
        members = await self._unchecked(created)
        checks = checks_of(self.root, created, members.redactor())
        changes = self._changes_of(created)
        return await changes.accept(task_id, claimant, checks, recheck=recheck)

    async def reset_ticket(self, task_id: str, ticket_id: str, author: str = YOU) -> Answered:
        """Have a ticket that failed tried again; raises UsageError where it cannot be."""
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
        return self.pipelines if created.workflow == run.PIPELINE else self.changes
