"""A ticket's stages before review: prepared, worked on, and got going again where it is blocked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import anyio.to_thread

from coterie.errors import GitFailed
from coterie.model.about import OutsideEdits, TicketHelp
from coterie.model.envelope import ArtifactRef, Error, Instruction, InstructionProposal, Report
from coterie.model.interaction import Ask, Option, Validation
from coterie.model.record import ErrorRecord
from coterie.model.team import Member
from coterie.model.update import TurnFailed
from coterie.workflows.tickets.messenger import COTERIE, Draft, PayloadRequest
from coterie.workflows.tickets.review import ReviewStage
from coterie.workflows.tickets.ticket_run import TicketRun
from coterie.workspace.session_files import keep_artifact

_MOST_OUTPUTS = 50
"""Of more than these nobody would look at each."""
_OUTSIDE = "outside_worktree"
"""The code of the error about changes to the user's own files."""


async def run_ticket(run: TicketRun) -> None:
    """Work until the ticket is done, or has failed for good."""
    while run.ticket.state not in ("done", "error") and run.ticket.closed_by is None:
        match run.ticket.state:
            case "pending" | "discussing":
                await PrepareStage(run).prepare()
            case "in_progress":
                await WorkStage(run).work()
            case "blocked":
                await BlockedStage(run).unblock()
            case _:
                await ReviewStage(run).review()


def _at_work(run: TicketRun, worker: Member, folder: str) -> Member:
    """A worker in the ticket's folder, with a limit to its turn."""
    limit = worker.timeout_ms or round(run.services.config.time_limits.work * 60_000)
    own = {"execution_dir": folder, "work": "link", "timeout_ms": limit}
    return worker.model_copy(update=own)


@dataclass(frozen=True)
class PrepareStage:
    """Assigns a ticket to a worker, discusses it where it is risky, and instructs."""

    run: TicketRun

    async def prepare(self) -> None:
        """From pending or discussing to in_progress."""
        run, services = self.run, self.run.services
        owner = run.ticket.owner if run.ticket.state == "discussing" else None
        seat = owner or await services.workers.assign(run.part, run.failed_workers)
        async with services.workers.occupy(seat) as worker:
            discussion = await self._discuss(worker) if run.part.risks else ""
            instruction = await run.instruction(
                "instruct", worker=seat, outputs=run.part.expected_outputs, discussion=discussion
            )
            draft = run.draft(services.manager.id, seat, instruction)
            await run.move("in_progress", "instructed", draft, owner=seat)

    async def _discuss(self, worker: Member) -> str:
        """What manager and worker say about a risky ticket before it is done."""
        run, services = self.run, self.run.services
        proposal = services.tracker.last(run.id, InstructionProposal)
        if run.ticket.state == "pending":
            text = services.messenger.prompt(
                "propose",
                ticket=run.id,
                risks="; ".join(run.part.risks),
                description=run.part.description,
                worker=worker.id,
            )
            name = run.step("propose", "manager")
            reply = await services.manager.ask(name, text, "instruction_proposal", run.id)
            assert isinstance(reply, InstructionProposal)
            proposal = reply
            draft = run.draft(services.manager.id, worker.id, proposal)
            await run.move("discussing", "talked over", draft, owner=worker.id)
        return await self._opinion(worker, proposal) if proposal else ""

    async def _opinion(self, worker: Member, proposal: InstructionProposal) -> str:
        """The proposal and what the worker says about it, if it answers."""
        run, services = self.run, self.run.services
        shown = f"You proposed:\n{proposal.model_dump_json(indent=2)}"
        opinion = self._recorded_opinion()
        if opinion is None:
            text = services.messenger.prompt(
                "discuss", ticket=run.id, description=run.part.description, proposal=shown
            )
            at_work = _at_work(run, worker, str(await run.folder()))
            request = PayloadRequest(text, "report", run.id)
            reply = await services.messenger.ask(run.step("discuss"), at_work, request)
            if not isinstance(reply, Report):
                return shown
            opinion, draft = reply, run.to_manager(worker.id, reply)
            await services.tracker.note(run.id, "discussed", f"{worker.id} answered", draft)
        return f"{shown}\n\n{worker.id} says:\n{opinion.model_dump_json(indent=2)}"

    def _recorded_opinion(self) -> Report | None:
        """The worker's answer to the newest proposal, from a run that was killed after it."""
        for payload in self.run.newest_payloads:
            if isinstance(payload, Report | InstructionProposal):
                return payload if isinstance(payload, Report) else None
        return None


@dataclass(frozen=True)
class WorkResult:
    """What came of a worker's turn."""

    report: Report | TurnFailed
    strays: tuple[str, ...] = ()
    """Files of the user's own that changed meanwhile."""
    uncommitted: str = ""
    """Why its work could not be committed."""
    artifacts: tuple[ArtifactRef, ...] = ()
    """Outputs that are not committed."""


@dataclass(frozen=True)
class WorkStage:
    """A worker's turn on a ticket."""

    run: TicketRun

    async def work(self) -> None:
        """From in_progress to awaiting_review, or to blocked."""
        run, services = self.run, self.run.services
        seat = run.ticket.owner or services.workers.workers[0].id
        instruction = services.tracker.last(run.id, Instruction)
        assert instruction is not None  # in_progress comes with one
        async with services.workers.occupy(seat) as worker:
            result = await self._turn(worker, instruction)
        if result.strays:
            await self._outside(seat, result)
        elif isinstance(result.report, TurnFailed):
            error = _failure(result.report)
            await run.move("blocked", error.message, run.to_manager(seat, error))
        elif result.uncommitted:
            error = Error(
                code="not_committed",
                message=f"The work cannot be committed: {result.uncommitted}",
                resolution_hint="Take it out of the folder, or make it part of the project.",
            )
            await run.move("blocked", error.message, run.to_owner(error))
        else:
            await self._accept(seat, result.report, result.artifacts)

    async def _turn(self, worker: Member, instruction: Instruction) -> WorkResult:
        """The worker's turn, and its work committed, whatever it reports."""
        run, services = self.run, self.run.services
        folder = await run.folder()
        conflicts = await self._update()
        before = await services.project.state()
        text = self._prompt(worker, instruction, conflicts)
        report = await services.messenger.ask(
            run.step("work"),
            _at_work(run, worker, str(folder)),
            # A failure blocks the ticket, which is then retried by whoever can.
            PayloadRequest(text, "report", run.id, tries=1),
        )
        assert isinstance(report, Report | TurnFailed)
        strays = await services.project.changed_since(before)
        try:
            await self._commit()
        except GitFailed as problem:
            return WorkResult(report, strays, problem.said)
        return WorkResult(report, strays, artifacts=await self._artifacts(report))

    async def _commit(self) -> None:
        run = self.run
        await run.git(run.services.folders.commit, run.id, f"{run.id}: {run.ticket.title}")

    async def _artifacts(self, report: Report | TurnFailed) -> tuple[ArtifactRef, ...]:
        """The outputs that no commit keeps: they would be gone with the worktree."""
        if not isinstance(report, Report) or not report.outputs:
            return ()
        run, services = self.run, self.run.services
        made = await run.git(services.folders.unkept, run.id, report.outputs[:_MOST_OUTPUTS])
        root, session = services.context.root, services.task.session_id
        kept = [
            await anyio.to_thread.run_sync(keep_artifact, root, session, run.id, path)
            for path in made
        ]
        return tuple(artifact for artifact in kept if artifact is not None)

    async def _update(self) -> tuple[str, ...]:
        """Put what was approved since below work that was sent back; the files that conflict."""
        run = self.run
        if not run.times("awaiting_review"):
            return ()
        try:
            # What a turn that was killed left behind is kept before anything is put over it.
            await self._commit()
            return await run.git(run.services.folders.bring_up_to_date, run.id)
        except GitFailed:
            return ()  # the commit after the turn fails too, and that is reported

    async def _accept(self, seat: str, report: Report, artifacts: Sequence[ArtifactRef]) -> None:
        run = self.run
        drafts = [run.to_manager(seat, payload) for payload in (*artifacts, report)]
        if report.status == "completed":
            await run.move("awaiting_review", f"{seat} reported", *drafts)
            return
        needs = "; ".join([*report.issues, *report.next_actions]) or f"it reported {report.status}"
        await run.move("blocked", needs, *drafts)

    async def _outside(self, seat: str, result: WorkResult) -> None:
        """Files of the user's own changed meanwhile: only the user knows who did that."""
        run, report = self.run, result.report
        files = ", ".join(result.strays)
        error = Error(
            code=_OUTSIDE,
            message=f"While {seat} worked on {run.id}, files outside its folder changed: {files}",
            resolution_hint="Work in your own folder only. Nothing was put back.",
        )
        payload = report if isinstance(report, Report) else _failure(report)
        drafts = (run.to_manager(seat, payload), run.to_owner(error))
        await run.move("blocked", error.message, *drafts)
        record = ErrorRecord(
            _OUTSIDE, error.message, "coterie inbox", seat, task=run.services.task.task_id
        )
        run.services.context.tell(record)

    def _prompt(self, worker: Member, instruction: Instruction, conflicts: tuple[str, ...]) -> str:
        return self.run.services.messenger.prompt(
            "work",
            worker=worker.id,
            ticket=self.run.id,
            summary=instruction.summary,
            steps=instruction.steps,
            resources=instruction.resources,
            criteria=[
                one.text + (f" (checked by: {one.command})" if one.command else "")
                for one in instruction.acceptance_criteria
            ],
            changes="\n".join(self._earlier(conflicts)),
        )

    def _earlier(self, conflicts: tuple[str, ...]) -> list[str]:
        """What a worker must know about what happened to the ticket so far."""
        ticket, told = self.run.ticket, list[str]()
        if any(moment.event == "awaiting_review" for moment in ticket.history):
            told.append(f"It was sent back:\n{ticket.reason}")
        if conflicts:
            told.append(f"Both versions stand between conflict marks in: {', '.join(conflicts)}")
        blocked = [moment.message for moment in ticket.history if moment.event == "blocked"]
        if blocked:
            told.append(
                f"An earlier try ended with: {blocked[-1]}\nWhat it did is still in the folder: "
                "look at it before you begin."
            )
        return told


def _failure(failure: TurnFailed) -> Error:
    """A worker that gave no report: nobody knows about any work, so it is done again."""
    return Error(
        code="timeout" if failure.kind == "timeout" else f"worker_{failure.kind}",
        message=failure.message or failure.kind,
        resolution_hint=failure.hint or "It is tried again, by another worker if there is one.",
    )


@dataclass(frozen=True)
class BlockedStage:
    """Gets a blocked ticket going again: retried, instructed anew, or given up."""

    run: TicketRun

    async def unblock(self) -> None:
        """From blocked to in_progress, or to error where it was blocked too often."""
        run, workers = self.run, self.run.services.workers
        newest = next(iter(run.newest_payloads), None)
        if isinstance(newest, Error) and newest.code == _OUTSIDE:
            await self._ask_whose_edit(newest)
        elif run.times("blocked") > run.services.config.retries:
            await self._give_up()
        elif isinstance(newest, Error):
            # Its agent failed, not the instruction: that stays.
            seat = await workers.assign(run.part, run.failed_workers)
            await run.move("in_progress", f"again, by {seat}", owner=seat)
        else:
            await self._instruct()

    async def _give_up(self) -> None:
        run, why = self.run, self.run.ticket.reason
        error = Error(
            code="retries_exceeded",
            message=f"{run.id} was blocked {run.times('blocked')} times: {why}",
            resolution_hint="The manager plans anew, or you: coterie tickets reset.",
        )
        await run.move("error", why, run.to_manager(COTERIE, error))

    async def _instruct(self) -> None:
        """Have the manager instruct the worker anew, with the user's help where it asks for it."""
        run = self.run
        owner = run.ticket.owner or ""
        instruction = await run.instruction("unblock", worker=owner, trouble=run.ticket.reason)
        if instruction.ask_user:
            instruction = await self._with_users_help(instruction, instruction.ask_user)
        draft = Draft(run.services.manager.id, owner, instruction, run.id)
        await run.move("in_progress", "instructed anew", draft)

    async def _with_users_help(self, instruction: Instruction, wanted: str) -> Instruction:
        run = self.run
        question = Ask(
            run.services.manager.id,
            "Input",
            TicketHelp(ticket=run.id, question=wanted),
            "request_info",
            validation=Validation(required=True),
        )
        answer = await run.services.context.ask(run.step("help", "manager"), question)
        given = answer.response.input_value or ""
        asked = "\n".join(dict.fromkeys((instruction.summary, wanted)))
        return instruction.model_copy(
            update={
                "summary": f"{asked}\nThe user says: {given}",
                "resources": (*instruction.resources, given),
            }
        )

    async def _ask_whose_edit(self, error: Error) -> None:
        """Only the user knows who changed files outside the ticket's folder."""
        run, owner = self.run, self.run.ticket.owner or ""
        question = Ask(
            COTERIE,
            "Select",
            OutsideEdits(ticket=run.id, worker=owner, message=error.message),
            options=(
                Option(id="mine", label="I changed them: go on", style="primary"),
                Option(id="redo", label=f"not I: {owner} works on {run.id} again"),
            ),
            intent=[run.id, len(run.ticket.history)],
        )
        answer = await run.services.context.ask(run.step("outside"), question)
        if answer.response.selected_option_id != "mine":
            await run.move("in_progress", f"again, by {owner}: {error.message}")
            return
        await run.move("in_progress", "the user changed those files")
        reports = [one for one in run.newest_payloads[:2] if isinstance(one, Report)]
        if reports and reports[0].status == "completed":
            await run.move("awaiting_review", f"{owner} reported")
