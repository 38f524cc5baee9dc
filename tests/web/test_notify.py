"""`notify` and the page: no notification for somebody who watches the page, otherwise at once."""

from __future__ import annotations

import json

import anyio
import anyio.lowlevel
import pytest

import coterie
from coterie.web.hub import open_hub, project_id
from tests.cli.in_process_agent import CurrentScript, install_adapter
from tests.conftest import IsolatedUser

TEAM = coterie.Team(
    name="pair",
    members=tuple(
        coterie.Member.model_validate({"id": name, "name": name, "displayName": name, **more})
        for name, more in (("ada", {"agent": "claude"}), ("max", {"type": "human"}))
    ),
)


async def test_whoever_looks_at_the_page_is_not_notified_elsewhere(
    user: IsolatedUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_adapter(user, monkeypatch)
    monkeypatch.setattr(CurrentScript, "say", staticmethod(lambda *_: "Which way?"))
    told = user.home / "told"
    settings = {"notify": f"sh -c 'cat >> {told}'", "notifyAfter": "1h"}
    (user.coterie_home / "settings.json").write_text(json.dumps(settings))
    name = project_id(user.project)
    async with open_hub(user.project) as hub:
        app = await hub.project(name)

        async def asked(count: int) -> None:
            await hub.run(name, await app.start(TEAM, "hello"))
            while len(await app.questions()) < count:
                await anyio.lowlevel.checkpoint()

        with anyio.fail_after(60):
            await asked(1)
            while not told.exists() or not told.read_text().endswith("\n"):
                await anyio.lowlevel.checkpoint()
            with hub.following():
                hub.touch()  # as a request from the page does
                await asked(2)
                assert [one.incident for one in await app.storage.notifications.unsent()] == ["q2"]
                assert (hub.idle_seconds() or 0) < 3600
    (line,) = told.read_text().splitlines()
    assert json.loads(line)["id"] == "q1"
