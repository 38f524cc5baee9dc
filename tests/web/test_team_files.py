"""Team files over HTTP: the errors of each key, and agents that are not registered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from coterie.app import team_files
from coterie.app.team_files import digest_of
from coterie.app.teams import Teams, TeamView
from coterie.config.project import Project
from tests.conftest import IsolatedUser
from tests.web.api_client import api_client, set_up_project

ADA: dict[str, Any] = {"id": "ada", "agent": "scripted", "prompt": "You write."}


def written(*members: dict[str, Any], **more: Any) -> str:
    """A team file's text."""
    return json.dumps({**more, "members": list(members)})


WRONG = (
    (written({**ADA, "agent": "scriptd"}), "members[0].agent", "Did you mean scripted?"),
    (written({**ADA, "colour": "red"}), "members[0].colour", "known key"),
    (written(ADA, workflow="tikets"), "workflow", "tickets"),
    (written({**ADA, "permissions": "everything"}), "members[0].permissions", "read"),
    (written({**ADA, "budget": {"tokens": "lots"}}), "members[0].budget.tokens", "500k"),
    (written(ADA, ADA), "members[1].id", "ada"),
    ("{", "", "is not valid JSON"),
)


async def test_each_mistake_of_a_text_is_reported_with_its_place(user: IsolatedUser) -> None:
    root = await anyio.to_thread.run_sync(set_up_project, user)
    async with api_client(root) as api:
        file = await api.get("~/teams/pair")
        for text, place, said in WRONG:
            _, found = await api("POST", "~/teams/pair/check", {"text": text})
            (mistake,) = found["problem"]["errors"]
            assert (mistake["place"], said in mistake["problem"]) == (place, True), mistake
            given = {"text": text, "digest": file["digest"]}
            status, problem = await api("PUT", "~/teams/pair", given)
            assert (status, problem["errors"]) == (409, [mistake])
        assert await api.get("~/teams/pair") == file


async def test_a_team_of_roles_is_checked_as_it_is_read(user: IsolatedUser) -> None:
    root = await anyio.to_thread.run_sync(set_up_project, user)
    manager = {"role_id": "mira", "type": "manager", "cli_command": "scripted"}
    worker = {"role_id": "wren", "type": "worker", "cli_command": "scripted"}
    text = json.dumps({"roles": [manager, worker]})
    (root / ".coterie" / "teams" / "pair" / "team.json").write_text(text)
    async with api_client(root) as api:
        file = await api.get("~/teams/pair")
        assert [one["id"] for one in file["members"]] == ["mira", "wren"]
        _, found = await api("POST", "~/teams/pair/check", {"text": text})
        assert (found["problem"], found["members"]) == (None, ["mira", "wren"])


def test_only_the_text_that_was_seen_is_trusted(
    user: IsolatedUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = set_up_project(user) / ".coterie" / "teams" / "pair" / "team.json"
    seen, edited = (written({**ADA, "env": {name: "x"}}) for name in ("SEEN", "EDITED"))
    team.write_text(seen)
    trusted = list[TeamView]()

    def then_edited(text: str) -> str:
        team.write_text(edited)  # behind the reader's back, just before it is compared
        return digest_of(text)

    monkeypatch.setattr(team_files, "digest_of", then_edited)
    monkeypatch.setattr(Teams, "trust", lambda _, view: trusted.append(view))
    team_files.trust_seen(Teams(Project(user.project), user.coterie_home), "pair", digest_of(seen))
    assert [list(view.team.members[0].env) for view in trusted] == [["SEEN"]]


def installed(folder: Path) -> None:
    """Install an agent known by name, as a program."""
    folder.mkdir()
    program = folder / "qwen"
    program.write_text("#!/bin/sh\necho 0.15.10\n")
    program.chmod(0o755)


async def test_the_first_team_is_made_of_what_is_installed(
    user: IsolatedUser, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await anyio.to_thread.run_sync(installed, tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    async with api_client(user.project) as api:
        given = {"name": "crew", "agents": "qwen", "preset": "pair", "default": True}
        status, made = await api("POST", "~/teams", given)
        assert status == 201, made
        assert {one["agent"] for one in made["members"]} == {"qwen"}
        assert "qwen" in [one["name"] for one in await api.get("~/agents")]
