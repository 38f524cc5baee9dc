"""No command line, however bent, does more in a real bash than the rules allow."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from coterie.model.action import Action
from coterie.model.team import Mode, Permissions
from coterie.tools.permission import decide
from tests.unit.tools.permission.bash import KEPT, SECRET, Done, Playground
from tests.unit.tools.permission.lines import LINES, each_piece

ALLOW = ("okay *", "run(half one *)", "exact", "pre-*", "write(out/**)")
DENY = ("read(.env)",)
EXAMPLES = 200
MODES: tuple[Mode, ...] = ("ask", "accept-edits")


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Playground:
    return Playground(tmp_path_factory.mktemp("fuzz"))


def overstepped(done: Done, mode: Mode) -> list[object]:
    """What was done that no rule allows."""
    wrong: list[object] = [entry for entry in done.ran if not may_run(entry)]
    wrong += [path for path in done.changed if not may_change(path, mode)]
    wrong += [secret for secret in (SECRET, KEPT) if secret in done.printed]
    return wrong


def may_run(entry: tuple[str, ...]) -> bool:
    match entry:
        case ("okay", *_) | ("half", "one", *_) | ("exact",) | ("pre-a",):
            return True
        case _:
            return False


def may_change(path: str, mode: Mode) -> bool:
    if path.startswith("work/out/") or path == "work/.git/index":
        return True
    inside = path.startswith("work/") and not path.startswith("work/.git")
    return mode == "accept-edits" and inside


def is_allowed(line: str, mode: Mode, ground: Playground) -> bool:
    permissions = Permissions(mode=mode, allow=ALLOW, deny=DENY)
    action = Action("run", "Bash", str(ground.root), command=line)
    return decide(action, permissions, None, ground.root).verdict == "allow"


def test_each_piece_in_each_place(ground: Playground) -> None:
    allowed = [line for line in each_piece() if is_allowed(line, "ask", ground)]
    assert len(allowed) > 1000  # or nothing was tried
    for start in range(0, len(allowed), 50):
        some = allowed[start : start + 50]
        if overstepped(ground.run(*some), "ask"):  # who was it?
            assert {line: overstepped(ground.run(line), "ask") for line in some} == {}


@pytest.mark.parametrize("mode", MODES)
def test_what_is_allowed_does_no_more_than_that(ground: Playground, mode: Mode) -> None:
    tried: list[str] = []

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(line=LINES)
    def holds(line: str) -> None:
        if is_allowed(line, mode, ground):
            tried.append(line)
            assert overstepped(ground.run(line), mode) == [], line

    holds()
    assert len(tried) > EXAMPLES / 10  # or nothing was tried
