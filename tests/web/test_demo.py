"""`coterie demo --web`: the demo alone, which begins when somebody watches."""

from __future__ import annotations

from pathlib import Path

import anyio.to_thread
import pytest

from coterie.app.demo import review_demo
from coterie.web import serve
from tests.cli.command import InProcessCli
from tests.conftest import IsolatedUser
from tests.web.server import API, served


async def test_it_begins_when_somebody_looks_and_shows_nothing_else(
    user: IsolatedUser, tmp_path: Path
) -> None:
    stage = await anyio.to_thread.run_sync(review_demo, tmp_path)
    async with served(user.project, demo=stage) as api:
        (project,) = (await api.client.get(f"{API}/projects")).json()
        (task,) = (await api.client.get(f"{API}/tasks")).json()
        assert (project["name"], task["status"]) == ("shop", "created")
        assert api.screen == f"/p/{project['id']}/t/{task['id']}"
        assert api.serving.link(api.screen).endswith(
            f"{api.screen}#token={api.serving.sessions.token}"
        )
        async with api.stream() as events:
            async for event in events:
                if event.name == "task" and event.data["status"] == "running":
                    assert event.data["id"] == task["id"]
                    break


def test_without_a_built_page_nothing_is_made(
    user: IsolatedUser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "made"
    made.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(made))
    monkeypatch.setattr(serve, "PAGE", tmp_path)
    ran = InProcessCli(user)("demo", "--web")
    assert (ran.code, ran.err.splitlines()[0]) == (2, "! The page is not built in this checkout.")
    assert list(made.iterdir()) == []
