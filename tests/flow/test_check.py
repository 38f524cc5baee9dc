"""Checks as they really run: in the sandbox, to their end, with their output kept."""

from __future__ import annotations

import hashlib
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from coterie.config.project import passthrough
from coterie.model.envelope import ArtifactRef
from coterie.model.redaction import Redactor
from coterie.tools.run_command import SandboxedChecks
from coterie.workspace.session_files import artifacts_folder, check_artifact
from tests.flow.ticket_harness import git, repository
from tests.unit.process.children import count_pids_with_argument, token, until
from tests.unit.tools.member_project import Log


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return repository(tmp_path / "shop")


def checks(project: Path, minutes: float = 1.0) -> SandboxedChecks:
    env = {**passthrough(), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    home = project.parent / "user"
    home.mkdir(exist_ok=True)
    (home / "secret").write_text("hidden")
    return SandboxedChecks(project, "k3f9", env, minutes, Redactor(["topsecret1"]), home)


async def test_what_it_printed_is_kept_with_its_digest(project: Path) -> None:
    log = Log()
    command = "echo to stdout; echo to stderr >&2; echo topsecret1; exit 3"
    done = await checks(project).run(command, project, log)
    assert (done.exit_code, done.passed) == (3, False)
    assert done.output == "to stdout\nto stderr\n[redacted 10]\n"
    assert done.log == "1-echo-to-stdout-echo-to-stderr-2-echo-red.log"
    kept = (artifacts_folder(project, "k3f9") / done.log).read_bytes()
    assert kept == done.output.encode()
    assert done.digest == f"sha256:{hashlib.sha256(kept).hexdigest()}"
    artifact = ArtifactRef(
        label="check", uri=done.log, digest=done.digest, size_bytes=done.size_bytes
    )
    await anyio.to_thread.run_sync(check_artifact, project, "k3f9", artifact)
    assert [what for what, _ in log.calls] == ["starting", "started", "ended"]
    again = await checks(project).run("true", project, Log())
    assert (again.log, again.passed, again.output) == ("2-true.log", True, "")


async def test_it_runs_in_a_ticket_s_worktree_with_git_and_without_secrets(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    folder = project / ".coterie" / "worktrees" / "k3f9" / "T1"
    git(project, "worktree", "add", "-q", str(folder))
    command = (
        'git status --porcelain; pwd; echo "key:$OPENAI_API_KEY"; touch made "$TMPDIR/t" ~/h;'
        " cat ../../../../../user/secret || echo unseen"
    )
    done = await checks(project).run(command, folder, Log())
    lines = done.output.splitlines()
    assert lines[:2] == [str(folder), "key:"]
    assert lines[-1] == "unseen" or await checks(project).unconfined_warning()
    assert (folder / "made").exists()
    assert list((project / ".coterie" / "sessions" / "k3f9" / "checks").glob("tmp-*")) == []


async def test_past_its_limit_its_whole_tree_is_gone(project: Path) -> None:
    word = token()
    staying = f"sh -c 'sleep 600; true' {word} & echo begun; sleep 600"
    done = await checks(project, minutes=0.01).run(staying, project, Log())
    assert (done.exit_code, done.passed) == (None, False)
    assert done.output == "begun\n\n[It was stopped at its time limit of 0.01 min.]\n"
    assert await count_pids_with_argument(word) == 0


async def test_a_check_that_is_called_off_leaves_nothing(project: Path) -> None:
    word = token()
    begun = project / "begun"
    async with anyio.create_task_group() as group:
        staying = f"touch begun; sh -c 'sleep 600; true' {word}"
        group.start_soon(checks(project).run, staying, project, Log())
        await until(begun.exists)
        group.cancel_scope.cancel()
    assert await count_pids_with_argument(word) == 0


async def test_several_at_once_have_a_log_each(project: Path) -> None:
    done: list[str] = []

    async def one() -> None:
        done.append((await checks(project).run("true", project, Log())).log)

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(one)
    assert sorted(done) == ["1-true.log", "2-true.log", "3-true.log", "4-true.log"]
