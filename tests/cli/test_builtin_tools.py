"""The built-in agent on the user's own model, from `do` to the record: its tools, questions, rules
and outcomes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio.from_thread
import pytest

from coterie.rehearsal.script import ScriptedResponder, parse_script
from coterie.rehearsal.server import RehearsalServer
from coterie.rehearsal.simulation import Simulation
from tests.cli.command import DOMAIN_EVENTS, CommandResult, InProcessCli
from tests.conftest import init_project
from tests.contract.builtin.harness import Line, call, calls, says
from tests.unit.tools.search.test_search_code import Model, model

__all__ = ["model"]


@dataclass
class BuiltinProject:
    """A project with one member, whose model and embeddings are servers on this machine."""

    cli: InProcessCli
    server: RehearsalServer

    @property
    def root(self) -> Path:
        return self.cli.user.project

    def __call__(self, *words: str) -> CommandResult:
        return self.cli(*words)

    def outputs(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Every recorded call: its tool, outcome and output."""
        rows = self.cli("audit", "--json").of("audit")
        return [(row["name"], row["outcome"], row["output"]) for row in rows]

    def tool_results(self) -> list[str]:
        """The tool results in the last request to the model."""
        asked = self.server.turns[-1].asked
        assert asked is not None
        return [one.text for one in asked.results]

    def events(self) -> list[dict[str, Any]]:
        """The domain events of the task."""
        return self.cli("export", "last", "-").of("event")


SCRIPT: list[Line] = [
    calls(
        call("editFile", path="brush.py", oldStr="dries", newStr="dries slowly"),
        call("grep", pattern="par.el"),
        call("searchCode", query="where are the deliveries counted?"),
        call("searchCode", query="vermilion"),
        call("askUser", question="Which port?"),
        text="I look.",
    ),
    calls(call("runCommand", command="touch made-1")),
    calls(call("runCommand", command="touch made-2")),
    calls(call("runCommand", command="touch other"), text="It needs another."),
    calls(call("runCommand", command="touch other")),
    calls(call("runCommand", command="touch last")),
    says("It is done."),
]


@pytest.fixture
def project(in_process: InProcessCli, model: Model) -> Iterator[BuiltinProject]:
    member = {
        "id": "ann",
        "agent": "builtin",
        "model": "anthropic:claude-x",
        "permissions": {"mode": "accept-edits"},
        "env": {
            "OPENAI_EMBEDDING_MODEL": "topics",
            "OPENAI_API_KEY": "key",
            "OPENAI_BASE_URL": f"http://127.0.0.1:{model.server_port}/v1",
            "ANTHROPIC_API_KEY": "key",
        },
    }
    project = in_process.user.project
    (project / "brush.py").write_text("# how paint dries\n")
    (project / "van.py").write_text("# where a parcel goes\n")
    (project / "sum.py").write_text("def countDelivered(): ...\n")
    more = [calls(call("runCommand", command="touch made-3")), says("Once more.")]
    rules = [
        {"when": {"message": "fail"}, "replies": [{"fault": 401, "times": 9}]},
        {"when": {"message": "once more"}, "replies": more},
    ]
    script = {"rules": [*rules, {"replies": SCRIPT}]}
    with anyio.from_thread.start_blocking_portal() as portal:
        server = RehearsalServer(ScriptedResponder(parse_script(script, "script"), Simulation()))
        with portal.wrap_async_context_manager(server):
            member["env"] = {**member["env"], "ANTHROPIC_BASE_URL": server.url}
            folder = init_project(project) / "teams" / "desk"
            folder.mkdir(parents=True)
            (folder / "team.json").write_text(json.dumps({"members": [member]}))
            yield BuiltinProject(in_process, server)


def test_every_tool_and_what_it_asks(project: BuiltinProject) -> None:
    """D6c, e to i; F2d, f, g, h: a rule written by the user covers the next call."""
    first = project("do", "--json", "look")
    assert first.code == 3
    (edit, grep, words, meaning, asks) = project.outputs()
    assert (edit[:2], edit[2]["done"]) == (("editFile", "ok"), "changed")
    assert (project.root / "brush.py").read_text() == "# how paint dries slowly\n"
    assert grep == ("grep", "ok", {"count": 1, "matches": "van.py:1:# where a parcel goes"})
    assert words[2]["results"].startswith("sum.py:"), "by its words, split and stemmed"
    assert meaning[2]["results"].startswith("brush.py:"), "by embeddings: no word of it is there"
    assert asks[:2] == ("askUser", "open")
    (asked,) = first.of("interaction")
    assert (asked["kind"], asked["purpose"], asked["title"]) == (
        "Input",
        "request_info",
        "Which port?",
    )
    assert project("answer", asked["id"], "--say", "80").code == 0
    asked = project("resume", "--json").of("interaction")[-1]
    assert project.tool_results()[-1] == "answer: 80"
    assert (asked["kind"], asked["command"]) == ("Confirm", "touch made-1")
    assert project("answer", asked["id"], "rule", "--say", "run(touch made-*)").code == 0
    ran = project("resume", "--json")
    asked = ran.of("interaction")[-1]
    assert (ran.code, asked["command"]) == (3, "touch other"), "made-2 is not asked about"
    assert {path.name for path in project.root.glob("made-*")} == {"made-1", "made-2"}
    assert (asked["member"], asked["said"]) == ("ann", "It needs another.")
    assert project("answer", asked["id"], "task").code == 0
    ran = project("resume", "--json")
    asked = ran.of("interaction")[-1]
    assert (ran.code, asked["command"]) == (3, "touch last"), "other is allowed for this task"
    assert project("answer", asked["id"], "deny", "--say", "not that").code == 0
    assert project("resume", "--json").lines[-1]["summary"] == "It is done."
    assert [one[:2] for one in project.outputs()[5:]] == [
        *[("runCommand", "ok")] * 4,
        ("runCommand", "denied"),
    ]
    _is_kept_in_three_stores(project)
    assert project("do", "once more").code == 0, (
        "the rule is the team's, so the next task is not asked"
    )
    assert (project.root / "made-3").exists()


def _is_kept_in_three_stores(project: BuiltinProject) -> None:
    """D1b, D2h, D2j, D7a: events, tool calls and messages are apart, in the design's spelling."""
    lines = project("export", "last", "-")
    events = lines.of("event")
    assert {one["name"] for one in events} == DOMAIN_EVENTS - {"TaskFailed", "TaskCanceled"}
    assert {one["kind"] for one in lines.of("audit")} == {"ToolCallRequested", "ToolCallCompleted"}
    assert [(one["member"], one["text"]) for one in lines.of("message")] == [
        ("you", "look"),
        ("ann", "It is done."),
    ]
    asked = [one["interaction"] for one in events if "interaction" in one]
    assert [one["interactionId"] for one in asked] == ["q1", "q2", "q3", "q4"]
    assert [sorted(one) for one in asked[1]["options"]] == [
        ["default", "detail", "id", "label", "style"]
    ] * 4
    assert [(one["id"], one["label"], one["style"]) for one in asked[1]["options"]] == [
        ("approve", "once", "primary"),
        ("reject", "deny", "danger"),
        ("task", "this task", "plain"),
        ("rule", "rule", "plain"),
    ]
    said = [one["response"] for one in events if "response" in one]
    assert [(one["selectedOptionId"], one["inputValue"]) for one in said[:2]] == [
        (None, "80"),
        ("rule", "run(touch made-*)"),
    ]
    assert (said[3]["selectedOptionId"], said[3]["comment"]) == ("reject", "not that")
    assert {(one["taskId"], one["authorActorId"]) for one in said} == {
        (lines.lines[0]["id"], "you")
    }


def test_until_it_has_failed(project: BuiltinProject) -> None:
    """D3c."""
    ran = project("do", "--json", "fail")
    assert ran.code == 3
    (asked,) = ran.of("interaction")
    assert (asked["kind"], asked["purpose"]) == ("Select", "choose_strategy")
    assert project("answer", asked["id"], "skip").code == 0
    assert project("resume", "--json").lines[-1]["status"] == "failed"
    assert [one["name"] for one in project.events()][-1] == "TaskFailed"
