"""The blocks of the README and the docs are run, in order, as a reader would."""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from coterie.agents.table import KNOWN_AGENTS
from coterie.config.registry import Registry
from coterie.config.registry_edit import define_agent
from coterie.config.settings import Settings
from coterie.config.team_file import ReadContext, load_team
from coterie.model.ticket import SchedulerConfig
from coterie.rehearsal.script import Script
from coterie.testing.postgres import Databases
from tests.cli.command import CommandResult, InProcessCli
from tests.conftest import IsolatedUser

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```", re.M | re.S)


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(match["info"], match["body"]) for match in BLOCK.finditer(page.read_text())]


def files(page: Path) -> dict[str, str]:
    """The files that a page asks its reader to write, by name."""
    named = ((re.search(r"file=(\S+)", info), body) for info, body in blocks(page))
    return {name[1]: body for name, body in named if name}


def commands(body: str) -> list[tuple[str, int]]:
    """The commands of a block, each with its expected exit code: `? 3` after it, else 0."""
    found: list[tuple[str, int]] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], 0))
        elif line.startswith("? "):
            found[-1] = (found[-1][0], int(line[2:]))
    return found


PLAIN = re.compile(r"coterie (?!team open)[^'|&;<>`\\]*")
"""A command that needs nothing from the shell but quotes and variables, and that returns:
`team open` replaces itself with the program it opens."""


def run_in_shell(command: str) -> CommandResult:
    bin_folder = Path(sys.executable).parent
    ran = subprocess.run(
        ["bash", "-c", command],
        env={**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return CommandResult(ran.stdout, ran.stderr, ran.returncode)


@pytest.fixture
def two_databases(postgres: Databases) -> Iterator[list[str]]:
    names = [f"test_{secrets.token_hex(8)}" for _ in range(2)]
    yield [postgres.create(name) for name in names]
    for name in names:
        postgres.drop(name)


COMMANDS = [page for page in PAGES if page.name != "python.md"]
"""`test_python` runs the remaining page, from a wheel."""


@pytest.mark.parametrize("page", COMMANDS, ids=lambda page: page.name)
def test_the_blocks_of_a_page_run_in_order(
    page: Path, user: IsolatedUser, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Run the first plain command in a shell; later ones in this process, to save startup time."""
    monkeypatch.setenv("PWD", str(user.project))
    if page.name == "machines.md":  # the databases that its reader has created
        databases = request.getfixturevalue("two_databases")
        for name, url in zip(("DATABASE", "OTHER_DATABASE"), databases, strict=True):
            monkeypatch.setenv(name, url)
    run = run_in_shell
    for info, body in blocks(page):
        name = re.search(r"file=(\S+)", info)
        if name:
            (user.project / name[1]).write_text(body)
        if not info.startswith("console"):
            continue
        for command, code in commands(body):
            ran = run(command) if PLAIN.fullmatch(command) else run_in_shell(command)
            assert ran.code == code, f"{command}\n{ran.out}\n{ran.err}"
            if PLAIN.fullmatch(command):
                run = partial(run_in_process, user)


def run_in_process(user: IsolatedUser, command: str) -> CommandResult:
    return InProcessCli(user)(*shlex.split(os.path.expandvars(command))[1:])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_team_files_of_a_page_are_teams(page: Path, tmp_path: Path) -> None:
    named = (
        define_agent(KNOWN_AGENTS, name, {"command": name})
        for name in ("claude", "codex", "gemini")
    )
    agents = Registry(tmp_path, known=KNOWN_AGENTS).with_agents(*named)
    for info, body in blocks(page):
        if info == "json" and '"members"' in body:
            path = tmp_path / "team.json"
            path.write_text(body)
            assert load_team(path, ReadContext(agents, Settings())).team.members
        elif info == "json" and '"rules"' in body:
            assert Script.model_validate_json(body).rules
        elif info == "json" and '"roles"' in body:
            path = tmp_path / "roles.json"
            path.write_text(body)
            assert load_team(path, ReadContext(agents, Settings())).team.members
        elif info == "json" and '"concurrency"' in body:
            assert SchedulerConfig.model_validate_json(body, strict=True).concurrency
        elif info == "json":
            assert json.loads(body) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_a_page_names_exists(page: Path) -> None:
    from coterie.cli.main import find

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


def test_the_page_about_teams_names_every_variable_that_is_refused() -> None:
    page = (ROOT / "docs" / "teams.md").read_text()
    isolating = KNOWN_AGENTS.isolating(None)
    assert {name for name in isolating if f"`{name}`" not in page} == set()
