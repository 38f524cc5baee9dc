"""From a worker's report to done: checked by Coterie, reviewed by the manager, merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import anyio.to_thread

from coterie.model.action import Action
from coterie.model.check import CheckOutcome
from coterie.model.envelope import ArtifactRef, Instruction, Report, Review
from coterie.model.interaction import Ask, Display, Option
from coterie.model.scheduler import SchedulerConfig
from coterie.model.team import Member
from coterie.model.update import PendingCall, TurnFailed
from coterie.ports import Context
from coterie.workflows.tickets.board import Board
from coterie.workflows.tickets.correspondence import COTERIE, Correspondence, Said
from coterie.workflows.tickets.merging import Landing, MergeQueue
from coterie.workspace.ticket_ground import Ground

_DIFF = 20_000
"""So much of a diff a manager is shown; the rest it can read in the files."""


@dataclass(frozen=True)
class Checked:
    """What Coterie found on a ticket's tree."""

    tree: str
    outcomes: tuple[CheckOutcome, ...]

    @property
    def failed(self) -> tuple[CheckOutcome, ...]:
        """Those that did not pass."""
        return tuple(one for one in self.outcomes if not one.passed)


@dataclass(frozen=True)
class Reviewing:
    """Reviews tickets."""

    context: Context
    letters: Correspondence
    board: Board
    ground: Ground
    queue: MergeQueue

    async def review(self, ticket_id: str, manager: Member, config: SchedulerConfig) -> None:
        """To done, or back to its worker."""
        ticket = self.board.ticket(ticket_id)
        name = f"ticket/{ticket_id}/at/{len(ticket.history)}"
        commands = await self._commands(name, ticket_id, manager, config)
        checked = await self._check(name, ticket_id, commands)
        self.board.checks[ticket_id] = _score(checked.outcomes)
        review = await self._opinion(ticket_id, manager, checked)
        if isinstance(review, TurnFailed):
            self.context.park(f"{manager.id} (manager) cannot speak: {review.message}")
        said = [
            *_artifacts(checked.outcomes, ticket_id, manager.id),
            Said(manager.id, ticket.owner or COTERIE, review, ticket_id),
        ]
        if review.decision == "changes_requested":
            wanted = "; ".join([*review.requested_changes, review.notes]).strip("; ")
            await self._send_back(ticket_id, wanted, said, config)
        elif checked.failed and not await self._overridden(name, ticket_id, checked.failed):
            why = f"approved by {manager.id}, but {_failures(checked.failed)}"
            await self._send_back(ticket_id, why, said, config)
        else:
            override = bool(checked.failed)
            landing = await self.queue.merge(
                name,
                ticket_id,
                ticket.title,
                [] if override else commands,
                checked.tree,
            )
            await self._land(ticket_id, landing, said, config)

    # -- checks --------------------------------------------------------------------------------

    async def _commands(
        self, name: str, ticket_id: str, manager: Member, config: SchedulerConfig
    ) -> list[str]:
        """What is to be run: the user's own checks, and the manager's as far as permitted."""
        instruction = self.board.last(ticket_id, Instruction)
        wanted: list[str] = []
        if isinstance(instruction, Instruction):
            wanted = [one.command for one in instruction.acceptance_criteria if one.command]
        commands = [*config.checks]
        folder = str(await anyio.to_thread.run_sync(self.ground.open, ticket_id))
        for number, command in enumerate(wanted, 1):
            if command in commands:
                continue
            call = PendingCall(
                f"check-{ticket_id}-{number}",
                "check",
                {"command": command},
                folder,
                Action("run", "check", folder, command=command),
                why=f"an acceptance criterion of {ticket_id}",
                said=command,
            )
            if await self.context.permits(f"{name}/permit/{number}", manager, call):
                commands.append(command)
        return commands

    async def _check(self, name: str, ticket_id: str, commands: Sequence[str]) -> Checked:
        ticket = self.board.ticket(ticket_id)
        tree = await anyio.to_thread.run_sync(
            self.ground.commit, ticket_id, f"{ticket_id}: {ticket.title}"
        )
        folder = await anyio.to_thread.run_sync(self.ground.open, ticket_id)
        outcomes: list[CheckOutcome] = []
        for number, command in enumerate(commands, 1):
            outcome = await self.context.check(f"{name}/check/{number}", command, folder)
            outcomes.append(replace(outcome, tree=tree))
        return Checked(tree, tuple(outcomes))

    # -- the manager's word --------------------------------------------------------------------

    async def _opinion(
        self, ticket_id: str, manager: Member, checked: Checked
    ) -> Review | TurnFailed:
        ticket = self.board.ticket(ticket_id)
        report = self.board.last(ticket_id, Report)
        diff = await anyio.to_thread.run_sync(self.ground.diff, ticket_id)
        changed = await anyio.to_thread.run_sync(self.ground.changed, ticket_id)
        prompt = self.letters.prompt(
            "review",
            ticket=ticket_id,
            worker=ticket.owner or "",
            description=self.board.part(ticket_id).description,
            report=report.model_dump_json(indent=2) if report else "",
            changed=changed,
            checks=[_told(one) for one in checked.outcomes],
            diff=f"```diff\n{diff[:_DIFF]}\n```" if diff else "",
        )
        name = f"manager/{ticket_id}/at/{len(ticket.history)}/review"
        said = await self.letters.hear_from(name, manager, prompt, "review", ticket=ticket_id)
        assert isinstance(said, Review | TurnFailed)
        return said

    async def _overridden(self, name: str, ticket_id: str, failed: Sequence[CheckOutcome]) -> bool:
        """Whether the user says that a check that failed shall not count; on record."""
        question = Ask(
            COTERIE,
            "Select",
            Display(
                title=f"{ticket_id} was approved, but {_failures(failed)}",
                description="Done means checked: only you can let it pass.",
                content="\n".join(one.output for one in failed)[-4000:],
            ),
            "choose_strategy",
            (
                Option(id="back", label="send it back to its worker", style="primary"),
                Option(id="override", label="let it pass all the same", style="danger"),
            ),
            about=[ticket_id, [one.command for one in failed]],
        )
        answer = await self.context.ask(f"{name}/override", question)
        return answer.response.selected_option_id == "override"

    # -- onward --------------------------------------------------------------------------------

    async def _send_back(
        self, ticket_id: str, why: str, said: Sequence[Said], config: SchedulerConfig
    ) -> None:
        await self.board.move(ticket_id, "in_progress", why, *said)
        events = [moment.event for moment in self.board.ticket(ticket_id).history]
        begun = max((n for n, event in enumerate(events) if event == "pending"), default=0)
        if events[begun:].count("awaiting_review") > config.rework:
            times = events[begun:].count("awaiting_review")
            await self.board.move(ticket_id, "blocked", f"sent back {times} times: {why}")
            await self.board.move(ticket_id, "error", f"sent back {times} times: {why}")

    async def _land(
        self, ticket_id: str, landing: Landing, said: Sequence[Said], config: SchedulerConfig
    ) -> None:
        if landing.landed:
            await self.board.move(ticket_id, "done", "approved, merged and green", *said)
            return
        await anyio.to_thread.run_sync(self.ground.bring_up_to_date, ticket_id)
        if landing.conflicts:
            files = ", ".join(landing.conflicts)
            why = f"conflicts with work that was approved meanwhile, in {files}: settle them there"
        else:
            why = f"merged with work that was approved meanwhile, {_failures(landing.failed)}"
        more = _artifacts(landing.checks, ticket_id, self.board.ticket(ticket_id).owner or COTERIE)
        await self._send_back(ticket_id, why, [*said, *more], config)


def _artifacts(outcomes: Sequence[CheckOutcome], ticket_id: str, target: str) -> list[Said]:
    """The logs of checks, registered."""
    return [
        Said(
            COTERIE,
            target,
            ArtifactRef(
                label=f"check: {one.command}",
                uri=one.log,
                digest=one.digest or None,
                content_type="text/plain",
                size_bytes=one.size_bytes,
                description=f"{_told(one)}, at tree {one.tree[:12] or '-'}",
            ),
            ticket_id,
        )
        for one in outcomes
        if one.log
    ]


def _told(outcome: CheckOutcome) -> str:
    how = "no end in time" if outcome.exit_code is None else f"exit {outcome.exit_code}"
    tail = f"\n{outcome.output[-2000:]}" if not outcome.passed else ""
    return f"{outcome.command}: {how}{tail}"


def _failures(failed: Sequence[CheckOutcome]) -> str:
    return "; ".join(_told(one) for one in failed)


def _score(outcomes: Sequence[CheckOutcome]) -> str:
    passed = sum(one.passed for one in outcomes)
    return f"{passed}/{len(outcomes)}" if outcomes else ""
