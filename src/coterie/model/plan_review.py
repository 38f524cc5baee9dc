"""The artifacts of a plan's review: what rules and a reviewer found, and what a meeting settled."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from coterie.model.artifact import (
    ArtifactData,
    GateDecision,
    Lines,
    MeetingMinutes,
    Said,
    Severity,
)

IssueCode = Literal[
    "missing_field", "openspec_invalid", "openspec_unchecked", "open_question", "reviewer"
]


class PlanIssue(ArtifactData):
    """Something that is wrong with a plan, or missing in it."""

    code: IssueCode = Field(description="What kind of issue it is.")
    message: Said = Field(description="What is wrong.")
    field: str = Field(default="", description="The field of the plan that it is about.")
    severity: Severity = Field(default="major", description="How bad it is.")
    must_fix: bool = Field(default=False, description="Whether the plan goes back for it.")


class ReviewerIssue(ArtifactData):
    """An issue as a reviewer names it."""

    message: Said = Field(description="What is wrong, and what would mend it.")
    field: str = Field(default="", description="The field of the plan that it is about.")
    severity: Severity = Field(default="minor", description="How bad it is.")
    must_fix: bool = Field(default=False, description="Whether work must not begin before.")


def _named(given: object) -> object:
    return {"message": given} if isinstance(given, str) else given


class PlanOpinion(ArtifactData):
    """A reviewer's opinion of a plan: `ai_review`."""

    verdict: Literal["approve", "revise"] = Field(description="Whether work may begin on it.")
    summary: Said = Field(description="What the reviewer thinks of it.")
    issues: tuple[Annotated[ReviewerIssue, BeforeValidator(_named)], ...] = Field(
        default=(), description="What is wrong or missing."
    )
    suggestions: Lines = Field(default=(), description="What would make it better.")


class PlanReview(ArtifactData):
    """`plan-review.json`: what rules and a reviewer say of a plan, and whether it passes."""

    gate: GateDecision = Field(description="Whether work may begin.")
    issues: tuple[PlanIssue, ...] = Field(default=(), description="All that was found.")
    openspec: Literal["tool", "structure"] = Field(
        default="structure",
        description="Who checked the OpenSpec change: the real tool, or our own look at its form.",
    )
    ai_review: PlanOpinion | None = Field(
        default=None, description="The reviewer's opinion. Left out: no model answered."
    )


class ClarifiedQuestion(ArtifactData):
    """An open question, and how it was settled."""

    question: Said = Field(description="What was open.")
    role: str = Field(default="", description="The role that wanted to know.")
    answer: str = Field(default="", description="What was said. Empty: it stays open.")
    settled_by: Literal["user", "role", "nobody"] = Field(
        default="nobody", description="Who answered it."
    )


class PlanningSummary(ArtifactData):
    """The plan in short."""

    why: str = Field(description="What it is good for.")
    what: str = Field(description="What will be different.")
    scope: Lines = Field(default=(), description="What belongs to it.")
    non_goals: Lines = Field(default=(), description="What does not.")
    open_questions: Annotated[int, Field(ge=0)] = Field(
        default=0, description="How many questions are still open."
    )


class ChairDecision(ArtifactData):
    """What the chair of a planning meeting says: the minutes, and what must be asked."""

    minutes: MeetingMinutes = Field(description="What came of the meeting.")
    clarify: tuple[ClarifiedQuestion, ...] = Field(
        default=(),
        description="Open questions that need a small meeting: who wants to know, or the answer.",
    )


class PlanningMeeting(ArtifactData):
    """`planning.meeting.json`: the minutes of the meeting about plan and review."""

    planning_summary: PlanningSummary = Field(description="The plan in short.")
    issues: tuple[PlanIssue, ...] = Field(default=(), description="What the review found.")
    clarifications: tuple[ClarifiedQuestion, ...] = Field(
        default=(), description="Questions that a clarification meeting dealt with."
    )
    ai_meeting: MeetingMinutes | None = Field(
        default=None, description="The chair's minutes. Left out: no model answered."
    )
