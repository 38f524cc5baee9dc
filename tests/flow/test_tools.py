"""A member's commands: confined, bounded, and nothing of them left, however they try to stay."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from coterie.process import processes
from coterie.process.child import can_be_private
from coterie.tools import sandbox
from coterie.tools.run_command import CommandResult, CommandRunner, RunCommand
from coterie.tools.sandbox import Kind, Sandbox
from coterie.tools.standard import open_toolbox
from coterie.tools.toolbox import Toolbox, ToolOutcome
from tests.unit.process.children import count_pids_with_argument, pids_with_argument, token, until
from tests.unit.tools import owner
from tests.unit.tools.member_project import Log, MemberProject, call, member_project, toolbox

KINDS: list[Kind] = ["bubblewrap", "landlock", "none"]
HELD: list[Kind] = ["bubblewrap", "landlock"]
ROOT = Path(owner.__file__).parents[3]

every = pytest.mark.parametrize("kind", KINDS)
held = pytest.mark.parametrize("kind", HELD)


@pytest.fixture
def shop(tmp_path: Path) -> MemberProject:
    return member_project(
        tmp_path, git=True, ANTHROPIC_API_KEY="sk-1", OPENAI_BASE_URL="u", MINE="yes"
    )


async def require_sandbox(kind: Kind) -> None:
    if kind != "none" and (problem := await sandbox.problem_of(kind)) is not None:
        pytest.skip(problem)


async def commands(shop: MemberProject, kind: Kind, log: Log | None = None) -> CommandRunner:
    await require_sandbox(kind)
    return CommandRunner("ann", shop.root.path, shop.workspace, log or Log(), Sandbox(kind))


async def run(shop: MemberProject, kind: Kind, command: str, seconds: float = 60) -> CommandResult:
    return await (await commands(shop, kind)).run(command, seconds)


def staying(word: str) -> str:
    """Return a command that would run forever, recognizable by a word."""
    return f"sh -c 'sleep 600; true' {word}"


# -- what a command is given -------------------------------------------------------------------


@every
async def test_it_runs_in_the_work_folder_with_nothing_to_read(
    shop: MemberProject, kind: Kind
) -> None:
    command = "pwd; cat; echo out; echo err >&2; echo out; exit 3"
    printed = f"{shop.project.resolve()}\nout\nerr\nout\n"
    log = Log(mark="m1")
    assert await (await commands(shop, kind, log)).run(command, 60) == CommandResult(3, printed)
    assert log.calls == [("starting", "ann runCommand"), ("started", "m1"), ("ended", "m1")]


@every
async def test_it_sees_what_its_member_does_and_no_key(shop: MemberProject, kind: Kind) -> None:
    ran = await run(shop, kind, "env")
    names = {line.partition("=")[0] for line in ran.output.splitlines()}
    added = {"COTERIE_MARK", "PWD", "SHLVL", "_", "LC_CTYPE"}
    quiet = {"GIT_EDITOR", "GIT_PAGER", "GIT_TERMINAL_PROMPT", "NO_COLOR", "PAGER", "TERM"}
    assert names - added == {"PATH", "HOME", "TMPDIR", "LANG", "MINE"} | quiet


@every
async def test_it_may_work(shop: MemberProject, kind: Kind) -> None:
    command = """
    set -e
    echo one > file; mkdir -p a b; echo two > a/x; mv a/x b/y; ln b/y b/z; rm -r a; : > file
    echo t > "$TMPDIR/t"; echo h > "$HOME/h"; echo gone > /dev/null
    git -c user.name=a -c user.email=b@c commit --quiet --allow-empty -m first
    git log --format=%s; cat b/z; python3 -c 'print(6 * 7)'
    """
    assert await run(shop, kind, command) == CommandResult(0, "first\ntwo\n42\n")
    assert (shop.workspace.tmp / "t").read_text() == "t\n"
    assert (shop.workspace.home / "h").read_text() == "h\n"


@every
async def test_the_network_is_open(shop: MemberProject, kind: Kind) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert await run(
            shop, kind, f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo in"
        ) == CommandResult(0, "in\n")


# -- what it is kept from ----------------------------------------------------------------------


@every
async def test_no_socket_without_a_file_is_reached(shop: MemberProject, kind: Kind) -> None:
    """Desktops and other services of the user have such sockets, which no mount can hide."""
    name = token()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{name}")
        server.listen()
        call = f"import socket; socket.socket(socket.AF_UNIX).connect('\\0{name}')"
        ran = await run(shop, kind, f'python3 -c "{call}" && echo in')
    assert ("in\n" in ran.output) == (kind == "none")  # the control


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder that a command can see, unlike those in /tmp."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder, "file").write_text("untouched")
        yield Path(folder)


@held
async def test_it_changes_nothing_outside(shop: MemberProject, elsewhere: Path, kind: Kind) -> None:
    (shop.project / "link").symlink_to(elsewhere / "file")
    acts = [
        "echo x > {0}/file",
        "echo x > link",
        "echo x >> {0}/file",
        "truncate -s 0 {0}/file",
        "rm {0}/file",
        "mv {0}/file stolen",
        "ln {0}/file hard",
        "touch {0}/new",
        "mkdir {0}/new",
        "mkfifo {0}/new",
        "ln -s x {0}/new",
        "cp own {0}/new",
        "mv own {0}/new",
        "touch /etc/coterie-was-here",
        ": >> /proc/sys/kernel/domainname",
        "unshare --user --map-root-user --mount mount -o remount,bind,rw /",
    ]
    tried = "".join(f"({act.format(elsewhere)}) 2> /dev/null && echo '{act}'\n" for act in acts)
    assert await run(
        shop, kind, f"echo own > own; cat {elsewhere}/file\n{tried} true"
    ) == CommandResult(0, "untouched")
    assert {path.name: path.read_text() for path in elsewhere.iterdir()} == {"file": "untouched"}
    assert not Path("/etc/coterie-was-here").exists()


@held
async def test_it_does_not_see_the_users_home(shop: MemberProject, kind: Kind) -> None:
    secret = shop.user_home / ".netrc"
    programs = shop.user_home / ".local" / "bin"
    programs.mkdir(parents=True)
    (programs / "tool").write_text("#!/bin/sh\necho a tool\n")
    (programs / "tool").chmod(0o755)
    env = {**shop.workspace.env, "PATH": f"{programs}:{os.environ['PATH']}"}
    shop = replace(shop, workspace=replace(shop.workspace, env=env))
    ran = await run(shop, kind, f"cat {secret} 2>/dev/null; ls {shop.user_home}/.ne*; tool")
    assert "secret" not in ran.output
    assert ran.output.endswith("a tool\n")
    assert (await run(shop, kind, f"echo x > {secret}")).exit_code != 0 or kind == "bubblewrap"
    assert secret.read_text() == "home secret\n"


@held
async def test_a_project_in_the_users_home_is_all_that_is_seen_of_it(
    shop: MemberProject, kind: Kind
) -> None:
    home = shop.project.parent
    inside = replace(shop, workspace=replace(shop.workspace, user_home=home))
    command = f"echo x > made; cat made {shop.outside}/secret.txt {shop.user_home}/.netrc"
    ran = await run(inside, kind, command)
    assert ran.output.startswith("x\n")
    assert "secret\n" not in ran.output


@held
async def test_it_reaches_no_other_process(shop: MemberProject, kind: Kind) -> None:
    secret = token()
    other = subprocess.Popen(["sleep", "600"], env={"SECRET": secret})
    try:
        ran = await run(
            shop, kind, f"kill -9 {other.pid}; cat /proc/{other.pid}/environ; cat /proc/*/environ"
        )
        assert secret not in ran.output
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


async def test_of_coterie_and_git_it_sees_and_changes_what_it_may(shop: MemberProject) -> None:
    """Landlock cannot do that, and says so in its description."""
    command = """
    ls -A .coterie .coterie/teams/review
    for file in .coterie/coterie.db .git/config .git/hooks/pre-commit; do echo x >> $file; done
    mv .git moved; cat .coterie/coterie.db
    """
    shop.write(".coterie/teams/review/bob/notes", "his")
    config = (shop.project / ".git" / "config").read_text()
    ran = await run(shop, "bubblewrap", command)
    assert ran.output.splitlines()[:5] == [
        ".coterie:",
        "teams",
        "",
        ".coterie/teams/review:",
        "ann",
    ]
    assert "the database" not in ran.output
    assert (shop.project / ".coterie" / "coterie.db").read_text() == "the database"
    assert (shop.project / ".git" / "config").read_text() == config
    assert not (shop.project / ".git" / "hooks" / "pre-commit").exists()
    assert "including" in Sandbox("landlock").description


async def test_a_worktree_of_its_own_can_be_committed_to(shop: MemberProject) -> None:
    git = ["git", "-C", str(shop.project), "-c", "user.name=a", "-c", "user.email=b@c"]
    tree = shop.workspace.folder / "tree"
    for words in (
        ["commit", "--quiet", "--allow-empty", "-m", "first"],
        ["worktree", "add", "--quiet", "-b", "coterie/review/ann", str(tree)],
    ):
        subprocess.run([*git, *words], check=True)
    runner = CommandRunner(
        "ann",
        tree.resolve(),
        replace(shop.workspace, execution_dir=tree),
        Log(),
        (await commands(shop, "bubblewrap")).sandbox,
    )
    command = """
    echo x > new && git add new && git -c user.name=a -c user.email=b@c commit --quiet -m second
    git log --format=%s; echo x > ../../../../../inside
    """
    ran = await runner.run(command, 60)
    assert ran.output.splitlines()[:2] == ["second", "first"]
    assert not (shop.project / "inside").exists()


async def test_a_command_that_cannot_be_held_is_not_run(shop: MemberProject) -> None:
    """As on a kernel without Landlock: the launcher gives up rather than run it unconfined."""
    words = Sandbox("landlock").words(sandbox.SandboxPolicy((shop.project,)), shop.project)
    launcher = Path(words[3])
    broken = shop.outside / "launcher.py"
    broken.write_text(launcher.read_text().replace("VERSION = 3\n", "VERSION = 99\n"))
    ended = await anyio.to_thread.run_sync(
        lambda: subprocess.run(
            [sys.executable, "-I", "-S", broken, "--", "touch", shop.project / "ran"],
            capture_output=True,
            text=True,
            check=False,
        )
    )
    assert (ended.returncode, ended.stdout) == (126, "")
    assert ended.stderr.startswith("The sandbox cannot be set up: the kernel has Landlock version")
    assert not (shop.project / "ran").exists()


async def test_the_best_there_is_is_taken(
    shop: MemberProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "_problems", {"bubblewrap": None, "landlock": None})
    assert await sandbox.best() == Sandbox("bubblewrap")
    monkeypatch.setattr(sandbox, "_problems", {"bubblewrap": "bubblewrap: no", "landlock": None})
    assert await sandbox.best() == Sandbox("landlock", "bubblewrap: no")
    monkeypatch.setattr(sandbox, "_problems", {"bubblewrap": "a", "landlock": "b"})
    box = await open_toolbox("ann", shop.workspace, Log())
    assert (box.sandbox, box.sandbox.confines) == (Sandbox("none", "a; b"), False)
    assert [spec.name for spec in box.specs()] == [
        "readFile",
        "editFile",
        "listFiles",
        "grep",
        "runCommand",
    ]


async def test_a_sandbox_that_does_not_hold_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_problems", {})
    monkeypatch.setattr(sandbox, "_bubblewrap", lambda confines, cwd: ["env"])
    monkeypatch.setattr(sandbox, "_landlock", lambda confines: ["false"])
    assert await sandbox.best() == Sandbox(
        "none", "bubblewrap: does not work here; landlock: does not work here"
    )


# -- its end -----------------------------------------------------------------------------------


@every
async def test_what_it_leaves_behind_is_ended_and_reported(shop: MemberProject, kind: Kind) -> None:
    words = [token(), token()]
    command = (
        f"setsid {staying(words[0])} & (env -i setsid {staying(words[1])} > /dev/null &); echo ok"
    )
    runner = await commands(shop, kind)
    begun = time.monotonic()
    outcome = await call(toolbox(shop, RunCommand(runner)), "runCommand", command=command)
    assert time.monotonic() - begun < 10
    assert (outcome.output["exitCode"], outcome.output["output"]) == (0, "ok\n")
    # Each is a shell and its child, as far as they have started by then.
    assert "running, now stopped." in str(outcome.output["note"])
    assert [await count_pids_with_argument(word) for word in words] == [0, 0]


@every
async def test_a_command_without_leftovers_reports_none(shop: MemberProject, kind: Kind) -> None:
    runner = await commands(shop, kind)
    for _ in range(3):
        assert await runner.run("true & wait; echo a | cat", 60) == CommandResult(0, "a\n")


async def test_at_its_time_limit_the_whole_tree_goes(shop: MemberProject) -> None:
    """All kinds at the same time, as they only wait."""
    runners = [await commands(shop, kind) for kind in KINDS]
    async with anyio.create_task_group() as group:
        for runner in runners:
            group.start_soon(past_its_time, toolbox(shop, RunCommand(runner)))


async def past_its_time(box: Toolbox) -> None:
    words = [token(), token()]
    stubborn = "trap '' TERM INT HUP; echo begun"
    command = f"{stubborn}; setsid {staying(words[0])} & {staying(words[1])}; echo no"
    begun = time.monotonic()
    outcome = await call(box, "runCommand", command=command, timeoutSeconds=3)
    assert time.monotonic() - begun < 3 + 5
    note = "It was stopped at its time limit of 3 s."
    assert outcome == ToolOutcome(
        {"exitCode": None, "output": "begun\n", "note": note}, is_error=True
    )
    assert [await count_pids_with_argument(word) for word in words] == [0, 0]


@every
async def test_when_the_call_is_cancelled_nothing_is_left(shop: MemberProject, kind: Kind) -> None:
    word, log = token(), Log()
    runner = await commands(shop, kind, log)
    async with anyio.create_task_group() as group:
        group.start_soon(runner.run, staying(word), 60)
        await until(lambda: len(pids_with_argument(word)) > 0)
        group.cancel_scope.cancel()
    assert await count_pids_with_argument(word) == 0
    assert [what for what, _ in log.calls] == ["starting", "started", "ended"]


async def test_one_that_kills_its_keeper_if_it_can_is_still_ended(shop: MemberProject) -> None:
    word, log, ended = token(), Log(), list[CommandResult]()
    runner = await commands(shop, "none", log)
    wait = "until [ -e go ]; do sleep 0.02; done"

    async def run_it() -> None:
        command = f"setsid {staying(word)} & {wait}; kill -9 $PPID; exit 7"
        ended.append(await runner.run(command, 60))

    async with anyio.create_task_group() as group:
        group.start_soon(run_it)
        await until(lambda: len(log.calls) == 2)  # before that it would count as never started
        shop.write("go", "")
    # In a pid namespace nothing can kill the first process.
    code = 7 if await can_be_private() else 128 + signal.SIGKILL
    assert [(ran.exit_code, ran.all_ended) for ran in ended] == [(code, True)]
    assert await count_pids_with_argument(word) == 0


async def test_a_command_that_cannot_be_started_says_why(shop: MemberProject) -> None:
    log = Log(mark="m1")
    box = toolbox(shop, RunCommand(await commands(shop, "none", log)))
    for command, problem in {"x" * 200_000: "Argument list too long", "a\0b": "null byte"}.items():
        outcome = await call(box, "runCommand", command=command)
        assert outcome.is_error
        assert problem in str(outcome.output["error"])
    assert [what for what, _ in log.calls] == ["starting", "ended"] * 2


# -- in a process of its own -------------------------------------------------------------------


@asynccontextmanager
async def owned(
    folder: Path, kind: Kind, mark: str, command: str
) -> AsyncIterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, owner.__file__, folder, kind, mark, command],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT), str(ROOT / "src")])},
    )
    assert process.stdout is not None
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        await anyio.to_thread.run_sync(processes.end_marked, [mark])


@every
async def test_all_is_gone_soon_after_coterie(tmp_path: Path, kind: Kind) -> None:
    await require_sandbox(kind)
    word, mark = token(), token()
    daemons = f"setsid {staying(word)} & (env -i setsid {staying(word)} &)"
    async with owned(tmp_path, kind, mark, f"{daemons}; {staying(word)}") as process:
        await until(lambda: len(pids_with_argument(word)) == 3, 30)
        process.kill()
        await until(lambda: not pids_with_argument(word) and not processes.find_marked([mark]), 5)


async def test_a_hundred_megabytes_are_not_held(tmp_path: Path) -> None:
    flood = "head -c 100000000 /dev/zero | tr '\\0' x; echo; echo the end"
    async with owned(tmp_path, "none", token(), flood) as process:
        assert process.stdout is not None
        told = await anyio.to_thread.run_sync(process.stdout.readline)
    grown, size = map(int, told.split())
    assert grown < 30_000  # KiB
    assert 30_000 < size < 30_100


async def test_the_head_and_the_tail_of_a_flood_are_seen(shop: MemberProject) -> None:
    ran = await run(shop, "none", "echo first; yes | head -c 10000000; echo; echo last")
    lines = ran.output.splitlines()
    assert (ran.exit_code, lines[0], lines[-1]) == (0, "first", "last")
    assert "… 9,970,012 bytes left out …" in lines
