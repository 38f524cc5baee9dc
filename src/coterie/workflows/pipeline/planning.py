"""Planning: a workshop of roles, the review of its plan, and the meeting about both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import anyio

from coterie.model import instant
from coterie.model.artifact import ArtifactData, GateDecision, MeetingMinutes
from coterie.model.openspec import capability_of, change_files, change_id, change_problems
from coterie.model.pipeline_roles import WORKSHOP
from coterie.model.pipeline_state import PipelineState, StatePatch, StepMessage, StepResult
from coterie.model.plan_review import (
    ChairDecision,
    PlanIssue,
    PlanningMeeting,
    PlanningSummary,
    PlanOpinion,
    PlanReview,
)
from coterie.model.planning import PlanFiles, RoleNotes, StructuredPlan, TranscriptLine
from coterie.model.update import TurnFailed
from coterie.workflows.pipeline.services import PipelineStepRun

_NEEDED = ("requirements", "scope", "file_impacts", "risks")
"""Fields without which a plan says too little to be worked by."""


class WorkshopStep(PipelineStepRun):
    """Roles say what they have to say side by side, and one of them makes a plan of it."""

    async def step(self, state: PipelineState, message: StepMessage | None) -> StepResult:
        """The plan as data and as text."""
        notes = message.content if message else ""
        said = await self._workshop(notes)
        told = "\n\n".join(f"{role}:\n{one.written().strip()}" for role, one in said.items())
        facts = {"roles": told, "notes": notes}
        plan = await self.need("planning", StructuredPlan, facts)
        files = {
            **await self.write("planning.current", plan),
            **await self.write("planning.draft", plan),
            **await self.write("planning.final", plan),
            **await self.write("planning.transcript", self._transcript(state, notes, said)),
            **await self.write("plan_files", PlanFiles.of(plan)),
            **await self.write("plan", plan_text(plan)),
            **await self.write("test.plan", plan.test_plan),
            **await self._openspec(plan),
        }
        logs = (f"{plan.title}: {len(plan.file_impacts)} files, {len(plan.risks)} risks",)
        return StepResult(
            patch=StatePatch(artifacts=files), logs=logs, actions=("suggest_plan_review",)
        )

    async def _workshop(self, notes: str) -> Mapping[str, RoleNotes]:
        """What each role says, as far as its member answers."""
        said: dict[str, RoleNotes] = {}

        async def speak(role: str) -> None:
            found = await self.ask(role, RoleNotes, {"notes": notes}, prompt="workshop")
            if not isinstance(found, TurnFailed):
                said[role] = found

        async with anyio.create_task_group() as group:
            for role in WORKSHOP:
                group.start_soon(speak, role)
        return {role: said[role] for role in WORKSHOP if role in said}

    async def _openspec(self, plan: StructuredPlan) -> dict[str, str]:
        """The plan as an OpenSpec change."""
        change = change_id(plan.title, self.services.task.task_id)
        place = {"change": change, "capability": capability_of(plan)}
        found: dict[str, str] = {}
        for name, text in change_files(plan).items():
            found |= await self.write(name, text, **place)
        return found

    def _transcript(
        self, state: PipelineState, notes: str, said: Mapping[str, RoleNotes]
    ) -> list[ArtifactData]:
        now, number = instant.now(), max(state.actors["planning"].round, 1)
        asked = notes or self.services.task.goal
        first = TranscriptLine.model_validate(
            {"timestamp": now, "round": number, "from": "user", "content": asked}
        )
        return [
            first,
            *(
                TranscriptLine.model_validate(
                    {
                        "timestamp": now,
                        "round": number,
                        "from": "agent",
                        "role": role,
                        "member": self.services.roles[role].id,
                        "content": one.summary,
                    }
                )
                for role, one in said.items()
            ),
        ]


class PlanReviewStep(PipelineStepRun):
    """Rules and a reviewer say whether work may begin."""

    async def step(self, state: PipelineState, message: StepMessage | None) -> StepResult:
        """The review, and the decision of the gate `plan`."""
        plan = await self.read(state, "planning.current", StructuredPlan)
        assert plan is not None  # the state allows the step
        spec = {name: await self.text(state, name) for name in change_files(plan)}
        issues = [*_rule_issues(plan), *_openspec_issues(change_problems(spec))]
        shown = [one.message for one in issues]
        facts = {"plan": plan_text(plan), "issues": shown}
        opinion = await self.ask("plan_review", PlanOpinion, facts)
        found = None if isinstance(opinion, TurnFailed) else opinion
        if found is not None:
            issues += [PlanIssue(code="reviewer", **dict(one)) for one in found.issues]
        wrong = [one.message for one in issues if one.must_fix]
        if found is not None and found.verdict == "revise" and not wrong:
            wrong = [found.summary]
        gate = GateDecision(gate="plan", passed=not wrong, reasons=tuple(wrong))
        review = PlanReview(gate=gate, issues=tuple(issues), ai_review=found)
        files = {
            **await self.write("review.plan", review),
            **await self.write("review.plan_notes", _review_text(review)),
        }
        status = "completed" if gate.passed else "failed"
        patch = StatePatch(artifacts=files, gate=gate, status=status, reason="; ".join(wrong))
        by = "rules and a reviewer" if found else "rules alone: no model answered"
        return StepResult(patch=patch, logs=(f"{len(issues)} issues, by {by}",))


class PlanningMeetingStep(PipelineStepRun):
    """A chair merges plan and review; rules alone where no model answers."""

    async def step(self, state: PipelineState, message: StepMessage | None) -> StepResult:
        """The minutes."""
        plan = await self.read(state, "planning.current", StructuredPlan)
        review = await self.read(state, "review.plan", PlanReview)
        assert plan is not None  # the state allows the step
        assert review is not None
        facts = {
            "plan": plan_text(plan),
            "review": review.written(),
            "questions": plan.open_questions,
        }
        chair = await self.ask("chair", ChairDecision, facts, prompt="planning_meeting")
        minutes = None if isinstance(chair, TurnFailed) else chair.minutes
        summary = PlanningSummary(
            why=plan.why,
            what=plan.what,
            scope=plan.scope,
            non_goals=plan.non_goals,
            open_questions=len(plan.open_questions),
        )
        meeting = PlanningMeeting(
            planning_summary=summary, issues=review.issues, ai_meeting=minutes
        )
        files = {
            **await self.write("planning.meeting", meeting),
            **await self.write("planning.minutes", minutes_text(plan.title, minutes)),
        }
        return StepResult(patch=StatePatch(artifacts=files), logs=("the meeting is written down",))


def _rule_issues(plan: StructuredPlan) -> list[PlanIssue]:
    return [
        PlanIssue(
            code="missing_field",
            field=name,
            message=f"The plan has no {name}.",
            must_fix=name == "requirements",
        )
        for name in _NEEDED
        if not getattr(plan, name)
    ]


def _openspec_issues(problems: Sequence[str]) -> list[PlanIssue]:
    return [
        PlanIssue(code="openspec_invalid", message=problem, must_fix=True) for problem in problems
    ]


def plan_text(plan: StructuredPlan) -> str:
    """A plan as people read it."""
    sections: Mapping[str, Sequence[str]] = {
        "Requirements": [f"{one.title}. {one.text}".strip() for one in plan.requirements],
        "Scope": plan.scope,
        "Non-goals": plan.non_goals,
        "Design": [plan.design] if plan.design else [],
        "Files": [f"{one.path} ({one.type}): {one.purpose}" for one in plan.file_impacts],
        "Tasks": [one.title for one in plan.tasks],
        "Risks": [f"{one.description} {one.mitigation}".strip() for one in plan.risks],
        "Tests": [plan.test_plan.strategy, *(one.name for one in plan.test_plan.key_cases)],
        "Assumptions": plan.assumptions,
        "Open questions": plan.open_questions,
    }
    lines = [f"# {plan.title}", "", plan.why, "", plan.what]
    for title, entries in sections.items():
        shown = [entry for entry in entries if entry]
        if shown:
            lines += ["", f"## {title}", "", *(f"- {entry}" for entry in shown)]
    return "\n".join(lines) + "\n"


def _review_text(review: PlanReview) -> str:
    verdict = "passed" if review.gate.passed else "failed"
    lines = [f"# Plan review: {verdict}", ""]
    lines += [f"- {one.severity}: {one.message}" for one in review.issues] or ["No issues."]
    if review.ai_review is None:
        lines += ["", "By rules alone: no model answered."]
    else:
        lines += ["", review.ai_review.summary]
    return "\n".join(lines) + "\n"


def minutes_text(title: str, minutes: MeetingMinutes | None) -> str:
    """Minutes as people read them."""
    lines = [f"# Meeting: {title}"]
    if minutes is None:
        return "\n".join([*lines, "", "By rules alone: no model answered."]) + "\n"
    for name in MeetingMinutes.model_fields:
        entries = cast("Sequence[str]", getattr(minutes, name))
        if entries:
            heading = name.replace("_", " ").capitalize()
            lines += ["", f"## {heading}", "", *(f"- {one}" for one in entries)]
    return "\n".join(lines) + "\n"
