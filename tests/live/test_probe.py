"""`doctor --probe`: its results for the real CLIs, and for programs that are not agents."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import anyio.to_thread
import pytest

from coterie.agents.table import KNOWN_AGENTS
from coterie.app import probe_steps as steps
from coterie.app.probe import probe_agent
from coterie.app.probe_steps import STEPS, ProbeResult, ProbeStepResult
from coterie.errors import UsageError
from coterie.model import instant
from coterie.model.agent import AgentDefinition
from tests.cli.command import InProcessCli
from tests.conftest import IsolatedUser

ROOT = Path(__file__).parents[2]
BINS = Path(os.environ.get("COTERIE_CLIS", ROOT / ".cache" / "clis")) / "node_modules" / ".bin"


@pytest.fixture
def folders(
    user: IsolatedUser, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The folder in which temporary folders are created; short, as sockets are bound in it."""
    made = tmp_path_factory.mktemp("t")
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    return made


def installed(name: str) -> str:
    if not (BINS / name).exists():
        pytest.skip(f"{name} is not installed: scripts/real-clis")
    return str(BINS / name)


def stub(folder: Path, name: str, script: str) -> str:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program)


async def probe(name: str, command: str) -> ProbeResult:
    known = await anyio.to_thread.run_sync(KNOWN_AGENTS.get, name)
    agent = known.definition(command, None, instant.now()) if known else None
    return await probe_agent(agent or AgentDefinition(name=name, command=command))


def outcomes(probed: ProbeResult) -> dict[str, str]:
    return {tried.step: tried.outcome for tried in probed.steps}


# -- real CLIs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["claude", "codex", "gemini"])
async def test_everything_works(user: IsolatedUser, folders: Path, name: str) -> None:
    probed = await probe(name, installed(name))
    assert [tried for tried in probed.steps if tried.outcome != "ok"] == []
    assert [tried.step for tried in probed.steps] == list(STEPS)
    assert (probed.version, probed.ok, probed.message) == (probed.tested, True, None)
    # Git's folder is shared by the process, created by whichever test needed it first.
    assert [path for path in folders.iterdir() if not path.name.startswith("coterie-git-")] == []
    assert list(user.project.iterdir()) == []
    assert not user.coterie_home.exists()


async def test_a_cli_that_never_asks_fails_at_permission(
    folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps after a failed one are still tried, on a new task."""
    real = installed("claude")
    monkeypatch.setattr(steps, "TIMEOUT", 15.0)
    # Even in that mode Claude asks, as long as the hook tells it to.
    never = (
        'for word in "$@"; do shift; case $word in *mode=default) '
        'word=--permission-mode=bypassPermissions;; esac; set -- "$@" "$word"; done\n'
        f"""sed -u 's/"hooks":/"unheard":/' | IS_SANDBOX=1 {real} "$@\""""
    )
    probed = await probe("claude", stub(tmp_path, "claude", never))
    assert outcomes(probed) == {**dict.fromkeys(STEPS, "ok"), "permission": "failed"}
    assert [tried.detail for tried in probed.failures] == ["it ran a command without asking"]
    assert probed.message == 'claude 2.1.325 failed the probe at "permission".'
    assert probed.hint is None


# -- other programs ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "qwen"])
async def test_a_program_that_exits_at_once(folders: Path, tmp_path: Path, name: str) -> None:
    probed = await probe(name, stub(tmp_path, name, "echo 0.0.1; exit 3"))
    assert outcomes(probed) == {**dict.fromkeys(STEPS, "not tried"), "start": "failed"}
    [failure] = probed.failures
    assert str(folders) not in failure.detail
    assert failure.detail.startswith(f"{name} cannot start: ")
    assert (probed.steps[1].detail) == "the step start failed"
    assert list(folders.iterdir()) == []


async def test_a_program_that_never_speaks(
    folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "TIMEOUT", 1.0)
    silent = '[ "$1" = --version ] && echo 1.2.3 && exit; exec sleep 60'
    probed = await probe("claude", stub(tmp_path, "claude", silent))
    assert probed.steps[0].outcome == "failed"
    assert probed.steps[0].detail == "did not finish within 1 s"


async def test_what_has_no_stand_in_is_not_started(folders: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="mine cannot be probed"):
        await probe("mine", stub(tmp_path, "mine", f"touch {tmp_path}/started"))
    assert not (tmp_path / "started").exists()


def test_an_untested_version_is_named() -> None:
    tried = (
        ProbeStepResult("start", "ok", ""),
        ProbeStepResult("permission", "failed", "no question came"),
    )
    probed = ProbeResult("gemini", "0.49.0", "0.61.0", tried, "npm i -g @google/gemini-cli")
    assert probed.message == (
        'gemini 0.49.0 is untested (tested: 0.61.0) and failed the probe at "permission".'
    )
    assert probed.hint == "npm i -g @google/gemini-cli"


# -- the command -------------------------------------------------------------------------------


@pytest.fixture
def in_process(user: IsolatedUser, monkeypatch: pytest.MonkeyPatch) -> InProcessCli:
    """A PATH with nothing but the node that the CLIs run on, and none of the user's CLIs."""
    folder = user.home / "bin"
    folder.mkdir()
    (folder / "node").symlink_to(shutil.which("node") or "/nowhere")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return InProcessCli(user)


def register(user: IsolatedUser, agents: dict[str, dict[str, object]]) -> None:
    registry = user.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": agents}))


def test_the_table(user: IsolatedUser, in_process: InProcessCli, tmp_path: Path) -> None:
    broken = stub(tmp_path, "broken", '[ "$1" = --version ] && echo 0.49.0')
    register(
        user,
        {
            "codex": {"command": installed("codex")},
            "gemini": {"command": broken},
            "mine": {"command": sys.executable},
        },
    )
    ran = in_process("doctor", "--probe")
    lines = ran.out.splitlines()
    rows = [line.split() for line in lines]
    head = next(place for place, row in enumerate(rows) if row[:1] == ["start"])
    assert rows[head] == list(STEPS)
    shown = {row[0]: row[2:8] for row in rows[head + 1 : head + 3]}
    assert shown == {"codex": ["ok"] * 6, "gemini": ["failed", *["-"] * 5]}
    assert "  mine: not probed, there is no stand-in for its model" in lines
    told = lines.index(
        '! gemini 0.49.0 is untested (tested: 0.61.0) and failed the probe at "start".'
    )
    assert lines[told + 1].startswith("  start: gemini cannot start:")
    assert "  npm i -g @google/gemini-cli" in lines[told:]
    assert (ran.code, ran.err) == (1, "")


def test_objects(user: IsolatedUser, in_process: InProcessCli) -> None:
    register(user, {"codex": {"command": installed("codex")}})
    ran = in_process("doctor", "--probe", "--json")
    [one] = ran.of("probe")
    assert (one["name"], one["ok"], one["message"]) == ("codex", True, None)
    assert [step["outcome"] for step in one["steps"]] == ["ok"] * 6
    assert ran.lines[-1]["type"] == "doctor"
