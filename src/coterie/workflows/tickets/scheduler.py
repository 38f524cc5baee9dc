"""A session from goal to end: clarify, plan, run tickets in parallel, notice what stalls."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import cast

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from coterie.model import instant, step_name
from coterie.model.about import FailedTicket
from coterie.model.conversation import Message
from coterie.model.envelope import PlanTask, Report
from coterie.model.interaction import COTERIE, Ask, Option
from coterie.model.record import ErrorRecord
from coterie.model.task import Ended, Stop, Stopped, TaskCreated
from coterie.model.ticket import BASE_COMMIT, Ticket
from coterie.ports import Context, Parked
from coterie.workflows.chat import STOP, answer_or_stop
from coterie.workflows.tickets.final_report import conclude, confirmed_report
from coterie.workflows.tickets.messenger import Draft
from coterie.workflows.tickets.planner import Planner
from coterie.workflows.tickets.ticket_run import SessionServices
from coterie.workflows.tickets.tracker import DROPPED
from coterie.workflows.tickets.work import run_ticket
from coterie.workspace.ticket_worktrees import TicketWorktrees, open_ticket_worktrees

_STAYS = "what was done so far stays in its folder"
_RESET = Option(id="reset", label="try it again", style="primary", detail=_STAYS)
_DROP = Option(id="drop", label="drop it and the tickets that need it", style="danger")


class TicketScheduler:
    """Carries out one goal, starting from whatever is stored about it."""

    def __init__(self, task: TaskCreated, context: Context) -> None:
        self._task = task
        self._context = context
        self._services = services = SessionServices(task, context)
        self._tracker = services.tracker
        self._planner = Planner(services)
        self._scopes: dict[str, anyio.CancelScope] = {}
        """The work in progress, by ticket."""
        self._parked: dict[str, Stop] = {}
        """What parked work waits for, by ticket."""
        self._read = 0
        """The number of the last message that the plan takes into account, or will."""
        self._wake = anyio.Event()

    async def run(self) -> Ended:
        services, tracker = self._services, self._tracker
        tickets, envelopes = await self._context.tickets()
        await services.messenger.open(envelopes)
        tracker.load(tickets, envelopes)
        services.workers.load(tracker.assigned)
        base = str(await self._context.step(BASE_COMMIT, [], self._begin))
        if not tracker.plans:
            clarified = await self._planner.clarify()
            plan = await self._planner.plan(clarified)
            await tracker.adopt(plan, services.manager.id)
        self._context.caught_up()
        self._read = await self._read_for(self._tracker.plans)
        services.worktrees = await self._worktrees(base)
        await self._share()
        return await self._to_the_end()

    async def _share(self) -> None:
        """Fetch what other machines did, and set up sending them what is done here."""
        worktrees, sharing = self._services.worktrees, self._context.sharing
        if worktrees is None or sharing is None:
            return
        from coterie.workflows.shared_branches import SharedBranches, SharedFiles

        timeout = self._task.scheduler.time_limits.work * 60
        branches = SharedBranches(sharing, worktrees, timeout, self._context.tell)
        self._services.branches = branches
        self._services.files = files = SharedFiles(sharing, worktrees.root, worktrees.session)
        await files.take_in()
        if not await branches.take_in_all():
            await branches.send_base()

    async def _to_the_end(self) -> Ended:
        """Work until everything is done and the user has confirmed the report."""
        while True:
            await self._carry_out()
            await self._read_messages()
            if self._unread:
                continue
            outcome = await confirmed_report(self._services)
            await self._read_messages()
            if isinstance(outcome, str):
                await self._replan(f"the user saw the final report and says: {outcome}")
            elif not self._unread:  # otherwise they said something while they looked at it
                return await conclude(self._services, outcome)

    async def _begin(self) -> object:
        worktrees = await self._worktrees(self._task.base)
        return worktrees.base if worktrees else ""

    async def _worktrees(self, base: str | None) -> TicketWorktrees | None:
        root, session = self._context.root, self._task.session_id
        return await anyio.to_thread.run_sync(open_ticket_worktrees, root, session, base)

    async def _carry_out(self) -> None:
        parked: Stop | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(self._listen)
            group.start_soon(StallWatch(self._services).watch)
            try:
                await self._run_tickets(group)
            except Parked as early:
                parked = early.stop
                while self._scopes:  # work in progress need not be lost
                    await self._next_wake()
            group.cancel_scope.cancel()
        if parked is not None:
            self._context.park(parked)

    async def _run_tickets(self, group: TaskGroup) -> None:
        """Start what can start and help what has failed, until nothing is left."""
        shared = self._services.worktrees is None
        while self._unread or not self._tracker.index.is_over:
            for ticket in self._startable(shared=shared):
                self._scopes[ticket.id] = anyio.CancelScope()
                group.start_soon(self._run_ticket, ticket.id)
            if not await self._handle_changes():
                await self._next_wake()

    async def _next_wake(self) -> None:
        """Wait until a ticket's run ended or the user said something."""
        await self._wake.wait()
        self._wake = anyio.Event()

    def _startable(self, *, shared: bool) -> list[Ticket]:
        """Tickets that can start now, within the limit, without changing the same files."""
        chosen: list[Ticket] = []
        busy = [_outputs(self._tracker.part(ticket_id)) for ticket_id in self._scopes]
        for ticket in self._tracker.index.runnable:
            if len(busy) >= self._task.scheduler.concurrency:
                break
            if ticket.id in self._scopes or ticket.id in self._parked:
                continue
            outputs = _outputs(self._tracker.part(ticket.id))
            if not any(_overlap(outputs, others, shared=shared) for others in busy):
                chosen.append(ticket)
                busy.append(outputs)
        return chosen

    async def _run_ticket(self, ticket_id: str) -> None:
        """Run one ticket's work until it ends, parks, or is canceled."""
        try:
            with self._scopes[ticket_id]:
                await run_ticket(self._services, ticket_id)
        except Parked as parked:
            self._parked[ticket_id] = parked.stop
        finally:
            del self._scopes[ticket_id]
            self._wake.set()

    async def _handle_changes(self) -> bool:
        """Replan for what the user said, help what failed; return whether anything was done."""
        if unread := self._unread:
            self._read = unread[-1].seq
            await self._replan("the user said: " + " / ".join(one.text for one in unread))
            return True
        if self._scopes:
            return False
        await self._drop_stranded()  # left by a run that was killed while it dropped them
        if failed := self._tracker.index.failed:
            await self._help(failed)
        elif not self._startable(shared=False) and not self._tracker.index.is_over:
            self._context.park(next(iter(self._parked.values()), Stopped("question")))
        return True

    @property
    def _unread(self) -> list[Message]:
        """What people have said that no plan takes into account yet."""
        conversation, team = self._context.conversation, self._task.team
        return [one for one in conversation if one.seq > self._read and team.is_person(one.member)]

    async def _read_for(self, plan: int) -> int:
        """Return the number of the last message that a plan takes into account.

        Recorded before the plan is: more may be said while the manager makes it.
        """
        planned_at = self._tracker.planned_at

        async def read() -> object:
            seqs = (one.seq for one in self._context.conversation if one.at <= planned_at)
            return self._read or max(seqs, default=0)  # the latter for the first plan

        return cast("int", await self._context.step(f"plan/{plan}/read", [], read))

    async def _listen(self) -> None:
        """Take in what people say."""
        while True:
            await self._context.words()
            await self._read_messages()
            self._wake.set()

    async def _read_messages(self) -> None:
        await self._context.heard(step_name.messages_before(len(self._context.conversation)))

    async def _replan(self, why: str) -> None:
        plan = await self._planner.replan(why)
        kept = {task.task_id for task in plan.tasks}
        for ticket_id, scope in self._scopes.items():
            if self._tracker.ticket(ticket_id).task_id not in kept:
                scope.cancel()
        while any(self._tracker.ticket(one).task_id not in kept for one in self._scopes):
            await self._next_wake()
        await self._read_for(self._tracker.plans + 1)
        await self._tracker.adopt(plan, self._services.manager.id)
        for ticket_id, scope in self._scopes.items():
            if self._tracker.index.is_waiting(ticket_id):  # for what the new plan puts before it
                scope.cancel()

    async def _help(self, failed: Sequence[Ticket]) -> None:
        """Handle tickets that failed for good: the manager replans; later on, the user decides."""
        if self._tracker.plans <= self._task.scheduler.replans:
            why = "; ".join(f"{t.id} failed: {t.reason}" for t in failed)
            hint = "The manager replans."
            first = failed[0].owner or COTERIE
            where, task = self._services.messenger.folder(first), self._task.task_id
            self._context.tell(ErrorRecord("ticket_failed", why, hint, first, where, task))
            await self._replan(why)
            return
        for ticket in failed:
            await self._ask_about(ticket)

    async def _ask_about(self, ticket: Ticket) -> None:
        question = Ask(
            COTERIE,
            "Select",
            FailedTicket(ticket=ticket.id, title=ticket.title, reason=ticket.reason),
            options=(_RESET, _DROP, STOP),
            intent=[ticket.id, len(ticket.history)],
        )
        name = step_name.ticket(ticket.id, len(ticket.history), "failed")
        answer = await answer_or_stop(self._context, name, question)
        choice = answer.response.selected_option_id
        if choice == _RESET.id:
            await self._tracker.move(ticket.id, "pending", "reset by hand")
        elif choice == _DROP.id:
            await self._drop(ticket)
            await self._drop_stranded()
        else:  # an earlier run was stopped here: ask again
            await self._tracker.note(ticket.id, "resumed", "the run was stopped here")

    async def _drop(self, ticket: Ticket) -> None:
        await self._tracker.close(ticket.id, DROPPED, "dropped by the user")

    async def _drop_stranded(self) -> None:
        """Drop the tickets that need a dropped one, and those that need these."""
        while stranded := self._tracker.index.stranded:
            for ticket in stranded:
                await self._drop(ticket)


def _outputs(part: PlanTask) -> list[tuple[str, ...]]:
    """Return the files that a part of the plan says it changes, each as the parts of its path."""
    return [PurePosixPath(name).parts for name in part.expected_outputs]


def _overlap(
    mine: Sequence[tuple[str, ...]], theirs: Sequence[tuple[str, ...]], *, shared: bool
) -> bool:
    """Whether two parts may change the same files; in a shared folder, unless both say which."""
    if shared and not (mine and theirs):
        return True
    return any(a[: len(b)] == b[: len(a)] for a in mine for b in theirs)


class StallWatch:
    """Announces, once, tickets that wait too long for one that makes no progress."""

    def __init__(self, services: SessionServices) -> None:
        # Time during which no process ran the session does not count.
        self._since = instant.now()
        self._services = services

    async def watch(self) -> None:
        """Announce whatever makes no progress for longer than the team allows; never returns."""
        while True:
            seconds = await self.announce(self._services.config.alerts.stalled * 60)
            await anyio.sleep(seconds)

    async def announce(self, limit: float) -> float:
        """Announce what made no progress for `limit` seconds; return the seconds until the next
        look."""
        soonest = limit
        for stuck, waiting in list(self._services.tracker.index.blocking):
            last = max(stuck.history[-1].at, self._since)
            left = limit - instant.seconds_between(last, instant.now())
            if left <= 0:
                await self._announce(stuck, waiting)
            else:
                soonest = min(soonest, left)
        return soonest

    async def _announce(self, stuck: Ticket, waiting: Ticket) -> None:
        last = stuck.history[-1].at
        if waiting.stalls.get(stuck.id, "") >= last:
            return
        what = f"which is {stuck.state}" + (f" ({stuck.owner})" if stuck.owner else "")
        why = f"waits for {stuck.id}, {what} and has not moved since {last}"
        report = Report(
            status="blocked",
            issues=(f"{waiting.id} {why}.",),
            next_actions=(f"Look at {stuck.id}.",),
        )
        services, task = self._services, self._services.task.task_id
        draft = Draft(COTERIE, services.manager.id, report, waiting.id)
        await services.tracker.note(waiting.id, "stalled", why, draft, stuck=stuck.id)
        record = ErrorRecord(
            "stalled",
            f"{waiting.id} {why}.",
            f"coterie show {task}",
            stuck.owner,
            services.messenger.folder(stuck.owner or "") or None,
            task,
        )
        services.context.tell(record)
