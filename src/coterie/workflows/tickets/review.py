"""From a worker's report to done: checked by Coterie, reviewed by the manager, merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import anyio.to_thread

from coterie.errors import ArtifactWrong
from coterie.model import envelope, step_name
from coterie.model.about import FailedChecks
from coterie.model.check import CheckOutcome, ended
from coterie.model.interaction import COTERIE, Ask, Option
from coterie.model.ticket import CheckScore
from coterie.model.tool_call import Action
from coterie.model.update import PendingCall
from coterie.workflows.tickets.messenger import Draft
from coterie.workflows.tickets.ticket_run import TicketRun
from coterie.workspace.session_files import check_artifact
from coterie.workspace.ticket_worktrees import TicketWorktrees

_DIFF = 20_000
"""How much of a diff the manager is shown; it can read the rest in the files."""
_TAIL = 2_000
_LONGEST = 6_000
"""The longest reason for sending work back; all of it is in the logs."""


@dataclass(frozen=True)
class CheckedTree:
    """What Coterie found on a ticket's own tree, or on that tree merged with all approved work."""

    tree: str = ""
    outcomes: tuple[CheckOutcome, ...] = ()
    conflicts: tuple[str, ...] = ()
    """Files that contain both sides of a conflict."""

    @property
    def failed(self) -> tuple[CheckOutcome, ...]:
        return tuple(one for one in self.outcomes if not one.passed)


class ReviewStage(TicketRun):
    """Reviews one ticket."""

    async def review(self) -> None:
        """Move from awaiting_review to done, or back to the worker."""
        manager = self.services.manager
        name = self.step("review")
        commands, refused = await self._commands(name)
        checked = await self._check(name, commands)
        if refused:
            note = f"not run because it is not permitted: {'; '.join(refused)}"
            self.services.tracker.announce(self.id, note)
        if checked.conflicts:
            await self._refuse(checked.conflicts)
            return
        review = await self._opinion(checked, refused)
        drafts = [
            *await self._artifacts(checked.outcomes, manager.id),
            *([self.to_owner(self._complaint(checked.failed))] if checked.failed else []),
            self.to_owner(review, manager.id),
        ]
        if review.decision == "changes_requested":
            wanted = "; ".join([*review.requested_changes, review.notes]).strip("; ")
            await self._send_back(wanted, drafts)
        elif checked.failed and not await self._overridden(name, checked.failed):
            why = f"approved by {manager.id}, but {_failures(checked.failed)}"
            await self._send_back(why, drafts)
        else:
            await self._merge(name, [] if checked.failed else commands, checked, drafts)

    async def _merge(
        self, name: str, commands: Sequence[str], checked: CheckedTree, drafts: Sequence[Draft]
    ) -> None:
        async with self.services.merging:
            merged = await self._merged(name, commands, checked.tree)
        more = await self._artifacts(merged.outcomes, self.owner)
        if merged.failed or merged.conflicts:
            problem = (
                self._complaint(merged.failed)
                if merged.failed
                else self._conflict(merged.conflicts)
            )
            await self._send_back(_merge_problem(merged), [*drafts, *more, self.to_owner(problem)])
            return
        if checked.failed:
            how = "approved and merged; you accepted failed checks"
        else:
            green = "approved and merged; all checks passed"
            how = green if commands else "approved and merged; no check was run"
        await self.move("done", how, *drafts, *more)

    async def _merged(self, name: str, commands: Sequence[str], checked: str) -> CheckedTree:
        """Merge, check the merged tree, and move the branch unless there are conflicts or failures.

        A merged tree equal to `checked`, the tree that was checked before, is not checked again.
        """
        context, worktrees = self.services.context, self.services.worktrees
        in_thread = anyio.to_thread.run_sync
        if worktrees is None:  # in the project's own folder work is merged as it is written
            return await self._ran(f"{name}/merge/", commands, context.root, "")
        if await in_thread(worktrees.landed, self.id) is not None:
            return CheckedTree()  # an earlier run was killed after merging it
        # Merged again in every run: the branch may have moved since the last one.
        merge = await in_thread(worktrees.merge, self.id, self.ticket.title)
        if merge.conflicts:
            return CheckedTree(conflicts=merge.conflicts)
        name = f"{name}/merge/{merge.tree[:12]}"
        result = CheckedTree(merge.tree)
        if commands and merge.tree != checked:
            folder = await in_thread(worktrees.check_out, merge.commit)
            result = await self._ran(name, commands, folder, merge.tree)

        async def land() -> object:
            await in_thread(worktrees.land, merge.commit)
            if self.services.branches is not None:
                await self.services.branches.send(worktrees.approved)
            return merge.commit

        if not result.failed:
            # The branch moves only after the approval has been recorded.
            await context.step(f"{name}/land", [self.id], land)
        return result

    async def _commands(self, name: str) -> tuple[list[str], list[str]]:
        """Return the commands to run (the user's own checks, and the manager's if permitted), and
        those of the manager that are not permitted."""
        services = self.services
        instruction = services.tracker.last(self.id, envelope.Instruction)
        criteria = instruction.acceptance_criteria if instruction else ()
        commands = [*services.config.checks]
        refused: list[str] = []
        folder = await self.folder()
        wanted = dict.fromkeys(one.command for one in criteria if one.command)
        for number, command in enumerate(wanted, 1):
            if command in commands:
                continue
            call = self._call(number, command, folder)
            permits = services.context.permits(
                f"{name}/permit/{number}", services.manager.member, call
            )
            (commands if await permits else refused).append(command)
        return commands, refused

    def _call(self, number: int, command: str, folder: Path) -> PendingCall:
        worktrees = self.services.worktrees
        return PendingCall(
            f"check-{self.id}-{number}",
            "check",
            {"command": command},
            # One folder for all tickets, so that permission for the whole task is asked only once.
            str(worktrees.folder if worktrees else folder),
            Action("run", "check", str(folder), command=command),
            why=f"an acceptance criterion of {self.id}",
            said=command,
            ticket=self.id,
        )

    async def _check(self, name: str, commands: Sequence[str]) -> CheckedTree:
        services = self.services
        # As committed after the turn: files that a check leaves behind are not part of the work.
        tree = await self.git(TicketWorktrees.tree, "")
        if self.times("awaiting_review") > 1:  # else nothing was merged into it yet
            # Others may have such lines for good reason: tests, documentation.
            unresolved = await self.git(
                lambda trees, ticket: trees.unresolved(ticket, trees.conflicted(ticket)), ()
            )
            if unresolved:
                return CheckedTree(tree, conflicts=unresolved)
        checked = await self._ran(name, commands, await self.folder(), tree)
        count = len(checked.outcomes)
        if count:
            score = CheckScore(count - len(checked.failed), count)
            services.tracker.checks[self.id] = score
        ran = f"Coterie ran {_outcomes(checked.outcomes)}; " if count else ""
        services.tracker.announce(self.id, f"{ran}{services.manager.id} (manager) reviews")
        return checked

    async def _ran(
        self, name: str, commands: Sequence[str], folder: Path, tree: str
    ) -> CheckedTree:
        """Run commands in a folder that contains this tree; `name` is the step they belong to."""
        check = self.services.context.check
        outcomes = [
            await check(step_name.check(name, number), command, folder)
            for number, command in enumerate(commands, 1)
        ]
        return CheckedTree(tree, tuple(replace(outcome, tree=tree) for outcome in outcomes))

    async def _artifacts(self, outcomes: Sequence[CheckOutcome], target: str) -> list[Draft]:
        """Return the logs of checks as artifacts, with an error in place of a damaged one."""
        return [
            Draft(COTERIE, target, await self._artifact(outcome), self.id)
            for outcome in outcomes
            if outcome.log
        ]

    async def _artifact(self, outcome: CheckOutcome) -> envelope.Payload:
        artifact = envelope.ArtifactRef(
            label=f"check: {outcome.command}",
            uri=outcome.log,
            digest=outcome.digest or None,
            content_type="text/plain",
            size_bytes=outcome.size_bytes,
            description=f"{ended(outcome)}, at tree {outcome.tree[:12] or '-'}",
            check=envelope.CheckRun(
                command=outcome.command, exit_code=outcome.exit_code, tree=outcome.tree
            ),
        )
        services = self.services
        where = (services.context.root, services.task.session_id, artifact)
        try:
            await anyio.to_thread.run_sync(check_artifact, *where)
        except ArtifactWrong as problem:
            hint = problem.hint or ""
            return envelope.Error(code=problem.code, message=str(problem), resolution_hint=hint)
        return artifact

    async def _opinion(self, checked: CheckedTree, refused: Sequence[str]) -> envelope.Review:
        report = self.services.tracker.last(self.id, envelope.Report)
        diff = await self.git(TicketWorktrees.diff, "")
        return await self.ask_manager(
            "review",
            envelope.Review,
            worker=self.ticket.owner or "",
            report=report.model_dump_json(indent=2) if report else "",
            changed=await self.git(TicketWorktrees.changed, []),
            checks=[
                *map(_outcome_with_output, checked.outcomes),
                *(f"{command}: not run because it is not permitted" for command in refused),
            ],
            diff=f"```diff\n{diff[:_DIFF]}\n```" if diff else "",
        )

    async def _overridden(self, name: str, failed: Sequence[CheckOutcome]) -> bool:
        """Whether the user accepts work whose checks failed."""
        question = Ask(
            COTERIE,
            "Select",
            FailedChecks(ticket=self.id, checks=tuple(map(_outcome, failed))),
            options=(
                Option(id="back", label="send it back to its worker", style="primary"),
                Option(id="override", label="accept it anyway", style="danger"),
            ),
            content="\n".join(one.output for one in failed)[-4000:],
            intent=[self.id, [one.command for one in failed]],
        )
        answer = await self.services.context.ask(f"{name}/override", question)
        return answer.response.selected_option_id == "override"

    def _conflict(self, files: Sequence[str]) -> envelope.Error:
        return envelope.Error(
            code=envelope.MERGE_CONFLICT,
            message=f"Approved work changed the same lines as {self.named(self.owner)}, in "
            f"{', '.join(files)}",
            resolution_hint="Resolve the conflicts: the approved work is merged into your folder.",
        )

    def _complaint(self, failed: Sequence[CheckOutcome]) -> envelope.Error:
        """Return the error for a worker whose work failed its checks, whatever it reported."""
        return envelope.Error(
            code="checks_failed",
            message=f"The work of {self.named(self.owner)} does not pass: {_outcomes(failed)}",
            resolution_hint="Make them pass; Coterie will run them again.",
        )

    async def _refuse(self, conflicts: Sequence[str]) -> None:
        error = envelope.Error(
            code="conflict_marks",
            message=f"The work of {self.named(self.owner)} still has unresolved conflicts "
            f"in {', '.join(conflicts)}",
            resolution_hint="Resolve each of them and remove the markers.",
        )
        await self._send_back(error.message, [self.to_owner(error)])

    async def _send_back(self, why: str, drafts: Sequence[Draft]) -> None:
        why = why[:_LONGEST]
        await self.move("in_progress", why, *drafts)
        times = self.times("awaiting_review")
        if times > self.services.config.rework:
            await self.move("blocked", f"sent back {times} times: {why}")
            await self.move("error", f"sent back {times} times: {why}")


def _merge_problem(merged: CheckedTree) -> str:
    if merged.conflicts:
        files = ", ".join(merged.conflicts)
        return f"conflicts with work approved meanwhile, in {files}: resolve them there"
    return f"merged with work approved meanwhile, {_failures(merged.failed)}"


def _outcome_with_output(outcome: CheckOutcome) -> str:
    tail = f"\n{outcome.output[-_TAIL:]}" if not outcome.passed else ""
    return f"{outcome.command}: {ended(outcome)}{tail}"


def _failures(failed: Sequence[CheckOutcome]) -> str:
    return "; ".join(_outcome_with_output(one) for one in failed)


def _outcomes(failed: Sequence[CheckOutcome]) -> str:
    return "; ".join(map(_outcome, failed))


def _outcome(check: CheckOutcome) -> str:
    return f"{check.command}: {ended(check)}"
