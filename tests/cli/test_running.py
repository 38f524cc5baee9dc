"""Running a task for a user interface: what is shown when it parks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from inline_snapshot import snapshot

from coterie.app.project import App
from coterie.cli.main import Call
from coterie.cli.records import JsonLines
from coterie.cli.running import StopRequest, WaitOptions, run_task
from coterie.model.record import MemberRecord, ResultRecord
from coterie.model.task import RateLimited
from coterie.ports import Observer
from tests.cli.recorded import TEAM


class RateLimitedApp:
    """A task whose second member has used up its rate limit."""

    def __init__(self) -> None:
        self.at_reset: bool | None = None

    async def run(
        self, task_id: str, observer: Observer, *, wait: float | None, at_reset: bool
    ) -> ResultRecord:
        self.at_reset = at_reset
        observer.saw(MemberRecord(task_id, "rex", "waiting", "any words"))
        stop = RateLimited("rex", "2026-01-31T14:30:00.000Z")
        return ResultRecord(task_id, "waiting", stop.reason, "", 1, stop=stop)

    async def show(self, task_id: str) -> SimpleNamespace:
        return SimpleNamespace(state=SimpleNamespace(created=SimpleNamespace(team=TEAM)))


@pytest.mark.parametrize("at_reset", [True, False])
async def test_a_rate_limit_is_shown_with_what_to_paste(at_reset: bool) -> None:
    lines: list[tuple[str, dict[str, object]]] = []
    face = JsonLines(lambda kind, fields, _: lines.append((kind, fields)))
    app = RateLimitedApp()
    options = WaitOptions(0.0, at_reset=at_reset)
    code = await run_task(Call(), cast("App", app), "k3f9", face, StopRequest(), options)
    assert (code, app.at_reset) == (3, at_reset)
    kinds = [kind for kind, _ in lines]
    assert kinds == ["member", "error", "result"]
    assert lines[2][1]["stop"] == {
        "reason": "rate_limit", "member": "rex", "until": "2026-01-31T14:30:00.000Z"
    }  # fmt: skip
    assert lines[1][1] == snapshot(
        {
            "code": "rate_limit",
            "message": "rex: codex rate limit until 2026-01-31 14:30 UTC. Parked, nothing lost.",
            "hint": "coterie resume k3f9 --at-reset",
            "member": "rex",
            "where": None,
            "task": "k3f9",
        }
    )
