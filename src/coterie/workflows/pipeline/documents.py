"""The artifacts of a pipeline that people read, rendered from the data next to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from coterie.model.artifact import MeetingMinutes
from coterie.model.markdown import bullets, document, inline, paragraph, section
from coterie.model.planning import Requirement, StructuredPlan
from coterie.model.question_text import counted
from coterie.model.reviews import (
    CodeReview,
    Finding,
    MemberOpinion,
    PlanIssue,
    PlanningMeeting,
    PlanReview,
    ReviewMeeting,
)

_NO_MODEL = "No model answered; only rules were applied."
_NONE = "None."


def plan_document(plan: StructuredPlan) -> str:
    """`plan.md`: the plan in readable form."""
    tests = plan.test_plan
    cases = (
        f"{one.name}"
        + (f": {one.expected}" if one.expected else "")
        + ("" if one.automated else " (a person must look)")
        for one in tests.key_cases
    )
    files = (f"`{one.path}` ({one.type})" + _after(one.purpose) for one in plan.file_impacts)
    risks = (one.description + _after(one.mitigation, " → ") for one in plan.risks)
    return document(
        plan.title,
        section("Why", paragraph(plan.why)),
        section("What", paragraph(plan.what)),
        section("Scope", bullets(plan.scope)),
        section("Not in scope", bullets(plan.non_goals)),
        section("Requirements", "\n".join(_requirements(plan.requirements))),
        section("Design", paragraph(plan.design)),
        section("Files", bullets(files)),
        section("Work", "\n".join(_work(plan))),
        section("Tests", "\n\n".join(filter(None, (paragraph(tests.strategy), bullets(cases))))),
        section("Risks", bullets(risks)),
        section("Assumptions", bullets(plan.assumptions)),
        section("Open questions", bullets(plan.open_questions, _NONE)),
    )


def _requirements(requirements: Iterable[Requirement]) -> Iterator[str]:
    for one in requirements:
        yield f"- **{inline(one.title)}**" + _after(inline(one.text), " ")
        for scenario in one.scenarios:
            words = (("given", scenario.given), ("when", scenario.when), ("then", scenario.then))
            steps = ", ".join(f"{word} {inline(text)}" for word, text in words if text.strip())
            if steps:
                yield f"  - {inline(scenario.name)}{': ' if scenario.name else ''}{steps}"


def _work(plan: StructuredPlan) -> Iterator[str]:
    for number, task in enumerate(plan.tasks, 1):
        yield f"{number}. {inline(task.title)}"
        yield from (f"   - {inline(detail)}" for detail in task.details)


def plan_review_document(review: PlanReview) -> str:
    """`plan-review.md`: what rules and a reviewer found in the plan."""
    opinion = review.ai_review
    checked = {
        "tool": "The OpenSpec change was checked by `openspec validate --strict`.",
        "structure": "Coterie checked only the structure of the OpenSpec change; the `openspec` "
        "tool did not check it.",
    }[review.openspec]
    summary = paragraph(opinion.summary) if opinion else _NO_MODEL
    return document(
        "Plan review",
        section("Gate", _gate(passed=review.gate.passed, reasons=review.gate.reasons)),
        section("Issues", bullets(map(_issue, review.issues), _NONE)),
        section("OpenSpec", checked),
        section("Reviewer", summary),
        section("Suggestions", bullets(opinion.suggestions if opinion else ())),
    )


def planning_meeting_document(meeting: PlanningMeeting) -> str:
    """`planning.meeting.md`: the minutes of the planning meeting."""
    short = meeting.planning_summary
    clarified = (
        f"{one.question}"
        + _after(one.role and f"asked by {one.role}", " — ")
        + (f": {one.answer} ({one.settled_by})" if one.answer else ": still open")
        for one in meeting.clarifications
    )
    return document(
        "Planning meeting",
        section("Why", paragraph(short.why)),
        section("What", paragraph(short.what)),
        section("Scope", bullets(short.scope)),
        section("Not in scope", bullets(short.non_goals)),
        section("Open questions", str(short.open_questions)),
        section("Clarified", bullets(clarified)),
        section("Issues", bullets(map(_issue, meeting.issues), _NONE)),
        *_minutes(meeting.ai_meeting),
    )


def review_meeting_document(meeting: ReviewMeeting) -> str:
    """`review.meeting.md`: the minutes of the review meeting."""
    short = meeting.review_summary
    counts = (counted(short.opinions, "review"), counted(short.findings, "finding"))
    figures = f"{', '.join(counts)}, {short.must_fix} must be fixed"
    at = f", at tree {short.tree[:12]}" if short.tree else ""
    return document(
        "Review meeting",
        section("Reviews", f"{figures}{at}."),
        section("Findings", bullets(map(finding_line, meeting.issues), _NONE)),
        *_minutes(meeting.ai_meeting),
    )


def second_opinion_document(review: CodeReview) -> str:
    """`second_opinion.md`: what the independent reviewer says."""
    opinions = [one for one in review.opinions if one.role == "second_opinion"]
    if not opinions:
        return document("Second opinion", section("Summary", "There is none."))
    return document("Second opinion", *_opinion(opinions[0]))


def _opinion(opinion: MemberOpinion) -> Iterator[str]:
    by = f"{opinion.member} ({opinion.agent})" if opinion.agent else opinion.member
    yield section("From", inline(by))
    yield section("Summary", paragraph(opinion.summary))
    yield section("Findings", bullets(map(finding_line, opinion.findings), _NONE))
    yield section("Risks", bullets(opinion.risks))
    yield section("Suggestions", bullets(opinion.suggestions))


def _minutes(minutes: MeetingMinutes | None) -> Iterator[str]:
    if minutes is None:
        yield section("Minutes", _NO_MODEL)
        return
    yield section("Consensus", bullets(minutes.consensus, _NONE))
    yield section("Disagreements", bullets(minutes.disagreements, _NONE))
    yield section("Risks", bullets(minutes.risks, _NONE))
    yield section("Next", bullets(minutes.next_actions, _NONE))


def finding_line(finding: Finding) -> str:
    """Render a finding in one line: place, severity, message."""
    place = f"{finding.file}:{finding.line}" if finding.line else finding.file
    bad = f"{finding.severity}, must be fixed" if finding.must_fix else finding.severity
    where = f"`{place}` " if place else ""
    return f"{where}({bad}) {finding.message}" + _after(finding.suggestion, " → ")


def _issue(issue: PlanIssue) -> str:
    where = f"`{issue.field}` " if issue.field else ""
    bad = f"{issue.severity}, must be fixed" if issue.must_fix else issue.severity
    return f"{where}({bad}) {issue.message}"


def _gate(*, passed: bool, reasons: Iterable[str]) -> str:
    return "Passed." if passed else f"Not passed.\n\n{bullets(reasons)}".rstrip()


def _after(text: str, between: str = ": ") -> str:
    return f"{between}{text}" if text else ""
