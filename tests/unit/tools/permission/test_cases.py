"""The verdict of the rules on each action: a table that also serves as a reference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from coterie.model.team import Permissions
from coterie.model.tool_call import Action, Verdict
from coterie.tools.permission import decide
from tests.unit.tools.permission import command_cases, path_cases

TABLE = {
    "modes": command_cases.MODES,
    "allowed": command_cases.ALLOWED,
    "denied": command_cases.DENIED,
    "chained": command_cases.CHAINED,
    "substituted": command_cases.SUBSTITUTED,
    "quoted": command_cases.QUOTED,
    "linked": path_cases.LINKED,
    "placed": path_cases.PLACED,
    "the same effect": path_cases.SAME_EFFECT,
    "shown by git": path_cases.SHOWN_BY_GIT,
    "looking": path_cases.LOOKING,
}


def named_cases() -> Iterator[ParameterSet]:
    for heading, cases in TABLE.items():
        for permissions, action, verdict in cases:
            what = action.command or " ".join(action.paths) or action.target or action.tool
            by = [*permissions.allow, *(f"not {rule}" for rule in permissions.deny)]
            name = f"{heading}: {permissions.mode} {', '.join(by)}: {what}"
            yield pytest.param(permissions, action, verdict, id=ascii(name))


@pytest.mark.parametrize(("permissions", "action", "verdict"), list(named_cases()))
def test_verdict(permissions: Permissions, action: Action, verdict: Verdict, work: Path) -> None:
    places = {"{root}": str(work), "{link}": str(work.parent / "by-link")}
    for name, place in places.items():
        action = replace(
            action,
            command=action.command.replace(name, place),
            paths=tuple(path.replace(name, place) for path in action.paths),
        )
    placed = replace(action, cwd=str(work / action.cwd))
    guarded = frozenset({".claude"})  # as the composition root derives it from the vendor's facts
    assert decide(placed, permissions, None, work, (), guarded).verdict == verdict


def test_there_are_cases_enough() -> None:
    assert sum(map(len, TABLE.values())) >= 300
    assert {verdict for cases in TABLE.values() for *_, verdict in cases} == {
        "allow",
        "allow_read_only",
        "ask",
        "deny",
    }
