"""The session: clarify, plan, and carry the plan out, side by side where it allows that."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from coterie.model.about import FailedTicket
from coterie.model.envelope import Plan, PlanTask
from coterie.model.interaction import Ask, Option
from coterie.model.record import ErrorRecord
from coterie.model.task import Ended, TaskCreated
from coterie.model.ticket import Ticket
from coterie.ports import Context, Parked
from coterie.workflows.tickets.board import DROPPED, Board
from coterie.workflows.tickets.correspondence import Correspondence, Said
from coterie.workflows.tickets.final import conclude
from coterie.workflows.tickets.life import Crew, Life
from coterie.workflows.tickets.managing import Managing
from coterie.workflows.tickets.merging import MergeQueue
from coterie.workflows.tickets.outside import Outside
from coterie.workflows.tickets.planning import Planning
from coterie.workflows.tickets.roster import Roster, check_team
from coterie.workflows.tickets.stalls import Stalls
from coterie.workflows.tickets.steps import GROUND
from coterie.workspace.ticket_worktrees import SharedFolder, ticket_folders


class Session:
    """One goal on its way, from whatever is kept of it."""

    def __init__(self, task: TaskCreated, context: Context) -> None:
        check_team(task.team)
        self._task = task
        self._context = context
        self._config = task.scheduler
        self._roster = Roster(task.team, task.scheduler)
        self._letters = Correspondence(task, context)
        self._managing = Managing(context, self._letters, self._roster.manager)
        self._board = Board(task.session_id, context, self._letters)
        self._planning = Planning(task, context, self._letters, self._roster, self._managing)
        self._scopes: dict[str, anyio.CancelScope] = {}
        """By ticket: the work on it that runs now."""
        self._parked: dict[str, str] = {}
        """By ticket: what its work waits for."""
        self._words: list[str] = []
        """What the user said since the manager last planned."""
        self._wake = anyio.Event()

    async def to_its_end(self) -> Ended:
        """Until all tickets are done or closed."""
        tickets, said = await self._context.tickets()
        await self._letters.open(said)
        self._board.load(tickets, said)
        self._roster.remember(self._board.given)
        base = str(await self._context.step(GROUND, [], self._begin))
        if not self._board.plans:
            clarified = await self._planning.clarify()
            plan = await self._planning.plan(clarified)
            await self._board.adopt(plan, self._by_manager(plan))
        self._context.caught_up()
        await self._carry_out(base)
        return await conclude(self._task, self._context, self._board.tickets, base)

    async def _begin(self) -> object:
        root, session = self._context.root, self._task.session_id
        ground = await anyio.to_thread.run_sync(ticket_folders, root, session, None)
        return ground.base

    def _by_manager(self, plan: Plan) -> Said:
        return Said(self._roster.manager.id, "coterie", plan)

    # -- carrying out --------------------------------------------------------------------------

    async def _carry_out(self, base: str) -> None:
        crew = await self._crew(base)
        self._words = self._unheeded()
        stalls = Stalls(self._task.task_id, self._context, self._board, self._roster.manager.id)
        parked: str | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(self._listen)
            group.start_soon(stalls.watch, self._config.alerts.stalled)
            try:
                await self._tend(crew, group)
            except Parked as stop:
                parked = stop.reason
                while self._scopes:  # what is under way need not be lost
                    await self._something()
            group.cancel_scope.cancel()
        if parked is not None:
            self._context.park(parked)

    async def _crew(self, base: str) -> Crew:
        root, session = self._context.root, self._task.session_id
        ground = await anyio.to_thread.run_sync(ticket_folders, root, session, base)
        queue = MergeQueue(self._context, ground)
        return Crew(
            self._context,
            self._letters,
            self._board,
            self._roster,
            self._managing,
            ground,
            queue,
            Outside(root, watches=not isinstance(ground, SharedFolder)),
            self._config,
        )

    async def _tend(self, crew: Crew, group: TaskGroup) -> None:
        """Begin what can begin and help what has failed, until nothing is left."""
        alone = isinstance(crew.ground, SharedFolder)
        while not self._board.agenda.is_over:
            for ticket in self._startable(alone=alone):
                self._scopes[ticket.id] = anyio.CancelScope()
                group.start_soon(self._live, crew, ticket.id)
            if not await self._look_after():
                await self._something()

    async def _something(self) -> None:
        """Wait until something happened."""
        await self._wake.wait()
        self._wake = anyio.Event()

    def _startable(self, *, alone: bool) -> list[Ticket]:
        """Those that can begin now, within the limit, and in nobody's way."""
        chosen: list[Ticket] = []
        busy = [self._board.part(one) for one in self._scopes]
        for ticket in self._board.agenda.to_go_on_with:
            if len(busy) >= self._config.concurrency:
                break
            if ticket.id in self._scopes or ticket.id in self._parked:
                continue
            part = self._board.part(ticket.id)
            if not _in_the_way(part, busy, alone=alone):
                chosen.append(ticket)
                busy.append(part)
        return chosen

    async def _live(self, crew: Crew, ticket_id: str) -> None:
        """One ticket's work, until it ends, stands still, or is called off."""
        try:
            with self._scopes[ticket_id]:
                await Life(crew, ticket_id).to_its_end()
        except Parked as stop:
            self._parked[ticket_id] = stop.reason
        finally:
            del self._scopes[ticket_id]
            self._wake.set()

    async def _look_after(self) -> bool:
        """Do what is to be done besides; whether anything was."""
        if self._words:
            said, self._words = self._words, []
            await self._replan("the user said: " + " / ".join(said))
            return True
        if self._scopes:
            return False
        failed = self._board.agenda.failed
        if failed:
            await self._help(failed)
            return True
        if not self._startable(alone=False) and not self._board.agenda.is_over:
            self._context.park(next(iter(self._parked.values()), "question"))
        return True

    # -- changes of plan -----------------------------------------------------------------------

    def _unheeded(self) -> list[str]:
        """What the user said since the manager last planned."""
        people = {m.id for m in self._task.team.members if m.type == "human"} | {self._task.author}
        said = (m for m in self._context.conversation[1:] if m.member in people)
        return [m.text for m in said if m.at > self._board.planned_at]

    async def _listen(self) -> None:
        """Words of the user go to the manager."""
        while True:
            await self._context.words()
            heard = await self._context.heard(f"heard/{len(self._context.conversation)}")
            self._words += [message.text for message in heard]
            self._wake.set()

    async def _replan(self, why: str) -> None:
        plan = await self._planning.replan(why, self._board)
        kept = {task.task_id for task in plan.tasks}
        for ticket_id, scope in self._scopes.items():
            if self._board.ticket(ticket_id).task_id not in kept:
                scope.cancel()
        while any(self._board.ticket(one).task_id not in kept for one in self._scopes):
            await self._something()
        await self._board.adopt(plan, self._by_manager(plan))

    async def _help(self, failed: Iterable[Ticket]) -> None:
        """Tickets that failed for good: the manager plans anew, then the user decides."""
        if self._board.plans <= self._config.replans:
            why = "; ".join(f"{t.id} failed: {t.reason}" for t in failed)
            hint = "The manager plans anew."
            self._context.tell(ErrorRecord("ticket_failed", why, hint, task=self._task.task_id))
            await self._replan(why)
            return
        for ticket in failed:
            await self._ask_about(ticket)

    async def _ask_about(self, ticket: Ticket) -> None:
        question = Ask(
            "coterie",
            "Select",
            FailedTicket(ticket=ticket.id, title=ticket.title, reason=ticket.reason),
            options=(
                Option(
                    id="reset",
                    label="try it again",
                    style="primary",
                    detail="what was done so far stays in its folder",
                ),
                Option(id="drop", label="drop it, and what waits for it", style="danger"),
                Option(id="stop", label="stop and keep"),
            ),
            intent=[ticket.id, len(ticket.history)],
        )
        name = f"ticket/{ticket.id}/at/{len(ticket.history)}/failed"
        answer = await self._context.ask(name, question)
        choice = answer.response.selected_option_id
        if choice == "reset":
            await self._board.move(ticket.id, "pending", "reset by hand")
        elif choice == "drop":
            await self._drop(ticket)
        elif answer.fresh:
            self._context.park("stopped")
        else:  # the run was stopped here once; it is asked about again
            await self._board.note(ticket.id, "resumed", "the run was stopped here")

    async def _drop(self, ticket: Ticket) -> None:
        """Close a ticket and all that could never begin without it."""
        await self._board.close(ticket.id, DROPPED, "dropped by the user")
        for other in self._board.tickets:
            if ticket.id in other.dependencies and not other.is_over:
                await self._drop(other)


def _in_the_way(part: PlanTask, others: Iterable[PlanTask], *, alone: bool) -> bool:
    """Whether two parts say that they change the same files; unsaid counts in a shared folder."""
    mine = [PurePosixPath(name) for name in part.expected_outputs]
    for other in others:
        theirs = [PurePosixPath(name) for name in other.expected_outputs]
        if alone and not (mine and theirs):
            return True
        if any(
            one == two or one in two.parents or two in one.parents for one in mine for two in theirs
        ):
            return True
    return False
