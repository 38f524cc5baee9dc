"""What `--dry-run` says of the branches that work would be done on."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.app.dry_run import DryRun
from coterie.app.run import StartRequest
from coterie.cli.dry_run import show
from coterie.cli.main import Call
from coterie.model.task import Caps
from coterie.model.team import PIPELINE, Member, Team
from coterie.model.ticket import SchedulerConfig

TEAM = Team(name="pair", members=(Member(id="ada", name="ada", display_name="Ada"),))
BASE = "0123456789abcdef"


@pytest.mark.parametrize(
    ("branches", "base", "expected"),
    [
        (("coterie/k3f9/work",), BASE, "branch coterie/k3f9/work, from 0123456; all work"),
        ((), None, "branch none: not in a git repository, and a build cannot begin without one"),
    ],
    ids=["in git", "git is gone"],
)
def test_where_a_build_works(
    capsys: pytest.CaptureFixture[str],
    branches: tuple[str, ...],
    base: str | None,
    expected: str,
) -> None:
    request = StartRequest(TEAM, "Add coupons", Caps(), workflow=PIPELINE)
    planned = DryRun(request, Path("/srv"), (), SchedulerConfig(), branches, base, None, "k3f9")
    show(Call(), planned)
    out = " ".join(capsys.readouterr().out.split())
    assert expected in out
    assert ("one commit on your branch" in out) == bool(branches), "only if it can begin"
