"""One ticket's life, from pending to done or to error; goes on from whatever state it is in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import anyio.to_thread

from coterie.model.envelope import (
    Error,
    Instruction,
    InstructionProposal,
    PlanTask,
    Report,
)
from coterie.model.interaction import Ask, Display, Validation
from coterie.model.scheduler import SchedulerConfig
from coterie.model.team import Member
from coterie.model.ticket import Ticket
from coterie.model.update import TurnFailed
from coterie.ports import Context
from coterie.workflows.tickets.board import Board
from coterie.workflows.tickets.correspondence import COTERIE, Correspondence, Said
from coterie.workflows.tickets.merging import MergeQueue
from coterie.workflows.tickets.reviewing import Reviewing
from coterie.workflows.tickets.roster import Roster, worker_of
from coterie.workspace.ticket_ground import Ground

ASKS_USER = "ASK USER:"


@dataclass(frozen=True)
class Crew:
    """What all tickets of a session share."""

    context: Context
    letters: Correspondence
    board: Board
    roster: Roster
    ground: Ground
    queue: MergeQueue
    config: SchedulerConfig
    goal: str


class Life:
    """The work on one ticket."""

    def __init__(self, crew: Crew, ticket_id: str) -> None:
        self._crew = crew
        self._board = crew.board
        self._letters = crew.letters
        self._id = ticket_id
        self._reviewing = Reviewing(crew.context, crew.letters, crew.board, crew.ground, crew.queue)

    @property
    def _ticket(self) -> Ticket:
        return self._board.ticket(self._id)

    @property
    def _part(self) -> PlanTask:
        return self._board.part(self._id)

    @property
    def _manager(self) -> Member:
        return self._crew.roster.manager

    def _name(self, what: str) -> str:
        """A step of a worker: stable as long as nothing was recorded of the ticket since."""
        return f"ticket/{self._id}/at/{len(self._ticket.history)}/{what}"

    def _managers(self, what: str) -> str:
        """A step of the manager, which has one memory for all tickets."""
        return f"manager/{self._id}/at/{len(self._ticket.history)}/{what}"

    async def to_its_end(self) -> None:
        """Work until the ticket is done, or has failed for good."""
        while self._ticket.state not in ("done", "error") and self._ticket.closed_by is None:
            match self._ticket.state:
                case "pending" | "discussing":
                    await self._prepare()
                case "in_progress":
                    await self._work()
                case "blocked":
                    await self._unblock()
                case _:
                    await self._reviewing.review(self._id, self._manager, self._crew.config)

    # -- before the work -----------------------------------------------------------------------

    async def _prepare(self) -> None:
        """Choose who works, talk a risky ticket over, instruct."""
        seat = self._ticket.owner or await self._crew.roster.choose(self._part, self._failed())
        async with self._crew.roster.seat(seat) as worker:
            talk = ""
            if self._part.risks:
                talk = await self._talk_over(worker)
            instruction = await self._ask_manager(
                "instruct",
                "instruct",
                worker=worker.id,
                outputs=self._part.expected_outputs,
                discussion=talk,
            )
            if isinstance(instruction, Instruction):
                said = Said(self._manager.id, worker.id, instruction, self._id)
                await self._board.move(self._id, "in_progress", "instructed", said, owner=seat)
                return
        await self._without_manager(instruction)

    async def _talk_over(self, worker: Member) -> str:
        """What manager and worker say of a risky ticket before it is done."""
        proposal = self._board.last(self._id, InstructionProposal)
        if self._ticket.state == "pending":
            asked = await self._letters.hear_from(
                self._managers("propose"),
                self._manager,
                self._letters.prompt(
                    "propose",
                    ticket=self._id,
                    risks="; ".join(self._part.risks),
                    description=self._part.description,
                    worker=worker.id,
                ),
                "instruction_proposal",
                ticket=self._id,
            )
            if isinstance(asked, TurnFailed):
                return ""  # then it is done without
            said = Said(self._manager.id, worker.id, asked, self._id)
            await self._board.move(self._id, "discussing", "talked over", said, owner=worker.id)
            proposal = asked
        if proposal is None:
            return ""
        shown = proposal.model_dump_json(indent=2)
        opinion = await self._letters.hear_from(
            self._name("discuss"),
            self._at_work(worker, await self._folder()),
            self._letters.prompt(
                "discuss",
                ticket=self._id,
                description=self._part.description,
                proposal=shown,
            ),
            "report",
            ticket=self._id,
        )
        if isinstance(opinion, TurnFailed):
            return f"You proposed:\n{shown}"
        said = Said(worker.id, self._manager.id, opinion, self._id)
        await self._board.note(self._id, "discussed", f"{worker.id} answered", said)
        return f"You proposed:\n{shown}\n\n{worker.id} says:\n{opinion.model_dump_json(indent=2)}"

    # -- the work ------------------------------------------------------------------------------

    async def _work(self) -> None:
        seat = self._ticket.owner or self._crew.roster.workers[0].id
        instruction = self._board.last(self._id, Instruction)
        assert isinstance(instruction, Instruction)  # in_progress comes with one
        async with self._crew.roster.seat(seat) as worker:
            folder = await self._folder()
            report = await self._letters.hear_from(
                self._name("work"),
                self._at_work(worker, folder),
                self._work_prompt(worker, instruction),
                "report",
                ticket=self._id,
            )
            if isinstance(report, Report) and report.status == "completed":
                await anyio.to_thread.run_sync(
                    self._crew.ground.commit, self._id, f"{self._id}: {self._ticket.title}"
                )
        if isinstance(report, TurnFailed):
            await self._fail(seat, report)
        elif isinstance(report, Report):
            await self._take_report(seat, report)

    async def _take_report(self, seat: str, report: Report) -> None:
        said = Said(seat, self._manager.id, report, self._id)
        if report.status == "completed":
            await self._board.move(self._id, "awaiting_review", f"{seat} reported", said)
            return
        needs = "; ".join([*report.issues, *report.next_actions]) or f"it reported {report.status}"
        await self._board.move(self._id, "blocked", needs, said)

    async def _fail(self, seat: str, failure: TurnFailed) -> None:
        """A worker that gave no report: nobody knows of any work, so it is done again."""
        code = "timeout" if failure.kind == "timeout" else f"worker_{failure.kind}"
        error = Error(
            code=code,
            message=failure.message or failure.kind,
            resolution_hint=failure.hint or "It is tried again, by another worker if there is one.",
        )
        await self._board.move(
            self._id, "blocked", error.message, Said(seat, self._manager.id, error, self._id)
        )

    # -- when it does not go on ----------------------------------------------------------------

    async def _unblock(self) -> None:
        """Try again, with another worker or another instruction; in the end give up."""
        if self._blocked_times() > self._crew.config.retries:
            error = Error(
                code="retries_exceeded",
                message=f"{self._id} was blocked {self._blocked_times()} times: "
                f"{self._ticket.reason}",
                resolution_hint="The manager plans anew, or you: coterie tickets reset.",
            )
            said = Said(COTERIE, self._manager.id, error, self._id)
            await self._board.move(self._id, "error", self._ticket.reason, said)
            return
        if isinstance(self._newest_word(), Error):
            # Its agent failed, not the instruction: that stays.
            seat = await self._crew.roster.choose(self._part, self._failed())
            await self._board.move(self._id, "in_progress", f"again, by {seat}", owner=seat)
            return
        await self._instruct_anew()

    async def _instruct_anew(self) -> None:
        instruction = await self._ask_manager(
            "unblock",
            "unblock",
            worker=self._ticket.owner or "",
            trouble=self._ticket.reason,
        )
        if not isinstance(instruction, Instruction):
            await self._without_manager(instruction)
            return
        if instruction.summary.startswith(ASKS_USER):
            instruction = await self._with_users_help(instruction)
        said = Said(self._manager.id, self._ticket.owner or "", instruction, self._id)
        await self._board.move(self._id, "in_progress", "instructed anew", said)

    async def _with_users_help(self, instruction: Instruction) -> Instruction:
        wanted = instruction.summary.removeprefix(ASKS_USER).strip()
        question = Ask(
            self._manager.id,
            "Input",
            Display(title=wanted, description=f"{self._id} cannot go on without it."),
            "request_info",
            validation=Validation(required=True),
        )
        answer = await self._crew.context.ask(self._managers("help"), question)
        said = answer.response.input_value or ""
        return instruction.model_copy(
            update={
                "summary": f"{wanted}\nThe user says: {said}",
                "resources": (*instruction.resources, said),
            }
        )

    async def _without_manager(self, failure: object) -> None:
        """The manager gave nothing usable: the ticket stands still, and whoever can helps."""
        why = failure.message if isinstance(failure, TurnFailed) else "it gave no instruction"
        self._crew.context.park(f"{self._manager.id} (manager) cannot speak: {why}")

    # -- parts ---------------------------------------------------------------------------------

    async def _ask_manager(self, what: str, prompt: str, **facts: object) -> object:
        return await self._letters.hear_from(
            self._managers(what),
            self._manager,
            self._letters.prompt(
                prompt, ticket=self._id, description=self._part.description, **facts
            ),
            "instruction",
            ticket=self._id,
        )

    async def _folder(self) -> str:
        return str(await anyio.to_thread.run_sync(self._crew.ground.open, self._id))

    def _at_work(self, worker: Member, folder: str) -> Member:
        limit = round(self._crew.config.time_limits.work * 60_000)
        return worker.model_copy(
            update={"execution_dir": folder, "timeout_ms": worker.timeout_ms or limit}
        )

    def _work_prompt(self, worker: Member, instruction: Instruction) -> str:
        sent_back = "awaiting_review" in [moment.event for moment in self._ticket.history]
        changes = f"It was sent back:\n{self._ticket.reason}" if sent_back else ""
        return self._letters.prompt(
            "work",
            worker=worker.id,
            ticket=self._id,
            summary=instruction.summary,
            steps=instruction.steps,
            resources=instruction.resources,
            criteria=[
                one.text + (f" (checked by: {one.command})" if one.command else "")
                for one in instruction.acceptance_criteria
            ],
            changes=changes,
        )

    def _blocked_times(self) -> int:
        events = [moment.event for moment in self._ticket.history]
        begun = max((n for n, event in enumerate(events) if event == "pending"), default=0)
        return events[begun:].count("blocked")

    def _newest_word(self) -> object:
        said = self._board.said(self._id)
        return said[-1].payload if said else None

    def _failed(self) -> Sequence[str]:
        """Workers that failed at it already."""
        return [
            worker_of(one.source)
            for one in self._board.said(self._id)
            if isinstance(one.payload, Error) and one.source != COTERIE
        ]
