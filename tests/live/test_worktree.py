"""Members with one worktree each, on the real CLIs: they commit only to their own branches."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from coterie import Caps, InteractionRecord, Member, ResultRecord, Team, open_project
from coterie.config.trust_record import trust_material
from coterie.model import instant
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
from tests.live.test_member_workspaces import BINS, ROLES, TEAM_TEXT

AGENTS = dict(zip(ROLES, ("claude", "codex", "gemini"), strict=True))
DOCUMENTS = ("CLAUDE.md", "AGENTS.md", "GEMINI.md")
SLOWEST = 90
COMMIT = (
    "echo mine > mine.txt && git add mine.txt && "
    "git -c user.name=Me -c user.email=me@example.org commit -qm mine; "
    "git rev-parse --abbrev-ref HEAD"
)
# What is impossible in the sandbox, even if the user approves it.
REACH = "git update-ref refs/heads/main HEAD; git config core.fsmonitor evil; git branch evil"

SHELLS: dict[str, Callable[[str], ToolCall]] = {
    "claude": lambda command: ToolCall("Bash", {"command": command, "description": "try"}),
    "codex": lambda command: ToolCall("exec_command", {"cmd": f"{command}; {REACH}; true"}),
    "gemini": lambda command: ToolCall(
        "run_shell_command", {"command": command, "description": "try"}
    ),
}


@dataclass
class CommittingModel:
    """A model that commits, and then reports what it saw."""

    bodies: list[CompletionRequest] = field(default_factory=list[CompletionRequest])
    saw: list[str] = field(default_factory=list[str])

    async def answer(self, request: CompletionRequest) -> Answer:
        results = [item.text for item in request.conversation if isinstance(item, ToolResult)]
        if not results:
            return ModelReply((), (SHELLS[request.client](COMMIT),))
        self.saw.append(results[-1])
        return reply("Committed.")


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=You", "-c", "user.email=you@example.org")
    ran = subprocess.run(
        ["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return ran.stdout


def set_up_team(user: IsolatedUser, *, trusted: bool) -> Team:
    missing = [name for name in AGENTS.values() if not (BINS / name).exists()]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: scripts/real-clis")
    registry = user.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    entries = {name: {"command": str(BINS / name)} for name in AGENTS.values()}
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": entries}))
    git(user.project, "init", "-q", "-b", "main")
    for name in DOCUMENTS:
        (user.project / name).write_text("The project's word is PANGOLIN.\n")
    (user.project / "cart.py").write_text("def total(items):\n    return sum(items)\n")
    git(user.project, "add", "--all")
    git(user.project, "commit", "-qm", "first")
    (user.project / "cart.py").write_text("# not committed\n")
    if trusted:
        trust_material(user.project, instant.now())
    members = tuple(
        Member(
            id=name,
            name=name,
            display_name=name.capitalize(),
            agent=AGENTS[name],
            order=place,
            system_instruction=role,
            work="worktree",
        )
        for place, (name, role) in enumerate(ROLES.items(), 1)
    )
    return Team(name="review", members=members, team_instruction=TEAM_TEXT)


@dataclass(frozen=True)
class UserState:
    """What belongs to the user: files, branches, configuration."""

    status: str
    main: str
    head: str
    config: str
    hooks: tuple[str, ...]

    @classmethod
    def at(cls, project: Path) -> UserState:
        hooks = sorted(path.name for path in (project / ".git" / "hooks").iterdir())
        return cls(
            git(project, "status", "--porcelain"),
            git(project, "rev-parse", "main"),
            git(project, "symbolic-ref", "HEAD"),
            (project / ".git" / "config").read_text(),
            tuple(hooks),
        )


@dataclass(frozen=True)
class FinishedRun:
    """The outcome of a run of three turns: its questions, and what reached the models."""

    status: str
    askers: list[str | None]
    bodies: list[str]
    saw: list[str]


async def run(user: IsolatedUser, team: Team) -> FinishedRun:
    model = CommittingModel()
    status, askers = "", list[str | None]()
    async with (
        RehearsalServer(model) as server,
        open_project(user.project, stand_in=server.url) as project,
    ):
        task = await project.start(team, "Commit it.", Caps(max_turns=3), rehearsal=True)
        async for record in project.stream(task):
            if isinstance(record, InteractionRecord) and record.state == "open":
                await project.answer(record.interaction.interaction_id, "approve")
            elif isinstance(record, ResultRecord):
                status = record.status
        askers = [one.member and one.member.id for one in await project.questions(only_open=False)]
    bodies = [json.dumps(turn.body) for turn in server.turns]
    return FinishedRun(status, askers, bodies, model.saw)


@pytest.mark.parametrize("trusted", [False, True])
async def test_each_commits_on_a_branch_of_its_own(user: IsolatedUser, *, trusted: bool) -> None:
    team = await anyio.to_thread.run_sync(lambda: set_up_team(user, trusted=trusted))
    before = await anyio.to_thread.run_sync(UserState.at, user.project)
    with anyio.fail_after(SLOWEST):
        ran = await run(user, team)
    assert (ran.status, ran.askers) == ("completed", list(ROLES))
    words = [role.rpartition(" ")[2].rstrip(".") for role in ROLES.values()]
    for place, body in enumerate(ran.bodies[::2]):
        # Its worktree is inside its workspace, which also has its role in a file, for people.
        assert [body.count(word) for word in words] == [int(one == place) for one in range(3)]
        assert (body.count("AXOLOTL"), body.count("PANGOLIN")) == (1, int(trusted))
    await anyio.to_thread.run_sync(check_the_repository, user.project, before, ran.saw)


def check_the_repository(project: Path, before: UserState, saw: list[str]) -> None:
    assert UserState.at(project) == before
    assert [f"coterie/review/{name}" in said for name, said in zip(ROLES, saw, strict=True)] == [
        True
    ] * 3, saw
    branches = git(project, "for-each-ref", "--format=%(refname)").split()
    ours = [f"refs/heads/coterie/review/{name}" for name in sorted(ROLES)]
    assert branches == [*ours, "refs/heads/main"]
    for name, branch in zip(sorted(ROLES), ours, strict=True):
        assert git(project, "log", "--format=%s", branch).split() == ["mine", "first"]
        work = project / ".coterie" / "teams" / "review" / name / "work"
        assert git(work, "status", "--porcelain", "--ignored") == ""
    places = sorted(path.name for path in (project / ".git" / "worktrees").iterdir())
    assert places == [f"coterie.review.{name}" for name in sorted(ROLES)]
