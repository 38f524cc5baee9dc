"""The API without a socket: the application on the test's own loop, authenticated by its token."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio.to_thread
import httpx

from coterie.app.web_sessions import WebSessions
from coterie.web.access import Access
from coterie.web.application import make_application
from coterie.web.hub import Hub, open_hub, project_id
from tests.conftest import IsolatedUser, init_project
from tests.unit.process.children import AGENT

API = "/api/v1"
ENDS = {"completionDetection": "jsonl", "completionTypes": ["result"], "persistent": True}


def set_up_project(user: IsolatedUser) -> Path:
    """Set up a project with a team `pair`: a scripted agent and a person."""
    registry = user.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    scripted = {
        "command": sys.executable,
        "baseArgs": ["-I", "-S", str(AGENT), "--persistent"],
        "capabilities": {**ENDS, "promptFormat": "jsonl"},
    }
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": {"scripted": scripted}}))
    team = init_project(user.project) / "teams" / "pair" / "team.json"
    team.parent.mkdir(parents=True)
    members = [{"id": "ada", "agent": "scripted"}, {"id": "max"}]
    team.write_text(json.dumps({"workflow": "chat", "members": members}))
    return user.project


@dataclass
class ApiClient:
    """The application, and an authenticated client."""

    client: httpx.AsyncClient
    hub: Hub
    root: Path

    @property
    def project(self) -> str:
        return project_id(self.root)

    async def __call__(
        self, method: str, path: str, body: object = None, **query: object
    ) -> tuple[int, Any]:
        """Return status and body; `path` is relative to the API, with `~` for its project."""
        path = path.replace("~", f"/projects/{self.project}")
        params = {name: str(value) for name, value in query.items()}
        answer = await self.client.request(method, f"{API}{path}", json=body, params=params)
        kind = answer.headers.get("content-type", "")
        return answer.status_code, answer.json() if "json" in kind else answer.text

    async def get(self, path: str, **query: object) -> Any:
        """Return the body at a path, which must exist."""
        status, found = await self("GET", path, **query)
        assert status == 200, found
        return found


@asynccontextmanager
async def api_client(root: Path) -> AsyncGenerator[ApiClient]:
    """The API on a project, until the block ends."""
    async with open_hub(root) as hub:
        sessions = await anyio.to_thread.run_sync(WebSessions)
        access = Access("127.0.0.1", 8420, sessions, frozenset(), False)
        application = await anyio.to_thread.run_sync(make_application, hub, access, None)
        transport = httpx.ASGITransport(application, client=("127.0.0.1", 1))
        headers = {"Authorization": f"Bearer {sessions.token}"}
        async with httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1:8420", headers=headers
        ) as client:
            yield ApiClient(client, hub, root)
