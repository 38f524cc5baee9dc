"""Tests: the commands of the user or of the project, run by Coterie on a known tree."""

from __future__ import annotations

from pathlib import Path

import anyio.to_thread

from coterie.model import step_name
from coterie.model.artifact import GateDecision
from coterie.model.check import CheckOutcome
from coterie.model.eval_report import Debrief, EvalCommand, EvalReport, EvalRun
from coterie.model.pipeline_state import PipelineState, StatePatch, StepMessage, StepResult
from coterie.model.planning import PlannedTests
from coterie.model.tool_call import Action
from coterie.model.update import PendingCall, TurnFailed
from coterie.workflows.pipeline.services import PipelineStepRun
from coterie.workspace.eval_conf import eval_commands
from coterie.workspace.pipeline_work import PipelineWork

_DIFF = 20_000


class RunTestsStep(PipelineStepRun):
    """Runs the test commands."""

    async def step(self, state: PipelineState, message: StepMessage | None) -> StepResult:
        """Run the tests, write the report and decide the gate `tests`."""
        return await self.tested(state)

    async def tested(self, state: PipelineState, *, debrief: bool = True) -> StepResult:
        """The same; a member analyzes failures only if `debrief` is set."""
        tree = await self.git(lambda work: work.tree)
        commands, refused = await self._commands()
        runs = [await self._run(number, one) for number, one in enumerate(commands, 1)]
        reasons = [f"{one.command}: {_ended(one)}" for one in runs if not one.passed]
        reasons += [f"{one.command}: not permitted" for one in refused]
        if not commands and not refused:
            reasons = ["there is no test command: write .coterie/eval.conf, or give --eval"]
        gate = GateDecision(gate="tests", passed=not reasons, reasons=tuple(reasons), tree=tree)
        failed = any(not one.passed for one in runs)
        why = await self._debrief(runs) if failed and debrief else None
        report = EvalReport(gate=gate, runs=tuple(runs), debrief=why)
        files = await self.write("test.report", report)
        patch = StatePatch(
            artifacts=files,
            gate=gate,
            status="completed" if gate.passed else "failed",
            reason="; ".join(reasons),
        )
        tests = await self.read(state, "test.plan", PlannedTests)
        strategy = (f"strategy: {tests.strategy}",) if tests and tests.strategy else ()
        # Without a command that may be run, no other change would pass either.
        needs_user = not runs or bool(refused)
        return StepResult(
            actions=("ask_user",) if needs_user else (),
            needs_user=needs_user,
            patch=patch,
            logs=(*strategy, *(f"{r.command}: {_ended(r)}" for r in runs)),
        )

    async def _commands(self) -> tuple[list[EvalCommand], list[EvalCommand]]:
        """Return the commands to run, and those that are not permitted.

        Commands that the user wrote or gave are run; those that were found need permission.
        """
        given = self.services.settings.evals
        folder = await self.git(PipelineWork.open)
        if given:
            return [EvalCommand(f"eval-{n}", one, "given") for n, one in enumerate(given, 1)], []
        root = self.services.context.root
        known = await anyio.to_thread.run_sync(eval_commands, root, folder)
        commands: list[EvalCommand] = []
        refused: list[EvalCommand] = []
        for number, one in enumerate(known, 1):
            permitted = one.origin != "found" or await self._permits(number, one, folder)
            (commands if permitted else refused).append(one)
        return commands, refused

    async def _permits(self, number: int, one: EvalCommand, folder: Path) -> bool:
        """Whether the user permits a command that comes from the repository and not from them."""
        call = PendingCall(
            f"eval-{number}",
            "check",
            {"command": one.command},
            # One folder for all rounds, so that permission for the whole task is asked only once.
            str(self.work.worktrees.folder),
            Action("run", "check", str(folder), command=one.command),
            why="it looks like the project's test command",
            said=one.command,
        )
        member = self.services.roles["test"]
        return await self.services.context.permits(f"{self.name}/permit/{number}", member, call)

    async def _run(self, number: int, one: EvalCommand) -> EvalRun:
        folder = await self.git(PipelineWork.open)
        name = step_name.check(self.name, number)
        outcome: CheckOutcome = await self.services.context.check(name, one.command, folder)
        # Files that a test leaves behind are not part of the change.
        await self.git(PipelineWork.restore)
        return EvalRun(
            **one._asdict(),
            exit_code=outcome.exit_code,
            duration_ms=outcome.duration_ms,
            log=await anyio.to_thread.run_sync(
                self.services.artifacts.keep_log, outcome.log, one.name
            ),
            digest=outcome.digest,
            output=outcome.output,
        )

    async def _debrief(self, runs: list[EvalRun]) -> Debrief | None:
        diff = await self.git(PipelineWork.diff)
        shown = [f"{one.command}: {_ended(one)}\n{one.output}" for one in runs]
        facts: dict[str, object] = {"diff": f"```diff\n{diff[:_DIFF]}\n```", "runs": shown}
        reply = await self.ask("debrief", Debrief, facts)
        return None if isinstance(reply, TurnFailed) else reply


def _ended(run: EvalRun) -> str:
    return "did not finish" if run.exit_code is None else f"exit {run.exit_code}"
