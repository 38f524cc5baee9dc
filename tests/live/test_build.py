"""From one sentence to an accepted commit with green tests, on a small repository."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from coterie.config.schemas import FOLDER
from coterie.model.artifact_table import ARTIFACTS
from tests.cli.command import Cli
from tests.cli.ticket_project import git
from tests.conftest import IsolatedUser, init_project

ROOT = Path(__file__).parents[2]
SHOP = ROOT / "tests" / "repositories" / "shop"
BINS = Path(os.environ.get("COTERIE_CLIS", ROOT / ".cache" / "clis")) / "node_modules" / ".bin"
GOAL = "add coupons to shop/cart.py"


@pytest.fixture
def shop(user: IsolatedUser) -> Cli:
    """The repository, uncommitted work of the user in it, and its eval.conf."""
    missing = [name for name in ("claude", "codex", "openspec") if not (BINS / name).exists()]
    if missing:
        pytest.skip(f"{missing} are not installed: scripts/real-clis")
    root = user.project
    shutil.copytree(SHOP, root, dirs_exist_ok=True)
    git(root, "init", "-q", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "-qm", "begin")
    (root / "notes.txt").write_text("mine\n")
    (init_project(root) / "eval.conf").write_text("unit = python3 -m unittest -q\n")
    cli = Cli(user, {"PATH": f"{BINS}:{os.environ['PATH']}"})
    cli.registry(**{name: {"command": str(BINS / name)} for name in ("claude", "codex")})
    return cli


@pytest.mark.parametrize(("coder", "reviewer"), [("builtin", "builtin"), ("claude", "codex")])
def test_one_sentence_becomes_one_commit(shop: Cli, coder: str, reviewer: str) -> None:
    root = shop.user.project
    folder = init_project(root) / "teams" / "pair"
    folder.mkdir(parents=True)
    members = [
        {"id": "ada", "agent": coder, "permissions": "accept-edits"},
        {"id": "rex", "agent": reviewer, "permissions": "read"},
    ]
    (folder / "team.json").write_text(json.dumps({"members": members}))
    ran = shop("build", "--rehearse", "--yes", "--accept", "Add coupons", "--json", GOAL)
    assert ran.code == 0, ran.err + ran.out[-2000:]
    result = ran.of("result")[-1]
    assert (result["status"], result["reason"]) == ("completed", "accepted")
    assert all(gate["passed"] for gate in result["checks"])
    assert git(root, "log", "--format=%s").split("\n")[:2] == ["Add coupons", "begin"]
    assert git(root, "status", "--porcelain").split() == ["??", "notes.txt"]
    artifacts = init_project(root) / "sessions" / result["task"] / "artifacts"
    state = json.loads((artifacts.parent / "state.json").read_text())
    assert (state["phase"], state["meta"]["status"]) == ("done", "done")
    for one in ARTIFACTS.values():
        if "{" in one.file:
            continue
        path = artifacts / one.file
        assert path.exists(), one.file
        if one.model is not None:
            check(path, one.file)
    review = json.loads((artifacts / "plan-review.json").read_text())
    assert review["openspec"] == "tool"
    assert state["artifacts"]["openspec"]["change"].endswith("/proposal.md")
    report = json.loads((artifacts / "eval-report.json").read_text())
    assert [(run["name"], run["origin"], run["exit_code"]) for run in report["runs"]] == [
        ("unit", "written", 0)
    ]
    opinions = json.loads((artifacts / "review.json").read_text())["opinions"]
    assert {(one["member"], one["agent"]) for one in opinions} == {("rex", reviewer)}


def check(path: Path, name: str) -> None:
    """Check a file, or each line of a JSONL file, against its shipped schema."""
    stem = name.rpartition(".")[0]
    schema = json.loads((FOLDER / "artifacts" / f"{stem}.schema.json").read_text())
    text = path.read_text()
    for part in text.splitlines() if name.endswith(".jsonl") else [text]:
        Draft202012Validator(schema).validate(json.loads(part))
