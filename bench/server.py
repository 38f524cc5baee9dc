"""What `coterie serve` costs: idle with one client following, and running a chat."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from bench.commands import cpu_of, created_home

API = "/api/v1"
TURNS = 21
"""In a round of a chat, to separate the cost of a turn from that of starting."""
PROJECTS = 3
_READING = """
import sys, urllib.request
request = urllib.request.Request(sys.argv[1], headers={"Authorization": sys.argv[2]})
for _ in urllib.request.urlopen(request):
    pass
"""


@dataclass(frozen=True)
class IdleCost:
    """An idle server, with one stream open on all projects."""

    cpu: float
    """Percent of a core."""
    memory: float
    """MB more than the interpreter with `coterie` imported."""


@dataclass(frozen=True)
class TurnCost:
    """CPU milliseconds of a turn of a chat, including its agent."""

    command: float
    server: float


def measure(folder: Path, seconds: float) -> tuple[IdleCost, TurnCost]:
    """Measure a server on several projects: idle, then at work."""
    env = created_home(folder)
    teams = folder / "work" / ".coterie" / "teams"
    command = [sys.executable, "-m", "coterie", "-C", str(folder / "work"), "chat"]
    for number in range(1, PROJECTS):
        (folder / f"work{number}").mkdir()
        other = ["-C", str(folder / f"work{number}"), "chat", "--agents", "a=scripted", "hello"]
        cpu_of([*command[:3], *other], env)
    cpu_of([*command, "--agents", "a=scripted", "hello there"], env)
    for name, turns in (("one", 1), ("many", TURNS)):
        (teams / name).mkdir(parents=True)
        members = [{"id": f"m{number}", "agent": "scripted"} for number in range(turns)]
        (teams / name / "team.json").write_text(json.dumps({"members": members}))

    def by_command(team: str) -> float:
        return cpu_of([*command, "-t", team, "hello there"], env)

    with _served(folder / "work", env) as (server, client), _following(client):
        rest = _idle_cost(server, seconds, env)
        project = client.get(f"{API}/projects").json()[0]["id"]

        def by_server(team: str) -> float:
            before = _cpu(server)
            _chat(client, project, team)
            return _cpu(server) - before

        ways = (_a_turn(by_command), _a_turn(by_server))
    return rest, TurnCost(*(1000 * seconds for seconds in ways))


def _a_turn(chat: Callable[[str], float]) -> float:
    """Return the cost of one of many turns."""
    chat("one")
    pairs = [(chat("one"), chat("many")) for _ in range(5)]
    return statistics.median((many - one) / (TURNS - 1) for one, many in pairs)


def _chat(client: httpx.Client, project: str, team: str) -> None:
    given = {"workflow": "chat", "goal": "hello there", "team": team}
    answer = client.post(f"{API}/projects/{project}/tasks", json=given)
    task = answer.raise_for_status().json()["id"]
    while not client.get(f"{API}/projects/{project}/tasks/{task}").json()["questions"]:
        time.sleep(0.5)  # until everybody has spoken, and it is the person's turn
    client.post(f"{API}/projects/{project}/tasks/{task}/cancel").raise_for_status()


def _idle_cost(server: psutil.Process, seconds: float, env: dict[str, str]) -> IdleCost:
    time.sleep(3)  # its start-up work is done, and its write-ahead log checkpointed
    before = _cpu(server)
    time.sleep(seconds)
    cpu = 100 * (_cpu(server) - before) / seconds
    alone = [sys.executable, "-c", "import coterie, sys; print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(
        alone, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as interpreter:
        assert interpreter.stdout is not None
        interpreter.stdout.readline()
        least = psutil.Process(interpreter.pid).memory_info().rss
        interpreter.kill()
    return IdleCost(cpu, (server.memory_info().rss - least) / 1e6)


def _cpu(server: psutil.Process) -> float:
    used = server.cpu_times()
    return used.user + used.system + used.children_user + used.children_system


@contextmanager
def _served(root: Path, env: dict[str, str]) -> Generator[tuple[psutil.Process, httpx.Client]]:
    command = [sys.executable, "-m", "coterie", "serve", "--api-only", "--json", "--port", "0"]
    with subprocess.Popen(command, env=env, cwd=root, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        started = json.loads(process.stdout.readline())
        headers = {"Authorization": f"Bearer {started['token']}"}
        with httpx.Client(base_url=started["address"], headers=headers, timeout=60) as client:
            yield psutil.Process(process.pid), client
        process.terminate()


@contextmanager
def _following(client: httpx.Client) -> Generator[None]:
    """Keep the event stream open, and read it."""
    address, token = str(client.base_url), client.headers["authorization"]
    command = [sys.executable, "-c", _READING, f"{address}{API.lstrip('/')}/events", token]
    with subprocess.Popen(command, env=dict(os.environ), stderr=subprocess.DEVNULL) as reader:
        yield
        reader.kill()
