"""All other resources: tickets and their results, a build, teams, the record, settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import anyio.to_thread

from coterie.app.teams import PRESET_NAMES
from coterie.web.resources.teams import Preset
from tests.cli.ticket_project import git
from tests.conftest import IsolatedUser
from tests.web.api_client import api_client, set_up_project
from tests.web.test_tasks import wait_for_status


def repository(user: IsolatedUser) -> Path:
    root = set_up_project(user)
    (root / "cart.py").write_text("total = 0\n")
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.name", "You")
    git(root, "config", "user.email", "you@example.com")
    git(root, "add", "cart.py")
    git(root, "commit", "-q", "-m", "Begin")
    return root


async def test_a_goal_becomes_tickets_and_an_accepted_commit(user: IsolatedUser) -> None:
    root = await anyio.to_thread.run_sync(repository, user)
    async with api_client(root) as api:
        wanted = {"workflow": "run", "goal": "Add coupons to cart.py and docs", "yes": True}
        wanted |= {"agents": "mira=scripted,wren=scripted", "rehearsal": True}
        status, made = await api("POST", "~/tasks", wanted)
        assert status == 201, made
        task = f"~/tasks/{made['id']}"
        detail = await wait_for_status(api, made["id"], "completed")
        assert detail["branch"].startswith("coterie/")
        tickets = await api.get(f"{task}/tickets")
        assert {one["state"] for one in tickets} == {"done"}
        one = f"{task}/tickets/{tickets[0]['id']}"
        ticket = await api.get(one)
        said = [envelope["payload_type"] for envelope in ticket["envelopes"]]
        assert {"instruction", "report", "review"} <= set(said)
        assert (await api.get(f"{one}/diff"))["patches"][0]["files"]
        told = (await api.get(f"{one}/timeline"))["entries"]
        assert {entry["record"]["type"] for entry in told} >= {"ticket", "message"}
        assert (await api("POST", f"{one}/reset"))[0] == 409
        changed = await api.get(f"{task}/changes")
        report = await api.get(f"{task}/report")
        assert report["files"] == len(changed["patches"][0]["files"])
        assert (await api.get(f"{task}/cost"))["rehearsal"]
        status, tried = await api("POST", f"{task}/revert", {"dry_run": True})
        assert (status, tried["restored"]) == (200, [])
        status, done = await api("POST", f"{task}/accept")
        assert (status, done["branch"]) == (200, "main"), done
        head = await anyio.to_thread.run_sync(git, root, "rev-parse", "HEAD")
        assert head.strip() == done["commit"]
        assert (await api("POST", f"{task}/accept"))[0] == 409
        assert (await api("GET", f"{task}/pipeline"))[0] == 409


async def test_a_build_and_its_artifacts(user: IsolatedUser) -> None:
    root = await anyio.to_thread.run_sync(repository, user)
    async with api_client(root) as api:
        wanted = {"workflow": "build", "goal": "Add coupons", "yes": True, "rehearsal": True}
        status, made = await api("POST", "~/tasks", {**wanted, "agents": "ada=scripted,b=scripted"})
        assert status == 201, made
        task = f"~/tasks/{made['id']}"
        await wait_for_status(api, made["id"], "waiting")
        found = await api.get(f"{task}/pipeline")
        assert found["graph"]["phases"][found["phase"]]
        assert found["gates"]
        files = await api.get(f"{task}/artifacts")
        plan = next(one for one in files if one["name"] == found["artifacts"]["plan"])
        path = f"/api/v1/projects/{api.project}/tasks/{made['id']}/artifacts/{plan['digest']}"
        answer = await api.client.get(path)
        assert len(answer.content) == plan["size_bytes"]
        assert answer.headers["content-disposition"].startswith("attachment")
        assert "sandbox" in answer.headers["content-security-policy"]
        assert (await api("GET", f"{task}/artifacts/{'0' * 64}"))[0] == 404
        assert (await api("POST", f"{task}/cancel"))[0] == 200


async def test_teams_are_made_edited_and_settled(user: IsolatedUser) -> None:
    assert get_args(Preset) == PRESET_NAMES
    root = await anyio.to_thread.run_sync(set_up_project, user)
    async with api_client(root) as api:
        status, made = await api("POST", "~/teams", {"name": "crew", "agents": "ada=scripted"})
        assert (status, made["members"][0]["id"]) == (201, "ada"), made
        assert [one["name"] for one in await api.get("~/teams")] == ["crew", "pair"]
        team = await api.get("~/teams/crew")
        text = {"members": [{"id": "ada", "agent": "scripted", "prompt": "Be brief."}]}
        given: dict[str, Any] = {"text": json.dumps(text)}
        assert (await api("POST", "~/teams/crew/check", given))[1]["valid"]
        wrong = (await api("POST", "~/teams/crew/check", {"text": '{"members": [{"idd": 1}]}'}))[1]
        assert (wrong["valid"], wrong["problem"]["type"]) == (False, "urn:coterie:problem:config")
        assert (await api("PUT", "~/teams/crew", {**given, "digest": "old"}))[0] == 409
        status, put = await api("PUT", "~/teams/crew", {**given, "digest": team["digest"]})
        assert (status, [one["member"] for one in put["changed"]]) == (200, ["ada"]), put
        status, settled = await api("POST", "~/teams/crew/members/ada", {"choice": "update"})
        assert (status, settled["changed"]) == (200, []), settled
        full = {"members": [{"id": "ada", "agent": "scripted", "permissions": "full"}]}
        wanted = {"text": json.dumps(full), "digest": settled["digest"]}
        status, put = await api("PUT", "~/teams/crew", wanted)
        assert [power["kind"] for power in put["powers"]] == ["full"]
        trust = await api.get("~/teams/crew/trust")
        assert (await api("POST", "~/teams/crew/trust", {"digest": "old"}))[0] == 409
        status, trusted = await api("POST", "~/teams/crew/trust", {"digest": trust["digest"]})
        assert (status, trusted["refused"]) == (200, None)
        assert (await api("GET", "~/teams/nobody"))[0] == 404


async def test_the_record_the_machine_and_settings(user: IsolatedUser, tmp_path: Path) -> None:
    root = await anyio.to_thread.run_sync(set_up_project, user)
    async with api_client(root) as api:
        assert (await api.get("~/audit"))["total"] == 0
        assert (await api.get("~/audit/verification"))["whole"]
        assert (await api.get("~/cost", by="day"))["costs"] == []
        assert (await api.get("~/agents"))[0]["name"] == "scripted"
        assert {one["name"] for one in (await api.get("~/doctor"))["checks"]} >= {"git", "keeper"}
        keys = [one["key"] for one in await api.get("~/settings")]
        assert "quietAfter" in keys
        status, done = await api("PATCH", "~/settings", {"key": "quietAfter", "value": "5m"})
        assert (status, done["value"], done["origin"]) == (200, "5m", "project"), done
        wrong = {"key": "quietAfter", "value": "soon"}
        assert (await api("PATCH", "~/settings", wrong))[0] == 409
        assert (await api("PATCH", "~/settings", {"key": "colour", "value": "red"}))[0] == 404
        status, made = await api("POST", "/projects", {"folder": str(tmp_path / "home")})
        assert status in (201, 409), made
        assert (await api("POST", "/projects", {"folder": f"/{'x' * 300}"}))[0] == 409
        other = tmp_path / "other"
        await anyio.Path(other).mkdir()
        status, made = await api("POST", "/projects", {"folder": str(other)})
        assert (status, made["name"]) == (201, "other"), made
