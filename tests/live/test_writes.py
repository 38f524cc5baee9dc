"""No file is written by two members, and none outside their folders: seen by tracing them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path, PurePath

import anyio
import anyio.to_thread
import pytest

from coterie.model.team import Permissions, Team
from coterie.rehearsal.dialogue import Answer, Asked, Reply, ToolResult, reply
from coterie.rehearsal.server import RehearsalServer
from coterie.workspace.homes.codex import SYNTHETIC
from tests.conftest import House
from tests.live.test_houses import ROLES, TEAMS, furnished
from tests.live.test_worktree import SHELLS
from tests.live.tracing import Write, strace, writes

ROOT = Path(__file__).parents[2]
SLOWEST = 90


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A short one: a socket whose path is over 103 bytes Claude puts elsewhere."""
    with tempfile.TemporaryDirectory(prefix="c") as folder:
        yield Path(folder).resolve()


class Looking:
    """A model that runs a command before it speaks."""

    async def answer(self, asked: Asked) -> Answer:
        if any(isinstance(item, ToolResult) for item in asked.conversation):
            return reply("Fine.")
        return Reply((), (SHELLS[asked.client]("ls"),))


def shared(found: list[Write]) -> dict[PurePath, set[str]]:
    """The files that more than one member wrote."""
    writers: defaultdict[PurePath, set[str]] = defaultdict(set)
    for write in found:
        if write.member is not None and not write.of_folder:
            writers[write.path].add(write.member)
    return {path: members for path, members in writers.items() if len(members) > 1}


def strays(found: list[Write], team: Path) -> list[Write]:
    """What a member wrote that is not in its own folder."""
    return [
        write
        for write in found
        if write.member is not None and not write.path.is_relative_to(team / write.member)
    ]


@pytest.mark.parametrize("kind", list(TEAMS))
async def test_every_member_writes_in_its_own_folder_alone(
    house: House, tmp_path: Path, kind: str
) -> None:
    trace = tmp_path / "trace"
    traced = await anyio.to_thread.run_sync(strace, trace)
    team = unasked(await anyio.to_thread.run_sync(furnished, house, TEAMS[kind]))
    async with RehearsalServer(Looking()) as server:
        words = [str(house.project), server.url, "start", team.model_dump_json(), "Look.", "3"]
        command = [*traced, sys.executable, "-m", "tests.live.owner", *words]
        with anyio.fail_after(SLOWEST):
            ran = await anyio.run_process(command, cwd=ROOT, stderr=None)
    result = json.loads(ran.stdout.splitlines()[-1])
    assert (result["status"], result["turns"]) == ("completed", 3)
    found = await anyio.to_thread.run_sync(writes, trace)
    teams = house.project / ".coterie" / "teams" / "review"
    assert {write.member for write in found} == {None, *ROLES}
    assert shared(found) == {}
    # Codex has empty folders in the way of a command that would make them, and removes them.
    stray = strays(found, teams)
    assert [one for one in stray if not is_shield(one, house.project)] == []
    assert sorted(path.name for path in house.project.iterdir()) == [".coterie", "cart.py"]
    ours = (house.project / ".coterie", house.coterie_home, Path(sys.prefix), ROOT)
    elsewhere = [one for one in found if not any(one.path.is_relative_to(our) for our in ours)]
    assert [one for one in elsewhere if one not in stray] == []


def unasked(team: Team) -> Team:
    full = {"permissions": Permissions(mode="full")}
    members = tuple(member.model_copy(update=full) for member in team.members)
    return team.model_copy(update={"members": members})


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
