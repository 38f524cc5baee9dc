"""Pipelines from a goal to a commit, with everything that may come in between."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import jsonschema
import pytest

from coterie.app.project import App
from coterie.config.schemas import FOLDER as SCHEMAS
from coterie.errors import UsageError
from coterie.model.about import ChangeAcceptance, GateFailed
from coterie.model.artifact_table import ARTIFACTS
from coterie.model.record import PhaseRecord
from coterie.model.task import Caps
from coterie.model.team import Member
from coterie.model.update import TurnFailed
from tests.conftest import init_project
from tests.flow.pipeline_harness import (
    CODE,
    GOAL,
    GRAPHS,
    PLAN,
    PipelineHarness,
    Say,
    pipeline,
    replying,
    team,
    writes,
)
from tests.flow.ticket_harness import folder_of, git, repository

SMALL = GRAPHS["small"]
Files = list[dict[str, object]]
BROKEN = TurnFailed("protocol", "HTTP 500", retry=False)
ATTENDED = {"attended": True, "caps": Caps()}


@pytest.fixture
def project(memory_path: Path) -> Path:
    return repository(memory_path)


def recording_prompts(prompts: list[str], say: Say) -> Say:
    """Return the same script, which also records the prompts."""

    def saying(member: Member, text: str) -> object:
        prompts.append(f"{member.id}: {text}")
        return say(member, text)

    return saying


def phases(built: PipelineHarness) -> list[str]:
    seen = [one for one in built.scripted.recorder.records if isinstance(one, PhaseRecord)]
    return [one.phase for one in seen if not one.step]


def jsons(folder: Path) -> Iterator[tuple[str, object]]:
    """Yield every JSON artifact, or each line of a JSONL file, with the stem of its schema."""
    for path in sorted(folder.glob("*.json*")):
        text = path.read_text()
        for one in text.splitlines() if path.suffix == ".jsonl" else [text]:
            yield path.stem, json.loads(one)


async def test_a_goal_becomes_one_commit_and_every_artifact_fits_its_schema(project: Path) -> None:
    (project / "mine.txt").write_text("not committed\n")
    prompts: list[str] = []
    plan = {**PLAN, "test_plan": {"strategy": "unit", "key_cases": ["one coupon"]}}
    tests = writes(test_cart="def test_coupon(): pass\n")
    say = recording_prompts(prompts, replying(Write_the_plan=plan, Write_the_tests_now=tests))
    async with pipeline(project, accept="Add coupons") as built:
        result = await built.run(say)
        assert (result.status, result.reason) == ("completed", "accepted")
        state, folder = built.state, built.folder / "artifacts"
        ran = built.checks.ran
    assert git(project, "log", "--format=%s").split() == ["Add", "coupons", "begin"]
    changed = git(project, "diff", "--name-only", "HEAD~1").split()
    assert changed == ["cart.py", "test_cart.py"]
    assert git(project, "status", "--porcelain").split() == ["??", "mine.txt"]
    assert (project / "mine.txt").read_text() == "not committed\n"
    assert [command for command, _ in ran] == ["make test"]
    assert (state.phase, state.meta.status, state.meta.commit) == (
        "done",
        "done",
        git(project, "rev-parse", "HEAD").strip(),
    )
    rounds = {name: (actor.round, actor.status) for name, actor in state.actors.items()}
    assert rounds.pop("revert") == (0, "idle")
    assert set(rounds.values()) == {(1, "completed")}
    assert state.files.keys() | {"trajectory"} == ARTIFACTS.keys()
    for name, file in state.files.items():
        assert (folder / file).exists(), name
    found = list(jsons(folder))
    assert len({name for name, _ in found}) == 15
    for stem, value in found:
        schema = json.loads((SCHEMAS / "artifacts" / f"{stem}.schema.json").read_text())
        jsonschema.validate(value, schema)
    assert (folder / "files" / "cart.py.full").read_text() == "total = 0\ncoupons = True\n"
    assert not (folder / "eval-eval-1.log").exists()  # the scripted check keeps no log
    lines = [json.loads(one) for one in (folder / "trajectory.jsonl").read_text().splitlines()]
    assert [(one["action"], one.get("gate")) for one in lines] == [
        ("workshop", None),
        ("plan_review", True),
        ("planning_meeting", None),
        ("codegen", None),
        ("code_review", True),
        ("review_meeting", None),
        ("test_codegen", None),
        ("test_run", True),
        ("accept", None),
    ]
    assert lines[0]["cost"]["turns"] == 8
    coder = [one for one in prompts if "Make the change now" in one]
    reviewers = [one[:3] for one in prompts if "What do you find?" in one]
    assert (coder[0][:3], reviewers) == ("ada", ["rex", "rex", "rex"])


async def test_a_plan_that_fails_goes_back_and_then_waits_for_the_user(project: Path) -> None:
    opinions = iter(["no tests", "still none", "none at all"])
    prompts: list[str] = []

    def reviews(member: Member, text: str) -> object:
        wrong = {"message": next(opinions), "must_fix": True}
        return {"verdict": "revise", "summary": "not yet", "issues": [wrong]}

    async with pipeline(project) as built:
        result = await built.run(
            recording_prompts(prompts, replying(Is_anything_missing_in_scope=reviews))
        )
        assert result.reason == "question"
        about = (await built.asked()).about
        assert isinstance(about, GateFailed)
        assert (about.gate, about.rounds, about.reasons) == ("plan", 2, ("none at all",))
        assert built.state.actors["planning"].round == 3
        plans = [one for one in prompts if "Give the whole plan as it should be" in one]
        assert ["no tests" in plans[0], "still none" in plans[1]] == [True, True]
        assert await built.answer("override", "we know") == "gate_failed"
        await built.run()
        assert isinstance((await built.asked()).about, ChangeAcceptance)
        assert built.state.meta.overrides == {"plan": "we know"}


async def test_a_finding_that_must_be_mended_sends_the_work_back(project: Path) -> None:
    prompts: list[str] = []

    def reviews(member: Member, text: str) -> object:
        if "rounded" in text:
            return {"summary": "good"}
        finding = {"file": "cart.py", "line": 2, "message": "round it", "must_fix": True}
        return {"summary": "hm", "findings": [finding]}

    def codes(member: Member, text: str) -> object:
        mended = "round it" in text
        return writes(cart=f"total = 0\n{'rounded' if mended else 'coupons'} = True\n")(
            member, text
        )

    async with pipeline(project, graph=SMALL, accept="Coupons") as built:
        said = recording_prompts(
            prompts, replying(**{"What_do_you_find?": reviews, "Make_the_change_now": codes})
        )
        assert (await built.run(said)).reason == "accepted"
        assert phases(built) == [
            "codegen",
            "code_review",
            "codegen",
            "code_review",
            "test_run",
            "accept",
        ]
        review = built.artifact("review.json")
        assert review["gate"]["passed"] is True  # type: ignore[index]
    assert "cart.py:2: round it" in next(one for one in prompts[5:] if "intend" in one)


async def test_failing_tests_go_back_with_a_debrief_and_never_become_a_commit_by_themselves(
    project: Path,
) -> None:
    prompts: list[str] = []
    async with pipeline(project, graph=SMALL, accept="Coupons") as built:
        built.checks.ends["make test"] = 1
        result = await built.run(recording_prompts(prompts, replying()))
        assert result.reason == "question"
        about = (await built.asked()).about
        assert isinstance(about, GateFailed)
        assert (about.gate, about.rounds) == ("tests", 3)
        report = built.artifact("eval-report.json")
        assert report["debrief"] == {
            "summary": "it failed",
            "causes": [],
            "next_actions": ["mend it"],
        }
        intents = [one for one in prompts if "First say what you intend" in one]
        assert ["mend it" in one for one in intents] == [False, True, True, True]
        assert ["make test said so" in one for one in intents] == [False, True, True, True]
        await built.answer("override", "known to fail")
        await built.run()
        assert git(project, "log", "--format=%s").split() == ["begin"]
        assert await built.answer("accept", "Coupons, untested") == "change_acceptance"
        assert (await built.run()).reason == "accepted"
        assert built.state.meta.overrides == {"tests": "known to fail"}
    assert git(project, "log", "-1", "--format=%s").strip() == "Coupons, untested"


def commits(project: Path) -> None:
    (project / "other.py").write_text("mine = 1\n")
    git(project, "add", "other.py")
    git(project, "commit", "-qm", "my own")


def detaches(project: Path) -> None:
    git(project, "checkout", "-q", "--detach")


def edits(project: Path) -> None:
    (project / "cart.py").write_text("total = 7\n")


def touches_work(project: Path) -> None:
    (project / ".coterie" / "worktrees" / "k3f9" / "work" / "cart.py").write_text("other = 1\n")


@pytest.mark.parametrize(
    ("meddle", "problem"),
    [
        (commits, "main has moved since the work began"),
        (detaches, "no branch is checked out here"),
        (edits, "you have uncommitted changes in cart.py"),
        (touches_work, "the work has changed since the gates ran"),
    ],
    ids=["head", "detached", "dirty", "tree"],
)
async def test_what_moved_since_the_gates_is_not_accepted(
    project: Path, meddle: object, problem: str
) -> None:
    async with pipeline(project, graph=SMALL) as built:
        await built.run()
        assert callable(meddle)
        meddle(project)
        before = git(project, "rev-parse", "HEAD"), (project / "cart.py").read_bytes()
        await built.answer("accept", "Coupons")
        assert (await built.run()).reason == "question"
        about = (await built.asked()).about
        assert isinstance(about, ChangeAcceptance)
        assert about.problem.startswith(problem)
        assert built.state.actors["accept"].reason.startswith(problem)
        assert before == (git(project, "rev-parse", "HEAD"), (project / "cart.py").read_bytes())


STRAY = writes(cart="coupons = True\n", other="stray = 1\n")


@pytest.mark.parametrize(
    ("choice", "files"),
    [("allow", ["cart.py", "other.py"]), ("put_back", ["cart.py"]), ("redo", ["cart.py"])],
)
@pytest.mark.parametrize("graph", GRAPHS)
async def test_a_change_outside_the_plan_needs_approval(
    project: Path, graph: str, choice: str, files: list[str]
) -> None:
    async with pipeline(project, graph=GRAPHS[graph], accept="Coupons") as built:
        assert (await built.run(replying(Make_the_change_now=STRAY))).reason == "question"
        asked = await built.asked()
        assert (asked.author_actor_id, asked.display.title) == (
            "ada",
            "ada changed files that the plan does not name: other.py",
        )
        assert await built.answer(choice) == "unplanned_files"
        # The coder runs again only if the work is to be redone.
        code = writes(cart="coupons = 2\n", other="") if choice == "redo" else BROKEN

        def codes(member: Member, text: str) -> object:
            if isinstance(code, TurnFailed):
                return code
            (Path(member.execution_dir or "") / "other.py").unlink()
            return writes(cart="coupons = 2\n")(member, text)

        assert (await built.run(replying(Make_the_change_now=codes))).reason == "accepted"
    assert git(project, "diff", "--name-only", "HEAD~1").split() == files


@pytest.mark.parametrize("is_new", [True, False])
async def test_a_project_inside_a_repository_is_built_by_its_own_paths(
    memory_path: Path, is_new: bool
) -> None:
    top = repository(memory_path)
    project = top / "api"
    init_project(project)
    if not is_new:
        (project / "cart.py").write_text("total = 0\n")
        (project / "openspec" / "changes").mkdir(parents=True)
        (project / "openspec" / "changes" / "README.md").write_text("# Changes\n")
        git(top, "add", "api")
        git(top, "commit", "-qm", "api")

    def strays(member: Member, text: str) -> object:
        (folder_of(member).parent / "other.py").write_text("stray = 1\n")
        return CODE(member, text)

    async with pipeline(project, accept="Coupons") as built:
        assert (await built.run(replying(Make_the_change_now=strays))).reason == "question"
        assert (await built.asked()).display.title == (
            "ada changed files that the plan does not name: ../other.py"
        )
        await built.answer("put_back")
        assert (await built.run()).reason == "accepted"
        (intent,) = cast("Files", built.artifact("codegen.ir.json")["files"])
        first = cast("Files", built.artifact("patch.json")["files"])[0]
        full = (built.folder / "artifacts" / str(first["full"])).read_text()
    assert (intent["exists"], first.get("is_planned", True)) == (not is_new, True)
    assert (first["path"], full) == ("cart.py", "total = 0\ncoupons = True\n")
    changed = git(top, "diff", "--name-only", "HEAD~1").split()
    assert changed[0] == "api/cart.py"
    assert all(one.startswith("api/openspec/changes/") for one in changed[1:])
    async with App.open(project) as app:
        (patch,) = (await app.diff("k3f9")).patches
        assert (patch.folder, patch.files[0].path) == (top, "api/cart.py")
        await app.revert("k3f9")
    assert git(top, "diff", "--name-only", "HEAD~2") == ""


async def test_rules_stand_in_for_models_where_they_can_and_else_one_question_waits(
    project: Path,
) -> None:
    def silent(*but: str) -> Say:
        """Answer only prompts that contain one of these phrases."""
        spoken = replying()

        def say(member: Member, text: str) -> object:
            return spoken(member, text) if any(one in text for one in but) else BROKEN

        return say

    async with pipeline(project, accept="Coupons") as built:
        assert (await built.run(silent())).reason == "question"
        assert (await built.asked()).display.title == "ada cannot speak (turn 1)"
        await built.answer("retry")
        # The plan is written; rules do its review and the meeting; then the coder is silent.
        await built.run(silent("Write the plan."))
        assert built.state.phase == "codegen"
        assert "ai_review" not in built.artifact("plan-review.json")
        assert "ai_meeting" not in built.artifact("planning.meeting.json")
        assert built.state.passed("plan")
        await built.answer("retry")
        await built.run(silent("First say", "Make the change now", "What do you find?"))
        assert "ai_meeting" not in built.artifact("review.meeting.json")
        assert built.state.meta.status == "done"


async def test_a_reviewer_who_never_answers_can_be_done_without_but_not_all_of_them(
    project: Path,
) -> None:
    async with pipeline(project, graph=SMALL) as built:
        await built.run(replying(**{"What_do_you_find?": BROKEN}))
        for _ in ("review", "second_opinion", "security"):
            await built.answer("skip")
            await built.run(replying(**{"What_do_you_find?": BROKEN}))
        review = built.artifact("review.json")
        assert review["unanswered"] == ["review", "second_opinion", "security"]
        assert review["gate"]["reasons"] == ["nobody has reviewed it"]  # type: ignore[index]


async def test_commands_go_where_the_state_allows_and_what_is_said_goes_along(
    project: Path,
) -> None:
    prompts: list[str] = []
    async with pipeline(project, graph=SMALL, **ATTENDED) as built:
        say = recording_prompts(prompts, replying())
        await built.run(say)
        options = [one.id for one in (await built.asked()).options]
        assert options == ["next", "codegen", "review", "test", "accept", "revert", "stop"]
        await built.answer("codegen", "use decimals")
        await built.run(say)
        assert "use decimals" in prompts[2]
        await built.answer("test")
        await built.run(say)
        await built.scripted.storage.inbox.request("k3f9", "say", "you", "mind the cents")
        await built.answer("codegen")
        await built.run(say)
        assert "mind the cents" in prompts[-2]
        await built.answer("accept", "Coupons")
        await built.run(say)
        # The gates come first.  There was no review, so only an override can accept it.
        asked = await built.asked()
        assert asked.about is not None
        assert [one.id for one in asked.options] == ["override", "codegen", "revert", "stop"]
        await built.answer("override")
        assert (await built.run(say)).reason == "accepted"
        assert phases(built) == ["codegen", "codegen", "test_run", "codegen", "accept"]
        # The text given with the command is the commit message, and the override is on record.
        assert git(project, "log", "-1", "--format=%s").strip() == "Coupons"
        assert isinstance(asked.about, ChangeAcceptance)
        assert built.state.meta.overrides.keys() == set(asked.about.failed) > set()


async def test_work_that_is_reverted_is_kept_and_the_next_try_starts_over(project: Path) -> None:
    (project / "mine.txt").write_text("not committed\n")
    async with pipeline(project, graph=SMALL, accept="Coupons", **ATTENDED) as built:
        await built.run()
        await built.answer("revert")
        await built.run()
        state = built.state
        assert (state.phase, state.meta.status) == ("codegen", "redo")
        assert (state.actors["revert"].status, state.actors["codegen"].status) == (
            "completed",
            "redo",
        )
        assert "code" not in state.artifacts
        kept = git(project, "show", "refs/coterie/dropped/k3f9/1:cart.py")
        assert kept == "total = 0\ncoupons = True\n"
        assert await built.answer("next") == "phase_choice"
        await built.run(replying(Make_the_change_now=writes(cart="second = True\n")))
        for choice in ("next", "next", "next"):
            await built.answer(choice)
            await built.run(replying())
        assert built.state.meta.status == "done"
    assert git(project, "show", "HEAD:cart.py") == "second = True\n"
    assert git(project, "status", "--porcelain").split() == ["??", "mine.txt"]


@pytest.mark.parametrize("given", [None, "Coupons"])
@pytest.mark.parametrize("choice", ["accept", "codegen"])
async def test_what_is_said_while_it_works_reaches_the_coder_and_is_no_commit_message(
    project: Path, given: str | None, choice: str
) -> None:
    prompts: list[str] = []
    async with pipeline(project, graph=SMALL, accept=given) as built:
        await built.run(replying(Make_the_change_now={"status": "completed"}))
        await built.scripted.storage.inbox.request("k3f9", "say", "you", "mind refunds")
        assert await built.answer("again") == "failed_phase_step"
        assert (await built.run()).reason == "question"
        asked = await built.asked()
        assert "mind refunds" in asked.display.description
        await built.answer(choice)
        ended = await built.run(recording_prompts(prompts, replying()))
        if choice == "codegen":
            assert ["mind refunds" in one for one in prompts[:3]] == [True, True, False]
            assert ended.reason == ("accepted" if given else "question")
        if ended.reason == "question":
            assert "mind refunds" not in (await built.asked()).display.description
            await built.answer("accept")
            await built.run()
    assert git(project, "log", "-1", "--format=%s").strip() == (given or GOAL)


async def test_what_is_said_before_and_with_a_revert_reaches_the_coder(project: Path) -> None:
    prompts: list[str] = []
    async with pipeline(project, graph=SMALL, **ATTENDED) as built:
        await built.run()
        await built.answer("next", "use decimals")
        await built.run()
        await built.scripted.storage.inbox.request("k3f9", "say", "you", "mind refunds")
        await built.answer("revert", "begin with a test")
        await built.run()
        assert await built.answer("next", "and be brief") == "phase_choice"
        await built.run(recording_prompts(prompts, replying()))
    said = ("use decimals", "mind refunds", "begin with a test", "and be brief")
    assert [one in prompts[0] for one in said] == [True, True, True, True]


async def test_a_project_that_uses_openspec_gets_the_change_with_the_work(project: Path) -> None:
    (project / "openspec" / "changes").mkdir(parents=True)
    (project / "openspec" / "changes" / "README.md").write_text("# Changes\n")
    git(project, "add", ".")
    git(project, "commit", "-qm", "openspec")
    async with pipeline(project, accept="Coupons") as built:
        assert (await built.run()).reason == "accepted"
    changed = git(project, "diff", "--name-only", "HEAD~1").split()
    change = "openspec/changes/add-coupons-to-cart-py-k3f9"
    assert changed == [
        "cart.py",
        f"{change}/design.md",
        f"{change}/proposal.md",
        f"{change}/specs/cart/spec.md",
        f"{change}/tasks.md",
    ]


async def test_the_test_writer_may_write_tests_and_nothing_else_unasked(project: Path) -> None:
    plan = {**PLAN, "test_plan": {"strategy": "unit", "key_cases": ["one coupon"]}}
    meddles = writes(test_cart="def test(): pass\n", cart="broken\n")
    async with pipeline(project, accept="Coupons") as built:
        await built.run(replying(Write_the_plan=plan, Write_the_tests_now=meddles))
        asked = await built.asked()
        assert asked.display.title == "rex changed files that the plan does not name: cart.py"
        await built.answer("put_back")
        assert (await built.run()).reason == "accepted"
    assert git(project, "show", "HEAD:cart.py") == "total = 0\ncoupons = True\n"
    assert git(project, "diff", "--name-only", "HEAD~1").split() == ["cart.py", "test_cart.py"]


async def test_what_changes_outside_the_worktree_is_asked_about(project: Path) -> None:
    def strays(member: Member, text: str) -> object:
        (project / "mine.py").write_text("who did that?\n")
        return CODE(member, text)

    def leaves(member: Member, text: str) -> object:
        (Path(member.execution_dir or "") / "left.txt").write_text("looked\n")
        return {"summary": "good"}

    async with pipeline(project, graph=SMALL, accept="Coupons") as built:
        await built.run(replying(Make_the_change_now=strays))
        asked = await built.asked()
        assert asked.display.title == (
            "Was it you? While ada worked in its worktree, files of yours changed: mine.py"
        )
        assert await built.answer("mine") == "outside_edits"
        # What reviewers leave in the worktree is not part of the change.
        assert (await built.run(replying(**{"What_do_you_find?": leaves}))).reason == "accepted"
    assert git(project, "diff", "--name-only", "HEAD~1").split() == ["cart.py"]
    assert (project / "mine.py").read_text() == "who did that?\n"


async def test_nothing_changed_is_no_success(project: Path) -> None:
    async with pipeline(project, graph=SMALL) as built:
        await built.run(replying(Make_the_change_now={"status": "completed"}))
        asked = await built.asked()
        assert (asked.display.title, asked.display.description) == (
            "codegen failed",
            "nothing was changed",
        )
        await built.answer("again", "really do it")
        prompts: list[str] = []
        await built.run(recording_prompts(prompts, replying(Make_the_change_now=CODE)))
        assert "really do it" in prompts[0]
        assert built.state.phase == "accept"


async def test_a_yes_with_its_message_is_enough_where_every_gate_has_passed(project: Path) -> None:
    async with pipeline(project, graph=SMALL, **ATTENDED) as built:
        for choice in ("next", "next", "accept"):
            await built.run()
            said = "Coupons" if choice == "accept" else "looks good"
            await built.answer(choice, said)
        assert (await built.run()).reason == "accepted"
    assert git(project, "log", "-1", "--format=%s").strip() == "Coupons"


@pytest.mark.parametrize(("ends", "how"), [(None, "did not finish"), (127, "exit 127")])
async def test_a_test_command_that_hangs_or_is_not_there_fails(
    project: Path, ends: int | None, how: str
) -> None:
    async with pipeline(project, graph=SMALL) as built:
        built.checks.ends["make test"] = ends
        await built.run()
        about = (await built.asked()).about
        assert isinstance(about, GateFailed)
        assert about.reasons == (f"make test: {how}",)


async def test_a_missing_test_command_is_no_pass(project: Path) -> None:
    async with pipeline(project, graph=SMALL, evals=()) as built:
        await built.run()
        about = (await built.asked()).about
        assert isinstance(about, GateFailed)
        assert about.reasons[0].startswith("there is no test command")
        assert phases(built) == ["codegen", "code_review", "test_run"]


async def test_roles_of_the_team_say_who_does_what(project: Path) -> None:
    who = team("ada", "rex", "cy", roles={"codegen": "cy", "second_opinion": "ada"})
    prompts: list[str] = []
    async with pipeline(project, who, graph=SMALL, accept="Coupons") as built:
        await built.run(recording_prompts(prompts, replying()))
        review = built.artifact("review.json")
    assert [(one["role"], one["member"]) for one in review["opinions"]] == [  # type: ignore[union-attr]
        ("review", "ada"),
        ("second_opinion", "ada"),
        ("security", "rex"),
    ]
    assert next(one for one in prompts if "Make the change now" in one).startswith("cy: ")


@pytest.mark.parametrize("has_git", [True, False], ids=["no-commits", "no-git"])
async def test_where_there_is_no_commit_the_error_says_what_to_do(
    memory_path: Path, has_git: bool
) -> None:
    (memory_path / ".coterie").mkdir()
    if has_git:
        git(memory_path, "init", "-q")
    async with pipeline(memory_path) as built:
        with pytest.raises(UsageError) as raised:
            await built.run()
    assert "git commit --allow-empty" in (raised.value.hint or "")
