"""`coterie graph --pipeline`: the phases as defined, before anything is run."""

from __future__ import annotations

import json

from inline_snapshot import snapshot

from tests.cli.command import InProcessCli
from tests.conftest import IsolatedUser, init_project


def test_the_shipped_graph_is_drawn_without_a_task(in_process: InProcessCli) -> None:
    assert in_process("graph", "--pipeline").out == snapshot("""\
standard: Plan, review, code, review, test, accept.

 ┌─→ planning      workshop
 │     │
 └─  plan_review   plan_review, planning_meeting
       │           gate plan; if it fails: back to planning, 2 times at most
 ┌─→ codegen       codegen
 │     │
 ├─  code_review   code_review, review_meeting
 │     │           gate review; if it fails: back to codegen, 3 times at most
 │   test_codegen  test_codegen
 │     │
 └─  test_run      test_run
       │           gate tests; if it fails: back to codegen, 3 times at most
     accept        accept
       │
     done
""")
    assert in_process("graph", "--pipeline=small", "--format", "mermaid").out == snapshot("""\
flowchart TD
  n0["codegen"]
  n1["code_review<br/>gate: review"]
  n2["test_run<br/>gate: tests"]
  n3["accept"]
  n4["done"]
  n0 --> n1
  n1 --> n2
  n1 -.->|"3 times"| n0
  n2 --> n3
  n2 -.->|"3 times"| n0
  n3 --> n4
""")
    assert in_process("graph", "--pipeline", "--format", "svg").out.startswith("<svg ")


def test_the_projects_own_graph_takes_its_place(
    in_process: InProcessCli, user: IsolatedUser
) -> None:
    own = {
        "name": "mine",
        "start": "codegen",
        "phases": {
            "codegen": {"steps": ["codegen"], "next": "test_run"},
            "test_run": {"steps": ["test_run"], "gate": "tests", "next": "done", "back": "mend"},
            "mend": {"steps": ["codegen"], "next": "test_run"},
            "done": {},
        },
    }
    (init_project(user.project) / "pipeline.json").write_text(json.dumps(own))
    assert in_process("graph", "--pipeline").out == snapshot("""\
mine: 4 phases

       codegen   codegen
         │
 ┌─┬─→ test_run  test_run
 │ │     │       gate tests; if it fails: back to mend, 3 times at most
 │ │   done
 └─┴─→ mend      codegen
                 then test_run
""")
    [shown] = in_process("graph", "--pipeline", "--json").of("graph")
    assert shown["edges"][2] == {"source": "test_run", "target": "mend", "rounds": 3}
    assert in_process("graph", "--pipeline=standard").out.startswith("standard:")


def test_a_broken_graph_is_an_error_with_every_mistake(
    in_process: InProcessCli, user: IsolatedUser
) -> None:
    path = user.project / "broken.json"
    path.write_text('{"name": "x", "start": "a", "phases": {"a": {"gate": "plan"}}}')
    ran = in_process("graph", "--pipeline", "broken.json")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == snapshot("""\
! broken.json:1 phases has no "done", the final phase of every graph.
  broken.json:1 phases.a.gate waits for "plan", which no step of a decides; add plan_review.
""")
