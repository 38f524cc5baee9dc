"""Git in a repository made to run things: Coterie's git obeys none of them, plain git does.

All attacks of `git_attacks` are planted in one repository, in which a whole session is run:
tickets, their checks, a review, `diff`, `accept`, `revert`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.command import Cli
from tests.cli.ticket_project import TicketProject, git, register_agents
from tests.conftest import IsolatedUser
from tests.hostile.git_attacks import ATTACKS, Attack, HostileRepository, plant_all, run_plain_git


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> HostileRepository:
    """A repository in which a whole session was run, from the plan to reverting the work."""
    base = tmp_path_factory.mktemp("attacked")
    user = IsolatedUser(base / "home", base / "home" / ".coterie", base / "project")
    for folder in (user.home, user.project, base / "marks"):
        folder.mkdir()
    env = {"HOME": str(user.home), "COTERIE_HOME": str(user.coterie_home), "TZ": "UTC"}
    with pytest.MonkeyPatch.context() as patched:
        for name, value in env.items():
            patched.setenv(name, value)
        project = TicketProject(register_agents(Cli(user, env))).set_up(checks=["test -s cart.py"])
    hostile = HostileRepository(user.project, base / "marks")
    plant_all(hostile)
    shutil.copytree(user.project, base / "pristine", symlinks=True)
    for words in (
        ("run", "--yes", "Add coupons sent-back"),
        ("diff", "last"),
        ("accept", "last"),
        ("revert", "last"),
    ):
        ran = project(*words)
        assert ran.code == 0, ran.out + ran.err
    assert _fired(hostile) == []
    git(hostile.root, *_QUIET, "fsck", "--strict")
    return hostile


def _fired(hostile: HostileRepository) -> list[str]:
    return sorted(path.name for path in hostile.marks.iterdir())


_QUIET = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")


def test_a_whole_session_fires_nothing(attacked: HostileRepository) -> None:
    # The fixture checks that nothing fired, before any control runs.
    assert "Revert" in git(attacked.root, *_QUIET, "log", "-1", "--format=%s")


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_a_bare_git_falls_for_it(
    attacked: HostileRepository, attack: Attack, tmp_path: Path
) -> None:
    again = tmp_path / "project"
    shutil.copytree(attacked.root.parent / "pristine", again, symlinks=True)
    mark = attacked.marks / attack.name
    for words in attack.control:
        run_plain_git(again, words, tmp_path)
    assert mark.exists()
    for left in attacked.marks.iterdir():
        left.unlink()
