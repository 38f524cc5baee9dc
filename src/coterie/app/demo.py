"""The demos: each with its own project, agents that need no login, and what it promises to show."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import cycle, islice
from pathlib import Path

import anyio.to_thread

from coterie.agents.builtin import FACTS as BUILT_IN
from coterie.agents.table import KNOWN_AGENTS
from coterie.app.agents import Agents
from coterie.app.project import App
from coterie.app.run import StartRequest
from coterie.app.teams import Teams
from coterie.config.project import Project, make_project
from coterie.config.registry import load_registry, registry_path
from coterie.config.registry_edit import by_hand, find_program, save_registry
from coterie.config.team_edit import preset_members
from coterie.config.teams import member_specs
from coterie.errors import UsageError
from coterie.model import instant
from coterie.model.agent import AgentDefinition
from coterie.model.envelope import MERGE_CONFLICT, ArtifactRef, Envelope, Error, Review
from coterie.model.task import DEMO, Caps
from coterie.model.team import TICKETS, YOU
from coterie.model.ticket import Ticket
from coterie.rehearsal.demo_shop import GOAL, TESTS, initial_files
from coterie.rehearsal.demo_shop import TICKETS as PLANNED
from coterie.workspace.git import Git

REVIEWERS = ("security", "performance", "readability")
REVIEW_GOAL = "Review cart.py before it ships. What would you fix first?"
_SCRIPTED = "scripted"
_SHIPPED = Path(str(files("coterie.rehearsal")))
_WORKERS = 2
_MAY_RUN = {"allow": [f"{TESTS} *"]}


@dataclass(frozen=True)
class DemoProject:
    """A demo's own project and home."""

    project: Project
    home: Path
    start: StartRequest


def review_demo(base: Path, *, keep: bool = False) -> DemoProject:
    """Make a file to review and a team of three scripted members; `keep` makes it a project of the
    user's.  Blocks."""
    home = base / "home"
    project = Project(base / "shop", None if keep else home)
    project.root.mkdir()
    shutil.copyfile(_SHIPPED / "demo" / "cart.py.txt", project.root / "cart.py")
    make_project(project)
    Agents(home).add(
        _SCRIPTED,
        [sys.executable, str(_SHIPPED / "scripted_agent.py")],
        {"completionDetection": "jsonl", "completionTypes": ["result"]},
    )
    entries = [_reviewer(name) for name in REVIEWERS]
    view = Teams(project, home).write("review", [*entries, {"id": YOU}])
    return DemoProject(project, home, StartRequest(view.team, REVIEW_GOAL))


def _reviewer(name: str) -> dict[str, object]:
    script = str(_SHIPPED / "demo" / f"{name}.json")
    prompt = f"You review {name} only."
    return {"id": name, "agent": _SCRIPTED, "prompt": prompt, "additionalArgs": [script]}


def demo_agents(spec: str | None) -> tuple[list[str], list[AgentDefinition]]:
    """Return the names of the agents requested for a demo, and the agents to register for it.

    Raises UsageError for an agent that does not exist.
    """
    chosen = [one.agent for one in member_specs(spec)] if spec else [BUILT_IN.name]
    return chosen, [_agent(name) for name in dict.fromkeys(chosen) if name != BUILT_IN.name]


def tickets_demo(
    base: Path, agents: Sequence[str], known: Sequence[AgentDefinition] = ()
) -> DemoProject:
    """Make a repository with a failing test and a team whose first agent manages.  Blocks.

    It is kept for the user to look at, so it is added to the user's own list of projects.
    """
    project, home = Project(base / "shop"), base / "home"
    for name, content in initial_files().items():
        path = project.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    make_project(project)
    _commit(project.root)
    save_registry(load_registry(KNOWN_AGENTS, registry_path(home)).with_agents(*known))
    manager, *workers = agents
    by_member = [manager, *islice(cycle(workers or agents), _WORKERS)]
    entries = [_permitted(entry) for entry in preset_members(TICKETS, by_member)]
    view = Teams(project, home).write(TICKETS, [*entries], preset=TICKETS)
    start = StartRequest(view.team, GOAL, Caps(yes=True), view.loaded.path, DEMO, TICKETS)
    return DemoProject(project, home, start)


def _agent(name: str) -> AgentDefinition:
    """Return an agent as the user registered it, else as found on PATH."""
    registered = Agents().registry().agents.get(name)
    if registered is not None:
        return registered
    command, known = find_program(name), KNOWN_AGENTS.get(name)
    if command is None or known is None:
        raise UsageError(f"There is no agent {name}.", known.install if known else "coterie doctor")
    return by_hand(KNOWN_AGENTS, name, [command, *known.base_args], instant.now(), {})


def _permitted(entry: Mapping[str, object]) -> dict[str, object]:
    """Return a member of the preset with permission to run the tests without asking."""
    mode = entry.get("permissions", "ask")
    return {**entry, "permissions": {"mode": mode, **_MAY_RUN}}


def _commit(folder: Path) -> None:
    git = Git.init(folder, "main")
    git.run("add", ".")
    git.run("commit", "-q", "-m", "A small shop", env=git.identity())


@dataclass(frozen=True)
class DemoCheck:
    """One thing that the demo promises to show, and whether it did."""

    what: str
    how: str
    """What actually happened."""
    passed: bool


async def check_demo(app: App, task_id: str) -> tuple[DemoCheck, ...]:
    """Check each promise of the demo."""
    views = await app.tickets(task_id)
    done = [view.ticket for view in views if view.ticket.state == "done"]
    planned = len(PLANNED)
    envelopes = await app.envelopes(task_id)
    git = Git(app.root)
    name = f"{await app.branch(task_id)}^{{tree}}"
    tree = (await anyio.to_thread.run_sync(git.run, "rev-parse", name)).strip()
    return (
        DemoCheck("done", f"{len(done)} of {planned} tickets", len(done) == len(views) == planned),
        _some("discussed first", _with_event(done, "discussing")),
        _some("sent back by review", _sent_back(envelopes)),
        _some("had a conflict, resolved by its author", _in_conflict(envelopes)),
        _green(envelopes, tree),
    )


def _some(what: str, tickets: Sequence[str]) -> DemoCheck:
    return DemoCheck(what, ", ".join(tickets) or "none", bool(tickets))


def _with_event(tickets: Sequence[Ticket], event: str) -> list[str]:
    return [one.id for one in tickets if any(m.event == event for m in one.history)]


def _in_conflict(envelopes: Sequence[Envelope]) -> list[str]:
    return [
        one.ticket_id or ""
        for one in envelopes
        if isinstance(one.payload, Error) and one.payload.code == MERGE_CONFLICT
    ]


def _sent_back(envelopes: Sequence[Envelope]) -> list[str]:
    return [
        one.ticket_id or ""
        for one in envelopes
        if isinstance(one.payload, Review) and one.payload.decision == "changes_requested"
    ]


def _green(envelopes: Sequence[Envelope], tree: str) -> DemoCheck:
    """Whether Coterie itself saw all tests pass on exactly the files of the branch."""
    logs = (one.payload for one in envelopes if isinstance(one.payload, ArtifactRef))
    ran = [(log, log.checked) for log in logs if log.checked and log.checked.command == TESTS]
    detail, check = (ran[-1][0].description, ran[-1][1]) if ran else ("never run", None)
    is_green = check is not None and check.passed and check.tree[:12] == tree[:12]
    return DemoCheck("tests green, run by Coterie", detail, is_green)
