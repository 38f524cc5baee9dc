"""Tasks over HTTP: started, followed, answered, steered; and a problem where that is impossible."""

from __future__ import annotations

import json
import re
from typing import Any

import anyio
import pytest

from coterie.web.openapi import document
from tests.conftest import IsolatedUser
from tests.web.api_client import ApiClient, api_client, set_up_project


async def wait_for_status(api: ApiClient, task: str, status: str) -> Any:
    """Wait until a task reaches a status."""
    for _ in range(5000):
        found = await api.get(f"~/tasks/{task}")
        if found["status"] == status:
            return found
        await anyio.sleep(0.02)
    raise AssertionError(f"{task} is not {status}")


async def test_a_conversation(user: IsolatedUser) -> None:
    root = await anyio.to_thread.run_sync(set_up_project, user)
    async with api_client(root) as api:
        status, made = await api("POST", "~/tasks", {"goal": "say hello", "team": "pair"})
        assert (status, made["workflow"], made["title"]) == (201, "chat", "say hello")
        task = made["id"]
        detail = await wait_for_status(api, task, "waiting")
        assert [one["id"] for one in detail["members"]] == ["ada", "max"]
        (asked,) = await api.get("/inbox")
        assert (asked["task"], asked["about"]["kind"]) == (task, "human_turn")
        assert detail["asked"] == [asked]
        answer = {"project": api.project, "question": asked["id"]}
        answers = [{**answer, "text": "thanks"}, {**answer, "question": "q99", "text": "x"}]
        status, done = await api("POST", "/inbox/answers", {"answers": answers})
        assert [one["problem"] and one["problem"]["status"] for one in done] == [None, 404]
        assert (done[0]["answered"]["state"], done[0]["answered"]["answer"]) == (
            "answered",
            "thanks",
        )
        page = await api.get(f"~/tasks/{task}/timeline", limit=500)
        types = [entry["record"]["type"] for entry in page["entries"]]
        assert types[:4] == ["task", "message", "task", "message"]
        numbers = [entry["seq"] for entry in page["entries"]]
        assert numbers == sorted(numbers)
        status, shown = await api("POST", f"~/tasks/{task}/end")
        assert status == 200, shown
        await wait_for_status(api, task, "completed")
        status, problem = await api("POST", f"~/tasks/{task}/cancel")
        assert (status, problem["type"]) == (409, "urn:coterie:problem:usage")


async def test_what_the_server_runs_is_neither_run_twice_nor_taken_back(user: IsolatedUser) -> None:
    root = await anyio.to_thread.run_sync(set_up_project, user)
    async with api_client(root) as api:
        _, made = await api("POST", "~/tasks", {"goal": "say hello", "team": "pair"})
        task = made["id"]
        await wait_for_status(api, task, "waiting")
        for act in ("resume", "revert"):
            status, problem = await api("POST", f"~/tasks/{task}/{act}")
            assert (status, problem["type"]) == (409, "urn:coterie:problem:task_busy"), act
        (asked,) = await api.get("/inbox")
        answer = {"project": api.project, "question": asked["id"], "text": "thanks"}
        await api("POST", "/inbox/answers", {"answers": [answer]})
        await api("POST", f"~/tasks/{task}/end")  # the run continues as if nothing had happened
        await wait_for_status(api, task, "completed")


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/projects/000000000000/tasks/k3f9", None, 404),
        ("GET", "~/tasks/k3f9", None, 404),
        ("GET", "~/tasks/last", None, 404),
        ("GET", "~/tasks/..%2f..%2fx", None, 404),
        ("GET", "~/tasks/K3F9", None, 422),
        ("POST", "~/tasks", {"goal": ""}, 422),
        ("POST", "~/tasks", {"goal": "x", "team": "../pair"}, 422),
        ("POST", "~/tasks", {"goal": "x", "team": "nobody"}, 404),
        ("POST", "~/tasks", {"goal": "x", "colour": "red"}, 422),
        ("POST", "~/tasks/k3f9/say", {"text": "x"}, 404),
        ("GET", "/tasks", None, 200),
        ("GET", "/inbox", None, 200),
    ],
)
async def test_what_cannot_be_is_a_problem(
    user: IsolatedUser, method: str, path: str, body: object, status: int
) -> None:
    root = await anyio.to_thread.run_sync(set_up_project, user)
    async with api_client(root) as api:
        got, problem = await api(method, path, body)
        assert (got, status) == (status, got), problem
        if status >= 400:
            assert problem["status"] == status


async def test_without_the_token_nothing_is_answered(user: IsolatedUser) -> None:
    root = await anyio.to_thread.run_sync(set_up_project, user)
    async with api_client(root) as api:
        described = json.loads(document())
        del api.client.headers["Authorization"]
        for path, methods in described["paths"].items():
            for method in methods:
                if (path, method) != ("/api/v1/session", "post"):
                    answer = await api.client.request(method, re.sub("{.*?}", "x", path))
                    assert answer.status_code in (401, 403), (method, path, answer.text)


async def test_an_address_names_all_of_its_methods(user: IsolatedUser) -> None:
    root = await anyio.to_thread.run_sync(set_up_project, user)
    async with api_client(root) as api:
        answer = await api.client.request("DELETE", f"/api/v1/projects/{api.project}/teams")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")
