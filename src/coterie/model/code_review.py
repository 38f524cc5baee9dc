"""The artifacts of code review: findings by file and line, opinions, and the review meeting."""

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

ReviewRole = Literal["review", "second_opinion", "security"]


class Finding(ArtifactData):
    """Something that a reviewer found in a change."""

    file: str = Field(default="", description="Where, relative to the project. Empty: everywhere.")
    line: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="The line, as the file is now. Left out: the whole file."
    )
    severity: Severity = Field(default="minor", description="How bad it is.")
    must_fix: bool = Field(default=False, description="Whether the work goes back for it.")
    message: Said = Field(description="What is wrong.")
    suggestion: str = Field(default="", description="What would mend it.")


def _said(given: object) -> object:
    return {"message": given} if isinstance(given, str) else given


class ReviewOpinion(ArtifactData):
    """What one reviewer says of a change."""

    summary: Said = Field(description="What the reviewer thinks of it.")
    findings: tuple[Annotated[Finding, BeforeValidator(_said)], ...] = Field(
        default=(), description="What was found, each with its file and line."
    )
    risks: Lines = Field(default=(), description="What could go wrong.")
    suggestions: Lines = Field(default=(), description="What would make it better.")


class MemberOpinion(ReviewOpinion):
    """The same, and whose it is."""

    role: ReviewRole = Field(description="The role that was filled.")
    member: str = Field(description="Who filled it.")
    agent: str = Field(default="", description="The agent of that member.")


class CodeReview(ArtifactData):
    """`review.json`: every opinion of a change, and whether it passes."""

    gate: GateDecision = Field(description="Whether the work may go on.")
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
        """Those that the work goes back for."""
        return tuple(one for one in self.findings if one.must_fix)


class ReviewSummary(ArtifactData):
    """The reviews in short."""

    tree: str = Field(default="", description="The hash of the tree that was reviewed.")
    opinions: Annotated[int, Field(ge=0)] = Field(description="How many reviewers answered.")
    findings: Annotated[int, Field(ge=0)] = Field(description="How many findings there are.")
    must_fix: Annotated[int, Field(ge=0)] = Field(description="How many the work goes back for.")


class ReviewMeeting(ArtifactData):
    """`review.meeting.json`: the minutes of the meeting about the reviews."""

    review_summary: ReviewSummary = Field(description="The reviews in short.")
    issues: tuple[Finding, ...] = Field(default=(), description="All findings, the worst first.")
    ai_meeting: MeetingMinutes | None = Field(
        default=None, description="The chair's minutes. Left out: no model answered."
    )
