"""Regenerate `fixtures/*.json` from what the real CLIs send.

Run as `python -m tests.unit.rehearsal.make_fixtures`, with the CLIs of scripts/real-clis.
Long texts are cut in the middle; the folder of the run becomes /lab.  `claude_stream.json` is
not generated here: it was captured from the real CLI.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio

from coterie.rehearsal.server import RecordedRequest, RehearsalServer
from tests.live.test_rehearsal_clis import CLIS, PATCH, ROLE, Cli, CliHome, call, scripted, tool
from tests.unit.rehearsal.recorded import FIXTURES
from tests.unit.rehearsal.setups import SETUPS

HEADERS = ("user-agent", "content-type", "accept", "x-api-key", "authorization", "x-goog-api-key")
BULKY = ("description", "input_schema", "parameters", "parametersJsonSchema", "client_metadata")
LONGEST = 500
KEPT = 180


@dataclass(frozen=True)
class Fixture:
    name: str
    cli: str
    replies: Callable[[Cli, Path], list[dict[str, Any]]]
    """Given the CLI and the path of the note in its work folder."""
    args: tuple[str, ...] = ()
    side_call: bool = False


READERS = {
    "claude": ("Read", "file_path"),
    "gemini": ("read_file", "file_path"),
    "qwen": ("read_file", "file_path"),
    "opencode": ("read", "filePath"),
}
"""The file-reading tool of each CLI, and the name of its path argument."""


def tools(cli: Cli, note: Path) -> list[dict[str, Any]]:
    name, argument = READERS.get(cli.name, ("", ""))
    calls = [cli.shell("cat note.txt"), *([tool(name, **{argument: str(note)})] if name else [])]
    return [*map(call, calls), {"text": "I have read it."}]


def patched(cli: Cli, note: Path) -> list[dict[str, Any]]:
    patch = {
        "thinking": "hm",
        "text": "patching",
        "tools": [{"name": "apply_patch", "input": PATCH}],
    }
    return [*tools(cli, note)[:-1], patch, {"text": "ok"}]


def programmed(cli: Cli, note: Path) -> list[dict[str, Any]]:
    program = 'const r = await tools.exec_command({cmd:"cat note.txt"}); text(r.output);'
    return [{"tools": [{"name": "exec", "input": program}]}, {"text": "seen"}]


def plain(cli: Cli, note: Path) -> list[dict[str, Any]]:
    return [{"text": "x"}]


WANTED = [
    *(Fixture(name, name, tools) for name in ("claude", "gemini", "qwen", "opencode")),
    Fixture("codex", "codex", patched),
    Fixture("codex_code_mode", "codex", programmed, ("--model", "gpt-6.1-sol")),
    Fixture("gemini_router", "gemini", plain, ("--model", "auto"), side_call=True),
    Fixture("opencode_title", "opencode", plain, side_call=True),
]


async def make(wanted: Fixture, root: Path) -> dict[str, Any]:
    cli = next(cli for cli in CLIS if cli.name == wanted.cli)
    last = cli.args[-1:] if cli.args[-1] == "-" else ()
    args = cli.args[: len(cli.args) - len(last)]
    cli = replace(cli, args=(*args, *wanted.args, *last))
    home = CliHome(cli, root, SETUPS[cli.name])
    responder = scripted(cli, *wanted.replies(cli, home.work / "note.txt"))
    async with RehearsalServer(responder) as server:
        ran = await home.run(server.url, "please read the note")
    assert ran.code == 0, ran
    side_calls = [request for request in server.requests if request.side_call]
    return shown((side_calls if wanted.side_call else server.turns)[-1], root)


def shown(received: RecordedRequest, root: Path) -> dict[str, Any]:
    return {
        "method": received.method,
        "path": received.path,
        "headers": {name: received.headers[name] for name in HEADERS if name in received.headers},
        "body": short(received.body, str(root)),
    }


def short(value: Any, root: str) -> Any:
    if isinstance(value, dict):
        return {key: short(each, root) for key, each in value.items() if key not in BULKY}
    if isinstance(value, list):
        return [short(each, root) for each in value]
    return short_text(value, root) if isinstance(value, str) else value


def short_text(text: str, root: str) -> str:
    text = text.replace(root, "/lab")
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{64}\b", "0-0", text)
    if len(text) < LONGEST:
        return text
    first, last = text[:KEPT], text[-KEPT:]
    telling = re.findall(rf"[^\n]*[Ww]orking directory: [^\n]*\n|{re.escape(ROLE)}", text)
    return " … ".join([first, *(each for each in telling if each not in first + last), last])


async def main() -> None:
    for wanted in WANTED:
        with tempfile.TemporaryDirectory() as root:
            made = await make(wanted, Path(root))
        text = json.dumps(made, indent=1, ensure_ascii=False)
        (FIXTURES / f"{wanted.name}.json").write_text(text + "\n")


if __name__ == "__main__":
    anyio.run(main)
