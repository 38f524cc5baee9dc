"""The examples of docs/python.md as a reader runs them: from a wheel, in a fresh environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import IsolatedUser
from tests.docs.test_docs import ROOT, blocks, commands, files

PAGE = ROOT / "docs" / "python.md"
LONGEST = {"chat.py": 15, "words.py": 40, "duet.py": 40}


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment with Coterie as users install it."""
    venv = tmp_path_factory.mktemp("fresh") / "venv"
    env = {**os.environ, "VENV": str(venv), "PYTHON": sys.executable, "COMPILE": "no"}
    setup = [ROOT / "scripts" / "setup", "wheel"]
    made = subprocess.run(setup, env=env, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    pip = venv / "bin" / "pip"
    pip.write_text(f'#!/bin/sh\nexec {sys.executable} -m pip --python {venv}/bin/python -q "$@"\n')
    pip.chmod(0o755)
    return venv / "bin"


def test_what_a_reader_does(fresh: Path, user: IsolatedUser) -> None:
    env = {
        "HOME": str(user.home),
        "PATH": f"{fresh}:{os.defpath}",
        # What `pip install .` builds with is in the environment; the network is not used.
        "PIP_NO_BUILD_ISOLATION": "0",
        "PIP_NO_INDEX": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    said: list[str] = []
    for name, text in files(PAGE).items():
        (user.project / name).write_text(text)
    console = [body for info, body in blocks(PAGE) if info == "console"]
    for command, code in (one for body in console for one in commands(body)):
        ran = subprocess.run(
            ["bash", "-c", command],
            cwd=user.project,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ran.returncode == code, f"{command}\n{ran.stdout}\n{ran.stderr}"
        said.append(ran.stdout)
    whole = "\n".join(said)
    for part in ("rex: ", "completed", "Counting: 4 words", "why      kept"):
        assert part in whole, whole


def test_the_examples_are_as_short_as_promised() -> None:
    lengths = {name: len(text.splitlines()) for name, text in files(PAGE).items()}
    assert {name: lengths[name] for name in LONGEST if lengths[name] > LONGEST[name]} == {}
