"""`python -m coterie.rehearsal`, as a person starts it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest


@contextmanager
def running(*args: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "coterie.rehearsal", *args]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as program:
        try:
            assert program.stdout is not None
            first = program.stdout.readline()
            yield program, json.loads(first)["url"] if first else ""
        finally:
            program.kill()


def said(url: str) -> str:
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    asked = Request(f"{url}/v1/messages", json.dumps(body).encode(), {"x-api-key": "sk-hidden"})
    with urlopen(asked, timeout=20) as answered:
        return json.load(answered)["content"][0]["text"]


def test_it_serves_until_its_input_ends(tmp_path: Path) -> None:
    script = tmp_path / "play.json"
    script.write_text('{"rules": [{"replies": [{"text": "From the script."}]}]}')
    with running("--script", str(script)) as (program, url):
        assert said(url) == "From the script."
        out, err = program.communicate("ignored\n", timeout=20)
    assert (program.returncode, err) == (0, "")
    [line] = out.splitlines()
    assert json.loads(line)["path"] == "/v1/messages"
    assert "sk-hidden" not in out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_when_told_to(number: int) -> None:
    with running() as (program, url):
        assert "stand-in" in said(url)
        program.send_signal(number)
        assert program.wait(timeout=20) == 0


def test_a_wrong_script(tmp_path: Path) -> None:
    script = tmp_path / "play.json"
    script.write_text("{}")
    with running("--script", str(script)) as (program, _):
        _, err = program.communicate(timeout=20)
    assert program.returncode == 2
    assert err == f"{script} rules is missing.\n"


def test_a_port_that_is_taken() -> None:
    with running() as (_, url), running("--port", url.rpartition(":")[2]) as (second, _):
        _, err = second.communicate(timeout=20)
        assert second.returncode == 1
        assert "Cannot listen on port" in err


def test_input_that_is_a_file_is_at_its_end() -> None:
    command = [sys.executable, "-m", "coterie.rehearsal"]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=20
    )
    assert done.returncode == 0
