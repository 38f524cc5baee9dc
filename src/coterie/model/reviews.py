"""The artifacts of reviews: issues in a plan, findings in a change, and minutes of meetings."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from coterie.model.artifact import (
    ArtifactData,
    GateDecision,
    Lines,
    MeetingMinutes,
    NonEmptyText,
    Severity,
    object_from_text,
)

ReviewRole = Literal["review", "second_opinion", "security"]
IssueCode = Literal[
    "missing_field", "openspec_invalid", "openspec_unchecked", "open_question", "reviewer"
]

# -- of a plan -----------------------------------------------------------------------------------


class PlanIssue(ArtifactData):
    """Something wrong with a plan, or missing from it."""

    code: IssueCode = Field(description="What kind of issue it is.")
    message: NonEmptyText = Field(description="What is wrong.")
    field: str = Field(default="", description="The field of the plan that it is about.")
    severity: Severity = Field(default="major", description="How bad it is.")
    must_fix: bool = Field(default=False, description="Whether the plan goes back for it.")


class ReviewerIssue(ArtifactData):
    """An issue as stated by a reviewer."""

    message: NonEmptyText = Field(description="What is wrong, and what would fix it.")
    field: str = Field(default="", description="The field of the plan that it is about.")
    severity: Severity = Field(default="minor", description="How bad it is.")
    must_fix: bool = Field(default=False, description="Whether work must wait for it.")


class PlanOpinion(ArtifactData):
    """A reviewer's opinion of a plan: `ai_review`."""

    verdict: Literal["approve", "revise"] = Field(description="Whether work may begin on it.")
    summary: NonEmptyText = Field(description="What the reviewer thinks of it.")
    issues: tuple[Annotated[ReviewerIssue, object_from_text("message")], ...] = Field(
        default=(), description="What is wrong or missing."
    )
    suggestions: Lines = Field(default=(), description="What would make it better.")


class PlanReview(ArtifactData):
    """`plan-review.json`: what the rules and a reviewer found, and whether the plan passes."""

    gate: GateDecision = Field(description="Whether work may begin.")
    issues: tuple[PlanIssue, ...] = Field(default=(), description="All that was found.")
    openspec: Literal["tool", "structure"] = Field(
        default="structure",
        description="What checked the OpenSpec change: openspec itself, or our check of its form.",
    )
    ai_review: PlanOpinion | None = Field(
        default=None, description="The reviewer's opinion. Omitted if no model answered."
    )


class ClarifiedQuestion(ArtifactData):
    """An open question, and how it was settled."""

    question: NonEmptyText = Field(description="What was open.")
    role: str = Field(default="", description="The role that wanted to know.")
    answer: str = Field(default="", description="The answer. Empty: still open.")
    settled_by: Literal["user", "role", "nobody"] = Field(
        default="nobody", description="Who answered it."
    )


class PlanningSummary(ArtifactData):
    """A summary of the plan."""

    why: str = Field(description="Why it is worth doing.")
    what: str = Field(description="What will change.")
    scope: Lines = Field(default=(), description="What belongs to it.")
    non_goals: Lines = Field(default=(), description="What does not belong to it.")
    open_questions: Annotated[int, Field(ge=0)] = Field(
        default=0, description="How many questions are still open."
    )


class ChairDecision(ArtifactData):
    """The decision of a planning meeting's chair: the minutes, and what must be asked."""

    minutes: MeetingMinutes = Field(description="The minutes of the meeting.")
    clarify: tuple[ClarifiedQuestion, ...] = Field(
        default=(),
        description="Open questions that need a small meeting: who wants to know, or the answer.",
    )


class PlanningMeeting(ArtifactData):
    """`planning.meeting.json`: the minutes of the meeting about the plan and its review."""

    planning_summary: PlanningSummary = Field(description="A summary of the plan.")
    issues: tuple[PlanIssue, ...] = Field(default=(), description="What the review found.")
    clarifications: tuple[ClarifiedQuestion, ...] = Field(
        default=(), description="Questions that a clarification meeting dealt with."
    )
    ai_meeting: MeetingMinutes | None = Field(
        default=None, description="The chair's minutes. Omitted if no model answered."
    )


# -- of a change ---------------------------------------------------------------------------------


class Finding(ArtifactData):
    """Something that a reviewer found in a change."""

    file: str = Field(default="", description="Where, relative to the project. Empty: everywhere.")
    line: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="The line, in the file as it is now. Omitted for the whole file."
    )
    severity: Severity = Field(default="minor", description="How bad it is.")
    must_fix: bool = Field(default=False, description="Whether the work goes back for it.")
    message: NonEmptyText = Field(description="What is wrong.")
    suggestion: str = Field(default="", description="What would fix it.")


class ReviewOpinion(ArtifactData):
    """One reviewer's opinion of a change."""

    summary: NonEmptyText = Field(description="What the reviewer thinks of it.")
    findings: tuple[Annotated[Finding, object_from_text("message")], ...] = Field(
        default=(), description="What was found, each with its file and line."
    )
    risks: Lines = Field(default=(), description="What could go wrong.")
    suggestions: Lines = Field(default=(), description="What would make it better.")


class MemberOpinion(ReviewOpinion):
    """A reviewer's opinion of a change, with its role and member."""

    role: ReviewRole = Field(description="The role that was filled.")
    member: str = Field(description="Who filled it.")
    agent: str = Field(default="", description="The agent of that member.")


class CodeReview(ArtifactData):
    """`review.json`: every opinion of a change, and whether it passes."""

    gate: GateDecision = Field(description="Whether the work may continue.")
    opinions: tuple[MemberOpinion, ...] = Field(default=(), description="One for each role.")
    unanswered: tuple[ReviewRole, ...] = Field(
        default=(), description="Roles whose member gave no answer."
    )

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, in the order of the opinions."""
        return tuple(one for opinion in self.opinions for one in opinion.findings)

    @property
    def must_fix(self) -> tuple[Finding, ...]:
        """The findings for which the work goes back."""
        return tuple(one for one in self.findings if one.must_fix)


class ReviewSummary(ArtifactData):
    """A summary of the reviews."""

    tree: str = Field(default="", description="The hash of the tree that was reviewed.")
    opinions: Annotated[int, Field(ge=0)] = Field(description="How many reviewers answered.")
    findings: Annotated[int, Field(ge=0)] = Field(description="How many findings there are.")
    must_fix: Annotated[int, Field(ge=0)] = Field(description="How many the work goes back for.")


class ReviewMeeting(ArtifactData):
    """`review.meeting.json`: the minutes of the meeting about the reviews."""

    review_summary: ReviewSummary = Field(description="A summary of the reviews.")
    issues: tuple[Finding, ...] = Field(default=(), description="All findings, worst first.")
    ai_meeting: MeetingMinutes | None = Field(
        default=None, description="The chair's minutes. Omitted if no model answered."
    )
