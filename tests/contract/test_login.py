"""When a login is due for renewal, and who waits for whom."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

import anyio
import pytest

from coterie.agents import login as module
from coterie.agents.login import Login, LoginChannel
from coterie.agents.table import KNOWN_AGENTS
from coterie.model.agent import LoginFacts
from coterie.model.conversation import Prompt
from coterie.model.update import TurnCompleted, TurnInterrupted, Update
from coterie.ports import Channel

SOON, LATER = time.time() + 60, time.time() + 7200


def token(expiry: float) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": int(expiry)}).encode()).decode()
    return f"head.{claims.rstrip('=')}.signature"


FILES = {
    "claude": lambda at: {"claudeAiOauth": {"expiresAt": int(at * 1000)}},
    "codex": lambda at: {"tokens": {"access_token": token(at)}},
    "gemini": lambda at: {"expiry_date": at * 1000},
    "opencode": lambda at: {"key": {"type": "api"}, "anthropic": {"expires": int(at * 1000)}},
}
UNKNOWN = (
    '{"tokens": {"access_token": "opaque"}}',
    '{"tokens": {"access_token": "a.b.c"}}',
    "{",
    "[]",
    "{}",
)


def login_of(path: Path, agent: str) -> Login:
    facts = KNOWN_AGENTS.ours[agent].login
    assert facts is not None
    return Login(path / facts.file, facts)


@pytest.mark.parametrize("agent", FILES)
def test_a_login_is_due_shortly_before_it_expires(tmp_path: Path, agent: str) -> None:
    login = login_of(tmp_path, agent)
    assert not login.is_due(), "there is none"
    login.path.parent.mkdir(parents=True)
    for expiry, due in ((SOON, True), (LATER, False), (0.0, True)):
        login.path.write_text(json.dumps(FILES[agent](expiry)))
        assert login.is_due() is due


@pytest.mark.parametrize("text", UNKNOWN)
def test_what_says_nothing_of_its_end_is_never_due(tmp_path: Path, text: str) -> None:
    login = login_of(tmp_path, "codex")
    login.path.parent.mkdir()
    login.path.write_text(text)
    assert not login.is_due()


class SpeakingChannel:
    """A channel whose every turn gets a reply."""

    async def take_turn(self, prompt: Prompt) -> AsyncGenerator[Update]:
        yield TurnCompleted("hello")

    async def interrupt(self) -> None:
        """Do nothing: no turn takes any time."""


async def test_a_turn_that_waits_for_a_renewal_can_be_interrupted(tmp_path: Path) -> None:
    file = tmp_path / "login.json"
    file.write_text(json.dumps({"end": SOON}))
    login = Login(file, LoginFacts("login.json", ("end",)))
    channel = LoginChannel(cast("Channel", SpeakingChannel()), login)
    told: list[Update] = []

    async def taking() -> None:
        told.extend([update async for update in channel.take_turn(Prompt("hi"))])

    with anyio.fail_after(30):
        async with login.held(), anyio.create_task_group() as group:
            group.start_soon(taking)
            await anyio.sleep(0.2)
            await channel.interrupt()
        await taking()
    assert told == [TurnInterrupted(), TurnCompleted("hello")]


async def test_the_others_wait_for_a_renewal_and_not_forever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "login.json"
    file.write_text(json.dumps({"end": SOON}))
    login = Login(file, LoginFacts("login.json", ("end",)))
    order: list[str] = []

    async def second() -> None:
        async with login.held() as held:
            order.append("second with a lock" if held else "second without")

    async with anyio.create_task_group() as group, login.held() as first:
        assert first is not None
        group.start_soon(second)
        await anyio.sleep(0.2)
        order.append("renewed")
        (tmp_path / "new").write_text(json.dumps({"end": LATER}))
        (tmp_path / "new").replace(file)  # as Claude does
    assert order == ["renewed", "second without"]
    file.write_text(json.dumps({"end": SOON}))
    monkeypatch.setattr(module, "TIMEOUT", 0.1)
    async with login.held() as first, login.held() as other:
        assert (first is None, other is None) == (False, True)
        assert first is not None
        first.release()
        first.release()
        async with login.held() as third:
            assert third is not None
