"""The session: clarify, plan, and carry the plan out, side by side where it allows that."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

import anyio
import anyio.to_thread

from coterie.model.envelope import Plan, PlanTask
from coterie.model.interaction import Ask, Display, Option
from coterie.model.record import ErrorRecord
from coterie.model.task import Ended, TaskCreated
from coterie.model.ticket import Ticket, ready
from coterie.ports import Context, Parked
from coterie.workflows.tickets.board import DROPPED, Board
from coterie.workflows.tickets.correspondence import Correspondence, Said
from coterie.workflows.tickets.final import final_report, write_report
from coterie.workflows.tickets.life import Crew, Life
from coterie.workflows.tickets.merging import MergeQueue
from coterie.workflows.tickets.planning import Planning
from coterie.workflows.tickets.roster import Roster, check_team
from coterie.workspace.ticket_ground import SharedGround, ground_for


class Tickets:
    """A goal becomes tickets, tickets become reviewed work."""

    name = "tickets"
    version = 1

    async def run(self, task: TaskCreated, context: Context) -> Ended:
        """Carry the goal out."""
        check_team(task.team)
        return await _Session(task, context).to_its_end()


class _Session:
    def __init__(self, task: TaskCreated, context: Context) -> None:
        self._task = task
        self._context = context
        self._config = task.scheduler
        self._roster = Roster(task.team)
        self._letters = Correspondence(task, context)
        self._board = Board(task.session_id, context, self._letters)
        self._planning = Planning(task, context, self._letters, self._roster)
        self._scopes: dict[str, anyio.CancelScope] = {}
        """By ticket: the work on it that runs now."""
        self._parked: dict[str, str] = {}
        """By ticket: what its work waits for."""
        self._wake = anyio.Event()

    async def to_its_end(self) -> Ended:
        await self._letters.open()
        tickets, said = await self._context.tickets()
        self._board.load(tickets, said)
        base = await self._context.step("ground", [], self._begin)
        if not self._board.plans:
            clarified = await self._planning.clarify()
            plan = await self._planning.plan(clarified)
            await self._board.adopt(plan, self._by_manager(plan))
        self._context.caught_up()
        await self._carry_out(str(base))
        return await self._finish(str(base))

    async def _begin(self) -> object:
        root, session = self._context.root, self._task.session_id
        ground = await anyio.to_thread.run_sync(ground_for, root, session, None)
        return ground.base

    def _by_manager(self, plan: Plan) -> Said:
        return Said(self._roster.manager.id, "coterie", plan)

    # -- carrying out --------------------------------------------------------------------------

    async def _carry_out(self, base: str) -> None:
        root, session = self._context.root, self._task.session_id
        ground = await anyio.to_thread.run_sync(ground_for, root, session, base)
        queue = MergeQueue(self._context, ground)
        crew = Crew(
            self._context,
            self._letters,
            self._board,
            self._roster,
            ground,
            queue,
            self._config,
            self._task.goal,
        )
        async with anyio.create_task_group() as group:
            group.start_soon(self._listen)
            while not self._board.is_over:
                for ticket in self._startable(alone=isinstance(ground, SharedGround)):
                    self._scopes[ticket.id] = anyio.CancelScope()
                    group.start_soon(self._live, crew, ticket.id)
                if not await self._look_after():
                    await self._wake.wait()
                    self._wake = anyio.Event()
            group.cancel_scope.cancel()

    def _startable(self, *, alone: bool) -> list[Ticket]:
        """Those that can begin now, within the limit, and in nobody's way."""
        going = [t for t in self._board.tickets if t.state not in ("pending", "done", "error")]
        resumed = [t for t in going if t.closed_by is None]
        chosen: list[Ticket] = []
        for ticket in [*resumed, *ready(self._board.tickets)]:
            busy = [*self._scopes, *(one.id for one in chosen)]
            if ticket.id in busy or ticket.id in self._parked:
                continue
            if len(busy) >= self._config.concurrency:
                break
            others = [self._board.part(other) for other in busy]
            if not _in_the_way(self._board.part(ticket.id), others, alone=alone):
                chosen.append(ticket)
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
        failed = [t for t in self._board.tickets if t.state == "error" and t.closed_by is None]
        if self._pending_words():
            await self._replan("the user said: " + " / ".join(self._pending_words()))
            return True
        if failed and not self._scopes:
            await self._help(failed)
            return True
        if not self._scopes and not self._startable(alone=False) and not self._board.is_over:
            self._context.park(next(iter(self._parked.values()), "question"))
        return False

    # -- changes of plan -----------------------------------------------------------------------

    async def _listen(self) -> None:
        """Words of the user go to the manager."""
        while True:
            await self._context.words()
            await self._context.heard(f"heard/{len(self._context.conversation)}")
            self._wake.set()

    def _pending_words(self) -> list[str]:
        """What the user said since the manager last planned."""
        said = self._context.conversation[1:]
        people = {m.id for m in self._task.team.members if m.type == "human"} | {self._task.author}
        return [m.text for m in said if m.member in people and m.at > self._board.planned_at]

    async def _replan(self, why: str) -> None:
        plan = await self._planning.replan(why, self._board)
        kept = {task.task_id for task in plan.tasks}
        for ticket in self._board.tickets:
            if ticket.task_id not in kept and ticket.id in self._scopes:
                self._scopes[ticket.id].cancel()
        while any(self._board.ticket(one).task_id not in kept for one in self._scopes):
            await self._wake.wait()
            self._wake = anyio.Event()
        await self._board.adopt(plan, self._by_manager(plan))

    async def _help(self, failed: list[Ticket]) -> None:
        """Tickets that failed for good: the manager plans anew, then the user decides."""
        why = "; ".join(f"{t.id} failed: {t.reason}" for t in failed)
        if len(self._board.plans) <= self._config.replans:
            self._context.tell(
                ErrorRecord(
                    "ticket_failed", why, "The manager plans anew.", task=self._task.task_id
                )
            )
            await self._replan(why)
            return
        for ticket in failed:
            await self._ask_about(ticket)

    async def _ask_about(self, ticket: Ticket) -> None:
        question = Ask(
            "coterie",
            "Select",
            Display(title=f"{ticket.id} failed: {ticket.title}", description=ticket.reason),
            "choose_strategy",
            (
                Option(id="reset", label="try it again from the beginning", style="primary"),
                Option(id="drop", label="drop it, and what waits for it", style="danger"),
                Option(id="stop", label="stop and keep"),
            ),
            about=[ticket.id, len(ticket.history)],
        )
        name = f"ticket/{ticket.id}/at/{len(ticket.history)}/failed"
        answer = await self._context.ask(name, question)
        choice = answer.response.selected_option_id
        if choice == "reset":
            await self._board.move(ticket.id, "pending", "reset by hand")
        elif choice == "drop":
            await self._drop(ticket)
        else:
            if not answer.fresh:
                await self._board.note(ticket.id, "stopped", "the run was stopped here")
            self._context.park("stopped")

    async def _drop(self, ticket: Ticket) -> None:
        """Close a ticket and all that could never begin without it."""
        await self._board.close(ticket.id, DROPPED, "dropped by the user")
        for other in self._board.tickets:
            if ticket.id in other.dependencies and not other.is_over:
                await self._drop(other)

    # -- the end -------------------------------------------------------------------------------

    async def _finish(self, base: str) -> Ended:
        root, session = self._context.root, self._task.session_id
        ground = await anyio.to_thread.run_sync(ground_for, root, session, base)
        _, said = await self._context.tickets()
        report = await anyio.to_thread.run_sync(
            final_report, self._task, self._board.tickets, said, ground
        )
        await anyio.to_thread.run_sync(write_report, root, report)
        return Ended("done", report.summary)


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
