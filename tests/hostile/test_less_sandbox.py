"""What runs unasked if bubblewrap does not work, and if Landlock does not either."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from anyio.streams.memory import MemoryObjectSendStream

from coterie.app.project import App
from coterie.app.run import StartRequest
from coterie.model.record import InteractionRecord, Record
from coterie.model.task import Caps
from coterie.model.team import Member, Team
from coterie.rehearsal.model_api import Answer, CompletionRequest, ModelReply, ToolCall, reply
from coterie.rehearsal.server import RehearsalServer
from coterie.tools import read_only_sandbox, sandbox
from coterie.tools.sandbox import Kind
from tests.conftest import IsolatedUser
from tests.hostile.test_obedient import SECRET, Repository

SURE, SEEMING, WORK = "ls a.txt", ("git status", "cat *.txt", "sort -u a.txt"), "./evil.sh"
ASKED: dict[Kind, list[str]] = {
    "bubblewrap": [WORK],
    "landlock": [*SEEMING, WORK],
    "none": [SURE, *SEEMING, WORK],
}
"""The commands asked about: with neither sandbox, nothing runs unasked."""
PROBLEMS: dict[Kind, dict[str, str | None]] = {
    "bubblewrap": {"bubblewrap": None, "landlock": None},
    "landlock": {"bubblewrap": "bubblewrap: no", "landlock": None},
    "none": {"bubblewrap": "bubblewrap: no", "landlock": "landlock: no"},
}


@dataclass
class ObedientModel:
    """A model that runs the given lines one by one."""

    lines: list[str]
    results: list[str] = field(default_factory=list[str])

    async def answer(self, request: CompletionRequest) -> Answer:
        self.results += [one.text for one in request.results[-1:]]
        if len(self.results) == len(self.lines):
            return reply("Done.")
        call = ToolCall("runCommand", {"command": self.lines[len(self.results)]})
        return ModelReply(("As I am told.",), (call,))


@dataclass
class WatchingObserver:
    """Forward questions to the task that denies them."""

    questions: MemoryObjectSendStream[InteractionRecord]

    def saw(self, record: Record) -> None:
        if isinstance(record, InteractionRecord) and record.state == "open":
            self.questions.send_nowait(record)


@pytest.mark.parametrize("kind", ASKED)
async def test_what_is_asked(
    user: IsolatedUser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    monkeypatch.setattr(sandbox, "_problems", PROBLEMS[kind])
    monkeypatch.setattr(read_only_sandbox, "_works", [kind == "bubblewrap"])
    repository = Repository(user.project, tmp_path / "outside")
    await anyio.to_thread.run_sync(repository.plant)
    member = Member(id="ann", name="ann", display_name="Ann", agent="builtin")
    model = ObedientModel([SURE, *SEEMING, WORK])
    asked = await ran(user, Team(name="one", members=(member,)), model)
    assert asked == ASKED[kind]
    assert repository.traces == []
    assert SECRET not in str(model.results)
    assert ("a.txt" in model.results[0]) == (kind != "none")


async def ran(user: IsolatedUser, team: Team, model: ObedientModel) -> list[str]:
    """Run the team, deny every question as it arrives, and return what was asked."""
    asked: list[str] = []
    sending, receiving = anyio.create_memory_object_stream[InteractionRecord](100)
    with anyio.fail_after(60):
        async with (
            RehearsalServer(model) as server,
            App.open(user.project, None, server.url) as app,
        ):
            start = StartRequest(team, "Look around.", Caps(max_turns=1), rehearsal=True)
            task = await app.create(start)
            async with anyio.create_task_group() as group:

                async def run() -> None:
                    async with sending:
                        await app.run(task, WatchingObserver(sending), wait=None)

                group.start_soon(run)
                async with receiving:
                    async for record in receiving:
                        asked.append(record.interaction.display.content)
                        name = record.interaction.interaction_id
                        await app.answer(name, choice="reject", text=None, author="you")
    return asked
