"""The reviews of a change (review, second opinion, security), and the meeting about them."""

from __future__ import annotations

from itertools import count

import anyio

from coterie.model import step_name
from coterie.model.artifact import GateDecision, MeetingMinutes
from coterie.model.pipeline_state import PipelineState, StatePatch, StepMessage, StepResult
from coterie.model.reviews import (
    CodeReview,
    Finding,
    MemberOpinion,
    ReviewMeeting,
    ReviewOpinion,
    ReviewRole,
    ReviewSummary,
)
from coterie.model.update import TurnFailed
from coterie.workflows.pipeline.documents import review_meeting_document, second_opinion_document
from coterie.workflows.pipeline.services import PipelineStepRun
from coterie.workspace.pipeline_work import PipelineWork

_ROLES: tuple[ReviewRole, ...] = ("review", "second_opinion", "security")
_DIFF = 60_000
"""How much of a diff reviewers are shown; they can read the rest in the folder."""
_SEVERITIES = ("critical", "major", "minor", "info")


class CodeReviewStep(PipelineStepRun):
    """Three independent reviews of the whole change."""

    async def step(self, state: PipelineState, message: StepMessage | None) -> StepResult:
        """Collect the reviews and decide the gate `review`."""
        tree = await self.git(lambda work: work.tree)
        diff = await self.git(PipelineWork.diff)
        plan = await self.text(state, "plan")
        facts: dict[str, object] = {"plan": plan, "diff": f"```diff\n{diff[:_DIFF]}\n```"}
        answers = await self._answers(facts)
        opinions = tuple(
            self._opinion(role, one)
            for role, one in answers.items()
            if not isinstance(one, TurnFailed)
        )
        missing: tuple[ReviewRole, ...] = tuple(
            role for role in _ROLES if isinstance(answers[role], TurnFailed)
        )
        review = CodeReview(gate=_decided(opinions, tree), opinions=opinions, unanswered=missing)
        files = {
            **await self.write("review.code", review),
            **await self.write("review.second_opinion", second_opinion_document(review)),
        }
        gate = review.gate
        patch = StatePatch(
            artifacts=files,
            gate=gate,
            status="completed" if gate.passed else "failed",
            reason="; ".join(gate.reasons),
        )
        summary = f"{len(review.findings)} findings, {len(review.must_fix)} must be fixed"
        logs = (summary, *(f"no answer: {role}" for role in missing))
        return StepResult(patch=patch, logs=logs, actions=("run_tests",) if gate.passed else ())

    async def _answers(
        self, facts: dict[str, object]
    ) -> dict[ReviewRole, ReviewOpinion | TurnFailed]:
        folder = await self.git(PipelineWork.open)
        answers: dict[ReviewRole, ReviewOpinion | TurnFailed] = {}

        async def look(role: ReviewRole, name: str) -> None:
            run = PipelineStepRun(self.services, name)
            answers[role] = await run.ask(
                role, ReviewOpinion, facts, prompt="code_review", folder=folder
            )

        async with anyio.create_task_group() as group:
            for role in _ROLES:
                group.start_soon(look, role, self.name)
        for role in _ROLES:
            for number in count(1):
                failed = answers[role]
                if not isinstance(failed, TurnFailed):
                    break
                if not await self.retried(role, failed, number):
                    break
                await look(role, step_name.ask_again(self.name, role, number))
        return {role: answers[role] for role in _ROLES}

    def _opinion(self, role: ReviewRole, opinion: ReviewOpinion) -> MemberOpinion:
        member = self.services.roles[role]
        return MemberOpinion(**dict(opinion), role=role, member=member.id, agent=member.agent or "")


def _decided(opinions: tuple[MemberOpinion, ...], tree: str) -> GateDecision:
    """Decide the gate: findings that must be fixed fail it, and so does a missing review."""
    findings = [one for opinion in opinions for one in opinion.findings if one.must_fix]
    reasons = [_shown(one) for one in findings]
    if not any(one.role == "review" for one in opinions):
        reasons.append("nobody has reviewed it")
    return GateDecision(gate="review", passed=not reasons, reasons=tuple(reasons), tree=tree)


def _shown(finding: Finding) -> str:
    where = f"{finding.file}:{finding.line}" if finding.line else finding.file
    return f"{where}: {finding.message}" if where else finding.message


class ReviewMeetingStep(PipelineStepRun):
    """A chair merges the reviews; if no model answers, rules alone do."""

    async def step(self, state: PipelineState, message: StepMessage | None) -> StepResult:
        """Write the minutes."""
        review = await self.read(state, "review.code", CodeReview)
        assert review is not None  # the step requires it
        facts = {"reviews": review.written()}
        chair = await self.ask("chair", MeetingMinutes, facts, prompt="review_meeting")
        minutes = None if isinstance(chair, TurnFailed) else chair
        worst = sorted(review.findings, key=lambda one: _SEVERITIES.index(one.severity))
        meeting = ReviewMeeting(
            review_summary=ReviewSummary(
                tree=review.gate.tree,
                opinions=len(review.opinions),
                findings=len(review.findings),
                must_fix=len(review.must_fix),
            ),
            issues=tuple(worst),
            ai_meeting=minutes,
        )
        files = {
            **await self.write("review.meeting", meeting),
            **await self.write("review.minutes", review_meeting_document(meeting)),
        }
        return StepResult(
            patch=StatePatch(artifacts=files), logs=("wrote the minutes of the meeting",)
        )
