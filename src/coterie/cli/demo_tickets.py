"""The main demo: a manager and two workers add coupons to a small shop, and it is seen to be so."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

import anyio

from coterie.agents.builtin import FACTS as BUILT_IN
from coterie.agents.known import KNOWN_AGENTS
from coterie.app.project import App
from coterie.cli.call import Call
from coterie.cli.demo_outcome import Promise, kept
from coterie.cli.lines import Surface
from coterie.cli.records import JsonLines
from coterie.cli.running import Parking, carry, signals
from coterie.cli.ticket_events import PlainTickets
from coterie.cli.work import Patience
from coterie.config.presets import seated
from coterie.config.project import Project, make_project
from coterie.config.registry import load_registry, registry_path, save_registry
from coterie.config.scan import by_hand, program
from coterie.config.team_edit import new_team
from coterie.config.team_file import LoadedTeam
from coterie.config.teams import seats
from coterie.errors import UsageError
from coterie.model import instant
from coterie.model.agent import AgentDefinition
from coterie.model.record import ResultRecord
from coterie.model.task import DEMO, Caps
from coterie.rehearsal.demo_plan import GOAL, TESTS, initial_files
from coterie.workspace.git import Git

TEAM = "tickets"
_WORKERS = 2
_UNATTENDED = Patience(0.0)
"""Nothing is asked; what is asked all the same has no answer here, and is a failure."""
_MAY_RUN = {"allow": [f"{TESTS} *"]}


@dataclass(frozen=True)
class Stage:
    """The demo's own project and home, below one folder."""

    project: Project
    home: Path
    team: LoadedTeam


def tickets(call: Call, agents: str | None) -> int:
    """The demo of tickets; returns the exit code."""
    chosen = [one.agent for one in seats(agents)] if agents else [BUILT_IN.name]
    known = [_agent(name) for name in dict.fromkeys(chosen) if name != BUILT_IN.name]
    base = Path(tempfile.mkdtemp(prefix="coterie-demo-")).resolve()
    stage = furnished(base, chosen, known)
    _introduced(call, stage, chosen)
    return anyio.run(_run, call, stage)


# -- the stage ---------------------------------------------------------------------------------


def furnished(base: Path, agents: Sequence[str], known: Sequence[AgentDefinition] = ()) -> Stage:
    """A repository with a failing test, and a team for it; the first agent manages.  Blocks."""
    project, home = Project(base / "shop"), base / "home"
    for name, content in initial_files().items():
        path = project.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    make_project(project)
    _committed(project.root)
    registry = load_registry(KNOWN_AGENTS, registry_path(home)).with_agents(*known)
    save_registry(registry)
    manager, *workers = agents
    seated_on = [manager, *islice(cycle(workers or agents), _WORKERS)]
    entries = [_permitted(one) for one in seated(TEAM, seated_on)]
    return Stage(project, home, new_team(project, TEAM, entries, registry, TEAM))


def _agent(name: str) -> AgentDefinition:
    """An agent as the user has registered it, else as it is found."""
    registered = load_registry(KNOWN_AGENTS).agents.get(name)
    if registered is not None:
        return registered
    command, known = program(name), KNOWN_AGENTS.get(name)
    if command is None or known is None:
        raise UsageError(f"There is no agent {name}.", known.install if known else "coterie doctor")
    return by_hand(KNOWN_AGENTS, name, [command, *known.base_args], instant.now(), {})


def _permitted(entry: Mapping[str, object]) -> dict[str, object]:
    """A member of the preset that may run the tests, so that nobody has to be asked."""
    mode = entry.get("permissions", "ask")
    return {**entry, "permissions": {"mode": mode, **_MAY_RUN}}


def _committed(folder: Path) -> None:
    git = Git(folder)
    git.run("init", "-q", "-b", "main")
    git.run("add", ".")
    git.run("commit", "-q", "-m", "A small shop", env=git.identity())


# -- the run -----------------------------------------------------------------------------------


async def _run(call: Call, stage: Stage) -> int:
    parking = Parking()
    with signals(parking):
        async with App.open(stage.project.root, stage.home) as app:
            task_id = await begun(app, stage)
            show = _on_screen if call.live else _in_lines
            code = await show(call, app, stage, task_id, parking)
            promises = await kept(app, task_id) if code == 0 else ()
    _farewell(call, stage, task_id, promises)
    return code or int(not all(one.kept for one in promises))


async def begun(app: App, stage: Stage) -> str:
    """Start the session; returns its id."""
    team = stage.team
    return await app.start(
        team.team, GOAL, Caps(yes=True), workflow=TEAM, team_file=team.path, rehearsal=DEMO
    )


async def _in_lines(call: Call, app: App, stage: Stage, task_id: str, parking: Parking) -> int:
    surface: Surface = _Outcome(call) if call.json else PlainTickets(call, stage.team.team)
    surface.opened(GOAL)
    return await carry(call, app, task_id, surface, parking, _UNATTENDED)


class _Outcome(JsonLines):
    """JSON lines with what came of the demo before the result, which is always the last."""

    def __init__(self, call: Call) -> None:
        super().__init__(call.record)
        self._record = call.record
        self._result: ResultRecord | None = None

    def finished(self, result: ResultRecord) -> None:
        self._result = result

    async def conclude(self, app: App) -> None:
        """Say what came of it, then how it ended."""
        if self._result is None:
            return
        if self._result.status == "completed":
            promises = await kept(app, self._result.task)
            self._record("outcome", {"promises": {one.what: one.kept for one in promises}})
        super().finished(self._result)


async def _on_screen(call: Call, app: App, stage: Stage, task_id: str, parking: Parking) -> int:
    from coterie.cli.screen.tickets import TicketScreen

    screen = TicketScreen(call, stage.team.team, None, stage.project.folder / "history")
    async with screen.shown(parking.request):
        screen.attach(app, task_id)
        screen.opened(GOAL)
        return await carry(call, app, task_id, screen, parking, _UNATTENDED)


# -- narration ---------------------------------------------------------------------------------


def _introduced(call: Call, stage: Stage, agents: list[str]) -> None:
    root = stage.project.root
    members = {one.id: one.agent for one in stage.team.team.members}
    call.record("demo", {"folder": str(root), "kept": True, "members": members})
    who = "built-in agents" if agents == [BUILT_IN.name] else ", ".join(agents)
    call.prose(
        f"A manager and two workers ({who}) on a small repository with a failing test. The "
        "processes, git, the database and the checks are real; the model is a stand-in: no "
        "login, no tokens. The plan is approved for you (--yes), the workers may edit files and "
        f"run {TESTS}, so nothing is asked. All of it happens in {root}."
    )
    call.line()


def _farewell(call: Call, stage: Stage, task_id: str, promises: Sequence[Promise]) -> None:
    call.line()
    for one in promises:
        mark = call.paint("ok", "good") if one.kept else call.paint("NO", "bad")
        call.line(f" {mark}     {one.what}: {one.how}")
    call.line()
    call.line(f" Look   cd {stage.project.root}")
    for command, what in _LOOK if promises else _STOPPED:
        call.line(f"        coterie {command.format(task=task_id):<14} {what}")


_STOPPED = (
    ("resume {task}", "go on where it was"),
    ("tickets", "how far they are"),
    ("log {task}", "all that was said"),
)
_LOOK = (
    ("tickets", "the tickets, and who did them"),
    ("show {task}/T4", "the one that was sent back"),
    ("log {task}", "all that was said"),
    ("diff {task}", "what was changed"),
    ("accept {task}", "take it into main; until then it is on a branch"),
)
