"""The stand-in's answers to a pipeline's roles carry a rehearsal to its end."""

from __future__ import annotations

import json

import pytest

from coterie.model.artifact import ArtifactData, MeetingMinutes
from coterie.model.code_change import CodegenPlan
from coterie.model.eval_report import Debrief
from coterie.model.openspec import change_files, change_problems
from coterie.model.planning import PlanFiles, RoleNotes, StructuredPlan
from coterie.model.reviews import ChairDecision, PlanOpinion, ReviewOpinion
from coterie.rehearsal.filling import Filling
from coterie.rehearsal.model_api import CompletionRequest, ModelReply, TextMessage
from coterie.rehearsal.prompt_facts import PromptFacts
from coterie.rehearsal.simulation import Simulation

GOAL = "add coupons to shop/cart.py; test them in tests/test_cart.py"
ANSWERS: tuple[type[ArtifactData], ...] = (
    RoleNotes,
    StructuredPlan,
    PlanOpinion,
    ChairDecision,
    CodegenPlan,
    ReviewOpinion,
    MeetingMinutes,
    Debrief,
)


@pytest.mark.parametrize("wanted", ANSWERS)
async def test_every_role_gets_what_it_is_asked_for(wanted: type[ArtifactData]) -> None:
    schema = json.dumps(wanted.model_json_schema())
    prompt = (
        f"You look after it. Only look: do not change files.\n\nGoal: {GOAL}\n\nAnswer with one "
        f"JSON object in a ```json block. It must fit this JSON Schema:\n{schema}"
    )
    asked = CompletionRequest("anthropic", "other", "m", (), (TextMessage("user", prompt),), ())
    reply = await Simulation().answer(asked)
    assert isinstance(reply, ModelReply)
    block = reply.text.partition("```json")[2].rpartition("```")[0]
    match wanted.model_validate_json(block):
        case StructuredPlan() as plan:
            assert plan.requirements
            assert all(one.scenarios for one in plan.requirements)
            paths = [one.path for one in PlanFiles.of(plan).files]
            assert paths == ["shop/cart.py", "tests/test_cart.py"]
            assert all((plan.scope, plan.design, plan.tasks, plan.test_plan.key_cases))
            assert plan.open_questions == ()
            assert change_problems(change_files(plan)) == []
        case PlanOpinion() as opinion:
            assert (opinion.verdict, opinion.issues) == ("approve", ())
        case ChairDecision() as chair:
            assert chair.minutes.consensus
            assert chair.clarify == ()
        case CodegenPlan() as intent:
            assert [one.path for one in intent.files] == ["shop/cart.py", "tests/test_cart.py"]
        case ReviewOpinion() as opinion:
            assert opinion.findings == ()
        case other:
            assert isinstance(other, RoleNotes | MeetingMinutes | Debrief)


@pytest.mark.parametrize("goal", ["優惠券", "add coupons", "# x\n\n```\ny"])
def test_a_plan_for_any_goal_can_be_worked_by(goal: str) -> None:
    facts = PromptFacts.of(f"Goal: {goal}")
    plan = StructuredPlan.model_validate(Filling(StructuredPlan.model_json_schema(), facts).value())
    assert len(plan.file_impacts) == 1
    assert change_problems(change_files(plan)) == []
