"""Code generation: the intent for each file, then the change in a worktree, and its tests."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import count
from typing import Any, ClassVar, cast

from coterie.errors import GitFailed
from coterie.model import step_name
from coterie.model.about import OutsideEdits, UnplannedFiles
from coterie.model.code_change import (
    CodegenIr,
    CodegenPlan,
    CodePatch,
    DiffSummary,
    FilePatch,
    FileStep,
)
from coterie.model.envelope import Report
from coterie.model.eval_report import EvalReport
from coterie.model.interaction import COTERIE, Ask, Option
from coterie.model.pipeline_state import PipelineState, StatePatch, StepMessage, StepResult
from coterie.model.planning import PlanFiles, PlannedTests
from coterie.model.reviews import CodeReview
from coterie.model.test_files import is_test, is_testable, suggested_tests
from coterie.workflows.chat import STOP
from coterie.workflows.pipeline.services import PipelineStepRun
from coterie.workflows.project_watch import ProjectState, ProjectWatch
from coterie.workspace.pipeline_work import ChangedFile, PipelineWork

ALLOW, PUT_BACK, REDO = "allow", "put_back", "redo"
_TAIL = 2_000
_SPECS = "openspec/changes/"
"""Where the plan itself is stored in a project that uses OpenSpec."""


def size_text(size: DiffSummary) -> str:
    """Describe the size of a change in a few words."""
    files = "1 file" if size.files == 1 else f"{size.files} files"
    return f"{files}, +{size.additions} -{size.deletions}"


def _full(file: ChangedFile) -> str:
    return f"{file.in_repository}.full"


def _commit_problem_note(problem: str) -> list[str]:
    if not problem:
        return []
    advice = "Remove it from the folder, or make it part of the project."
    return [f"Your work cannot be committed: {problem}. {advice}"]


class ChangeStep(PipelineStepRun):
    """The base of steps in which a member changes files of the worktree."""

    changes_files: ClassVar[bool] = True

    async def change(self, role: str, facts: dict[str, object], goal: str) -> str:
        """Have a member make the change, and commit its work whatever it reports.

        Returns why the work cannot be committed if the member was told and did not fix it, else an
        empty text.  If the user's own files changed meanwhile, the user is asked who did that.
        """
        findings, problem = cast("list[str]", facts["findings"]), ""
        for tries in count(1):
            name = step_name.again(self.name, tries)
            before = await self._users_tree(f"{name}/before")
            run = PipelineStepRun(self.services, name)
            await run.need(
                role, Report, {**facts, "findings": [*findings, *_commit_problem_note(problem)]}
            )
            last, problem = problem, await self._committed(name, f"{role}: {goal}")
            after = await self._users_tree(f"{name}/after")
            strays = ProjectWatch().changes(before, after)
            is_fine = not strays or await self._was_the_user(f"{name}/outside", role, strays)
            if is_fine and (not problem or last):
                return problem
        raise AssertionError("unreachable")

    async def _committed(self, name: str, message: str) -> str:
        """Commit the work; return why that failed, such as a nested repository, else nothing."""

        async def commit() -> object:
            try:
                await self.git(lambda work: work.commit(message))
            except GitFailed as failed:
                return failed.output
            return ""

        return str(await self.services.context.step(f"{name}/committed", [], commit))

    async def _users_tree(self, name: str) -> ProjectState | None:
        """Return the state of the user's own tree; recorded, so that a kill does not hide a
        change."""

        async def look() -> object:
            state = await self.git(lambda work: ProjectWatch().state(work.worktrees, ""))
            return None if state is None else [state.head, dict(state.files)]

        recorded = cast("list[Any] | None", await self.services.context.step(name, [], look))
        return None if recorded is None else ProjectState(*recorded)

    async def _was_the_user(self, name: str, role: str, files: Sequence[str]) -> bool:
        member = self.services.roles[role].id
        message = f"While {member} worked in its worktree, files of yours changed: "
        question = Ask(
            COTERIE,
            "Select",
            OutsideEdits(worker=member, message=message + ", ".join(files)),
            options=(
                Option(id="mine", label="I changed them: continue", style="primary"),
                Option(id="redo", label=f"I did not: let {member} do it again"),
                STOP,
            ),
            intent=[*files],
        )
        return (await self.services.ask_user(name, question)).selected_option_id == "mine"

    async def changed(self) -> list[ChangedFile]:
        return await self.git(PipelineWork.changed)

    async def patch(self, planned: Collection[str]) -> tuple[CodePatch, dict[str, str]]:
        """Write the current change to `patch.json` and `files/`; return it with its artifacts."""
        changed = await self.changed()
        contents = {
            _full(one): await self.git(lambda work, one=one: work.content(one))
            for one in changed
            if one.operation != "delete"
        }
        files = tuple(
            FilePatch(
                path=one.path,
                operation=one.operation,
                additions=one.added,
                deletions=one.removed,
                full=f"files/{_full(one)}" if one.operation != "delete" else None,
                is_planned=one.path in planned,
            )
            for one in changed
        )
        patch = CodePatch(
            base=self.work.base,
            tree=await self.git(lambda work: work.tree),
            files=files,
            summary=DiffSummary(
                files=len(files),
                additions=sum(one.additions or 0 for one in files),
                deletions=sum(one.deletions or 0 for one in files),
            ),
        )
        folder = await self.git(
            lambda _: self.services.artifacts.write_folder("code.files_dir", contents)
        )
        return patch, {**await self.write("code.patch", patch), **folder}

    def unplanned(self, role: str, files: Sequence[str], state: PipelineState) -> StepResult:
        """Return the question about changed files that were not planned."""
        member = self.services.roles[role]
        question = Ask(
            member.id,
            "Composite",
            UnplannedFiles(member=member.id, files=tuple(files)),
            options=(
                Option(id=ALLOW, label="keep the changes", style="primary"),
                Option(id=PUT_BACK, label="restore these files"),
                Option(id=REDO, label="redo the change", detail="with your comment"),
                STOP,
            ),
            intent=[*files],
        )
        patch = StatePatch(status="in_progress", reason=f"not planned: {', '.join(files)}")
        return StepResult(patch=patch, questions=(question,), actions=("ask_user",))


class CodegenStep(ChangeStep):
    """Writes the intent for each file, then makes the change."""

    uses_words: ClassVar[bool] = True

    async def step(self, state: PipelineState, message: StepMessage | None) -> StepResult:
        """Return the change as a patch, or ask first if it touches files that were not planned."""
        plan_files = await self.read(state, "plan_files", PlanFiles)
        planned = {one.path for one in plan_files.files} if plan_files else None
        choice = message.choice if message else ""
        artifacts: dict[str, str] = {}
        if choice == PUT_BACK:
            await self._put_back(await self._allowed(state, planned, artifacts))
        elif choice != ALLOW:
            intent = await self._intent(state, message, plan_files)
            artifacts = await self._written(intent, plan_files)
            if problem := await self._change(state, message, intent):
                patch = StatePatch(status="failed", reason=problem, artifacts=artifacts)
                return StepResult(patch=patch)
        changed = await self.changed()
        # In a project that uses OpenSpec the work includes the plan: that alone is not a change.
        specs = {file for name, file in state.files.items() if name.startswith("openspec.")}
        if all(one.path in specs for one in changed):
            patch = StatePatch(status="failed", reason="nothing was changed", artifacts=artifacts)
            return StepResult(patch=patch)
        allowed = await self._allowed(state, planned, artifacts)
        outside = [one.path for one in changed if one.path not in allowed]
        if outside and choice not in (ALLOW, PUT_BACK):
            result = self.unplanned("codegen", outside, state)
            return result.model_copy(
                update={"patch": result.patch.model_copy(update={"artifacts": artifacts})}
            )
        patch, files = await self.patch(allowed)
        size = patch.summary
        logs = (
            size_text(size),
            *(f"{one.operation} {one.path}" for one in patch.files),
        )
        return StepResult(
            patch=StatePatch(artifacts={**artifacts, **files}), logs=logs, actions=("call_review",)
        )

    async def _allowed(
        self, state: PipelineState, planned: set[str] | None, artifacts: dict[str, str]
    ) -> set[str]:
        """Return the files that may be changed without asking."""
        planned = await self._intended(state, artifacts) if planned is None else planned
        return planned | await self._allowed_before(state)

    async def _intended(self, state: PipelineState, artifacts: dict[str, str]) -> set[str]:
        """Return the files of the coder's intent: without a plan, these count as planned."""
        files = {**state.files, **artifacts}
        plan = await self.git(
            lambda _: self.services.artifacts.read(files, "code.plan", CodegenPlan)
        )
        return {one.path for one in plan.files}

    async def _allowed_before(self, state: PipelineState) -> set[str]:
        """Return what an earlier round was allowed to touch, with its tests, and the plan's own
        files."""
        before = await self.read(state, "code.patch", CodePatch)
        known = {one.path for one in before.files} if before else set[str]()
        return known | {one.path for one in await self.changed() if one.path.startswith(_SPECS)}

    async def _put_back(self, planned: Collection[str]) -> None:
        outside = [one.path for one in await self.changed() if one.path not in planned]
        await self.git(lambda work: work.put_back(outside, "Restore files that were not planned"))

    async def _intent(
        self, state: PipelineState, message: StepMessage | None, plan_files: PlanFiles | None
    ) -> CodegenPlan:
        facts: dict[str, object] = {
            "plan": await self.text(state, "plan"),
            "files": [one.path for one in plan_files.files] if plan_files else [],
            "findings": await self._findings(state, message),
        }
        return await self.need("codegen", CodegenPlan, facts, prompt="codegen_intent")

    async def _written(self, intent: CodegenPlan, plan_files: PlanFiles | None) -> dict[str, str]:
        purposes = {one.path: one.purpose for one in plan_files.files} if plan_files else {}
        steps = [
            FileStep(
                **dict(one),
                purpose=purposes.get(one.path, ""),
                is_planned=one.path in purposes or plan_files is None,
                exists=await self.git(lambda work, path=one.path: work.has(path)),
            )
            for one in intent.files
        ]
        tree = await self.git(lambda work: work.tree)
        ir = CodegenIr(base=tree, files=tuple(steps))
        return {**await self.write("code.plan", intent), **await self.write("code.ir", ir)}

    async def _change(
        self, state: PipelineState, message: StepMessage | None, intent: CodegenPlan
    ) -> str:
        facts: dict[str, object] = {
            "intent": [f"{one.operation} {one.path}: {one.intent}" for one in intent.files],
            "files": [one.path for one in intent.files],
            "findings": await self._findings(state, message),
        }
        return await self.change("codegen", facts, intent.summary)

    async def _findings(self, state: PipelineState, message: StepMessage | None) -> list[str]:
        """Return what must be fixed after the last round."""
        findings = [message.text] if message and message.text else []
        review = await self.read(state, "review.code", CodeReview)
        for one in review.must_fix if review else ():
            where = f"{one.file}:{one.line}" if one.line else one.file
            findings.append(f"{where}: {one.message} {one.suggestion}".strip())
        report = await self.read(state, "test.report", EvalReport)
        if report is not None and not report.gate.passed:
            findings += [
                f"{r.command} failed:\n{r.output[-_TAIL:]}" for r in report.runs if not r.passed
            ]
            findings += report.debrief.next_actions if report.debrief else ()
        return list(dict.fromkeys(findings))


class WriteTestsStep(ChangeStep):
    """Writes tests from the test plan if it asks for any."""

    async def step(self, state: PipelineState, message: StepMessage | None) -> StepResult:
        """Return the change with its tests as a patch."""
        tests = await self.read(state, "test.plan", PlannedTests)
        wanted = [one.name for one in tests.key_cases if one.automated] if tests else []
        before = await self.read(state, "code.patch", CodePatch)
        if tests is None or not tests.write_tests or not wanted or before is None:
            return StepResult(logs=("the plan asks for no new tests",))
        if not any(is_testable(one.path) for one in before.files):
            return StepResult(logs=("no changed file can have tests",))
        choice = message.choice if message else ""
        planned = {one.path for one in before.files if one.is_planned}
        if choice == PUT_BACK:
            outside = await self._changed_non_tests(before.tree)
            await self.git(
                lambda work: work.put_back(outside, "Restore files that are not tests", before.tree)
            )
        elif choice != ALLOW:
            files = [one.path for one in before.files]
            if problem := await self._write([tests.strategy, *wanted], files, message):
                return StepResult(patch=StatePatch(status="failed", reason=problem))
            if outside := await self._changed_non_tests(before.tree):
                return self.unplanned("test_codegen", outside, state)
        _, files = await self.patch(planned)
        added = await self.git(lambda work: work.changed(before.tree))
        logs = tuple(f"{one.operation} {one.path}" for one in added) or ("no test was written",)
        return StepResult(patch=StatePatch(artifacts=files), logs=logs, actions=("run_tests",))

    async def _write(
        self, tests: list[str], changed: list[str], message: StepMessage | None
    ) -> str:
        known = await self.git(PipelineWork.files)
        facts: dict[str, object] = {
            "tests": tests,
            "changed": ", ".join(changed),
            "files": suggested_tests(changed, known),
            "findings": [message.text] if message and message.text else [],
        }
        return await self.change("test_codegen", facts, "tests")

    async def _changed_non_tests(self, tree: str) -> list[str]:
        """Return files other than tests that differ from what was reviewed: the user decides."""
        changed = await self.git(lambda work: work.changed(tree))
        return [one.path for one in changed if not is_test(one.path)]
