"""The API matches its own description: schemathesis finds nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from coterie.web.openapi import document
from tests.conftest import IsolatedUser
from tests.web.api_client import set_up_project
from tests.web.server import started

HOOKS = Path(__file__).with_name("schema_hooks.py")
CONFIG = Path(__file__).with_name("schemathesis.toml")
LONG = os.environ.get("COTERIE_LONG") == "1"
"""All phases with many examples, which takes minutes: `COTERIE_LONG=1`."""
PHASES = ("examples,coverage,fuzzing,stateful", "60") if LONG else ("fuzzing", "2")


def test_the_description_is_the_same_each_time() -> None:
    found = document()
    assert found == document()
    described = json.loads(found)
    assert described["openapi"] == "3.1.0"
    entry = described["components"]["schemas"]["EntryShown"]["properties"]["record"]
    assert entry["discriminator"]["propertyName"] == "type"


def test_schemathesis_finds_nothing(user: IsolatedUser, tmp_path: Path) -> None:
    set_up_project(user)
    with started(user, "--api-only") as server:
        (project,) = server.client.get("/api/v1/projects").json()
        tasks = f"/api/v1/projects/{project['id']}/tasks"
        made = server.client.post(tasks, json={"goal": "say hello", "team": "pair"})
        assert made.status_code == 201, made.text
        known = {"project": project["id"], "task": made.json()["id"], "team": "pair"}
        known |= {"member": "ada", "question": "q1", "folder": str(tmp_path / "home")}
        # It is built once, on the first request, and schemathesis waits ten seconds for it.
        assert server.client.get("/api/v1/openapi.json").status_code == 200
        phases, examples = PHASES
        ran = subprocess.run(
            [
                *(str(Path(sys.executable).with_name("st")), "--config-file", str(CONFIG), "run"),
                *(f"{server.address}/api/v1/openapi.json", "--no-color", "--seed", "13"),
                *("-H", f"Authorization: Bearer {server.token}", "--warnings", "off"),
                *("--exclude-path", "/api/v1/events"),  # it never ends
                *("--phases", phases, "--max-examples", examples, "--no-shrink"),
                *("--rate-limit", "auto", "--request-timeout", "60"),
                # Wrong tokens soon get 429; authentication is tested by test_access.
                *("--exclude-checks", "ignored_auth"),
            ],
            cwd=tmp_path,
            env={
                **os.environ,
                "COTERIE_KNOWN": json.dumps(known),
                "SCHEMATHESIS_HOOKS": HOOKS.stem,
                "PYTHONPATH": str(HOOKS.parent),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout[-8000:] + ran.stderr[-2000:]
