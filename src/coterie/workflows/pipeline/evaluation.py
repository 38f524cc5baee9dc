"""Tests: the commands of the user or of the project, run by Coterie on a tree that it knows."""

from __future__ import annotations

from coterie.model import step_name
from coterie.model.artifact import GateDecision
from coterie.model.check import CheckOutcome
from coterie.model.eval_report import Debrief, EvalReport, EvalRun
from coterie.model.pipeline_state import PipelineState, StatePatch, StepMessage, StepResult
from coterie.model.planning import PlannedTests
from coterie.model.update import TurnFailed
from coterie.workflows.pipeline.services import PipelineStepRun
from coterie.workspace.pipeline_work import PipelineWork

_DIFF = 20_000


class RunTestsStep(PipelineStepRun):
    """Runs the test commands."""

    async def step(self, state: PipelineState, message: StepMessage | None) -> StepResult:
        """The report, and the decision of the gate `tests`."""
        commands = dict.fromkeys(self.services.settings.evals)
        tree = await self.git(lambda work: work.tree)
        runs = [await self._run(number, command) for number, command in enumerate(commands, 1)]
        reasons = [f"{one.command}: {_ended(one)}" for one in runs if not one.passed]
        if not runs:
            reasons = ["there is no test command: write eval.conf, or give one with --eval"]
        gate = GateDecision(gate="tests", passed=not reasons, reasons=tuple(reasons), tree=tree)
        failed = any(not one.passed for one in runs)
        report = EvalReport(
            gate=gate, runs=tuple(runs), debrief=await self._debrief(runs) if failed else None
        )
        files = await self.write("test.report", report)
        patch = StatePatch(
            artifacts=files,
            gate=gate,
            status="completed" if gate.passed else "failed",
            reason="; ".join(reasons),
        )
        tests = await self.read(state, "test.plan", PlannedTests)
        strategy = (f"strategy: {tests.strategy}",) if tests and tests.strategy else ()
        return StepResult(
            patch=patch, logs=(*strategy, *(f"{r.command}: {_ended(r)}" for r in runs))
        )

    async def _run(self, number: int, command: str) -> EvalRun:
        folder = await self.git(PipelineWork.open)
        name = step_name.check(self.name, number)
        outcome: CheckOutcome = await self.services.context.check(name, command, folder)
        # What a test leaves behind is nobody's work.
        await self.git(PipelineWork.restore)
        return EvalRun(
            name=f"check-{number}",
            command=command,
            origin="given",
            exit_code=outcome.exit_code,
            duration_ms=outcome.duration_ms,
            log=outcome.log,
            digest=outcome.digest,
            output=outcome.output,
        )

    async def _debrief(self, runs: list[EvalRun]) -> Debrief | None:
        diff = await self.git(PipelineWork.diff)
        shown = [f"{one.command}: {_ended(one)}\n{one.output}" for one in runs]
        facts: dict[str, object] = {"diff": f"```diff\n{diff[:_DIFF]}\n```", "runs": shown}
        said = await self.ask("debrief", Debrief, facts)
        return None if isinstance(said, TurnFailed) else said


def _ended(run: EvalRun) -> str:
    return "no end in time" if run.exit_code is None else f"exit {run.exit_code}"
