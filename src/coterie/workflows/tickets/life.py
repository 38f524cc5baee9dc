"""One ticket's life, from pending to done or to error; goes on from whatever state it is in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import anyio.to_thread

from coterie.errors import GitFailed
from coterie.model.envelope import ArtifactRef, Error, Instruction, InstructionProposal, Report
from coterie.model.record import ErrorRecord
from coterie.model.team import Member
from coterie.model.update import TurnFailed
from coterie.workflows.tickets.aside import aside
from coterie.workflows.tickets.correspondence import COTERIE, Inquiry, Said
from coterie.workflows.tickets.crew import Crew, Job
from coterie.workflows.tickets.reviewing import Reviewing
from coterie.workflows.tickets.unblocking import OUTSIDE, Unblocking
from coterie.workspace.session_files import keep_artifact

_MOST_OUTPUTS = 50
"""Of more than these nobody would look at each."""


@dataclass(frozen=True)
class Done:
    """What came of a worker's turn."""

    report: Report | TurnFailed
    strays: tuple[str, ...] = ()
    """Files of the user's own that changed meanwhile."""
    uncommitted: str = ""
    """Why its work could not be committed."""
    artifacts: tuple[ArtifactRef, ...] = ()
    """What it made beside that, and named as its output."""


class Life:
    """The work on one ticket."""

    def __init__(self, crew: Crew, ticket_id: str) -> None:
        self._crew = crew
        self._job = Job(crew, ticket_id)

    async def to_its_end(self) -> None:
        """Work until the ticket is done, or has failed for good."""
        job = self._job
        while job.ticket.state not in ("done", "error") and job.ticket.closed_by is None:
            match job.ticket.state:
                case "pending" | "discussing":
                    await self._prepare()
                case "in_progress":
                    await self._work()
                case "blocked":
                    await Unblocking(job).unblock()
                case _:
                    await Reviewing(job).review()

    # -- before the work -----------------------------------------------------------------------

    async def _prepare(self) -> None:
        """Choose who works, talk a risky ticket over, instruct."""
        job, crew = self._job, self._crew
        owner = job.ticket.owner if job.ticket.state == "discussing" else None
        seat = owner or await crew.roster.choose(job.part, job.failed_workers)
        async with crew.roster.seat(seat) as worker:
            talk = await self._talk_over(worker) if job.part.risks else ""
            instruction = await job.manager_says(
                "instruct", worker=seat, outputs=job.part.expected_outputs, discussion=talk
            )
            said = Said(job.manager.id, seat, instruction, job.id)
            await crew.board.move(job.id, "in_progress", "instructed", said, owner=seat)

    async def _talk_over(self, worker: Member) -> str:
        """What manager and worker say of a risky ticket before it is done."""
        job, letters = self._job, self._crew.letters
        proposal = self._crew.board.last(job.id, InstructionProposal)
        if job.ticket.state == "pending":
            risks = "; ".join(job.part.risks)
            text = letters.prompt(
                "propose",
                ticket=job.id,
                risks=risks,
                description=job.part.description,
                worker=worker.id,
            )
            name = job.managers_step("propose")
            proposal = await self._crew.managing.say(name, text, "instruction_proposal", job.id)
            said = Said(job.manager.id, worker.id, proposal, job.id)
            await self._crew.board.move(job.id, "discussing", "talked over", said, owner=worker.id)
        return await self._opinion(worker, proposal) if proposal else ""

    async def _opinion(self, worker: Member, proposal: object) -> str:
        """The proposal and what the worker says of it, if it gives an answer."""
        job, letters = self._job, self._crew.letters
        assert isinstance(proposal, InstructionProposal)
        shown = f"You proposed:\n{proposal.model_dump_json(indent=2)}"
        text = letters.prompt(
            "discuss", ticket=job.id, description=job.part.description, proposal=shown
        )
        opinion = job.opinion  # a run before this one may have been cut after it was given
        if opinion is None:
            given = await letters.hear_from(
                job.step("discuss"),
                self._at_work(worker, str(await job.folder())),
                Inquiry(text, "report", job.id),
            )
            if not isinstance(given, Report):
                return shown
            said = Said(worker.id, job.manager.id, given, job.id)
            await self._crew.board.note(job.id, "discussed", f"{worker.id} answered", said)
            opinion = given
        return f"{shown}\n\n{worker.id} says:\n{opinion.model_dump_json(indent=2)}"

    # -- the work ------------------------------------------------------------------------------

    async def _work(self) -> None:
        job = self._job
        seat = job.ticket.owner or self._crew.roster.workers[0].id
        instruction = self._crew.board.last(job.id, Instruction)
        assert isinstance(instruction, Instruction)  # in_progress comes with one
        async with self._crew.roster.seat(seat) as worker:
            done = await self._turn(worker, instruction)
        if done.strays:
            await self._outside(seat, done)
        elif isinstance(done.report, TurnFailed):
            await self._blocked(self._failure(seat, done.report))
        elif done.uncommitted:
            await self._blocked(self._not_committed(seat, done.uncommitted))
        else:
            await self._take(seat, done.report, done.artifacts)

    async def _turn(self, worker: Member, instruction: Instruction) -> Done:
        """The worker's turn, and its work committed, whatever it says of it."""
        job, crew = self._job, self._crew
        folder = await job.folder()
        conflicts = await self._brought_up_to_date()
        before = await crew.outside.look()
        report = await crew.letters.hear_from(
            job.step("work"),
            self._at_work(worker, str(folder)),
            # A failure blocks the ticket, and that is what tries again, with whoever can.
            Inquiry(self._prompt(worker, instruction, conflicts), "report", job.id, tries=1),
        )
        assert isinstance(report, Report | TurnFailed)
        strays = tuple(await crew.outside.changed_since(before))
        try:
            message = f"{job.id}: {job.ticket.title}"
            await aside(crew.ground, crew.ground.commit, job.id, message)
        except GitFailed as problem:
            return Done(report, strays, problem.said)
        return Done(report, strays, artifacts=await self._artifacts(report))

    async def _artifacts(self, report: Report | TurnFailed) -> tuple[ArtifactRef, ...]:
        """The outputs that no commit keeps: they would be gone with the worktree."""
        if not isinstance(report, Report) or not report.outputs:
            return ()
        job, crew = self._job, self._crew
        made = await aside(crew.ground, crew.ground.unkept, job.id, report.outputs[:_MOST_OUTPUTS])
        root, session = crew.context.root, crew.letters.session_id
        kept = [
            await anyio.to_thread.run_sync(keep_artifact, root, session, job.id, one)
            for one in made
        ]
        return tuple(one for one in kept if one is not None)

    async def _brought_up_to_date(self) -> tuple[str, ...]:
        """Put what was approved since below work that was sent back; the files that conflict."""
        job, ground = self._job, self._crew.ground
        if not job.times("awaiting_review"):
            return ()
        try:
            # What a turn that was cut left behind is kept before anything is put over it.
            await aside(ground, ground.commit, job.id, f"{job.id}: {job.ticket.title}")
            return await aside(ground, ground.bring_up_to_date, job.id)
        except GitFailed:
            return ()  # whoever commits after the turn tells

    # -- what came of it -----------------------------------------------------------------------

    async def _take(self, seat: str, report: Report, artifacts: Sequence[ArtifactRef]) -> None:
        job = self._job
        said = [Said(seat, job.manager.id, one, job.id) for one in (*artifacts, report)]
        if report.status == "completed":
            await self._crew.board.move(job.id, "awaiting_review", f"{seat} reported", *said)
            return
        needs = "; ".join([*report.issues, *report.next_actions]) or f"it reported {report.status}"
        await self._crew.board.move(job.id, "blocked", needs, *said)

    async def _blocked(self, *said: Said) -> None:
        last = said[-1].payload
        why = last.message if isinstance(last, Error) else ""
        await self._crew.board.move(self._job.id, "blocked", why, *said)

    def _failure(self, seat: str, failure: TurnFailed) -> Said:
        """A worker that gave no report: nobody knows of any work, so it is done again."""
        error = Error(
            code="timeout" if failure.kind == "timeout" else f"worker_{failure.kind}",
            message=failure.message or failure.kind,
            resolution_hint=failure.hint or "It is tried again, by another worker if there is one.",
        )
        return Said(seat, self._job.manager.id, error, self._job.id)

    def _not_committed(self, seat: str, why: str) -> Said:
        error = Error(
            code="not_committed",
            message=f"The work cannot be committed: {why}",
            resolution_hint="Take it out of the folder, or make it part of the project.",
        )
        return Said(COTERIE, seat, error, self._job.id)

    async def _outside(self, seat: str, done: Done) -> None:
        """Files of the user's own changed meanwhile: only the user knows who did that."""
        job = self._job
        files = ", ".join(done.strays)
        error = Error(
            code=OUTSIDE,
            message=f"While {seat} worked on {job.id}, files outside its folder changed: {files}",
            resolution_hint="Work in your own folder only. Nothing was put back.",
        )
        if isinstance(done.report, Report):
            first = Said(seat, job.manager.id, done.report, job.id)
        else:
            first = self._failure(seat, done.report)
        await self._blocked(first, Said(COTERIE, seat, error, job.id))
        self._crew.context.tell(
            ErrorRecord(
                OUTSIDE, error.message, "coterie inbox", seat, task=job.crew.letters.task_id
            )
        )

    # -- parts ---------------------------------------------------------------------------------

    def _at_work(self, worker: Member, folder: str) -> Member:
        limit = round(self._crew.config.time_limits.work * 60_000)
        return worker.model_copy(
            update={
                "execution_dir": folder,
                "work": "link",
                "timeout_ms": worker.timeout_ms or limit,
            }
        )

    def _prompt(self, worker: Member, instruction: Instruction, conflicts: tuple[str, ...]) -> str:
        job = self._job
        return self._crew.letters.prompt(
            "work",
            worker=worker.id,
            ticket=job.id,
            summary=instruction.summary,
            steps=instruction.steps,
            resources=instruction.resources,
            criteria=[
                one.text + (f" (checked by: {one.command})" if one.command else "")
                for one in instruction.acceptance_criteria
            ],
            changes="\n".join(self._before(conflicts)),
        )

    def _before(self, conflicts: tuple[str, ...]) -> list[str]:
        """What a worker must know of what happened to the ticket so far."""
        job, told = self._job, list[str]()
        events = [moment.event for moment in job.ticket.history]
        if "awaiting_review" in events:
            told.append(f"It was sent back:\n{job.ticket.reason}")
        if conflicts:
            told.append(f"Both versions stand between conflict marks in: {', '.join(conflicts)}")
        blocked = [m.message for m in job.ticket.history if m.event == "blocked"]
        if blocked:
            told.append(
                f"An earlier try ended with: {blocked[-1]}\nWhat it did is still in the folder: "
                "look at it before you begin."
            )
        return told
