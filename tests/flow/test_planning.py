"""Planning in a pipeline: the workshop, the review of its plan, and the meeting about both."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from coterie.config.schemas import FOLDER
from coterie.errors import ConfigError
from coterie.model.artifact_table import ARTIFACTS
from coterie.model.pipeline_roles import WORKSHOP
from coterie.model.task import Caps
from coterie.model.team import Member
from coterie.model.update import TurnFailed
from coterie.stores.sqlite import SqliteStorage
from coterie.testing.crash import Crashed, CrashingStorage, CrashPoint
from tests.flow.pipeline_harness import MINUTES, PLAN, PipelineHarness, pipeline, replying, team
from tests.flow.ticket_harness import folder_of, git, repository

PLANNING = ("planning.", "plan", "review.plan", "openspec", "test.plan")
FAILED = TurnFailed("exit", "the model said 500", retry=False)
OPEN = {**PLAN, "open_questions": ["Which currency?", "Who may use them?"]}


@pytest.fixture
def project(memory_path: Path) -> Path:
    return repository(memory_path)


def transcript(built: PipelineHarness) -> list[dict[str, Any]]:
    text = (built.folder / "artifacts" / "planning.transcript.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def text(built: PipelineHarness, name: str) -> str:
    return (built.folder / "artifacts" / name).read_text()


async def test_roles_plan_side_by_side_and_every_artifact_fits_its_schema(project: Path) -> None:
    asked: list[str] = []

    def speak(member: Member, text: str) -> object:
        asked.append(member.id)
        return {"summary": f"{member.id} has spoken"}

    async with pipeline(project, team("ada", "rex", "bob")) as built:
        await built.run(replying(You_take_part_in_a_planning_workshop=speak))
        state = built.state
        assert sorted(asked) == ["ada"] * 3 + ["bob"] * 2 + ["rex"] * 2
        lines = transcript(built)
        assert [line.get("role", "") for line in lines] == ["", *WORKSHOP, "planning"]
        assert {line["member"] for line in lines if line["from"] == "agent"} == {
            "ada",
            "rex",
            "bob",
        }
        written = {name for name in ARTIFACTS if name.startswith(PLANNING)}
        assert written <= set(state.files)
        for name in written:
            model, file = ARTIFACTS[name].model, built.folder / "artifacts" / state.files[name]
            if model is None:
                assert file.read_text().startswith("# ")
                continue
            stem = ARTIFACTS[name].file.rpartition(".")[0]
            schema = json.loads((FOLDER / "artifacts" / f"{stem}.schema.json").read_text())
            whole = file.read_text()
            for part in whole.splitlines() if file.suffix == ".jsonl" else [whole]:
                Draft202012Validator(schema).validate(json.loads(part))
        openspec = state.files["openspec.change"]
        assert openspec == "openspec/changes/add-coupons-to-cart-py-k3f9/proposal.md"
        assert "Only the structure of the OpenSpec change" in text(built, "plan-review.md")
        assert built.artifact("plan-review.json")["openspec"] == "structure"


async def test_roles_settle_open_questions_before_the_user_is_asked(project: Path) -> None:
    settling: list[str] = []
    final = {**PLAN, "assumptions": ["Euro."], "open_questions": ["Who may use them?"]}

    def settle(member: Member, text: str) -> object:
        settling.append(member.id)
        assert "1. Which currency?" in text
        answer = {"number": 1, "answer": "Euro, as everywhere."}
        return {"answers": [answer] if member.id == "ada" else [{"number": 2}]}

    def replan(member: Member, text: str) -> object:
        assert "Which currency? product: Euro, as everywhere." in text
        return final

    say = replying(
        Write_the_plan=OPEN,
        The_plan_has_open_questions=settle,
        There_is_a_plan_already=replan,
    )
    async with pipeline(project) as built:  # nobody is asked: --yes
        await built.run(say)
        assert sorted(settling) == ["ada", "rex"]
        assert built.artifact("planning.draft.json")["open_questions"] == OPEN["open_questions"]
        assert built.artifact("planning.final.json")["assumptions"] == ["Euro."]
        meeting: Any = built.artifact("planning.meeting.json")
        assert meeting["planning_summary"]["open_questions"] == 1
        assert [one["settled_by"] for one in meeting["clarifications"]] == ["nobody"]


async def test_the_chair_carries_questions_to_the_user_and_answers_to_the_role(
    project: Path,
) -> None:
    heard: list[str] = []
    plans = iter([{**PLAN, "assumptions": ["Only members."]}])

    def with_answers(member: Member, text: str) -> object:
        heard.append(text)
        return {"summary": "then only members"}

    clarify = [
        {"question": "Which currency?", "answer": "Euro, says the README.", "role": "system"},
        {"question": "Who may use them?", "role": "risk"},
        {"question": "From when on?", "role": "nobody-here"},
    ]
    say = replying(
        Write_the_plan=OPEN,
        The_plan_has_open_questions={"answers": []},
        about_a_plan_and_its_review={"minutes": MINUTES, "clarify": clarify},
        the_chair_brings_the_answers=with_answers,
        There_is_a_plan_already=lambda *_: next(plans),
    )
    async with pipeline(project, caps=Caps()) as built:
        assert (await built.run(say)).status == "waiting"
        asked = await built.asked()
        assert asked.display.title == "Who may use them?"
        assert await built.answer("", "members only") == "plan_question"
        assert (await built.run(say)).status == "waiting"
        assert (await built.asked()).display.title == "From when on?"
        await built.answer("", "go")
        await built.run(say)
        assert await built.answer("next") == "phase_choice"
        assert len([one for one in heard if "them? Answer: members only" in one]) == 1
        assert built.artifact("planning.final.json")["assumptions"] == ["Only members."]
        meeting: Any = built.artifact("planning.meeting.json")
        assert [(one["role"], one["settled_by"]) for one in meeting["clarifications"]] == [
            ("system", "role"),
            ("risk", "user"),
            ("product", "nobody"),
        ]
        spoken = [(one["from"], one["content"]) for one in transcript(built)[-2:]]
        assert spoken == [("agent", "Who may use them?"), ("user", "members only")]
        minutes = text(built, "planning.meeting.md")
        assert "Who may use them? — asked by risk: members only (user)" in minutes


def failing(*but: str) -> Callable[[Member, str], object]:
    """Answer only prompts that contain one of these phrases; fail the others."""
    known = replying()

    def say(member: Member, text: str) -> object:
        return known(member, text) if any(words in text for words in but) else FAILED

    return say


async def test_rules_take_over_where_no_model_answers(project: Path) -> None:
    async with pipeline(project) as built:
        await built.run(failing("planning workshop", "Write the plan", "First say", "Make the"))
        review: Any = built.artifact("plan-review.json")
        assert review["gate"]["passed"] is True
        assert "ai_review" not in review
        meeting: Any = built.artifact("planning.meeting.json")
        assert "ai_meeting" not in meeting
        assert meeting["planning_summary"]["why"] == PLAN["why"]
        assert "No model answered" in text(built, "planning.meeting.md")
        # Rules cannot replace the review of code: one question.
        assert built.state.phase == "code_review"
        assert (await built.asked()).about is not None


async def test_a_plan_that_nobody_writes_parks_with_one_question(project: Path) -> None:
    async with pipeline(project) as built:
        assert (await built.run(failing())).status == "waiting"
        assert await built.answer("retry") == "failed_turn"
        result = await built.run()
        assert built.state.files["planning.final"] == "planning.final.json"
        assert (result.status, (await built.answer("stop"))) == ("waiting", "change_acceptance")


async def test_answers_count_where_no_model_plans_again(project: Path) -> None:
    say = replying(
        Write_the_plan=OPEN,
        The_plan_has_open_questions=FAILED,
        about_a_plan_and_its_review=FAILED,
        the_chair_brings_the_answers=FAILED,
        There_is_a_plan_already=FAILED,
    )
    async with pipeline(project, caps=Caps()) as built:
        await built.run(say)
        await built.answer("", "Euro")
        await built.run(say)
        await built.answer("", "everybody")
        await built.run(say)
        plan: Any = built.artifact("planning.final.json")
        assert plan["assumptions"] == ["Which currency? Euro", "Who may use them? everybody"]
        assert plan["open_questions"] == []


async def test_a_failed_gate_sends_the_plan_back_for_what_was_found(project: Path) -> None:
    told: list[str] = []

    def replan(member: Member, text: str) -> object:
        told.append(text)
        return PLAN

    bare = {**PLAN, "requirements": [], "file_impacts": [], "test_plan": {}}
    say = replying(Write_the_plan=bare, There_is_a_plan_already=replan)
    async with pipeline(project) as built:
        await built.run(say)
        for field in ("requirements", "file_impacts", "test_plan"):
            assert f"The plan has no {field}." in told[0]
        lines = transcript(built)
        assert [line["round"] for line in lines if line["round"] > 1] == [2, 2]
        assert lines[0]["content"] == "Add coupons to cart.py"
        assert lines[-2]["role"] == "plan_review"
        assert built.state.meta.gates["plan"].passed


@pytest.mark.parametrize(
    ("opinion", "reason"),
    [
        ({"verdict": "revise", "summary": "too thin"}, "too thin"),
        (
            {
                "verdict": "revise",
                "summary": "no",
                "issues": [{"message": "no rollback", "must_fix": True, "severity": "high"}],
            },
            "no rollback",
        ),
    ],
)
async def test_a_reviewer_can_hold_a_plan_back(project: Path, opinion: object, reason: str) -> None:
    say = replying(Is_anything_missing_in_scope=opinion, There_is_a_plan_already=PLAN)
    async with pipeline(project) as built:
        assert (await built.run(say)).status == "waiting"
        asked = await built.asked()
        assert asked.about is not None
        assert asked.about.kind == "gate_failed"
        assert built.state.meta.gates["plan"].reasons == (reason,)
        assert built.state.actors["planning"].round == 3
        assert reason in text(built, "plan-review.md")


async def test_a_plan_that_goes_back_asks_the_user_nothing(project: Path) -> None:
    say = replying(
        Write_the_plan={**OPEN, "requirements": []},
        The_plan_has_open_questions={"answers": []},
        There_is_a_plan_already=PLAN,
    )
    async with pipeline(project, caps=Caps()) as built:
        await built.run(say)
        assert await built.answer("next") == "phase_choice"
        assert built.state.actors["planning"].round == 2


async def test_a_project_that_uses_openspec_has_the_change_in_its_commit(project: Path) -> None:
    (project / "openspec" / "changes").mkdir(parents=True)
    (project / "openspec" / "changes" / ".keep").touch()
    git(project, "add", ".")
    git(project, "commit", "-qm", "specs")
    async with pipeline(project, accept="Add coupons") as built:
        assert (await built.run()).status == "completed"
    change = project / "openspec" / "changes" / "add-coupons-to-cart-py-k3f9"
    assert sorted(one.name for one in change.iterdir()) == [
        "design.md",
        "proposal.md",
        "specs",
        "tasks.md",
    ]
    assert git(project, "status", "--porcelain") == ""


async def test_the_plan_alone_is_no_change(project: Path) -> None:
    (project / "openspec" / "changes").mkdir(parents=True)
    (project / "openspec" / "changes" / ".keep").touch()
    git(project, "add", ".")
    git(project, "commit", "-qm", "specs")
    async with pipeline(project) as built:
        await built.run(replying(Make_the_change_now={"status": "completed", "outputs": []}))
        asked = await built.asked()
        assert asked.about is not None
        assert asked.about.kind == "failed_phase_step"
        assert built.state.actors["codegen"].reason == "nothing was changed"


async def test_documents_have_no_tests_written_for_them(project: Path) -> None:
    def write(member: Member, text: str) -> object:
        (folder_of(member) / "notes.md").write_text("# Notes\n")
        return {"status": "completed", "outputs": ["notes.md"]}

    notes = {**PLAN, "file_impacts": ["notes.md"], "test_plan": {"key_cases": ["it reads well"]}}
    say = replying(
        Write_the_plan=notes,
        First_say_what_you_intend={"summary": "n", "files": [{"path": "notes.md", "intent": "n"}]},
        Make_the_change_now=write,
    )
    async with pipeline(project, accept="Notes") as built:
        assert (await built.run(say)).status == "completed"
    assert git(project, "show", "--name-only", "--format=").split() == ["notes.md"]


async def test_an_openspec_folder_behind_a_link_is_not_written_through(
    project: Path, tmp_path: Path
) -> None:
    (tmp_path / "theirs" / "changes").mkdir(parents=True)
    (project / "openspec").symlink_to(tmp_path / "theirs")
    git(project, "add", ".")
    git(project, "commit", "-qm", "specs")
    async with pipeline(project) as built:
        await built.run()
        assert built.state.files["openspec.change"].startswith("openspec/changes/")
    assert list((tmp_path / "theirs" / "changes").iterdir()) == []


async def test_the_users_own_message_reaches_a_role(project: Path) -> None:
    own = project / ".coterie" / "prompts" / "risk.system.md"
    own.parent.mkdir()
    own.write_text("You fear $everything.\n")
    heard: list[str] = []

    def speak(member: Member, text: str) -> object:
        heard.append(text)
        return {"summary": "fine"}

    async with pipeline(project) as built:
        await built.run(replying(You_take_part_in_a_planning_workshop=speak))
        assert len([one for one in heard if one.startswith("You fear $everything.\n")]) == 1


async def test_a_broken_prompt_stops_the_run_with_its_place(project: Path) -> None:
    own = project / ".coterie" / "prompts" / "risk.system.md"
    own.parent.mkdir()
    own.write_bytes(b"\xff")
    async with pipeline(project) as built:
        with pytest.raises(ConfigError, match=r"risk\.system\.md:1 is not UTF-8 text"):
            await built.run()


async def planned(project: Path, death: CrashPoint | None) -> PipelineHarness | None:
    """Run a pipeline whose plan has a question for the user; None if the process died."""

    def replan(member: Member, text: str) -> object:
        settled = {**PLAN, "assumptions": ["Only members."]}
        return settled if "members" in text else {**PLAN, "open_questions": ["Who?"]}

    say = replying(
        Write_the_plan=OPEN,
        The_plan_has_open_questions={"answers": [{"number": 1, "answer": "Euro"}]},
        the_chair_brings_the_answers={"summary": "then only members"},
        There_is_a_plan_already=replan,
    )
    real = await SqliteStorage.open(project / ".coterie" / "coterie.db")
    try:
        async with pipeline(project, storage=CrashingStorage(real, death), caps=Caps()) as built:
            for kind in ("plan_question", "phase_choice"):
                await built.run(say)
                about = (await built.asked()).about
                if about is not None and about.kind == kind == "plan_question":
                    await built.answer("", "members")
            return built
    except Crashed:
        return None
    finally:
        await real.close()


@pytest.mark.parametrize("call", [14, 46, 54])
async def test_a_plan_survives_the_death_of_its_process(project: Path, call: int) -> None:
    assert (
        await planned(project, CrashPoint(call, took_effect=call % 4 == 2, queued_kept=True))
        is None
    )
    built = await planned(project, None)
    assert built is not None
    assert built.artifact("planning.final.json")["assumptions"] == ["Only members."]
    spoken = [(one["from"], one.get("role"), one["content"]) for one in transcript(built)]
    assert len(spoken) == len(set(spoken))
    assert spoken[-1] == ("user", "", "members")
