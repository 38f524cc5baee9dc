"""A ticket that is blocked: tried again, instructed anew, or given up."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.model.about import OutsideEdits, TicketHelp
from coterie.model.envelope import Error, Instruction, Report
from coterie.model.interaction import Ask, Option, Validation
from coterie.workflows.tickets.correspondence import COTERIE, Said
from coterie.workflows.tickets.crew import Job

OUTSIDE = "outside_worktree"


@dataclass(frozen=True)
class Unblocking:
    """Gets one ticket going again."""

    job: Job

    async def unblock(self) -> None:
        """Try again, with another worker or another instruction; in the end give up."""
        job = self.job
        word = next(iter(job.newest_words), None)
        if isinstance(word, Error) and word.code == OUTSIDE:
            await self._ask_whose_edit(word)
        elif job.times("blocked") > job.crew.config.retries:
            await self._give_up()
        elif isinstance(word, Error):
            # Its agent failed, not the instruction: that stays.
            seat = await job.crew.roster.choose(job.part, job.failed_workers)
            await job.crew.board.move(job.id, "in_progress", f"again, by {seat}", owner=seat)
        else:
            await self._instruct_anew()

    async def _give_up(self) -> None:
        job = self.job
        times, why = job.times("blocked"), job.ticket.reason
        error = Error(
            code="retries_exceeded",
            message=f"{job.id} was blocked {times} times: {why}",
            resolution_hint="The manager plans anew, or you: coterie tickets reset.",
        )
        said = Said(COTERIE, job.manager.id, error, job.id)
        await job.crew.board.move(job.id, "error", why, said)

    # -- another instruction -------------------------------------------------------------------

    async def _instruct_anew(self) -> None:
        job = self.job
        owner = job.ticket.owner or ""
        instruction = await job.manager_says("unblock", worker=owner, trouble=job.ticket.reason)
        assert isinstance(instruction, Instruction)
        if instruction.ask_user:
            instruction = await self._with_users_help(instruction, instruction.ask_user)
        said = Said(job.manager.id, owner, instruction, job.id)
        await job.crew.board.move(job.id, "in_progress", "instructed anew", said)

    async def _with_users_help(self, instruction: Instruction, wanted: str) -> Instruction:
        job = self.job
        question = Ask(
            job.manager.id,
            "Input",
            TicketHelp(ticket=job.id, question=wanted),
            "request_info",
            validation=Validation(required=True),
        )
        answer = await job.crew.context.ask(job.managers_step("help"), question)
        said = answer.response.input_value or ""
        return instruction.model_copy(
            update={
                "summary": "\n".join(dict.fromkeys((instruction.summary, wanted)))
                + f"\nThe user says: {said}",
                "resources": (*instruction.resources, said),
            }
        )

    # -- files outside its folder --------------------------------------------------------------

    async def _ask_whose_edit(self, error: Error) -> None:
        """Only the user knows whose change it was."""
        job = self.job
        owner = job.ticket.owner or ""
        question = Ask(
            COTERIE,
            "Select",
            OutsideEdits(ticket=job.id, worker=owner, message=error.message),
            options=(
                Option(id="mine", label="I changed them: go on", style="primary"),
                Option(id="redo", label=f"not I: {owner} works on {job.id} again"),
            ),
            intent=[job.id, len(job.ticket.history)],
        )
        answer = await job.crew.context.ask(job.step("outside"), question)
        if answer.response.selected_option_id != "mine":
            await job.crew.board.move(job.id, "in_progress", f"again, by {owner}: {error.message}")
            return
        await job.crew.board.move(job.id, "in_progress", "the user changed those files")
        reports = [one for one in job.newest_words[:2] if isinstance(one, Report)]
        if reports and reports[0].status == "completed":
            await job.crew.board.move(job.id, "awaiting_review", f"{owner} reported")
