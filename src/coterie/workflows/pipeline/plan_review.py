"""The review of a plan: by rules, by the OpenSpec tool, and by a reviewer if one answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import anyio.to_thread

from coterie.model import step_name
from coterie.model.artifact import GateDecision
from coterie.model.openspec import change_files, change_problems
from coterie.model.pipeline_state import PipelineState, StatePatch, StepMessage, StepResult
from coterie.model.planning import StructuredPlan
from coterie.model.question_text import counted
from coterie.model.reviews import PlanIssue, PlanOpinion, PlanReview
from coterie.model.update import TurnFailed
from coterie.workflows.pipeline.documents import plan_document, plan_review_document
from coterie.workflows.pipeline.workshop import PlanStep
from coterie.workspace.openspec_tool import (
    INSTALL,
    find_openspec,
    issues_in,
    uses_openspec,
    validate_command,
)
from coterie.workspace.pipeline_work import PipelineWork


class PlanReviewStep(PlanStep):
    """Rules and a reviewer decide whether work may begin."""

    async def step(self, state: PipelineState, message: StepMessage | None) -> StepResult:
        """Review the plan and decide the gate `plan`."""
        plan = await self.read(state, "planning.current", StructuredPlan)
        assert plan is not None  # the step requires it
        spec = await self._openspec_checked(state, plan)
        issues = [*rule_issues(plan), *spec.issues]
        opinion = await self._opinion(plan, issues, message)
        if opinion is not None:
            issues += [PlanIssue(code="reviewer", **dict(one)) for one in opinion.issues]
        gate = _decided(issues, opinion)
        review = PlanReview(
            gate=gate, issues=tuple(issues), openspec=spec.checked_by, ai_review=opinion
        )
        files = {
            **await self.write("review.plan", review),
            **await self.write("review.plan_notes", plan_review_document(review)),
        }
        patch = StatePatch(
            artifacts=files,
            gate=gate,
            status="completed" if gate.passed else "failed",
            reason="; ".join(gate.reasons),
        )
        by = "rules and a reviewer" if opinion else "rules alone: no model answered"
        summary = f"{counted(len(issues), 'issue')}, by {by}"
        return StepResult(patch=patch, logs=(summary,), actions=("call_meeting",))

    async def _opinion(
        self, plan: StructuredPlan, issues: list[PlanIssue], message: StepMessage | None
    ) -> PlanOpinion | None:
        facts = {
            "plan": plan_document(plan),
            "issues": [one.message for one in issues],
            "notes": message.text if message else "",
        }
        opinion = await self.ask("plan_review", PlanOpinion, facts)
        return None if isinstance(opinion, TurnFailed) else opinion

    async def _openspec_checked(self, state: PipelineState, plan: StructuredPlan) -> _SpecCheck:
        """Check the OpenSpec change with the tool; without it, check only its form ourselves."""
        root = self.services.context.root
        tool = await anyio.to_thread.run_sync(find_openspec, root)
        why = f"the openspec tool is not installed ({INSTALL})"
        if tool is not None:
            folder = await self.git(PipelineWork.open)
            if not await anyio.to_thread.run_sync(uses_openspec, folder):
                folder = self.services.artifacts.path
            command = validate_command(tool, self.change)
            name = step_name.check(self.name, 1)
            ran = await self.services.context.check(name, command, folder)
            issues = issues_in(ran.output)
            if issues is not None and (ran.passed or issues):
                wrong = tuple(
                    PlanIssue(code="openspec_invalid", message=message, field=place, must_fix=True)
                    for place, message in issues
                )
                return _SpecCheck("tool", wrong)
            why = f"the openspec tool did not check it: see {ran.log or 'its output'}"
        spec = {name: await self.text(state, name) for name in change_files(plan)}
        unchecked = PlanIssue(
            code="openspec_unchecked",
            message=f"Only the structure of the OpenSpec change was checked: {why}.",
            severity="info",
        )
        wrong = [
            PlanIssue(code="openspec_invalid", message=problem, must_fix=True)
            for problem in change_problems(spec)
        ]
        return _SpecCheck("structure", (*wrong, unchecked))


class _SpecCheck(NamedTuple):
    checked_by: Literal["tool", "structure"]
    issues: tuple[PlanIssue, ...]


def rule_issues(plan: StructuredPlan) -> Iterator[PlanIssue]:
    """Yield what a plan lacks, as far as rules can tell."""
    missing = {
        "requirements": not plan.requirements,
        "file_impacts": not plan.file_impacts,
        "test_plan": not (plan.test_plan.strategy or plan.test_plan.key_cases),
    }
    for field, is_missing in missing.items():
        if is_missing:
            message = f"The plan has no {field}."
            yield PlanIssue(code="missing_field", field=field, message=message, must_fix=True)
    for field in ("scope", "design", "risks"):
        if not getattr(plan, field):
            message = f"The plan has no {field}."
            yield PlanIssue(code="missing_field", field=field, message=message, severity="minor")
    for one in plan.requirements:
        if not any(case.then or case.when for case in one.scenarios):
            message = f'No scenario shows that "{one.title}" holds.'
            yield PlanIssue(
                code="missing_field", field="requirements", message=message, severity="minor"
            )
    for question in plan.open_questions:
        yield PlanIssue(
            code="open_question", field="open_questions", message=question, severity="minor"
        )


def _decided(issues: list[PlanIssue], opinion: PlanOpinion | None) -> GateDecision:
    wrong = [one.message for one in issues if one.must_fix]
    if opinion is not None and opinion.verdict == "revise" and not wrong:
        wrong = [opinion.summary]
    return GateDecision(gate="plan", passed=not wrong, reasons=tuple(wrong))
