"""No command line, however mangled, does more in a real bash than the rules allow."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings

from coterie.model.team import Mode, Permissions
from coterie.model.tool_call import Action, Verdict
from coterie.tools.permission import decide
from tests.unit.tools.permission.bash import KEPT, SECRET, CommandEffects, Playground
from tests.unit.tools.permission.lines import LINES, continued_lines, each_piece

ALLOW = ("okay *", "run(half one *)", "exact", "pre-*", "write(out/**)")
DENY = ("read(.env)",)
EXAMPLES = 200
MODES: tuple[Mode, ...] = ("ask", "accept-edits")


@pytest.fixture(scope="module")
def playground(tmp_path_factory: pytest.TempPathFactory) -> Playground:
    return Playground(tmp_path_factory.mktemp("fuzz"))


def overstepped(done: CommandEffects, mode: Mode) -> list[object]:
    """Return the effects that no rule allows."""
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


def verdict_of(line: str, permissions: Permissions, playground: Playground) -> Verdict:
    action = Action("run", "Bash", str(playground.root), command=line)
    return decide(action, permissions, None, playground.root).verdict


def is_allowed(line: str, mode: Mode, playground: Playground) -> bool:
    permissions = Permissions(mode=mode, allow=ALLOW, deny=DENY)
    return verdict_of(line, permissions, playground) == "allow"


def culprits(
    lines: list[str],
    run: Callable[..., CommandEffects],
    harm: Callable[[CommandEffects], list[object]],
) -> dict[str, list[object]]:
    """Return the harmful lines: run in batches, and singly only where a batch did harm."""
    found: dict[str, list[object]] = {}
    for start in range(0, len(lines), 50):
        some = lines[start : start + 50]
        if harm(run(*some)):
            found |= {line: harm(run(line)) for line in some}
    return {line: done for line, done in found.items() if done}


def test_each_piece_in_each_place(playground: Playground) -> None:
    allowed = [line for line in each_piece() if is_allowed(line, "ask", playground)]
    assert len(allowed) > 500  # the test is not vacuous
    assert culprits(allowed, playground.run, lambda done: overstepped(done, "ask")) == {}


def test_each_piece_that_is_denied_is_not_done(playground: Playground) -> None:
    """With everything else allowed, what a rule denies is still blocked."""
    permissions = Permissions(mode="full", deny=("evil", *DENY))
    lines = [line for line in each_piece() if re.search(r"evil|x65|\.e", line)]
    verdicts = {line: verdict_of(line, permissions, playground) for line in lines}
    passed = [line for line in lines if verdicts[line] == "allow"]
    assert len(lines) > 2 * len(passed) > 200  # the test is not vacuous
    assert culprits(passed, playground.run, denied) == {}


@pytest.mark.parametrize("shell", [*filter(os.path.exists, ("/bin/bash", "/bin/dash"))])
def test_what_is_denied_is_not_done_on_a_continued_line(playground: Playground, shell: str) -> None:
    permissions = Permissions(mode="full", deny=("evil", *DENY))
    passed = [
        line for line in continued_lines() if verdict_of(line, permissions, playground) == "allow"
    ]
    assert len(passed) > 100  # the test is not vacuous
    run = partial(playground.run, shell=shell)
    assert culprits(passed, run, denied) == {}


def denied(done: CommandEffects) -> list[object]:
    evil: list[object] = [entry for entry in done.ran if "evil" in entry[0]]
    return evil + [KEPT for _ in range(KEPT in done.printed)]


@pytest.mark.parametrize("mode", MODES)
def test_what_is_allowed_does_no_more_than_that(playground: Playground, mode: Mode) -> None:
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
        if is_allowed(line, mode, playground):
            tried.append(line)
            assert overstepped(playground.run(line), mode) == [], line

    holds()
    assert len(tried) > EXAMPLES / 10  # the test is not vacuous
