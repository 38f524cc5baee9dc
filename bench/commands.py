"""What commands cost from process start: CPU of the command and everything it started."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

from coterie.testing import agent


def cpu_of(words: list[str], env: dict[str, str]) -> float:
    """Return the CPU seconds of a command and everything it started."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def created_home(folder: Path) -> dict[str, str]:
    """Return an environment with a scripted agent in its registry; the project is `work`."""
    entry = {
        "command": sys.executable,
        "baseArgs": ["-I", "-S", agent.__file__],
        "capabilities": {"completionDetection": "jsonl", "completionTypes": ["result"]},
    }
    (folder / "user" / "agents").mkdir(parents=True)
    registry = {"schemaVersion": "1.2", "agents": {"scripted": entry}}
    (folder / "user" / "agents" / "config.json").write_text(json.dumps(registry))
    (folder / "work").mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "COTERIE_HOME": str(folder / "user")}


def help_and_first_turn(folder: Path, repeats: int = 7) -> tuple[float, float]:
    """Return the median CPU seconds of `coterie --help`, and of a `chat` of one turn."""
    env = created_home(folder)
    coterie = [sys.executable, "-m", "coterie"]
    chat = [*coterie, "-C", str(folder / "work"), "chat", "--agents", "a=scripted", "hello there"]
    cpu_of(chat, env)  # the first creates the project and compiles missing bytecode
    helps = [cpu_of([*coterie, "--help"], env) for _ in range(repeats)]
    turns = [cpu_of(chat, env) for _ in range(repeats)]
    return statistics.median(helps), statistics.median(turns)
