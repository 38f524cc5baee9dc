"""Tests: the commands of the user or of the project, run by Coterie on a tree that it knows."""

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
        """The report, and the decision of the gate `tests`."""
        return await self.tested(state)

    async def tested(self, state: PipelineState, *, debrief: bool = True) -> StepResult:
        """The same; what failed is looked into by a member only where it is asked for."""
        tree = await self.git(lambda work: work.tree)
        commands, refused = await self._commands()
        runs = [await self._run(number, one) for number, one in enumerate(commands, 1)]
        reasons = [f"{one.command}: {_ended(one)}" for one in runs if not one.passed]
        reasons += [f"{one.command}: it was not permitted" for one in refused]
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
        # Without a command that may be run no other change would pass.
        actions = () if runs and not refused else ("ask_user",)
        return StepResult(
            actions=actions,
            patch=patch,
            logs=(*strategy, *(f"{r.command}: {_ended(r)}" for r in runs)),
        )

    async def _commands(self) -> tuple[list[EvalCommand], list[EvalCommand]]:
        """What is run: what the user wrote or gave, and what was found as far as they allow it;
        then what they do not allow."""
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
        """Whether the user lets a command run that is the repository's own and not theirs."""
        call = PendingCall(
            f"eval-{number}",
            "check",
            {"command": one.command},
            # One folder for all rounds: a yes for the whole task is not asked for again.
            str(self.work.worktrees.folder),
            Action("run", "check", str(folder), command=one.command),
            why="it seems to test the project",
            said=one.command,
        )
        member = self.services.roles["test"]
        return await self.services.context.permits(f"{self.name}/permit/{number}", member, call)

    async def _run(self, number: int, one: EvalCommand) -> EvalRun:
        folder = await self.git(PipelineWork.open)
        name = step_name.check(self.name, number)
        outcome: CheckOutcome = await self.services.context.check(name, one.command, folder)
        # What a test leaves behind is nobody's work.
        await self.git(PipelineWork.restore)
        return EvalRun(
            name=one.name,
            command=one.command,
            origin=one.origin,
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
        said = await self.ask("debrief", Debrief, facts)
        return None if isinstance(said, TurnFailed) else said


def _ended(run: EvalRun) -> str:
    return "no end in time" if run.exit_code is None else f"exit {run.exit_code}"
