"""`coterie build`: from one sentence to a commit, as a user sees it, without a real model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from coterie import Caps, PhaseRecord, ResultRecord, open_project
from tests.cli.command import Cli, CommandResult, InProcessCli
from tests.cli.ticket_project import git
from tests.conftest import IsolatedUser, init_project

SHOP = Path(__file__).parents[1] / "repositories" / "shop"
UNIT = "unit = python3 -m unittest -q\n"
GOAL = "Add coupons to shop/cart.py"
MEMBERS = [{"id": "ada", "agent": "claude"}, {"id": "rex", "agent": "codex"}]


OWN = ["M", "README.md", "??", "notes.txt"]
"""The user's uncommitted work, as `git status` prints it."""
NO_WAY_BACK = {
    "name": "short",
    "start": "codegen",
    "phases": {
        "codegen": {"steps": ["codegen"], "next": "test_run"},
        "test_run": {"steps": ["test_run"], "gate": "tests", "next": "accept"},
        "accept": {"steps": ["accept"], "next": "done"},
        "done": {},
    },
}


def shop(user: IsolatedUser, *, eval_conf: str = UNIT) -> Path:
    """Set up a small repository, a team of two, and uncommitted changes of the user."""
    root = user.project
    shutil.copytree(SHOP, root, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    git(root, "init", "-q", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "-qm", "begin")
    (root / "notes.txt").write_text("mine\n")
    (root / "README.md").write_text("# My shop\n")
    folder = init_project(root) / "teams" / "pair"
    folder.mkdir(parents=True)
    (folder / "team.json").write_text(json.dumps({"members": MEMBERS}))
    if eval_conf:
        (root / ".coterie" / "eval.conf").write_text(eval_conf)
    return root


def state_of(root: Path, task: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (root / ".coterie" / "sessions" / task / "state.json").read_text()
    )
    return found


def built(cli: Cli, *words: str) -> CommandResult:
    return cli("build", "--rehearse", "--yes", *words, GOAL)


def test_a_sentence_becomes_a_commit_with_the_users_approval_and_is_reverted(
    in_process: InProcessCli,
) -> None:
    """Check one run from all sides: it stops before the commit, is accepted and reverted."""
    root = shop(in_process.user)
    ran = built(in_process, "--json", "--graph", "small")
    result = ran.lines[-1]
    assert (ran.code, result["status"], result["reason"]) == (0, "waiting", "gates_passed")
    assert [(one["gate"], one["passed"]) for one in result["checks"]] == [
        ("review", True),
        ("tests", True),
    ]
    told = [(one["phase"], one["step"], one["passed"]) for one in ran.of("phase")]
    assert ("code_review", "code_review", True) in told
    task = str(result["task"])
    assert git(root, "log", "--format=%s").split() == ["begin"]
    shown = in_process("graph", task)
    assert "accept ●" in shown.out
    assert "gate tests passed" in shown.out
    (graph,) = in_process("graph", task, "--json").lines
    assert graph["state"] == state_of(root, task)
    assert "accept<br/>here" in in_process("graph", task, "--format", "mermaid").out
    assert "cart.py" in in_process("diff", task).out
    looked = in_process("show", task)
    assert "  gates    review passed · tests passed\n" in looked.out
    assert f"  files    .coterie/sessions/{task}/artifacts\n" in looked.out

    refused = in_process("accept", task, "--recheck", "-m", "")  # an empty message means the goal
    assert (refused.code, git(root, "log", "-1", "--format=%s").strip()) == (0, GOAL)
    again = in_process("accept", task)
    assert (again.code, "was already accepted" in again.err) == (1, True)
    assert git(root, "status", "--porcelain").split() == OWN
    assert state_of(root, task)["phase"] == "done"

    assert in_process("revert", task).code == 0
    assert git(root, "log", "-1", "--format=%s").strip() == f"Revert {task}"
    assert (root / "shop" / "cart.py").read_bytes() == (SHOP / "shop" / "cart.py").read_bytes()
    assert (root / "notes.txt").read_text() == "mine\n"
    assert (root / "README.md").read_text() == "# My shop\n"
    after = state_of(root, task)
    assert (after["phase"], after["meta"]["status"]) == ("planning", "redo")
    assert after["actors"]["revert"]["status"] == "completed"
    assert after["actors"]["codegen"]["status"] == "redo"
    refused = in_process("accept", task)
    assert (refused.code, f"coterie revert {task} --undo" in refused.err) == (1, True)
    assert in_process("revert", task, "--undo").code == 0
    assert state_of(root, task)["phase"] == "done"


def test_a_branch_that_moved_meanwhile_is_tested_with_the_change_before_it_is_taken(
    in_process: InProcessCli,
) -> None:
    root = shop(in_process.user, eval_conf="unit = test ! -e broken\n")
    (root / ".coterie" / "pipeline.json").write_text(json.dumps(NO_WAY_BACK))
    task = str(built(in_process, "--json").lines[-1]["task"])
    (root / "mine.py").write_text("mine = 1\n")
    git(root, "add", "mine.py")
    git(root, "commit", "-qm", "my own")
    refused = in_process("accept", task, "-m", "Coupons")
    assert (refused.code, "Not accepted: main has moved since the work began" in refused.err) == (
        1,
        True,
    )
    assert f"coterie accept {task} --recheck" in refused.err
    assert in_process("accept", task).code == 1, "nor is it asked a second time"
    (root / ".git" / "info" / "exclude").write_text("broken\n")
    broken = root / ".coterie" / "worktrees" / task / "work" / "broken"
    broken.touch()  # not part of the change: like a service that is down
    for words in (["--recheck"], [], ["--recheck"]):
        failed = in_process("accept", task, "-m", "Coupons", *words)
        assert (failed.code, "these gates failed: tests" in failed.err) == (1, True)
        assert f"coterie accept {task} --recheck" in failed.err
        assert f"coterie accept {task} --override" in failed.err
    broken.unlink()
    assert in_process("accept", task, "--recheck", "-m", "Coupons").code == 0
    assert git(root, "log", "--format=%s").splitlines() == ["Coupons", "my own", "begin"]
    assert git(root, "status", "--porcelain").split() == OWN


def test_the_whole_graph_is_rehearsed_to_a_commit(in_process: InProcessCli) -> None:
    root = shop(in_process.user)
    ran = built(in_process, "--accept", "Add coupons")
    assert ran.code == 0, ran.err
    assert git(root, "log", "--format=%s").splitlines() == ["Add coupons", "begin"]
    for words in ("gate plan passed", "gate review passed", "gate tests passed", "committed as"):
        assert words in ran.out
    (listed,) = in_process("tasks", "--json").of("task")
    assert (listed["workflow"], listed["status"]) == ("pipeline", "completed")


def test_a_failed_gate_is_an_exit_code_and_only_an_override_commits(
    in_process: InProcessCli,
) -> None:
    root = shop(in_process.user, eval_conf="")
    graph = root / ".coterie" / "pipeline.json"  # the project's own graph, without a way back
    graph.write_text(json.dumps(NO_WAY_BACK))
    ran = built(in_process, "--eval", "exit 3", "--accept", "Never")
    assert (ran.code, "a gate failed" in ran.out) == (1, True)
    assert git(root, "log", "--format=%s").split() == ["begin"]
    (task,) = (one["id"] for one in in_process("tasks", "--json").of("task"))
    early = in_process("accept", task, "-m", "Coupons")
    assert (early.code, "is in the phase test_run" in early.err) == (1, True)
    assert in_process("answer", "q1", "override", "--say", "flaky").code == 0
    in_process("resume", task)
    assert in_process("accept", task, "-m", "Coupons").code == 0
    assert git(root, "log", "-1", "--format=%s").strip() == "Coupons"
    assert state_of(root, task)["meta"]["overrides"] == {"tests": "flaky"}


def test_work_that_was_never_accepted_is_dropped_and_kept_under_a_ref(
    in_process: InProcessCli,
) -> None:
    root = shop(in_process.user)
    task = str(built(in_process, "--json", "--graph", "small").lines[-1]["task"])
    ran = in_process("revert", task)
    assert (ran.code, f"refs/coterie/dropped/{task}/1" in ran.out) == (0, True)
    assert "+# A stand-in" in git(root, "diff", "main", f"refs/coterie/dropped/{task}/1")
    assert not (root / ".coterie" / "worktrees" / task).exists()
    assert in_process("inbox", "--json").lines == []
    refused = in_process("accept", task)
    assert (refused.code, f"{task} was reverted.\n  coterie resume" in refused.err) == (1, True)
    after = state_of(root, task)
    assert (after["phase"], after["meta"]["status"]) == ("planning", "redo")
    assert git(root, "status", "--porcelain").split() == OWN
    in_process("resume", task)
    (asked,) = in_process("inbox", "--json").lines
    assert asked["title"] == "The work was reverted: what next?"


def test_a_test_command_that_nobody_wrote_is_shown_and_allowed_once(
    in_process: InProcessCli,
) -> None:
    root = shop(in_process.user, eval_conf="")
    ran = built(in_process, "--graph", "small")
    assert (ran.code, "python3 -m pytest -q" in ran.out) == (3, True)
    in_process("answer", "q1", "deny", "--say", "not here")
    done = in_process("resume", "last")
    said = "python3 -m pytest -q: not permitted"
    assert (done.code, said in done.out) == (1, True)
    assert git(root, "log", "--format=%s").split() == ["begin"]


def test_a_dry_run_says_who_does_what_and_where(in_process: InProcessCli) -> None:
    shop(in_process.user)
    ran = in_process("build", "--dry-run", "--rehearse", "--graph", "small", GOAL)
    assert ran.code == 0
    for said in (
        "codegen → code_review → test_run → accept → done",
        "those of .coterie/eval.conf",
        "coterie/<id>/work, from",
        ".coterie/worktrees/<id>/work",
        "second_opinion",
    ):
        assert said in ran.out, ran.out
    assert in_process("tasks", "--json").lines == []


def test_the_plan_is_shown_before_it_is_carried_out(in_process: InProcessCli) -> None:
    shop(in_process.user)
    ran = in_process("build", "--rehearse", GOAL)
    assert ran.code == 3
    (asked,) = in_process("inbox", "--json").lines
    assert asked["content"].startswith("# ")
    assert [one["id"] for one in asked["options"]][:3] == ["next", "plan", "planreview"]


async def test_a_program_builds_looks_and_accepts(user: IsolatedUser) -> None:
    """What a page or a program calls: start, a stream of phases, the view, an acceptance."""
    root = await anyio.to_thread.run_sync(lambda: shop(user, eval_conf="unit = true\n"))
    (root / ".coterie" / "pipeline.json").write_text(json.dumps(NO_WAY_BACK))
    async with open_project(root) as project:
        caps = Caps(yes=True)
        task = await project.start("pair", GOAL, caps, workflow="pipeline", rehearsal=True)
        records = [one async for one in project.stream(task, wait=0)]
        told = [one.phase for one in records if isinstance(one, PhaseRecord) and not one.step]
        assert told == ["codegen", "test_run", "accept"]
        result = records[-1]
        assert isinstance(result, ResultRecord)
        assert (result.status, result.reason) == ("waiting", "gates_passed")
        assert await project.result(task) == result
        view = await project.pipelines.view(task)
        assert (view.graph.name, view.state.phase, view.state.passed("tests")) == (
            "short",
            "accept",
            True,
        )
        await project.pipelines.approve(task, "From a program", override=False)
        async for _ in project.stream(task, wait=0):
            pass
        accepted = await project.pipelines.accepted(task)
        assert (await project.pipelines.view(task)).state.meta.commit == accepted.commit
    assert git(root, "log", "-1", "--format=%s").strip() == "From a program"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--graph", "nope"), 'No graph or file "nope"'),
        (("--graph", "broken.json"), "is a dead end"),
        ((), "has no commit yet"),
        (("--dry-run",), "has no commit yet"),
    ],
    ids=["no-graph", "broken-graph", "no-commits", "no-commits-dry-run"],
)
def test_what_cannot_be_built_says_why(
    in_process: InProcessCli, words: tuple[str, ...], said: str
) -> None:
    root = in_process.user.project
    git(root, "init", "-q")
    folder = init_project(root) / "teams" / "pair"
    folder.mkdir(parents=True)
    (folder / "team.json").write_text(json.dumps({"members": MEMBERS}))
    graph = {"name": "x", "start": "codegen", "phases": {"codegen": {}, "done": {}}}
    (root / "broken.json").write_text(json.dumps(graph))
    ran = in_process("-C", str(root), "build", "--rehearse", "--yes", *words, GOAL)
    assert ran.code == 2
    assert said in ran.err
    assert in_process("-C", str(root), "tasks", "--json").lines == []


def test_outside_git_nothing_is_built(in_process: InProcessCli) -> None:
    in_process.team("ada")
    for more in ([], ["--dry-run"]):
        ran = in_process("build", "--rehearse", *more, GOAL)
        assert (ran.code, "is not in a git repository" in ran.err, ran.out) == (2, True, "")
