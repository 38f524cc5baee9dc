"""Each member in a house of its own: what reaches the model, what is written, and where."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from coterie.app import App
from coterie.model.record import Record
from coterie.model.task import Caps
from coterie.model.team import Member, Team
from coterie.rehearsal.dialogue import Answer, Asked, reply
from coterie.rehearsal.server import RehearsalServer
from tests.conftest import House

ROOT = Path(__file__).parents[2]
BINS = Path(os.environ.get("COTERIE_CLIS", ROOT / ".cache" / "clis")) / "node_modules" / ".bin"

ROLES = {
    "sec": "You look at security only. Your word is OKAPI.",
    "perf": "You look at speed only. Your word is QUOKKA.",
    "read": "You look at how it reads only. Your word is NARWHAL.",
}
TEAM_TEXT = "This team answers in one sentence. Its word is AXOLOTL."
TEAMS = {
    "claude": ("claude", "claude", "claude"),
    "codex": ("codex", "codex", "codex"),
    "gemini": ("gemini", "gemini", "gemini"),
    "mixed": ("claude", "codex", "gemini"),
}


@dataclass
class Echoing:
    """A model that names who it was told to be, and counts."""

    asked: list[Asked] = field(default_factory=list[Asked])

    async def answer(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        return reply(f"Reply {len(self.asked)}.")


class Silent:
    """An observer with nothing to show."""

    def saw(self, record: Record) -> None:
        pass


def furnished(house: House, agents: tuple[str, str, str]) -> Team:
    missing = [name for name in agents if not (BINS / name).exists()]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: scripts/real-clis")
    registry = house.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    entries = {name: {"command": str(BINS / name)} for name in agents}
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": entries}))
    (house.project / "cart.py").write_text("def total(items):\n    return sum(items)\n")
    members = tuple(
        Member(
            id=name,
            name=name,
            display_name=name.capitalize(),
            agent=agent,
            order=place,
            system_instruction=role,
        )
        for place, ((name, role), agent) in enumerate(zip(ROLES.items(), agents, strict=True), 1)
    )
    return Team(name="review", members=members, team_instruction=TEAM_TEXT)


def files_below(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir()}


def text_of(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""


@pytest.mark.parametrize("kind", list(TEAMS))
async def test_every_member_is_itself_and_nobody_else(house: House, kind: str) -> None:
    team = await anyio.to_thread.run_sync(furnished, house, TEAMS[kind])
    brain = Echoing()
    async with RehearsalServer(brain) as server, App.open(house.project, None, server.url) as app:
        caps = Caps(max_turns=6, max_rounds=None)
        task = await app.start(team, "How is cart.py?", caps, rehearsal=True)
        result = await app.run(task, Silent(), patience=0)
        assert (result.status, result.turns) == ("completed", 6)
        said = [entry.record for entry in await app.timeline(task)]
        assert len(server.turns) == 6
        bodies = [json.dumps(turn.body) for turn in server.turns]
    assert said
    words = [role.rpartition(" ")[2].rstrip(".") for role in ROLES.values()]
    for place, body in enumerate(bodies):
        # Exactly its own role, once; the team's text, once; nobody else's.
        assert [body.count(word) for word in words] == [
            int(other == place % 3) for other in range(3)
        ], f"request {place + 1}"
        assert body.count("AXOLOTL") == 1, f"request {place + 1}"
    for place in range(3):
        # Its memory is its own: the second request holds its first reply.
        assert f"Reply {place + 1}." in bodies[place + 3]
    await anyio.to_thread.run_sync(check_the_files, house)


def check_the_files(house: House) -> None:
    assert files_below(house.project) == {
        path for path in files_below(house.project) if path.parts[0] == ".coterie"
    } | {Path("cart.py")}
    assert {path.parts[0] for path in files_below(house.home)} <= {".coterie"}
    folders = house.project / ".coterie" / "teams" / "review"
    for name, role in ROLES.items():
        word = role.rpartition(" ")[2].rstrip(".")
        for other in folders.iterdir():
            if other.name == name or not other.is_dir():
                continue
            for path in other.rglob("*"):
                assert word not in text_of(path), f"{path} knows {name}"
    ours = {path.parts[1] for path in files_below(house.project) if path.parts[0] == ".coterie"}
    assert ours <= {"coterie.db", "teams", "logs", ".gitignore", "owners"}
