"""Every defect of a phase graph is named with its location; the shipped graphs have none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from coterie.config.pipeline_file import load_graph, shipped_graphs
from coterie.errors import ConfigError, NotFound
from coterie.model.phase_graph import PhaseGraph, graph_mistakes

END: Mapping[str, Any] = {"accept": {"steps": ["accept"], "next": "done"}, "done": {}}
CODE: Mapping[str, Any] = {"codegen": {"steps": ["codegen"], "next": "accept"}}


def graph(start: str = "codegen", **phases: Mapping[str, Any]) -> PhaseGraph:
    return PhaseGraph.model_validate({"name": "mine", "start": start, "phases": phases})


@pytest.mark.parametrize("name", shipped_graphs())
def test_what_is_shipped_is_sound(name: str) -> None:
    assert graph_mistakes(load_graph(None, name)) == []


def test_the_standard_graph_has_the_phases_of_the_state() -> None:
    assert list(load_graph(None).phases) == [
        "planning",
        "plan_review",
        "codegen",
        "code_review",
        "test_codegen",
        "test_run",
        "accept",
        "done",
    ]


BACK = {"steps": ["test_run"], "gate": "tests", "next": "accept"}


@pytest.mark.parametrize(
    ("phases", "place", "problem"),
    [
        ({**END}, "start", "names an unknown phase: codegen"),
        ({"codegen": {"next": "codegen"}}, "phases", 'has no "done"'),
        ({"codegen": {"next": "x"}, **END}, "phases.codegen.next", "names an unknown phase: x"),
        (
            {"codegen": {**BACK, "back": "x"}, **END},
            "phases.codegen.back",
            "names an unknown phase: x",
        ),
        (
            {"codegen": {"steps": ["codgen"], "next": "accept"}, **END},
            "phases.codegen.steps.0",
            "is not a step: codgen",
        ),
        (
            {"codegen": {"steps": ["codegen", "codegen"], "next": "accept"}, **END},
            "phases.codegen.steps.1",
            "appears twice in codegen: codegen",
        ),
        (
            {"codegen": {"steps": ["codegen"], "gate": "tests", "next": "accept"}, **END},
            "phases.codegen.gate",
            "which no step of codegen decides; add test_run",
        ),
        (
            {"codegen": {"steps": ["codegen"], "next": "accept", "back": "codegen"}, **END},
            "phases.codegen.back",
            "is never taken",
        ),
        ({"codegen": {"steps": ["codegen"]}, **END}, "phases.codegen", "is a dead end"),
        ({**CODE, **END, "done": {"next": "codegen"}}, "phases.done", "is the final phase"),
        ({**CODE, **END, "extra": {"next": "done"}}, "phases.extra", "is never reached"),
        (
            {"codegen": {"next": "more"}, "more": {"next": "codegen"}, "done": {}},
            "phases.done",
            "is never reached",
        ),
        (
            {
                "codegen": {**BACK, "next": "more", "back": "accept"},
                "more": {"next": "codegen"},
                **END,
            },
            "phases.codegen.next",
            "loops forever: codegen → more → codegen",
        ),
        (
            {"codegen": {"steps": ["accept"], "next": "done"}, "done": {}},
            "phases.codegen.steps.0",
            "accept reads code.patch, which nothing before it writes",
        ),
        (
            # One path to `accept` bypasses the step that writes what it reads.
            {
                "codegen": {**BACK, "next": "more", "back": "accept"},
                "more": {**CODE["codegen"]},
                **END,
            },
            "phases.accept.steps.0",
            "accept reads code.patch",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(
    phases: Mapping[str, Any], place: str, problem: str
) -> None:
    found = {".".join(map(str, one.place)): one.problem for one in graph_mistakes(graph(**phases))}
    assert problem in found[place]


def test_a_loop_with_a_bound_is_sound() -> None:
    phases = {
        "codegen": {"steps": ["codegen"], "next": "test_run"},
        "test_run": BACK | {"back": "codegen"},
    }
    assert graph_mistakes(graph(**phases, **END)) == []


def test_a_phase_that_only_a_failed_gate_leads_to_may_lead_back() -> None:
    phases = {
        "codegen": {"steps": ["codegen"], "next": "test_run"},
        "test_run": BACK | {"back": "mend"},
        "mend": {"steps": ["codegen"], "next": "test_run"},
    }
    assert graph_mistakes(graph(**phases, **END)) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not valid JSON"),
        ("[]", "expected an object"),
        ('{"name": "x", "start": "a"}', 'has no "phases"'),
        ('{"name": "x", "start": "a", "phases": {"a": {"nxt": "b"}}}', "Did you mean next?"),
        ('{"name": "x", "start": "a", "phases": {"a": {"rounds": "3"}}}', "a whole number"),
        ('{"name": "x", "start": "a", "phases": {"a": {"rounds": 0}}}', "at least 1"),
        ('{"name": "x", "start": "a", "phases": {"a": {"gate": "best"}}}', "plan, review or tests"),
        ('{"name": "x", "start": "a", "phases": {"A B": {}}}', "A B"),
        ('{"name": "x", "start": "a", "phases": {"a": {}, "a": {}}}', "appears twice"),
        (
            '{"name": "x", "start": "a", "phases": {"a": {"next": "b"}}}',
            "names an unknown phase: b",
        ),
    ],
)
def test_a_file_with_mistakes_is_refused_by_file_and_line(
    text: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.json"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        load_graph(None, str(path))
    assert said in str(refused.value)
    assert "mine.json" in str(refused.value)


def test_a_file_of_ones_own_is_read_and_a_missing_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"name": "mine", "start": "codegen", "phases": {**CODE, **END}}))
    assert load_graph(None, str(path)).name == "mine"
    with pytest.raises(NotFound, match="Did you mean small"):
        load_graph(None, "smal")
