"""The blocks of the README and the docs are run, in order, as a reader would."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.config.registry import define
from coterie.config.settings import Settings
from coterie.config.team_file import Reading, load_team
from coterie.model.scheduler import SchedulerConfig
from coterie.rehearsal.script import Script

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```", re.M | re.S)


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(match["info"], match["body"]) for match in BLOCK.finditer(page.read_text())]


def commands(body: str) -> list[tuple[str, int]]:
    """The commands of a block, each with the exit code it should have: `? 3` after it, else 0."""
    found: list[tuple[str, int]] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], 0))
        elif line.startswith("? "):
            found[-1] = (found[-1][0], int(line[2:]))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_blocks_of_a_page_run_in_order(page: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    bin_folder = Path(sys.executable).parent
    env = {
        **{key: value for key, value in os.environ.items() if not key.startswith("COTERIE")},
        "HOME": str(tmp_path / "home"),
        "PATH": f"{bin_folder}:{os.environ['PATH']}",
    }
    (tmp_path / "home").mkdir()
    for info, body in blocks(page):
        name = re.search(r"file=(\S+)", info)
        if name:
            (work / name[1]).write_text(body)
        if not info.startswith("console"):
            continue
        for command, code in commands(body):
            ran = subprocess.run(
                ["bash", "-c", command],
                cwd=work,
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert ran.returncode == code, f"{command}\n{ran.stdout}\n{ran.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_team_files_of_a_page_are_teams(page: Path, tmp_path: Path) -> None:
    agents = {name: define(name, {"command": name}) for name in ("claude", "codex", "gemini")}
    for info, body in blocks(page):
        if info == "json" and '"members"' in body:
            path = tmp_path / "team.json"
            path.write_text(body)
            assert load_team(path, Reading(agents, Settings())).team.members
        elif info == "json" and '"rules"' in body:
            assert Script.model_validate_json(body).rules
        elif info == "json" and '"roles"' in body:
            path = tmp_path / "roles.json"
            path.write_text(body)
            assert load_team(path, Reading(agents, Settings())).team.members
        elif info == "json" and '"concurrency"' in body:
            assert SchedulerConfig.model_validate_json(body, strict=True).concurrency
        elif info == "json":
            assert json.loads(body) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_a_page_names_exists(page: Path) -> None:
    from coterie.cli.verbs import find

    text = page.read_text()
    for match in re.finditer(r"`coterie ([^`\n]+)`", text):
        try:
            word = shlex.split(match[1])[0]
        except ValueError:
            continue
        assert word.startswith("-") or " " in word or find(word) is not None, match[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_files_a_page_links_to_are_there(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target
