"""Running a task for a user interface: what is shown when it parks."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from inline_snapshot import snapshot

from coterie.app.project import App
from coterie.cli import report
from coterie.cli.attach import follow_log
from coterie.cli.main import Call
from coterie.cli.records import JsonLines
from coterie.cli.running import StopRequest, WaitOptions, run_task
from coterie.cli.text import Paint
from coterie.model.record import (
    BY_SIGNAL,
    PARKED,
    Entry,
    MemberRecord,
    ResultRecord,
    TaskDetail,
    TaskRecord,
)
from coterie.model.task import RateLimited, Status, Stop, Stopped
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
        return await self.result(task_id)

    async def follow(self, task_id: str) -> AsyncGenerator[Entry]:
        yield Entry("2026-01-31T14:00:00.000Z", TaskRecord(task_id, "chat", "running"))

    async def result(self, task_id: str) -> ResultRecord:
        stop = RateLimited("rex", "2026-01-31T14:30:00.000Z")
        return ResultRecord(task_id, "waiting", stop.reason, "", 1, stop=stop)

    async def show(self, task_id: str) -> SimpleNamespace:
        created = SimpleNamespace(team=TEAM)
        return SimpleNamespace(
            view=SimpleNamespace(id=task_id), state=SimpleNamespace(created=created)
        )

    @property
    def root(self) -> Path:
        return Path()


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


async def test_following_a_run_shows_its_rate_limit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    call, app = Call(), cast("App", RateLimitedApp())
    assert await follow_log(call, app, cast("TaskDetail", await app.show("k3f9"))) == 3
    shown = capsys.readouterr().out
    assert "rex: codex rate limit until 2026-01-31 14:30 UTC. Parked, nothing lost." in shown
    assert "coterie resume k3f9 --at-reset" in shown


@pytest.mark.parametrize(
    ("status", "reason", "stop", "shown", "code"),
    [
        ("completed", "interrupted", None, "Done", 0),
        ("completed", "stopped", None, "Done", 0),
        ("failed", "gates_passed", None, "Failed", 1),
        ("waiting", "interrupted", BY_SIGNAL, "Parked", 130),
        ("waiting", "parked", PARKED, "Parked", 130),
        ("waiting", "stopped", Stopped("stopped"), "Parked", 130),
        ("waiting", "question", Stopped("question"), "Waiting", 3),
        ("waiting", "its_own", Stopped("its_own"), "Waiting", 3),
        ("waiting", "gates_passed", Stopped("gates_passed"), "Waiting", 0),
        ("waiting", "stopped", None, "an error, see above", 3),
    ],
)
def test_what_stopped_a_run_is_never_read_from_a_reason_that_means_something_else(
    status: Status, reason: str, stop: Stop | None, shown: str, code: int
) -> None:
    result = ResultRecord("k3f9", status, reason, "", 1, stop=stop)
    assert report.exit_code(result) == code
    assert shown in "\n".join(report.lines(result, 1.0, Paint(wanted=False), 80))
