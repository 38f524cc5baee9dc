"""A task as JSON lines and files that others can read."""

from __future__ import annotations

import json
from pathlib import Path

from inline_snapshot import snapshot

from tests.cli.command import Cli
from tests.cli.ticket_project import TicketProject, register_agents


def test_a_session_with_all_that_belongs_to_it(bare: Cli, tmp_path: Path) -> None:
    project = TicketProject(register_agents(bare)).set_up()
    task = str(project("run", "--yes", "--json", "Add coupons").lines[-1]["task"])
    kept = project.root / f".coterie/sessions/{task}/artifacts/T1/report.pdf"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"%PDF")
    (kept.parent / "link").symlink_to("/etc/passwd")
    target = tmp_path / "out"
    done = project("export", task, str(target))
    assert (done.code, done.out.startswith("Wrote ")) == (0, True)
    lines = [json.loads(line) for line in (target / "task.jsonl").read_text().splitlines()]
    types = {"task", "message", "ticket", "event", "envelope", "cost", "artifact"}
    assert {line["type"] for line in lines} == types
    assert lines[0]["id"] == task
    assert [one for one in lines if one["type"] == "artifact"] == snapshot(
        [
            {
                "type": "artifact",
                "name": "T1/report.pdf",
                "path": "artifacts/T1/report.pdf",
                "digest": "sha256:315d429b7714cedb6ad04ac31240145257692630457f3c88253c5beceac76027",
                "size_bytes": 4,
            }
        ]
    )
    assert sorted(str(path.relative_to(target)) for path in target.rglob("*")) == snapshot(
        ["artifacts", "artifacts/T1", "artifacts/T1/report.pdf", "changes.patch", "task.jsonl"]
    )
    assert "+++ b/form.py" in (target / "changes.patch").read_text()
    again = project("export", task, str(target))
    assert (again.code, "already exists" in again.err) == (2, True)
    assert [path.name for path in tmp_path.glob(".out*")] == []


def test_to_stdout_and_by_default_beside(cli: Cli) -> None:
    task = cli.task("--agents", "ada", "hello")
    printed = cli("export", task, "-")
    assert [line["type"] for line in printed.lines] == snapshot(
        ["task", "task", "message", "task", "message", "task", "event", "event", "event", "cost"]
    )
    (told,) = cli("export", task, "--json").of("export")
    assert told["path"] == str(cli.user.project / f"{task}.export")
    assert (Path(told["path"]) / "task.jsonl").read_text().splitlines() == printed.out.splitlines()
