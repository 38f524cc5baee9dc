"""A ticket's stages before review: preparation and work."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import anyio.to_thread

from coterie.errors import ArtifactWrong, GitFailed
from coterie.model.envelope import (
    ArtifactRef,
    Error,
    Instruction,
    InstructionProposal,
    Report,
)
from coterie.model.record import ErrorRecord
from coterie.model.team import Member
from coterie.model.ticket import STATES, Ticket
from coterie.model.update import TurnFailed
from coterie.workflows.tickets.blocked import OUTSIDE, BlockedStage, failure_code
from coterie.workflows.tickets.messenger import Draft, PayloadRequest
from coterie.workflows.tickets.replies import ReportReply
from coterie.workflows.tickets.review import ReviewStage
from coterie.workflows.tickets.ticket_run import SessionServices, TicketRun
from coterie.workspace.session_files import register_artifact
from coterie.workspace.ticket_worktrees import TicketWorktrees

_MOST_OUTPUTS = 50
"""How many outputs of a turn are kept: nobody would look at each of more than these."""


async def run_ticket(services: SessionServices, ticket_id: str) -> None:
    """Work on a ticket until it is done or has failed for good."""
    while True:
        match services.tracker.ticket(ticket_id):
            case Ticket(state="done" | "error") | Ticket(closed_by=str()):
                return
            case Ticket(state="pending" | "discussing"):
                await PrepareStage(services, ticket_id).prepare()
            case Ticket(state="in_progress"):
                await WorkStage(services, ticket_id).work()
            case Ticket(state="blocked"):
                await BlockedStage(services, ticket_id).unblock()
            case _:
                await ReviewStage(services, ticket_id).review()


class PrepareStage(TicketRun):
    """Assigns a ticket to a worker, discusses it if it is risky, and instructs the worker."""

    async def prepare(self) -> None:
        """Move from pending or discussing to in_progress."""
        services = self.services
        owner = self.ticket.owner if self.ticket.state == "discussing" else None
        instance = owner or await services.workers.assign(self.part, self.failed_workers)
        async with services.workers.occupy(instance) as worker:
            discussion = await self._discuss(worker) if self.part.risks else ""
            facts = {"outputs": self.part.expected_outputs, "discussion": discussion}
            instruction = await self.ask_manager("instruct", Instruction, worker=instance, **facts)
            draft = Draft(services.manager.id, instance, instruction, self.id)
            await self.move("in_progress", "instructed", draft, owner=instance)

    async def _discuss(self, worker: Member) -> str:
        """Have manager and worker discuss a risky ticket first; return what they said."""
        services = self.services
        proposal = services.tracker.last(self.id, InstructionProposal)
        if self.ticket.state == "pending":
            risks = "; ".join(self.part.risks)
            proposal = await self.ask_manager(
                "propose", InstructionProposal, risks=risks, worker=worker.id
            )
            draft = Draft(services.manager.id, worker.id, proposal, self.id)
            await self.move("discussing", "asking the worker first", draft, owner=worker.id)
        return await self._opinion(worker, proposal) if proposal else ""

    async def _opinion(self, worker: Member, proposal: InstructionProposal) -> str:
        """Return the proposal, and what the worker says about it if it answers."""
        services = self.services
        shown = f"You proposed:\n{proposal.model_dump_json(indent=2)}"
        opinion = self._recorded_opinion()
        if opinion is None:
            text = self.prompt("discuss", proposal=shown)
            request = PayloadRequest(text, Report, self.id, topic=self.id)
            at_work = await self.at_work(worker)
            reply = await services.messenger.ask(self.step("discuss"), at_work, request)
            if isinstance(reply, TurnFailed):
                return shown
            opinion, draft = reply, self.to_manager(worker.id, reply)
            await services.tracker.note(self.id, "discussed", f"{worker.id} answered", draft)
        return f"{shown}\n\n{worker.id} says:\n{opinion.model_dump_json(indent=2)}"

    def _recorded_opinion(self) -> Report | None:
        """Return the worker's answer to the newest proposal, left by a run killed after it."""
        for payload in self.newest_payloads:
            if isinstance(payload, Report | InstructionProposal):
                return payload if isinstance(payload, Report) else None
        return None


@dataclass(frozen=True)
class WorkResult:
    """The outcome of a worker's turn."""

    report: Report | TurnFailed
    registered: tuple[ArtifactRef | Error, ...] = ()
    """The artifacts the worker registered, with an error in place of each invalid one."""
    strays: tuple[str, ...] = ()
    """The user's own files that changed meanwhile."""
    uncommitted: str = ""
    """Why the work could not be committed."""
    artifacts: tuple[ArtifactRef, ...] = ()
    """Outputs that are not committed."""


class WorkStage(TicketRun):
    """A worker's turn on a ticket."""

    async def work(self) -> None:
        """Move from in_progress to awaiting_review, or to blocked."""
        services = self.services
        instance = self.ticket.owner or services.workers.workers[0].id
        instruction = services.tracker.last(self.id, Instruction)
        assert instruction is not None  # a ticket in progress has one
        async with services.workers.occupy(instance) as worker:
            result = await self._turn(worker, instruction)
        artifacts = [
            self.to_owner(one) if isinstance(one, Error) else self.to_manager(instance, one)
            for one in (*result.registered, *result.artifacts)
        ]
        outcome = self._outcome(instance, result)
        if result.strays:
            await self._outside(instance, result.strays, *artifacts, outcome)
        else:
            await self.settle(outcome, *artifacts, outcome)

    def _outcome(self, instance: str, result: WorkResult) -> Draft:
        """Return the message that decides how the ticket goes on: the report, or an error."""
        report = result.report
        if isinstance(report, TurnFailed):
            error = self._failure(instance, report)
            # Work that did not arrive here is not the worker's fault.
            unsent = report.kind == "not_sent"
            return self.to_owner(error) if unsent else self.to_manager(instance, error)
        if result.uncommitted:
            error = Error(
                code="not_committed",
                message=f"The work of {self.named(instance)} cannot be committed: "
                f"{result.uncommitted}",
                resolution_hint="Remove it from the folder, or make it part of the project.",
            )
            return self.to_owner(error)
        return self.to_manager(instance, report)

    async def _turn(self, worker: Member, instruction: Instruction) -> WorkResult:
        """Have the worker take its turn, and commit its work whatever it reports."""
        services = self.services
        at_work = await self.at_work(worker)
        conflicts = await self._update()
        before = await self.git(services.project.state, None)
        marked = await self.git(lambda trees, ticket: trees.unresolved(ticket, conflicts), ())
        text = self._prompt(worker, instruction, conflicts, marked)
        reply = await self._reply(worker, at_work, text)
        after = await self.git(services.project.state, None)
        strays = services.project.changes(before, after)
        if isinstance(reply, TurnFailed):
            report, registered = reply, ()
        else:
            report = reply.report
            registered = await self._registered(worker.id, at_work, reply.artifacts)
        try:
            await self._commit()
        except GitFailed as problem:
            return WorkResult(report, registered, strays, problem.output)
        artifacts = await self._artifacts(
            report, {one.digest for one in registered if isinstance(one, ArtifactRef)}
        )
        return WorkResult(report, registered, strays, artifacts=artifacts)

    async def _reply(self, worker: Member, at_work: Member, text: str) -> ReportReply | TurnFailed:
        """Return the worker's reply, from here or from whichever machine has its agent."""
        services, step = self.services, self.step("work")
        if services.branches is not None:
            from coterie.workflows.tickets.handed_out import run_turn_remotely

            return await run_turn_remotely(self, worker, at_work, text)
        # A failure blocks the ticket, which is then retried by any worker who can.
        asked = PayloadRequest(text, ReportReply, self.id, 1, self.id, self._keep)
        return await services.messenger.ask(step, at_work, asked)

    async def _registered(
        self, instance: str, worker: Member, named: Sequence[ArtifactRef]
    ) -> tuple[ArtifactRef | Error, ...]:
        """Check the files that a worker registers and copy them to the session's artifacts."""
        services = self.services
        place = (services.context.root, services.task.session_id, self.id)
        registered: list[ArtifactRef | Error] = []
        for one in named[:_MOST_OUTPUTS]:
            folder = Path(worker.execution_dir or services.context.root)
            try:
                artifact = await anyio.to_thread.run_sync(register_artifact, *place, folder, one)
            except ArtifactWrong as problem:
                message = f"{self.named(instance)}: {problem}"
                hint = problem.hint or ""
                registered.append(Error(code=problem.code, message=message, resolution_hint=hint))
            else:
                registered.append(artifact)
        return tuple(registered)

    async def _commit(self) -> None:
        message = f"{self.id}: {self.ticket.title}"
        await self.git(lambda worktrees, ticket: worktrees.commit(ticket, message), "")

    async def _keep(self) -> None:
        """Commit the work of a turn whose report is requested again."""
        with suppress(GitFailed):  # the commit after the report fails too, and that is reported
            await self._commit()

    async def _artifacts(
        self, report: Report | TurnFailed, known: Collection[str | None]
    ) -> tuple[ArtifactRef, ...]:
        """Keep the outputs that are in no commit.

        `known` are the digests of what the worker registered itself.
        """
        if not isinstance(report, Report) or not report.outputs:
            return ()
        names = report.outputs[:_MOST_OUTPUTS]
        stored = await self.git(lambda work, ticket: work.store_uncommitted(ticket, names), [])
        return tuple(one for one in stored if one.digest not in known)

    async def _update(self) -> tuple[str, ...]:
        """Merge what was approved since into work that was sent back; return the conflicts."""
        if not self.times("awaiting_review"):
            return ()
        try:
            # Commit what a killed turn left behind before anything is merged over it.
            await self._commit()
            return await self.git(TicketWorktrees.merge_approved, ())
        except GitFailed:
            return ()  # the commit after the turn fails too, and that is reported

    async def _outside(self, instance: str, strays: Sequence[str], *drafts: Draft) -> None:
        """Block the ticket: the user's own files changed, and only they know who did that."""
        files = ", ".join(strays)
        error = Error(
            code=OUTSIDE,
            message=f"While {self.named(instance)} worked on {self.id}, "
            f"files outside its worktree changed: {files}",
            resolution_hint="Work in your own folder only. Nothing was reverted.",
        )
        await self.move("blocked", error.message, *drafts, self.to_owner(error))
        where, task = self.services.messenger.folder(instance), self.services.task.task_id
        record = ErrorRecord(OUTSIDE, error.message, "coterie inbox", instance, where, task)
        self.services.context.tell(record)

    def _failure(self, instance: str, failure: TurnFailed) -> Error:
        """Return the error for a worker without a report: its work is unknown and done again."""
        code = failure_code(failure.kind)
        if failure.kind == "not_sent":
            hint = "Make sure that the remote can be reached from there. Coterie will try again."
            message = f"The work of {self.named(instance)} did not arrive. {failure.message}"
            return Error(code=code, message=message, resolution_hint=hint)
        return Error(
            code=code,
            message=f"{self.named(instance)}: {failure.message or failure.kind}",
            resolution_hint=failure.hint
            or "Coterie tries it again, with another worker if one can do it.",
        )

    def _prompt(
        self,
        worker: Member,
        instruction: Instruction,
        conflicts: tuple[str, ...],
        marked: tuple[str, ...],
    ) -> str:
        return self.prompt(
            "work",
            worker=worker.id,
            summary=instruction.summary,
            steps=instruction.steps,
            resources=instruction.resources,
            criteria=[
                one.text + (f" (checked by: {one.command})" if one.command else "")
                for one in instruction.acceptance_criteria
            ],
            changes="\n".join(self._earlier(conflicts, marked)),
        )

    def _earlier(self, conflicts: tuple[str, ...], marked: tuple[str, ...]) -> list[str]:
        """Return what a worker must know about the ticket's history."""
        states, notes = [one for one in self.ticket.history if one.event in STATES], list[str]()
        notes += [
            f"It was sent back:\n{after.message}"
            for before, after in pairwise(states)
            if (before.event, after.event) == ("awaiting_review", "in_progress")
        ][-1:]
        if marked:
            notes.append(f"Both versions are between conflict markers in: {', '.join(marked)}")
        if alone := [name for name in conflicts if name not in marked]:
            notes.append(
                "Approved work changed these files too, and they cannot be merged; your folder has "
                f"only one of the versions: {', '.join(alone)}"
            )
        blocked = [moment.message for moment in states if moment.event == "blocked"]
        if blocked:
            notes.append(
                f"An earlier attempt ended with: {blocked[-1]}\nIts work is still in the folder: "
                "look at it before you begin."
            )
        return notes
