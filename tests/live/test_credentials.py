"""Signing in once works for every member: the token reaches the model and stays where it was."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from coterie import (
    Caps,
    ErrorRecord,
    InteractionRecord,
    Member,
    Record,
    ResultRecord,
    Team,
    open_project,
)
from coterie.rehearsal.model_api import Answer, CompletionRequest, reply
from coterie.rehearsal.server import RehearsalServer
from tests.conftest import IsolatedUser

ROOT = Path(__file__).parents[2]
BINS = Path(os.environ.get("COTERIE_CLIS", ROOT / ".cache" / "clis")) / "node_modules" / ".bin"
NAMES = ("ann", "bob", "eve")


@dataclass(frozen=True)
class Login:
    """What signing in writes to a user's home, and how to point the CLI at another address.

    Not tested: keychains (there is none here), and the logins with ChatGPT and with Google, for
    which only the vendor can issue a token.
    """

    file: str
    text: Callable[[str], str]
    to: Callable[[str], dict[str, Any]]
    """The keys of the registry entry besides the command."""


def claude_login(secret: str) -> str:
    oauth = {
        "accessToken": secret,
        "refreshToken": "refresh",
        "expiresAt": 4_102_444_800_000,
        "scopes": ["user:inference", "user:profile"],
        "subscriptionType": "max",
    }
    return json.dumps({"claudeAiOauth": oauth})


def codex_args(url: str) -> dict[str, Any]:
    return {"baseArgs": ["-c", f'openai_base_url="{url}/v1"', "--model", "gpt-5.5"]}


LOGINS = {
    "claude": Login(
        ".claude/.credentials.json",
        claude_login,
        lambda url: {"env": {"ANTHROPIC_BASE_URL": url}},
    ),
    "codex": Login(
        ".codex/auth.json",
        lambda secret: json.dumps({"auth_mode": "apikey", "OPENAI_API_KEY": secret}),
        codex_args,
    ),
    "gemini": Login(
        ".gemini/.env",
        lambda secret: f"GEMINI_API_KEY={secret}\n",
        lambda url: {
            "env": {"GOOGLE_GEMINI_BASE_URL": url},
            "baseArgs": ["--model", "gemini-2.5-pro"],
        },
    ),
}


@dataclass
class ConstantModel:
    async def answer(self, request: CompletionRequest) -> Answer:
        return reply("Here.")


def sign_in_user(user: IsolatedUser, cli: str, url: str, secret: str) -> Path:
    """Set up a user who signed in to one CLI; return the credentials file."""
    if not (BINS / cli).exists():
        pytest.skip(f"{cli} is not installed: scripts/real-clis")
    login = LOGINS[cli]
    kept = user.home / login.file
    kept.parent.mkdir()
    kept.write_text(login.text(secret))
    kept.chmod(0o600)
    registry = user.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    entry = {"command": str(BINS / cli), **login.to(url)}
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": {cli: entry}}))
    return kept


def holding(folder: Path, secret: str) -> list[Path]:
    """Every file whose content includes the secret; symlinks are not followed."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [path for path in files if secret.encode() in path.read_bytes()]


@pytest.mark.parametrize("cli", list(LOGINS))
async def test_one_login_serves_three(
    user: IsolatedUser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: str
) -> None:
    for name in [name for name in os.environ if name.endswith(("_API_KEY", "_AUTH_TOKEN"))]:
        monkeypatch.delenv(name)
    secret = f"sk-ant-oat01-{uuid.uuid4().hex}"
    async with RehearsalServer(ConstantModel()) as server:
        kept = await anyio.to_thread.run_sync(sign_in_user, user, cli, server.url, secret)
        before = kept.read_bytes()
        team = Team(
            name="three",
            members=tuple(
                Member(id=name, name=name, display_name=name, agent=cli, order=place)
                for place, name in enumerate(NAMES, 1)
            ),
        )
        async with open_project(user.project) as project:
            task = await project.start(team, "Who is there?", Caps(max_turns=3))
            records = [record async for record in project.stream(task, wait=0)]
        result = records[-1]
        assert isinstance(result, ResultRecord)
        assert (result.status, result.turns) == ("completed", 3), records
        assert [turn.token.reveal() == secret for turn in server.turns] == [True] * 3
        assert all(
            request.token.reveal() == secret or not request.token for request in server.requests
        )
        assert secret not in repr(server.requests)
    assert secret not in repr(records)
    assert (user.project / ".coterie" / "coterie.db").exists()
    assert holding(tmp_path, secret) == [kept]
    assert kept.read_bytes() == before
    assert {path.name for path in user.home.iterdir()} == {kept.parent.name, ".coterie"}


@pytest.mark.parametrize("cli", list(LOGINS))
async def test_signing_in_and_trying_again(
    user: IsolatedUser, monkeypatch: pytest.MonkeyPatch, cli: str
) -> None:
    for name in [name for name in os.environ if name.endswith(("_API_KEY", "_AUTH_TOKEN"))]:
        monkeypatch.delenv(name)
    secret = f"sk-ant-oat01-{uuid.uuid4().hex}"
    ann = Member(id="ann", name="ann", display_name="Ann", agent=cli)
    failures: list[str] = []
    async with RehearsalServer(ConstantModel()) as server:
        kept = await anyio.to_thread.run_sync(sign_in_user, user, cli, server.url, secret)
        kept.rename(user.home / "not yet")
        async with open_project(user.project) as project:
            team = Team(name="one", members=(ann,))
            task = await project.start(team, "Hello?", Caps(max_turns=1))
            record: Record | None = None
            async for record in project.stream(task):
                if isinstance(record, ErrorRecord):
                    failures.append(record.code)
                elif isinstance(record, InteractionRecord) and record.state == "open":
                    assert server.requests == []
                    (user.home / "not yet").rename(kept)
                    await project.answer(record.interaction.interaction_id, "retry")
        assert isinstance(record, ResultRecord)
        assert (record.status, record.turns) == ("completed", 1)
        assert failures == ["turn_signed_out"]
        assert [turn.token.reveal() == secret for turn in server.turns] == [True]
