"""What a sandboxed command leaves behind for the user's git runs nothing later."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.command import Cli
from tests.conftest import House
from tests.hostile.leftovers import LEFTOVERS, Leftover, furnish, script, shell

_PROGRAMS = "bash cat chmod cp echo env git ln ls mkdir mv printf rm sed sh sleep tee touch true"


@pytest.fixture(scope="module", params=["bubblewrap", "landlock"])
def left(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Which of all that a member's command tried to leave fired in the user's hands."""
    base = tmp_path_factory.mktemp("left")
    house = House(base / "home", base / "home" / ".coterie", base / "project")
    for folder in (house.home, house.project, base / "marks"):
        folder.mkdir()
    furnish(house.project)
    env = {"HOME": str(house.home), "COTERIE_HOME": str(house.coterie_home)}
    if request.param == "landlock":
        env["PATH"] = str(_without_bubblewrap(base / "bin"))
    cli = Cli(house, env)
    every = "\n".join(script(base / "marks", one) for one in LEFTOVERS)
    # Work goes on: files are written and committed.
    who = "git -c user.name=a -c user.email=b@c"
    work = f"echo 2 > work.txt; git add work.txt; {who} commit -qm worked work.txt"
    call = {"name": "runCommand", "input": {"command": f"{work}\n{every}\ntrue"}}
    replies = [{"tools": [call]}, {"text": "Done."}]
    told = base / "script.json"
    told.write_text(json.dumps({"rules": [{"replies": replies}]}))
    with pytest.MonkeyPatch.context() as patched:
        for name in ("HOME", "COTERIE_HOME"):
            patched.setenv(name, env[name])
        team = cli.team("ann", name="solo")
    member = {"id": "ann", "agent": "builtin", "permissions": "full"}
    team.write_text(json.dumps({"members": [member]}))
    ran = cli("chat", "--script", str(told), "--max-turns", "1", "Leave something.")
    assert ran.code == 0, ran.out + ran.err
    assert list((base / "marks").iterdir()) == []
    assert (house.project / "evil").is_dir()  # the last one was tried
    for one in LEFTOVERS:
        shell(house.project, one.fire, HOME=str(house.home))
    assert "worked" in shell(house.project, "git log --format=%s main")
    return sorted(path.name for path in (base / "marks").iterdir())


def _without_bubblewrap(folder: Path) -> Path:
    folder.mkdir()
    for name in _PROGRAMS.split():
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    return folder


@pytest.mark.parametrize("one", LEFTOVERS, ids=lambda one: one.name)
def test_it_fires_nothing(left: list[str], one: Leftover) -> None:
    assert one.name not in left


@pytest.mark.parametrize("one", LEFTOVERS, ids=lambda one: one.name)
def test_without_a_sandbox_it_fires(tmp_path: Path, one: Leftover) -> None:
    project, marks = tmp_path / "project", tmp_path / "marks"
    project.mkdir()
    marks.mkdir()
    furnish(project)
    said = shell(project, script(marks, one), HOME=str(tmp_path))
    said += shell(project, one.fire, HOME=str(tmp_path))
    assert (marks / one.name).exists(), said
