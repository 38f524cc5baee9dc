"""Pipeline artifacts: one table of names, and data that matches the shipped schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from coterie.config.schemas import FOLDER
from coterie.errors import UsageError
from coterie.model.artifact import ArtifactData
from coterie.model.artifact_table import ARTIFACTS, artifact_file, declared
from coterie.model.code_change import FilePatch
from coterie.model.phase_graph import PIPELINE_STEPS
from coterie.model.planning import PlanFiles, StructuredPlan, TranscriptLine
from coterie.model.reviews import CodeReview, Finding, ReviewOpinion

AT = "2026-01-31T12:00:00.000Z"
PLAN: dict[str, Any] = {
    "title": "Coupons",
    "why": "Customers ask for them.",
    "what": "A code at the checkout lowers the total.",
    "capability": "checkout",
    "requirements": [
        {
            "title": "A coupon lowers the total",
            "text": "The total is lower by the coupon's share.",
            "scenarios": [{"name": "ten percent", "when": "SAVE10 is given", "then": "it is 90"}],
        }
    ],
    "scope": ["the cart"],
    "non_goals": ["vouchers"],
    "design": "A pure function.",
    "file_impacts": [{"path": "shop/cart.py", "purpose": "the total", "type": "modify"}],
    "tasks": [{"title": "Write it", "details": ["the function"]}],
    "risks": [{"description": "rounding", "mitigation": "cents", "rollback": "revert"}],
    "test_plan": {
        "strategy": "unit tests",
        "key_cases": [{"name": "ten percent", "expected": "90"}],
    },
    "assumptions": ["one coupon"],
    "open_questions": [],
}
GATE = {"gate": "plan", "passed": False, "reasons": ["no tests"]}
ISSUE = {"code": "missing_field", "message": "no tests", "field": "test_plan", "must_fix": True}
MINUTES = {"consensus": ["do it"], "disagreements": [], "risks": [], "next_actions": ["begin"]}
FINDING = {"file": "shop/cart.py", "line": 3, "severity": "major", "must_fix": True, "message": "x"}
SAMPLES: dict[str, dict[str, Any]] = {
    "planning.current": PLAN,
    "planning.draft": PLAN,
    "planning.final": PLAN,
    "planning.transcript": {"timestamp": AT, "round": 1, "from": "user", "content": "Coupons."},
    "planning.meeting": {
        "planning_summary": {"why": "w", "what": "x", "open_questions": 1},
        "issues": [ISSUE],
        "clarifications": [{"question": "q", "role": "risk", "answer": "a", "settled_by": "user"}],
        "ai_meeting": MINUTES,
    },
    "plan_files": {"files": PLAN["file_impacts"]},
    "code.plan": {"summary": "s", "files": [{"path": "shop/cart.py", "intent": "the total"}]},
    "code.ir": {
        "files": [
            {
                "path": "shop/cart.py",
                "operation": "modify",
                "intent": "the total",
                "is_planned": True,
                "exists": True,
            }
        ]
    },
    "code.patch": {
        "base": "a",
        "tree": "b",
        "files": [{"path": "shop/cart.py", "operation": "modify", "additions": 1, "deletions": 0}],
        "summary": {"files": 1, "additions": 1, "deletions": 0},
    },
    "review.plan": {
        "gate": GATE,
        "issues": [ISSUE],
        "openspec": "tool",
        "ai_review": {"verdict": "revise", "summary": "s", "issues": [{"message": "m"}]},
    },
    "review.code": {
        "gate": {**GATE, "gate": "review", "tree": "b"},
        "opinions": [
            {"role": "security", "member": "rex", "summary": "s", "findings": [FINDING]},
        ],
        "unanswered": ["second_opinion"],
    },
    "review.meeting": {
        "review_summary": {"tree": "b", "opinions": 1, "findings": 1, "must_fix": 1},
        "issues": [FINDING],
        "ai_meeting": MINUTES,
    },
    "test.plan": PLAN["test_plan"],
    "test.report": {
        "gate": {**GATE, "gate": "tests", "tree": "b"},
        "runs": [{"name": "pytest", "command": "pytest -q", "origin": "found", "exit_code": 1}],
        "debrief": {"summary": "s", "causes": ["c"], "next_actions": ["n"]},
    },
    "trajectory": {
        "timestamp": AT,
        "visit": 2,
        "state": {"phase": "plan_review", "rounds": {"planning": 1}, "gates": {}},
        "action": "plan_review",
        "outcome": "failed",
        "gate": False,
        "issues": 1,
        "cost": {"turns": 1, "usd": 0.5},
    },
}


def model_of(name: str) -> type[ArtifactData]:
    model = declared(name).model
    assert model is not None
    return model


def test_every_artifact_of_data_has_a_sample_here() -> None:
    assert set(SAMPLES) == {name for name, one in ARTIFACTS.items() if one.model}


@pytest.mark.parametrize("name", SAMPLES)
def test_what_is_written_is_read_again_and_fits_its_schema(name: str) -> None:
    made = model_of(name).model_validate(SAMPLES[name])
    again = model_of(name).model_validate_json(made.written())
    assert again == made
    stem = declared(name).file.rpartition(".")[0]
    schema = json.loads((FOLDER / "artifacts" / f"{stem}.schema.json").read_text())
    Draft202012Validator(schema).validate(json.loads(made.written()))
    assert not Draft202012Validator(schema).is_valid({**SAMPLES[name], "more": 1})
    with pytest.raises(ValidationError):
        model_of(name).model_validate({**SAMPLES[name], "more": 1})


def test_steps_read_and_write_declared_names_only() -> None:
    named = {name for step in PIPELINE_STEPS.values() for name in step.reads | step.writes}
    assert named <= set(ARTIFACTS)
    files = [one.file for one in ARTIFACTS.values()]
    assert len(files) == len(set(files))
    with pytest.raises(UsageError, match=r"planning\.last"):
        declared("planning.last")


def test_the_files_of_a_change_have_its_id_in_their_path() -> None:
    assert artifact_file("openspec.spec", "add-coupons", "checkout") == (
        "openspec/changes/add-coupons/specs/checkout/spec.md"
    )
    assert artifact_file("planning.current") == "planning.ai.json"


def test_one_text_stands_for_what_it_plainly_means() -> None:
    plan = StructuredPlan.model_validate(
        {
            **PLAN,
            "scope": "the cart",
            "requirements": ["A coupon lowers the total"],
            "file_impacts": ["./shop/cart.py", "shop/new.py", "shop\\cart.py"],
            "risks": ["rounding"],
            "tasks": ["Write it"],
            "test_plan": "unit tests",
        }
    )
    assert plan.scope == ("the cart",)
    assert plan.requirements[0].title == "A coupon lowers the total"
    assert plan.risks[0].description == "rounding"
    assert plan.test_plan.strategy == "unit tests"
    assert [one.path for one in PlanFiles.of(plan).files] == ["shop/cart.py", "shop/new.py"]


@pytest.mark.parametrize("path", ["/etc/passwd", "../up.py", "a/../../b", "", " ", ".", "a\0b"])
def test_a_path_that_leads_out_of_the_project_is_refused(path: str) -> None:
    with pytest.raises(ValidationError, match="not the path of a file"):
        StructuredPlan.model_validate({**PLAN, "file_impacts": [path]})


@pytest.mark.parametrize("path", [".git/hooks/pre-commit", "a/.GIT/config", ".coterie/eval.conf"])
def test_what_is_gits_or_ours_is_part_of_no_plan(path: str) -> None:
    with pytest.raises(ValidationError, match="cannot be part of a plan"):
        StructuredPlan.model_validate({**PLAN, "file_impacts": [path]})


def test_a_change_is_written_down_whatever_its_files_are_called() -> None:
    for path in ("a\\b.py", ".coterie/x", "caf\udce9.py"):
        made = FilePatch.model_validate({"path": path, "operation": "create"})
        assert made.path == path.replace("\udce9", "<0xE9>")


@pytest.mark.parametrize(
    ("said", "meant"), [("high", "major"), ("Critical", "critical"), ("nit", "info")]
)
def test_reviewers_have_other_words_for_how_bad_it_is(said: str, meant: str) -> None:
    assert Finding.model_validate({"message": "m", "severity": said}).severity == meant
    with pytest.raises(ValidationError):
        Finding.model_validate({"message": "m", "severity": "purple"})


def test_a_review_knows_what_must_be_mended() -> None:
    review = CodeReview.model_validate(SAMPLES["review.code"])
    assert review.must_fix == review.findings == (Finding.model_validate(FINDING),)
    assert ReviewOpinion.model_validate({"summary": "s", "findings": ["m"]}).findings == (
        Finding(message="m"),
    )


def test_what_is_no_text_is_written_out() -> None:
    line = TranscriptLine.model_validate(
        {"timestamp": AT, "round": 1, "from": "agent", "content": "\udce9\ud800"}
    )
    assert line.written(indent=None).encode()
    assert line.content == "<0xE9>\ufffd"
