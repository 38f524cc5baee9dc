"""Every pipeline artifact, by its name in the state: steps use no other paths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from coterie.errors import UsageError
from coterie.model.artifact import ArtifactData
from coterie.model.code_change import CodegenIr, CodegenPlan, CodePatch
from coterie.model.eval_report import EvalReport
from coterie.model.planning import PlanFiles, PlannedTests, StructuredPlan, TranscriptLine
from coterie.model.reviews import CodeReview, PlanningMeeting, PlanReview, ReviewMeeting
from coterie.model.trajectory import TrajectoryLine

_CHANGE = "openspec/changes/{change}"


class DeclaredArtifact(NamedTuple):
    """An artifact that a step may write: its file under the task's folder, and its contents."""

    file: str
    model: type[ArtifactData] | None = None
    """The model of its data; None for a text meant for people, or a folder."""


ARTIFACTS: Mapping[str, DeclaredArtifact] = {
    "planning.current": DeclaredArtifact("planning.ai.json", StructuredPlan),
    "planning.draft": DeclaredArtifact("planning.draft.json", StructuredPlan),
    "planning.final": DeclaredArtifact("planning.final.json", StructuredPlan),
    "planning.transcript": DeclaredArtifact("planning.transcript.jsonl", TranscriptLine),
    "planning.meeting": DeclaredArtifact("planning.meeting.json", PlanningMeeting),
    "planning.minutes": DeclaredArtifact("planning.meeting.md"),
    "plan_files": DeclaredArtifact("plan.files.json", PlanFiles),
    "plan": DeclaredArtifact("plan.md"),
    "openspec.change": DeclaredArtifact(f"{_CHANGE}/proposal.md"),
    "openspec.design": DeclaredArtifact(f"{_CHANGE}/design.md"),
    "openspec.tasks": DeclaredArtifact(f"{_CHANGE}/tasks.md"),
    "openspec.spec": DeclaredArtifact(f"{_CHANGE}/specs/{{capability}}/spec.md"),
    "code.plan": DeclaredArtifact("codegen.plan.json", CodegenPlan),
    "code.ir": DeclaredArtifact("codegen.ir.json", CodegenIr),
    "code.patch": DeclaredArtifact("patch.json", CodePatch),
    "code.files_dir": DeclaredArtifact("files/"),
    "review.plan": DeclaredArtifact("plan-review.json", PlanReview),
    "review.plan_notes": DeclaredArtifact("plan-review.md"),
    "review.code": DeclaredArtifact("review.json", CodeReview),
    "review.second_opinion": DeclaredArtifact("second_opinion.md"),
    "review.meeting": DeclaredArtifact("review.meeting.json", ReviewMeeting),
    "review.minutes": DeclaredArtifact("review.meeting.md"),
    "test.plan": DeclaredArtifact("test-plan.json", PlannedTests),
    "test.report": DeclaredArtifact("eval-report.json", EvalReport),
    "trajectory": DeclaredArtifact("trajectory.jsonl", TrajectoryLine),
}
"""The report's `eval-<name>.log` files are next to it; it lists their names."""


def declared(name: str) -> DeclaredArtifact:
    """Return the artifact of that name.  Raises UsageError if it is not declared."""
    try:
        return ARTIFACTS[name]
    except KeyError:
        known = ", ".join(ARTIFACTS)
        raise UsageError(f'No artifact is named "{name}". Known artifacts: {known}.') from None


def artifact_file(name: str, change: str = "", capability: str = "") -> str:
    """The file of an artifact, under the task's folder; OpenSpec artifacts need the change id."""
    return declared(name).file.format(change=change, capability=capability)
