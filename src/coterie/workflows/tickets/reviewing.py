"""From a worker's report to done: checked by Coterie, reviewed by the manager, merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import anyio.to_thread

from coterie.errors import ArtifactWrong
from coterie.model.about import FailedChecks
from coterie.model.action import Action
from coterie.model.check import CheckOutcome
from coterie.model.envelope import (
    ArtifactRef,
    CheckRun,
    Error,
    Instruction,
    Payload,
    Report,
    Review,
)
from coterie.model.interaction import Ask, Option
from coterie.model.ticket_view import ended
from coterie.model.update import PendingCall
from coterie.workflows.tickets.aside import aside
from coterie.workflows.tickets.correspondence import COTERIE, Said
from coterie.workflows.tickets.crew import Job
from coterie.workflows.tickets.merging import Landing
from coterie.workspace.session_files import check_artifact

_DIFF = 20_000
"""So much of a diff a manager is shown; the rest it can read in the files."""
_TAIL = 2_000
_LONGEST = 6_000
"""A reason for sending work back is told in a few lines; all of it is in the logs."""


@dataclass(frozen=True)
class Checked:
    """What Coterie found on a ticket's tree."""

    tree: str
    outcomes: tuple[CheckOutcome, ...] = ()
    unsettled: tuple[str, ...] = ()
    """Files that still hold both sides of a conflict."""
    refused: tuple[str, ...] = ()
    """Commands that the manager wanted run, and may not have run."""

    @property
    def failed(self) -> tuple[CheckOutcome, ...]:
        """Those that did not pass."""
        return tuple(one for one in self.outcomes if not one.passed)


@dataclass(frozen=True)
class Reviewing:
    """Reviews one ticket."""

    job: Job

    async def review(self) -> None:
        """To done, or back to its worker."""
        job = self.job
        name = job.step("review")
        commands, refused = await self._commands(name)
        checked = replace(await self._check(name, commands), refused=tuple(refused))
        if refused:
            note = f"not run, as it is not permitted: {'; '.join(refused)}"
            job.crew.board.announce(job.id, note)
        if checked.unsettled:
            await self._refuse(checked.unsettled)
            return
        review = await self._opinion(checked)
        owner = job.ticket.owner or COTERIE
        said = [
            *await self._artifacts(checked.outcomes, job.manager.id),
            Said(job.manager.id, owner, review, job.id),
        ]
        if checked.failed:
            said.insert(-1, _complaint(checked.failed, owner, job.id))
        if review.decision == "changes_requested":
            wanted = "; ".join([*review.requested_changes, review.notes]).strip("; ")
            await self._send_back(wanted, said)
        elif checked.failed and not await self._overridden(name, checked.failed):
            why = f"approved by {job.manager.id}, but {_failures(checked.failed)}"
            await self._send_back(why, said)
        else:
            await self._merge(name, [] if checked.failed else commands, checked, said)

    async def _merge(
        self, name: str, commands: Sequence[str], checked: Checked, said: Sequence[Said]
    ) -> None:
        job = self.job
        landing = await job.crew.queue.merge(name, job.id, job.ticket.title, commands, checked.tree)
        target = job.ticket.owner or COTERIE
        more = await self._artifacts(landing.checks, target)
        if landing.landed:
            how = "and merged; you let failed checks pass" if checked.failed else "merged and green"
            await job.crew.board.move(job.id, "done", f"approved, {how}", *said, *more)
            return
        if landing.failed:
            more.append(_complaint(landing.failed, target, job.id))
        await self._send_back(_why(landing), [*said, *more])

    # -- checks --------------------------------------------------------------------------------

    async def _commands(self, name: str) -> tuple[list[str], list[str]]:
        """What is to be run: the user's own checks, and the manager's as far as permitted; then
        those of the manager that are not."""
        job = self.job
        instruction = job.crew.board.last(job.id, Instruction)
        wanted: list[str] = []
        if isinstance(instruction, Instruction):
            wanted = [one.command for one in instruction.acceptance_criteria if one.command]
        commands = [*job.crew.config.checks]
        refused: list[str] = []
        folder = await job.folder()
        for number, command in enumerate(dict.fromkeys(wanted), 1):
            if command in commands:
                continue
            call = self._call(number, command, folder)
            permits = job.crew.context.permits(f"{name}/permit/{number}", job.manager, call)
            (commands if await permits else refused).append(command)
        return commands, refused

    def _call(self, number: int, command: str, folder: Path) -> PendingCall:
        job = self.job
        return PendingCall(
            f"check-{job.id}-{number}",
            "check",
            {"command": command},
            # One place for all tickets: a yes for the whole task is not asked for again.
            str(job.crew.ground.place),
            Action("run", "check", str(folder), command=command),
            why=f"an acceptance criterion of {job.id}",
            said=command,
            ticket=job.id,
        )

    async def _check(self, name: str, commands: Sequence[str]) -> Checked:
        job, ground = self.job, self.job.crew.ground
        # As it was committed after the turn: what a check leaves behind is nobody's work.
        tree = await aside(ground, ground.tree, job.id)
        if job.times("awaiting_review") > 1:  # else nothing was put into it yet
            unsettled = await aside(ground, ground.unsettled, job.id)
            if unsettled:
                return Checked(tree, (), unsettled)
        folder = await job.folder()
        outcomes: list[CheckOutcome] = []
        for number, command in enumerate(commands, 1):
            outcome = await job.crew.context.check(f"{name}/check/{number}", command, folder)
            outcomes.append(replace(outcome, tree=tree))
        job.crew.board.checks[job.id] = _score(outcomes)
        ran = f"Coterie ran {_short(outcomes)}; " if outcomes else ""
        job.crew.board.announce(job.id, f"{ran}{job.manager.id} (manager) reviews")
        return Checked(tree, tuple(outcomes))

    async def _artifacts(self, outcomes: Sequence[CheckOutcome], target: str) -> list[Said]:
        """The logs of checks, registered; one that is not what it should be is told instead."""
        return [
            Said(COTERIE, target, await self._registered(one), self.job.id)
            for one in outcomes
            if one.log
        ]

    async def _registered(self, outcome: CheckOutcome) -> Payload:
        artifact = ArtifactRef(
            label=f"check: {outcome.command}",
            uri=outcome.log,
            digest=outcome.digest or None,
            content_type="text/plain",
            size_bytes=outcome.size_bytes,
            description=f"{ended(outcome)}, at tree {outcome.tree[:12] or '-'}",
            check=CheckRun(command=outcome.command, exit_code=outcome.exit_code, tree=outcome.tree),
        )
        crew = self.job.crew
        where = (crew.context.root, crew.letters.session_id, artifact)
        try:
            await anyio.to_thread.run_sync(check_artifact, *where)
        except ArtifactWrong as problem:
            hint = problem.hint or ""
            return Error(code=problem.code, message=str(problem), resolution_hint=hint)
        return artifact

    # -- the manager's word --------------------------------------------------------------------

    async def _opinion(self, checked: Checked) -> Review:
        job, crew = self.job, self.job.crew
        report = crew.board.last(job.id, Report)
        diff = await aside(crew.ground, crew.ground.diff, job.id)
        changed = await aside(crew.ground, crew.ground.changed, job.id)
        prompt = crew.letters.prompt(
            "review",
            ticket=job.id,
            worker=job.ticket.owner or "",
            description=job.part.description,
            report=report.model_dump_json(indent=2) if report else "",
            changed=changed,
            checks=[
                *map(_told, checked.outcomes),
                *(f"{command}: not run, as it is not permitted" for command in checked.refused),
            ],
            diff=f"```diff\n{diff[:_DIFF]}\n```" if diff else "",
        )
        said = await crew.managing.say(job.managers_step("review"), prompt, "review", job.id)
        assert isinstance(said, Review)
        return said

    async def _overridden(self, name: str, failed: Sequence[CheckOutcome]) -> bool:
        """Whether the user says that a check that failed shall not count; on record."""
        question = Ask(
            COTERIE,
            "Select",
            FailedChecks(ticket=self.job.id, checks=tuple(map(_outcome, failed))),
            options=(
                Option(id="back", label="send it back to its worker", style="primary"),
                Option(id="override", label="let it pass all the same", style="danger"),
            ),
            content="\n".join(one.output for one in failed)[-4000:],
            intent=[self.job.id, [one.command for one in failed]],
        )
        answer = await self.job.crew.context.ask(f"{name}/override", question)
        return answer.response.selected_option_id == "override"

    # -- back ----------------------------------------------------------------------------------

    async def _refuse(self, unsettled: Sequence[str]) -> None:
        job = self.job
        error = Error(
            code="conflict_marks",
            message=f"Both sides of a conflict are still in {', '.join(unsettled)}",
            resolution_hint="Settle each of them and take the marks out.",
        )
        said = Said(COTERIE, job.ticket.owner or COTERIE, error, job.id)
        await self._send_back(error.message, [said])

    async def _send_back(self, why: str, said: Sequence[Said]) -> None:
        job, board = self.job, self.job.crew.board
        why = why[:_LONGEST]
        await board.move(job.id, "in_progress", why, *said)
        times = job.times("awaiting_review")
        if times > job.crew.config.rework:
            await board.move(job.id, "blocked", f"sent back {times} times: {why}")
            await board.move(job.id, "error", f"sent back {times} times: {why}")


def _why(landing: Landing) -> str:
    if landing.conflicts:
        files = ", ".join(landing.conflicts)
        return f"conflicts with work that was approved meanwhile, in {files}: settle them there"
    return f"merged with work that was approved meanwhile, {_failures(landing.failed)}"


def _complaint(failed: Sequence[CheckOutcome], target: str, ticket_id: str) -> Said:
    """What a worker is told whose work does not pass, whatever it reported."""
    error = Error(
        code="checks_failed",
        message=_short(failed),
        resolution_hint="Make them pass; they are run again by Coterie.",
    )
    return Said(COTERIE, target, error, ticket_id)


def _told(outcome: CheckOutcome) -> str:
    tail = f"\n{outcome.output[-_TAIL:]}" if not outcome.passed else ""
    return f"{outcome.command}: {ended(outcome)}{tail}"


def _failures(failed: Sequence[CheckOutcome]) -> str:
    return "; ".join(_told(one) for one in failed)


def _short(failed: Sequence[CheckOutcome]) -> str:
    return "; ".join(map(_outcome, failed))


def _outcome(check: CheckOutcome) -> str:
    return f"{check.command}: {ended(check)}"


def _score(outcomes: Sequence[CheckOutcome]) -> str:
    passed = sum(one.passed for one in outcomes)
    return f"{passed}/{len(outcomes)}" if outcomes else ""
