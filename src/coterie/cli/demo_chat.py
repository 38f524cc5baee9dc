"""`coterie demo --chat`: three scripted members review a small file, for real and for nothing."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

import anyio

from coterie.agents.known import KNOWN_AGENTS
from coterie.app.project import App
from coterie.cli.call import Call
from coterie.cli.lines import Surface
from coterie.cli.records import JsonLines
from coterie.cli.running import Parking, carry, signals
from coterie.cli.transcript import PlainOutput
from coterie.cli.work import Patience
from coterie.config.project import Project, make_project
from coterie.config.registry import Registry, load_registry, registry_path, save_registry
from coterie.config.scan import by_hand
from coterie.config.team_edit import new_team
from coterie.errors import CoterieError
from coterie.model import instant
from coterie.model.interaction import Interaction
from coterie.model.message import YOU
from coterie.model.record import InteractionRecord, Record, ResultRecord
from coterie.model.task import Caps
from coterie.model.team import Team
from coterie.workspace.folder import make_folder

MEMBERS = ("security", "performance", "readability")
AGENT = "scripted"
GOAL = "Review cart.py before it ships. What would you fix first?"
DEFAULT_ANSWER = "Fix the query in the loop and the SQL injection first. Thank you. [DONE]"
PATIENCE = 20.0

_SHIPPED = Path(str(files("coterie.rehearsal")))


def chat(call: Call, *, keep: bool) -> int:
    """The demo of a conversation; returns the exit code."""
    base = Path(tempfile.mkdtemp(prefix="coterie-demo-")).resolve()
    try:
        project, team = _furnished(base)
        _introduced(call, project, keep=keep)
        code = anyio.run(_run, call, _Stage(project, base / "home", team, keep))
    finally:
        if not keep:
            shutil.rmtree(base, ignore_errors=True)
    _farewell(call, project.root if keep else None)
    return code


def _furnished(base: Path) -> tuple[Project, Team]:
    """A project with a file to review, a registry and a team, all below one folder."""
    project = Project(base / "shop")
    project.root.mkdir()
    shutil.copyfile(_SHIPPED / "demo" / "cart.py.txt", project.root / "cart.py")
    make_project(project)
    registry = _registry(base / "home")
    entries = [_entry(name) for name in MEMBERS]
    loaded = new_team(project, "review", [*entries, {"id": YOU}], registry)
    for member in loaded.team.members:
        make_folder(project.root, loaded.team.name, member)
    return project, loaded.team


def _entry(name: str) -> dict[str, object]:
    script = str(_SHIPPED / "demo" / f"{name}.json")
    prompt = f"You review {name} only."
    return {"id": name, "agent": AGENT, "prompt": prompt, "additionalArgs": [script]}


def _registry(home: Path) -> Registry:
    """A registry of the demo's own, with one agent: the scripted one that ships with Coterie."""
    facts = {"completionDetection": "jsonl", "completionTypes": ["result"]}
    run = [sys.executable, str(_SHIPPED / "scripted_agent.py")]
    agent = by_hand(KNOWN_AGENTS, AGENT, run, instant.now(), facts)
    registry = load_registry(KNOWN_AGENTS, registry_path(home)).with_agents(agent)
    save_registry(registry)
    return registry


@dataclass(frozen=True)
class _Stage:
    project: Project
    home: Path
    team: Team
    keep: bool


async def _run(call: Call, stage: _Stage) -> int:
    parking = Parking()
    code = 1
    shown: Surface = JsonLines(call.record) if call.json else PlainOutput(call, stage.team)
    with signals(parking):
        async with (
            App.open(stage.project.root, home=stage.home) as app,
            anyio.create_task_group() as group,
        ):
            task_id = await app.start(stage.team, GOAL, Caps())

            def answer(question: Interaction) -> None:
                group.start_soon(_answered, call, app, question)

            face = _Answering(shown, answer, _next(stage))
            face.opened(GOAL)
            code = await carry(call, app, task_id, face, parking, Patience(PATIENCE))
    return code


def _next(stage: _Stage) -> tuple[str, ...]:
    """What can still be looked at when the demo is over."""
    return (f"coterie log last -C {stage.project.root}",) if stage.keep else ()


async def _answered(call: Call, app: App, question: Interaction) -> None:
    """Answer a question by its default, and say so."""
    default = next((option.id for option in question.options if option.default), None)
    if question.kind != "Input" and default is None:
        return
    text = DEFAULT_ANSWER if question.kind == "Input" else None
    note = f"{question.interaction_id} is answered by default in the demo"
    call.record("note", {"message": note})
    call.line(f"     {note}" + (f": {default}\n" if default else "\n"))
    with contextlib.suppress(CoterieError):  # the task may have ended meanwhile
        await app.answer(question.interaction_id, choice=default, text=text, author=YOU)


class _Answering(Surface):
    """Shows the run, and has every question answered."""

    def __init__(
        self, surface: Surface, answer: Callable[[Interaction], None], following: tuple[str, ...]
    ) -> None:
        self._surface = surface
        self._answer = answer
        self._following = following

    def opened(self, goal: str, author: str = YOU) -> None:
        """The word that the task starts with."""
        self._surface.opened(goal, author)

    def saw(self, record: Record) -> None:
        self._surface.saw(record)
        if isinstance(record, InteractionRecord) and record.state == "open":
            self._answer(record.interaction)

    def finished(self, result: ResultRecord) -> None:
        """How it ended."""
        self._surface.finished(replace(result, next=self._following))


# -- narration ---------------------------------------------------------------------------------


def _introduced(call: Call, project: Project, *, keep: bool) -> None:
    call.record("demo", {"folder": str(project.root), "kept": keep, "members": list(MEMBERS)})
    call.prose(
        "Three scripted members review a small file, cart.py, one after the other. "
        "Each is a real process that reads the file; what they say is kept in a real "
        "database. No login, no tokens; all of it happens in a temporary folder."
    )


def _farewell(call: Call, kept: Path | None) -> None:
    call.line()
    call.prose(
        "Every turn was on disk before the next one began: kill it at any moment, and "
        "`coterie resume` goes on where it was. The same works with your own agents."
    )
    if kept is not None:
        call.line(f"Kept     {kept}")
    call.line("Next     coterie doctor   your agents")
    call.line("         coterie init     a first team")
    call.line('         coterie "what the team should do"')
