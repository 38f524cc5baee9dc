"""Nothing that a sandboxed command leaves behind makes the user's git run anything later."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.command import Cli
from tests.conftest import IsolatedUser
from tests.hostile.leftovers import LEFTOVERS, Leftover, create_repository, script, shell

_PROGRAMS = "bash cat chmod cp echo env git ln ls mkdir mv printf rm sed sh sleep tee touch true"


@dataclass(frozen=True)
class NestedProject:
    """A project with nested repositories, and a member that runs any command it is given."""

    base: Path
    cli: Cli

    @property
    def project(self) -> Path:
        return self.cli.user.project

    @property
    def marks(self) -> Path:
        return self.base / "marks"

    @property
    def home(self) -> str:
        return str(self.cli.user.home)

    def arguments_for(self, command: str) -> tuple[str, ...]:
        """Return the CLI arguments that make the member run a command."""
        call = {"name": "runCommand", "input": {"command": command}}
        script = self.base / "script.json"
        replies = [{"tools": [call]}, {"text": "Done."}]
        script.write_text(json.dumps({"rules": [{"replies": replies}]}))
        return ("chat", "--script", str(script), "--max-turns", "1", "Leave something.")

    @property
    def fired(self) -> list[str]:
        return sorted(path.name for path in self.marks.iterdir())


@pytest.fixture(scope="module", params=["bubblewrap", "landlock"])
def nested(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> NestedProject:
    base = tmp_path_factory.mktemp("left")
    user = IsolatedUser(base / "home", base / "home" / ".coterie", base / "project")
    for folder in (user.home, user.project, base / "marks"):
        folder.mkdir()
    create_repository(user.project)
    env = {"HOME": str(user.home), "COTERIE_HOME": str(user.coterie_home)}
    if request.param == "landlock":
        env["PATH"] = str(_without_bubblewrap(base / "bin"))
    cli = Cli(user, env)
    with pytest.MonkeyPatch.context() as patched:
        for name in ("HOME", "COTERIE_HOME"):
            patched.setenv(name, env[name])
        team = cli.team("ann", name="solo")
    member = {"id": "ann", "agent": "builtin", "permissions": "full"}
    team.write_text(json.dumps({"members": [member]}))
    return NestedProject(base, cli)


@pytest.fixture(scope="module")
def fired_leftovers(nested: NestedProject) -> list[str]:
    """The leftovers of a member's command that fired when the user ran git."""
    every = "\n".join(script(nested.marks, one) for one in LEFTOVERS)
    # Normal work remains possible: files are written and committed.
    who = "git -c user.name=a -c user.email=b@c"
    work = f"echo 2 > work.txt; git add work.txt; {who} commit -qm worked work.txt"
    ran = nested.cli(*nested.arguments_for(f"{work}\n{every}\ntrue"))
    assert ran.code == 0, ran.out + ran.err
    assert nested.fired == []
    assert (nested.project / "evil").is_dir()  # even the last one was attempted
    for one in LEFTOVERS:
        shell(nested.project, one.trigger, HOME=nested.home)
    assert "worked" in shell(nested.project, "git log --format=%s main")
    return nested.fired


def _without_bubblewrap(folder: Path) -> Path:
    folder.mkdir()
    for name in _PROGRAMS.split():
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    return folder


def test_nor_does_what_is_left_when_coterie_is_killed(nested: NestedProject) -> None:
    """The keeper restores the files a moment later; a sandbox with mounts never lets any change."""
    started = nested.project / "started"
    planted = [one for one in LEFTOVERS if one.name in ("new", "bare", "setting-by-hand", "common")]
    every = "; ".join(script(nested.marks, one) for one in planted)
    with nested.cli.start(*nested.arguments_for(f"{every}; touch {started}; sleep 60")) as run:
        until(started.exists)
        held = "fsmonitor" not in (nested.project / ".git" / "config").read_text()
        if held:  # then it must not fire even during the run
            shell(nested.project, "git status", HOME=nested.home)
            assert nested.fired == []
        os.kill(run.pid, signal.SIGKILL)
        until(lambda: "fsmonitor" not in (nested.project / "new/.git/config").read_text())
        until(lambda: not (nested.project / ".git" / "commondir").exists())
    for one in planted:
        shell(nested.project, one.trigger, HOME=nested.home)
    assert nested.fired == []


def until(wanted: Callable[[], bool]) -> None:
    for _ in range(3000):
        if wanted():
            return
        time.sleep(0.01)
    raise AssertionError("it never came")


@pytest.mark.parametrize("one", LEFTOVERS, ids=lambda one: one.name)
def test_it_fires_nothing(fired_leftovers: list[str], one: Leftover) -> None:
    assert one.name not in fired_leftovers


@pytest.mark.parametrize("one", LEFTOVERS, ids=lambda one: one.name)
def test_without_a_sandbox_it_fires(tmp_path: Path, one: Leftover) -> None:
    project, marks = tmp_path / "project", tmp_path / "marks"
    project.mkdir()
    marks.mkdir()
    create_repository(project)
    said = shell(project, script(marks, one), HOME=str(tmp_path))
    said += shell(project, one.trigger, HOME=str(tmp_path))
    assert (marks / one.name).exists(), said


def test_what_an_agent_leaves_that_nothing_holds_is_named(bare: Cli) -> None:
    """The agent runs as the user, so nothing can be blocked; but no diff would show the change."""
    project = bare.user.project
    shell(project, "git init -q; git init -q inner; git config user.name x; echo 1 > f; git add f")
    leave = (
        "echo true > .git/hooks/pre-commit; git config branch.main.remote origin; "
        "git -C inner config core.fsmonitor true"
    )
    bare.registry(ada={"command": "sh", "baseArgs": ["-c", f"mkdir -p .git/hooks; {leave}"]})
    bare.team("ada", name="solo")
    words = ("chat", "--max-turns", "1", "--json", "Leave something.")
    why = "git acts on it: check it before you run git here"
    hook, setting = f".git/hooks/pre-commit ({why})", f"inner/.git/config ({why})"
    [first] = bare(*words).of("result")
    assert first["changed"] == [hook, setting]
    [again] = bare(*words).of("result")
    assert again.get("changed", []) == []
    shown = bare("diff", first["task"])
    assert ".git/hooks/pre-commit" in shown.out + shown.err
