"""Plans as OpenSpec changes: the real tool accepts them, whatever text they contain."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from coterie.engine.task_run import RunServices
from coterie.model.openspec import change_files, change_id, change_paths, change_problems
from coterie.model.planning import StructuredPlan
from coterie.model.redaction import Redactor
from coterie.testing.scripted import TASK
from coterie.tools.run_command import SandboxedChecks
from tests.flow.pipeline_harness import pipeline
from tests.flow.ticket_harness import repository

ROOT = Path(__file__).parents[2]
BINS = Path(os.environ.get("COTERIE_CLIS", ROOT / ".cache" / "clis")) / "node_modules" / ".bin"
OPENSPEC = BINS / "openspec"

pytestmark = pytest.mark.skipif(
    not OPENSPEC.exists(), reason="openspec is not installed: scripts/real-clis"
)

ODD = [
    "",
    " ",
    "# A heading",
    "## ADDED Requirements",
    "### Requirement: another\n\nIt is here.\n",
    "#### Scenario: none",
    "```\nnever closed",
    "~~~~\ncode\n~~~~\n## after it",
    "**ID**: 7",
    "- [ ] 9.9 a task",
    "<!-- a comment that never ends",
    "---\ntitle: x\n---",
    "line\r\nline\rline\u2028line\u2029line\x0bline\x85line",
    "\ufeff",
    "\u200b\u200d",
    "一個很長的要求，沒有空格",
    "مرحبا بالعالم",
    "🧑‍🚀 fly 🚀",
    "\x00\x1b[31mred",
    "\ud800 half",
    "The system SHALL do it.",
    "MUST",
    "a ###",
    "C#",
    "`code` and <b>html</b> and | a | table |",
    "x" * 5_000,
    "word " * 1_000,
    "1. one\n2. two",
    "FROM: a\nTO: b",
]


def plan(**more: object) -> StructuredPlan:
    return StructuredPlan.model_validate(
        {"title": "Coupons", "why": "They are wanted.", "what": "A coupon lowers it.", **more}
    )


def odd_plans() -> list[StructuredPlan]:
    """Every odd text in every place, and then plans in which everything is odd at once."""
    plans = [plan()]
    for text in ODD:
        said = text.strip() and text
        plans.append(
            plan(
                title=said or "?",
                why=said or "?",
                what=said or "?",
                capability=text,
                scope=[text],
                non_goals=[text],
                design=text,
                requirements=[
                    {"title": said or "?", "text": text, "scenarios": []},
                    {"title": said or "?", "text": "", "scenarios": [{}, {"name": text}]},
                    {
                        "title": f"Also {text}",
                        "scenarios": [{"name": text, "given": text, "when": text, "then": text}],
                    },
                ],
                tasks=[{"title": said or "?", "details": [text, said or "?"]}],
                risks=[{"description": said or "?", "mitigation": text}],
                test_plan={"strategy": text, "key_cases": [{"name": said or "?"}]},
                assumptions=[text],
                open_questions=[text],
            )
        )
    random = Random(7)
    for _ in range(20):
        pick = [text if text.strip() else "?" for text in random.choices(ODD, k=12)]
        plans.append(
            plan(
                title="\n".join(pick[:2]),
                why=pick[2],
                what="\n".join(pick[3:5]),
                requirements=[
                    {
                        "title": pick[5],
                        "text": "\n".join(pick[6:8]),
                        "scenarios": [{"name": pick[8], "when": pick[9], "then": pick[10]}],
                    },
                    {"title": pick[5].upper(), "text": pick[11]},
                    {"title": f"{pick[5]} #", "text": pick[11]},
                ],
            )
        )
    return plans


def write(folder: Path, files: Mapping[str, str], paths: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / paths[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def validate(folder: Path) -> dict[str, Any]:
    """Return the tool's verdict on every change in a folder, in one run."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "OPENSPEC_TELEMETRY": "0",
        "OPENSPEC_NO_UPDATE_CHECK": "1",
    }
    words = [OPENSPEC, "validate", "--changes", "--strict", "--json"]
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, check=False)
    return json.loads(done.stdout)


GOOD = change_files(plan(requirements=[{"title": "One", "text": "It MUST hold."}]))
SPEC = GOOD["openspec.spec"]
BROKEN = {
    "no-scenario": {"openspec.spec": SPEC.split("####")[0]},
    "no-must": {"openspec.spec": SPEC.replace("MUST", "may")},
    "no-delta": {"openspec.spec": SPEC.replace("ADDED", "Some")},
    "no-tick": {"openspec.tasks": GOOD["openspec.tasks"].replace("[ ]", "")},
    "twice": {
        "openspec.spec": SPEC
        + "\n### Requirement: One\nIt MUST hold.\n\n#### Scenario: x\n- **THEN** x\n"
    },
}


def test_the_real_tool_accepts_plans_whatever_their_text_and_nothing_else(tmp_path: Path) -> None:
    plans = odd_plans()
    for number, one in enumerate(plans):
        files = change_files(one)
        write(tmp_path, files, change_paths(one, change_id(one.title, f"t{number}")))
        assert change_problems(files) == []
    for name, change in BROKEN.items():
        write(tmp_path, {**GOOD, **change}, change_paths(plan(), name))
        assert change_problems({**GOOD, **change}) != [], name
    said = validate(tmp_path)["items"]
    assert len(said) == len(plans) + len(BROKEN)
    wrong = {item["id"]: item["issues"] for item in said if not item["valid"]}
    assert set(wrong) == set(BROKEN), wrong
    assert [item["issues"] for item in said if item["valid"] and item["issues"]] == []


async def test_the_plan_of_a_pipeline_is_checked_by_the_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{BINS}:{os.environ['PATH']}")
    project = repository(tmp_path / "shop")
    checks = SandboxedChecks(project, TASK, {"PATH": os.environ["PATH"]}, 1.0, Redactor())
    async with pipeline(project, evals=("true",)) as built:
        built.scripted.engine = replace(built.scripted.engine, services=RunServices(checks=checks))
        await built.run()
        review = built.artifact("plan-review.json")
        assert (review["openspec"], review["issues"]) == ("tool", [])
