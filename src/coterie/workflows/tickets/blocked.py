"""A blocked ticket: retried, instructed again, given to a worker the user chooses, or given up."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.model.about import FailedTurn, NobodyCapable, OutsideEdits, TicketHelp
from coterie.model.envelope import Error, Instruction, Payload
from coterie.model.interaction import COTERIE, Ask, Option, Validation
from coterie.model.team import Member, base_of
from coterie.model.update import FailureKind
from coterie.workflows.chat import STOP, answer_or_stop
from coterie.workflows.tickets.messenger import Draft
from coterie.workflows.tickets.ticket_run import TicketRun, is_completed

OUTSIDE = "outside_worktree"
"""The error code for changes to the user's own files."""
_GIVE = "give-"
"""The prefix of a worker's id in the choice that gives it a ticket."""


def failure_code(kind: FailureKind) -> str:
    """Return the error code for a worker's turn that failed."""
    return kind if kind in ("timeout", "not_sent") else f"worker_{kind}"


_STOPPED = failure_code("stopped")
_USERS_DOING = frozenset({OUTSIDE, _STOPPED})
"""The error codes of blocks that the user caused or decides about: they use up no attempt."""


class BlockedStage(TicketRun):
    """Resolves a blocked ticket: retry it, instruct the worker again, or give up."""

    async def unblock(self) -> None:
        """Move from blocked to in_progress, or to error if it was blocked too often."""
        newest = next(iter(self.newest_payloads), None)
        if isinstance(newest, Error) and newest.code == OUTSIDE:
            await self._ask_who_edited(newest)
        elif isinstance(newest, Error) and newest.code == _STOPPED:
            await self._ask_after_stop(newest)
        elif self._attempts > self.services.config.retries:
            await self._retries_exceeded(newest)
        elif isinstance(newest, Error):
            # The agent failed, not the instruction: that stays.
            instance = await self.services.workers.assign(self.part, self.failed_workers)
            await self.move("in_progress", f"again, by {instance}", owner=instance)
        else:
            await self._instruct()

    @property
    def _attempts(self) -> int:
        """How often it was blocked since it was last reset, apart from what the user did."""
        codes_of = self.services.tracker.error_codes
        return sum(
            moment.event == "blocked" and _USERS_DOING.isdisjoint(codes_of(self.id, moment))
            for moment in self.since_reset
        )

    async def _retries_exceeded(self, newest: Payload | None) -> None:
        """Ask the user if every capable worker failed and there are others; else give up."""
        others = self.services.workers.unable(self.part)
        crashed = isinstance(newest, Error) and self.last_source != COTERIE
        if not (crashed and others):
            await self._give_up()
            return
        choice = await self._ask_who(others)
        if choice == "plan":
            await self._give_up()
        elif choice == STOP.id:  # an earlier run was stopped here: ask again
            await self.services.tracker.note(self.id, "resumed", "the run was stopped here")
        else:
            instance = choice.removeprefix(_GIVE)
            if choice == "retry":
                instance = await self.services.workers.assign(self.part, self.failed_workers)
            await self.move("in_progress", f"again, by {instance}: you decided", owner=instance)

    async def _ask_who(self, others: Sequence[Member]) -> str:
        """Ask who should do a ticket that every worker with the capability failed at."""
        able = self.services.workers.able(self.part)
        names = " or ".join(one.id for one in able)
        gives = [
            Option(
                id=f"{_GIVE}{one.id}",
                label=f"give it to {one.id}",
                detail=f"({', '.join(one.capabilities) or 'no capabilities listed'})",
            )
            for one in others
        ]
        question = Ask(
            COTERIE,
            "Select",
            NobodyCapable(
                ticket=self.id,
                title=self.ticket.title,
                capability=self.part.capability or ", ".join(able[0].capabilities),
                workers=tuple(one.id for one in able),
                reason=self.ticket.reason,
            ),
            options=(
                Option(id="retry", label=f"let {names} try again", style="primary"),
                *gives,
                Option(id="plan", label="let the manager replan"),
                STOP,
            ),
            intent=[self.id, len(self.ticket.history)],
        )
        answer = await answer_or_stop(self.services.context, self.step("who"), question)
        return answer.response.selected_option_id or STOP.id

    async def _give_up(self) -> None:
        why = self.ticket.reason
        error = Error(
            code="retries_exceeded",
            message=f"{self.id} was blocked {self._attempts} times: {why} "
            f"(worker: {self.named(self.owner)})",
            resolution_hint="The manager replans, or try it again: coterie tickets reset.",
        )
        await self.move("error", why, self.to_manager(COTERIE, error))

    async def _instruct(self) -> None:
        """Have the manager instruct the worker again, with the user's help if it asks for it."""
        owner = self.ticket.owner or ""
        reason = self.ticket.reason
        instruction = await self.ask_manager("unblock", Instruction, worker=owner, trouble=reason)
        if instruction.ask_user:
            instruction = await self._with_users_help(instruction, instruction.ask_user)
        draft = Draft(self.services.manager.id, owner, instruction, self.id)
        await self.move("in_progress", "instructed again", draft)

    async def _with_users_help(self, instruction: Instruction, wanted: str) -> Instruction:
        question = Ask(
            self.services.manager.id,
            "Input",
            TicketHelp(ticket=self.id, question=wanted),
            "request_info",
            validation=Validation(required=True),
        )
        answer = await self.services.context.ask(self.manager_step("help"), question)
        given = answer.response.input_value or ""
        asked = "\n".join(dict.fromkeys((instruction.summary, wanted)))
        return instruction.model_copy(
            update={
                "summary": f"{asked}\nThe user says: {given}",
                "resources": (*instruction.resources, given),
            }
        )

    async def _ask_after_stop(self, error: Error) -> None:
        """Ask the user, who stopped the worker, who should continue."""
        owner = self.ticket.owner or ""
        subject = FailedTurn(
            member=owner,
            turn=self.times("blocked"),
            failure="stopped",
            message=error.message,
            ticket=self.id,
        )
        without = base_of(owner)
        others = self.services.workers.able(self.part, [without])
        replace = Option(id="replace", label=f"give {self.id} to another worker")
        options = (
            Option(id="retry", label=f"let {owner} continue", style="primary"),
            *([replace] if any(one.id != without for one in others) else []),
            STOP,
        )
        question = Ask(owner, "Select", subject, options=options, intent=[self.id])
        answer = await answer_or_stop(self.services.context, self.step("stopped"), question)
        instance = owner
        if answer.response.selected_option_id == replace.id:
            instance = await self.services.workers.assign(self.part, [without])
        await self.move("in_progress", f"again, by {instance}", owner=instance)

    async def _ask_who_edited(self, error: Error) -> None:
        """Ask who changed files outside the ticket's folder: only the user knows."""
        owner = self.ticket.owner or ""
        question = Ask(
            COTERIE,
            "Select",
            OutsideEdits(ticket=self.id, worker=owner, message=error.message),
            options=(
                Option(id="mine", label="I changed them: continue", style="primary"),
                Option(id="redo", label=f"I did not: let {owner} do {self.id} again"),
            ),
            intent=[self.id, len(self.ticket.history)],
        )
        answer = await self.services.context.ask(self.step("outside"), question)
        if answer.response.selected_option_id != "mine":
            await self.move("in_progress", f"again, by {owner}: {error.message}")
            return
        outcome = self.services.tracker.messages(self.id)[-2]  # posted with the error about files
        await self.move("in_progress", "the user changed those files")
        # What blocks it now becomes the newest message about it.
        await self.settle(outcome, *([] if is_completed(outcome) else [outcome]))
