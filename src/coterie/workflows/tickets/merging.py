"""The queue of approved work: merged one by one, checked as merged, else sent back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import anyio

from coterie.model.check import CheckOutcome
from coterie.ports import Context
from coterie.workflows.tickets.aside import aside
from coterie.workspace.ticket_worktrees import Merge, TicketFolders


@dataclass(frozen=True)
class Landing:
    """What came of merging a ticket."""

    commit: str
    tree: str
    conflicts: tuple[str, ...] = ()
    failed: tuple[CheckOutcome, ...] = ()
    checks: tuple[CheckOutcome, ...] = ()

    @property
    def landed(self) -> bool:
        """Whether the work is on the branch now."""
        return not self.conflicts and not self.failed


class MergeQueue:
    """Merges one ticket at a time, in the order in which they come."""

    def __init__(self, context: Context, ground: TicketFolders) -> None:
        self._context = context
        self._ground = ground
        self._turn = anyio.Lock()

    async def merge(
        self, name: str, ticket: str, title: str, checks: Sequence[str], checked: str
    ) -> Landing:
        """Merge, check, land.  A tree that was `checked` as it is need not be checked again."""
        async with self._turn:
            already = await aside(self._ground, self._ground.landed, ticket)
            if already is not None:  # a run before this one was cut after landing it
                return Landing(already, "")
            # Merged anew in every run: the branch may have moved since one was cut here.
            merge = await aside(self._ground, self._ground.merge, ticket, title)
            if merge.conflicts:
                return Landing("", "", merge.conflicts)
            name = f"{name}/merge/{merge.tree[:12]}"
            wanted = checks if merge.tree != checked or not checked else ()
            outcomes = await self._checked(name, merge, wanted)
            failed = tuple(one for one in outcomes if not one.passed)
            if failed:
                return Landing(merge.commit, merge.tree, (), failed, outcomes)
            await self._land(f"{name}/land", ticket, merge)
            return Landing(merge.commit, merge.tree, (), (), outcomes)

    async def _land(self, name: str, ticket: str, merge: Merge) -> None:
        """Move the branch, once it is on record that the work was approved."""

        async def land() -> object:
            await aside(self._ground, self._ground.land, ticket, merge.commit)
            return merge.commit

        if merge.commit:
            await self._context.step(name, [ticket], land)

    async def _checked(
        self, name: str, merge: Merge, checks: Sequence[str]
    ) -> tuple[CheckOutcome, ...]:
        outcomes: list[CheckOutcome] = []
        folder = None
        for number, command in enumerate(checks, 1):
            if folder is None:
                folder = await aside(self._ground, self._ground.check_out, merge.commit)
            outcome = await self._context.check(f"{name}/check/{number}", command, folder)
            outcomes.append(replace(outcome, tree=merge.tree))
        return tuple(outcomes)
