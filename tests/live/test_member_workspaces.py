"""Each member in its own workspace: what reaches its model, and what it writes, as traced.

No file is written by two members, and none outside of their folders.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePath

import anyio
import anyio.to_thread
import pytest

from coterie.agents.codex.home import SYNTHETIC
from coterie.model.team import Member, Permissions, Team
from coterie.rehearsal.model_api import (
    Answer,
    CompletionRequest,
    ModelReply,
    ToolCall,
    ToolResult,
    reply,
)
from coterie.rehearsal.server import RehearsalServer
from tests.conftest import IsolatedUser
from tests.live.tracing import Write, strace, writes

ROOT = Path(__file__).parents[2]
BINS = Path(os.environ.get("COTERIE_CLIS", ROOT / ".cache" / "clis")) / "node_modules" / ".bin"
SLOWEST = 90

ROLES = {
    "sec": "You look at security only. Your word is OKAPI.",
    "perf": "You look at speed only. Your word is QUOKKA.",
    "read": "You look at how it reads only. Your word is NARWHAL.",
}
TMP = Path(tempfile.gettempdir())
WORDS = [role.rpartition(" ")[2].rstrip(".") for role in ROLES.values()]
TEAM_TEXT = "This team answers in one sentence. Its word is AXOLOTL."
TEAMS = {
    "claude twice": ("claude", "codex", "claude"),
    "codex twice": ("codex", "gemini", "codex"),
}
LOOK = {
    "claude": ToolCall("Bash", {"command": "ls", "description": "try"}),
    "codex": ToolCall("exec_command", {"cmd": "ls"}),
    "gemini": ToolCall("run_shell_command", {"command": "ls", "description": "try"}),
}


@dataclass
class CommandModel:
    """A model that runs a command before it first replies, and counts its replies."""

    said: int = 0

    async def answer(self, request: CompletionRequest) -> Answer:
        if not any(isinstance(item, ToolResult) for item in request.conversation):
            return ModelReply((), (LOOK[request.client],))
        self.said += 1
        return reply(f"Reply {self.said}.")


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A short path: Claude moves a socket whose path is over 103 bytes elsewhere."""
    with tempfile.TemporaryDirectory(prefix="c") as folder:
        yield Path(folder).resolve()


@dataclass
class ConcurrentModel(CommandModel):
    """The same, but it answers only once all have asked, so that all work at the same time."""

    asked_by: set[str] = field(default_factory=set[str])
    all_here: anyio.Event = field(default_factory=anyio.Event)

    async def answer(self, request: CompletionRequest) -> Answer:
        told = f"{request.instructions} {request.conversation}"
        self.asked_by |= {word for word in WORDS[:2] if word in told}
        if len(self.asked_by) == 2:
            self.all_here.set()
        await self.all_here.wait()
        return await super().answer(request)


def set_up_team(user: IsolatedUser, agents: tuple[str, ...]) -> Team:
    missing = [name for name in agents if not (BINS / name).exists()]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: scripts/real-clis")
    registry = user.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    entries = {name: {"command": str(BINS / name)} for name in agents}
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": entries}))
    (user.project / "cart.py").write_text("def total(items):\n    return sum(items)\n")
    members = tuple(
        Member(
            id=name,
            name=name,
            display_name=name.capitalize(),
            agent=agent,
            order=place,
            system_instruction=role,
            permissions=Permissions(mode="full"),
        )
        for place, ((name, role), agent) in enumerate(zip(ROLES.items(), agents, strict=False), 1)
    )
    return Team(name="review", members=members, team_instruction=TEAM_TEXT)


@pytest.mark.parametrize("kind", list(TEAMS))
async def test_every_member_is_itself_and_writes_in_its_own_folder_alone(
    user: IsolatedUser, tmp_path: Path, kind: str
) -> None:
    trace = tmp_path / "trace"
    traced = await anyio.to_thread.run_sync(strace, trace)
    team = await anyio.to_thread.run_sync(set_up_team, user, TEAMS[kind])
    async with RehearsalServer(CommandModel()) as server:
        goal = ["start", team.model_dump_json(), "6", "How is cart.py?"]
        words = [str(user.project), server.url, *goal]
        command = [*traced, sys.executable, "-m", "tests.live.owner", *words]
        with anyio.fail_after(SLOWEST):
            ran = await anyio.run_process(command, cwd=ROOT, stderr=None)
    result = json.loads(ran.stdout.splitlines()[-1])
    assert (result["status"], result["turns"]) == ("completed", 6)
    check_the_bodies([json.dumps(turn.body) for turn in server.turns])
    await anyio.to_thread.run_sync(check_the_files, user)
    found = await anyio.to_thread.run_sync(writes, trace)
    check_the_writes(found, user, *ROLES)


@pytest.mark.parametrize("agent", ["claude", "codex"])
async def test_two_that_work_at_the_same_time_write_no_common_file(
    user: IsolatedUser, tmp_path: Path, agent: str
) -> None:
    """Two members on one CLI, each in its own task; both have asked before one is answered."""
    trace = tmp_path / "trace"
    traced = await anyio.to_thread.run_sync(strace, trace)
    team = await anyio.to_thread.run_sync(set_up_team, user, (agent, agent))
    async with RehearsalServer(ConcurrentModel()) as server:
        goals = ["@sec How is cart.py?", "@perf How is cart.py?"]
        words = [str(user.project), server.url, "start", team.model_dump_json(), "1", *goals]
        command = [*traced, sys.executable, "-m", "tests.live.owner", *words]
        with anyio.fail_after(SLOWEST):
            ran = await anyio.run_process(command, cwd=ROOT, stderr=None)
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert sorted(line["member"] for line in lines if line["type"] == "message") == ["perf", "sec"]
    found = await anyio.to_thread.run_sync(writes, trace)
    check_the_writes(found, user, "sec", "perf")


def check_the_bodies(bodies: list[str]) -> None:
    """Three members look and reply, then each replies again."""
    assert len(bodies) == 9
    for place, body in enumerate(bodies):
        # Exactly its own role, once; the team's text, once; nobody else's role.
        member = place // 2 if place < 6 else place - 6
        assert [body.count(word) for word in WORDS] == [
            int(other == member) for other in range(3)
        ], f"request {place + 1}"
        assert body.count("AXOLOTL") == 1, f"request {place + 1}"
    for place in range(3):
        # Its memory is its own: the second turn's request contains its first reply.
        assert f"Reply {place + 1}." in bodies[place + 6]


# -- files afterwards --------------------------------------------------------------------------


def files_below(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir()}


def text_of(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""


def check_the_files(user: IsolatedUser) -> None:
    assert files_below(user.project) == {
        path for path in files_below(user.project) if path.parts[0] == ".coterie"
    } | {Path("cart.py")}
    assert sorted(path.name for path in user.project.iterdir()) == [".coterie", "cart.py"]
    assert {path.parts[0] for path in files_below(user.home)} <= {".coterie"}
    folders = user.project / ".coterie" / "teams" / "review"
    for name, word in zip(ROLES, WORDS, strict=True):
        for other in folders.iterdir():
            if other.name == name or not other.is_dir():
                continue
            for path in other.rglob("*"):
                assert word not in text_of(path), f"{path} knows {name}"
    ours = {path.parts[1] for path in files_below(user.project) if path.parts[0] == ".coterie"}
    made = {"coterie.db", "teams", "logs", ".gitignore", "identity", "owners", "snapshots.git"}
    assert ours <= made


# -- traced writes -----------------------------------------------------------------------------


def shared(found: list[Write]) -> dict[PurePath, set[str]]:
    """The files written by more than one member."""
    writers: defaultdict[PurePath, set[str]] = defaultdict(set)
    for write in found:
        if write.member is not None and not write.of_folder:
            writers[write.path].add(write.member)
    return {path: members for path, members in writers.items() if len(members) > 1}


def strays(found: list[Write], team: Path) -> list[Write]:
    """The writes of members outside of their own folders."""
    return [
        write
        for write in found
        if write.member is not None and not write.path.is_relative_to(team / write.member)
    ]


def check_the_writes(found: list[Write], user: IsolatedUser, *members: str) -> None:
    assert {write.member for write in found} == {None, *members}
    assert shared(found) == {}
    # Codex creates empty folders to keep commands from creating them, and removes them.
    stray = strays(found, user.project / ".coterie" / "teams" / "review")
    assert [one for one in stray if not is_shield(one, user.project)] == []
    ours = (user.project / ".coterie", user.coterie_home, Path(sys.prefix), ROOT)
    elsewhere = [one for one in found if not any(one.path.is_relative_to(our) for our in ours)]
    # Coterie itself probes its sandbox and configures its git in the temporary folder.
    ours_alone = [one for one in elsewhere if one.member is None and one.path.is_relative_to(TMP)]
    stray += [one for one in ours_alone if not one.path.is_relative_to(user.project)]
    stray += [one for one in elsewhere if is_shield(one, user.project)]
    assert [one for one in elsewhere if one not in stray] == []


def is_shield(write: Write, project: Path) -> bool:
    return write.of_folder and write.path in {project / name for name in SYNTHETIC}


# -- the tracing itself ------------------------------------------------------------------------

PROGRAM = """
member() {
    env -i PATH="$PATH" COTERIE_MARK=x HOME="$PWD/team/$1/home" setsid sh -c "$2"
}
mkdir -p team/ann/home team/bob/home; ln -s team/ann/home linked
member ann 'echo > team/ann/home/mine; echo >> shared; exit 0'
member ann 'cd team/ann && echo > new && mv new home/renamed && exec env -i /bin/rm home/renamed'
member bob '(cd team && env -i HOME=/team/ann/home COTERIE_MARK=y /bin/sh -c "echo >> ../shared")'
member bob 'echo > linked/foreign; cat shared linked/mine > /dev/null; ln linked/mine team/bob/own'
member bob 'exec 7<team/bob && mkdir /proc/self/fd/7/inner && echo > "$HOME/it is <mine>"'
"""


def test_what_tracing_sees(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    place = tmp_path / "place"
    place.mkdir()
    env = {"PATH": os.environ["PATH"]}
    subprocess.run([*strace(trace), "sh", "-c", PROGRAM], cwd=place, env=env, check=True)
    found = writes(trace)
    team = place / "team"
    assert shared(found) == {place / "shared": {"ann", "bob"}}
    assert [(one.member, one.path) for one in strays(found, team)] == [
        ("ann", place / "shared"),
        ("bob", place / "shared"),
        ("bob", team / "ann" / "home" / "foreign"),
    ]
    stray = strays(found, team)
    inside = [one for one in found if one.member is not None and one not in stray]
    assert {str(one.path.relative_to(team)) for one in inside} == {
        "ann/home/mine",
        "ann/home/renamed",
        "ann/new",
        "bob/home/it is <mine>",
        "bob/inner",
        "bob/own",
    }
