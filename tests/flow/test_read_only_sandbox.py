"""Commands allowed unasked see the work folder and the system's programs, and change nothing."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio.to_thread
import pytest

from coterie.tools.read_only_sandbox import ReadOnlySandbox, read_only_sandbox
from coterie.tools.run_command import CommandRunner, ReadOnlyCommand, RunCommand
from tests.unit.process.children import count_pids_with_argument, token
from tests.unit.tools.member_project import Log, MemberProject, call, member_project, toolbox

FREE = "GIT_CONFIG_COUNT=0 git -c safe.directory='*'"


@pytest.fixture
def shop(tmp_path: Path) -> MemberProject:
    made = member_project(tmp_path, git=True, KEY_OF_A_MODEL="sk-secret")
    made.write("file", "text\n")
    made.write("evil", f"#!/bin/sh\ntouch {made.outside}/evil\necho it ran\n").chmod(0o755)
    (made.project / "out").symlink_to(made.outside)
    return made


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


async def runner(shop: MemberProject) -> CommandRunner:
    made = await CommandRunner.of("ann", shop.workspace, Log())
    looking = await read_only_sandbox(made.root)
    assert looking is not None, "bubblewrap, unshare and mount must work where tests are run"
    return replace(made, read_only_sandbox=looking)


async def test_it_looks(shop: MemberProject) -> None:
    looking = ReadOnlyCommand(await runner(shop))
    script = "cat file; git status --short; pwd; ls -A .coterie; echo x > /tmp/x && cat /tmp/x"
    outcome = await call(toolbox(shop, looking), "runCommand", command=script)
    printed = f"text\n?? evil\n?? file\n?? out\n{shop.root.path}\nx\n"
    assert outcome.output == {"exitCode": 0, "output": printed}


ACTS = {
    "write here": "echo x > new && echo did",
    "write by a program": "uniq file new && echo did",
    "remove": "rm file && echo did",
    "write below .git": "echo x > .git/hooks/pre-commit && echo did",
    "write outside": "echo x > {outside}/new && echo did",
    "read outside": "cat {outside}/secret.txt",
    "read outside by a link": "cat out/secret.txt",
    "read home": "cat {home}/.netrc",
    "read home by a glob": "cat {home}/.n[^z]trc",
    "read by a cluster": "grep -honf{outside}/secret.txt {outside}/secret.txt",
    "read what is Coterie's": "cat .coterie/coterie.db",
    "read /etc/shadow": "cat /etc/shadow",
    "read the temporary folder": "ls {outside}/.. && echo did",
    "read keys": "env | grep secret; cat /proc/*/environ | grep -a secret",
    "list processes": "ls -d /proc/[0-9][0-9][0-9]* && echo did",
    "reach the network": "(exec 3<>/dev/tcp/127.0.0.1/{port}) && echo did",
    "run a file": "./evil",
    "run a file by find": "find . -name evil -exec {{}} ';'",
    "run a file by git": f"{FREE} -c core.fsmonitor=$PWD/evil status 2>&1 | grep 'it ran'; ls out/",
    "use a socket of the machine": "ls /run/* /var/run/* && echo did",
    "mount": "unshare -rm sh -c 'mount --bind . . && mount -o remount,bind,rw,exec . && ./evil'",
    "become another user": "su nobody -s /bin/sh -c 'echo did'",
}
"""What is attempted, by name; an attempt that succeeds prints something."""


@pytest.mark.parametrize("act", ACTS)
async def test_it_does_nothing_else(shop: MemberProject, listening: int, act: str) -> None:
    places = {"outside": shop.outside, "home": shop.user_home, "port": listening}
    command = f"({ACTS[act].format(**places)}) 2> /dev/null"
    before = {path: path.lstat().st_mtime_ns for path in shop.project.parent.rglob("*")}
    ran = await (await runner(shop)).run(command, 60, read_only=True)
    assert ran.output == ""
    after = {path: path.lstat().st_mtime_ns for path in shop.project.parent.rglob("*")}
    assert after == before


async def test_nothing_else_holds_what_is_tried(shop: MemberProject, listening: int) -> None:
    """The positive control: without the sandbox each attempt succeeds, some only for root."""
    places = {"outside": shop.outside, "home": shop.user_home, "port": listening}
    env = {**os.environ, "KEY_OF_A_MODEL": "sk-secret"}

    def done(act: str) -> bool:
        script = f"({ACTS[act].format(**places)}) 2> /dev/null"
        words = ["bash", "-c", script]
        ran = subprocess.run(words, cwd=shop.project, env=env, stdout=subprocess.PIPE, check=False)
        return ran.stdout != b""

    only_for_root = {"read /etc/shadow", "become another user"} if os.getuid() else set[str]()
    assert {act for act in ACTS if not done(act)} - only_for_root == set()


async def test_nothing_of_it_is_left(shop: MemberProject) -> None:
    word = token()
    commands = await runner(shop)
    script = f"setsid sh -c 'sleep 600; true' {word} & echo ok"
    assert (await commands.run(script, 60, read_only=True)).output == "ok\n"
    assert await count_pids_with_argument(word) == 0
    ended = await commands.run(f"sh -c 'sleep 600; true' {word}", 1, read_only=True)
    assert (ended.exit_code, await count_pids_with_argument(word)) == (None, 0)


def shown(looking: ReadOnlySandbox, command: str) -> str:
    """Return what a shell prints when it is given the wrapped command."""
    words = ["sh", "-c", looking.wrapped(command, looking.root)]
    return subprocess.run(words, stdout=subprocess.PIPE, cwd="/", text=True, check=False).stdout


async def test_a_folder_of_any_name(tmp_path: Path) -> None:
    for name in ("a b", "a'b\"c", "$(touch x)", "-x", "--", "ü\n\\", "*"):
        root = tmp_path / name
        root.mkdir()
        (root / "file").write_text("text\n")
        looking = await read_only_sandbox(root.resolve())
        assert looking is not None
        printed = await anyio.to_thread.run_sync(
            shown, looking, "cat 'file' \"$PWD\"/f*; ./file; pwd"
        )
        assert printed == f"text\ntext\n{root}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ("a b", "a'b\"c", "$(touch x)", "-x", "--", "ü\n\\", "*")
    )


async def test_where_there_can_be_none(shop: MemberProject) -> None:
    assert await read_only_sandbox(Path("/")) is None
    assert await read_only_sandbox(Path("/usr")) is None
    commands = CommandRunner(
        "ann", shop.root.path, shop.workspace, Log(), (await runner(shop)).sandbox
    )
    action = RunCommand(commands).action(
        RunCommand.inputs.model_validate({"command": "ls"}), str(shop.root.path)
    )
    assert not action.read_only_sandbox
    outcome = await call(toolbox(shop, ReadOnlyCommand(commands)), "runCommand", command="ls")
    assert (outcome.is_error, list(outcome.output)) == (True, ["error"])
