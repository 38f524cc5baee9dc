"""`init` and `doctor`: what is installed, what will work, a first team."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from coterie.agents.known import KNOWN_AGENTS
from coterie.cli.agents import fields_of_scan
from coterie.cli.call import Call, command, pass_call
from coterie.cli.project import here, made, notices, opened
from coterie.cli.text import table
from coterie.config.presets import ready, seated
from coterie.config.project import Project
from coterie.config.registry import Registry, is_included, load_registry
from coterie.config.scan import Scan, has_key, program, scan, signed_in
from coterie.config.settings import load_settings
from coterie.config.team_edit import new_team
from coterie.config.teams import mark_default, teams_of
from coterie.errors import CoterieError, StorageDamaged
from coterie.model import instant
from coterie.model.agent_facts import AgentFacts
from coterie.model.paths import shown
from coterie.workspace.folder import make_folder

if TYPE_CHECKING:
    from coterie.app.project import App

STARTER = "pair"


@command("init", "coterie init")
@pass_call
def init(call: Call) -> None:
    """Find your agents and write a first team; nothing but .coterie and the registry is touched."""
    from coterie.agents.table import has_adapter
    from coterie.app.project import version_of

    project = here(call)
    found = scan(KNOWN_AGENTS, version_of, instant.now())
    notices(call, found.registry.notices)
    agents = ready(found.registry, has_adapter)
    if not agents:
        call.record("init", {"root": str(project.root), **fields_of_scan(found), "team": None})
        call.line("Found no agent. Install one, then try again:")
        call.lines([f"  {known.name:<10}{known.install}" for known in KNOWN_AGENTS.all])
        call.line("Any other program:  coterie agents add NAME -- COMMAND")
        raise click.exceptions.Exit(1)
    made(call, project, announced=False)
    wrote = _starter(project, found.registry, agents)
    fields = {"root": str(project.root), **fields_of_scan(found), "team": wrote}
    call.record("init", fields)
    _tell(call, project, found, agents, wrote)


def _starter(project: Project, registry: Registry, agents: list[str]) -> str | None:
    """Write the first team and mark it; None where the project has teams already."""
    if teams_of(project):
        return None
    loaded = new_team(project, STARTER, seated(STARTER, agents), registry)
    for member in loaded.team.members:
        make_folder(project.root, STARTER, member)
    mark_default(project, STARTER)
    return STARTER


def _tell(call: Call, project: Project, found: Scan, agents: list[str], wrote: str | None) -> None:
    wrote_it = "git ignores it; nothing else touched"
    call.line(f"Found {', '.join(agents)}. Wrote {shown(project.folder)}/ ({wrote_it}).")
    if wrote is None:
        names = ", ".join(place.name for place in teams_of(project))
        call.line(f"Your teams are kept as they are: {names}")
        return
    ada, rex = agents[0], agents[1 % len(agents)]
    call.line(f"  {STARTER}     ada ({ada}) writes, rex ({rex}) reviews, you decide   [default]")
    call.line(f"Edit:  {shown(project.teams / STARTER / 'team.json')}")
    call.line('Try:   coterie "why is test_total slow? fix it"')


# -- doctor ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Agent:
    name: str
    version: str | None
    state: str
    ready: bool
    hint: str


@dataclass(frozen=True)
class _Check:
    name: str
    ok: bool
    detail: str
    hint: str = ""


@command("doctor", "coterie doctor --probe")
@click.option("--probe", is_flag=True, help="Run each CLI on a stand-in model; no tokens.")
@pass_call
def doctor(call: Call, *, probe: bool) -> None:
    """What is installed and what will work; changes nothing."""
    agents, checks = _agents_and_registry()
    checks += _project_checks(call)
    checks += [_keeper(call), _git()]
    for agent in agents:
        call.record("agent", vars(agent))
    for check in checks:
        call.record("check", vars(check))
    call.lines(table([_agent_row(agent) for agent in agents], call.width))
    call.line()
    call.lines(table([_check_row(check) for check in checks], call.width))
    works = _probed(call, agents) if probe else True
    good = sum(agent.ready for agent in agents)
    call.record("doctor", {"ready": good, "agents": len(agents), "ok": good > 0 and works})
    enough = "enough to start" if good else "one is needed to start"
    call.line()
    deeper = "   Deeper: coterie doctor --probe" if good and not probe else ""
    call.line(f"{good} of {len(agents)} ready: {enough}.{deeper}")
    if not (good and works):
        raise click.exceptions.Exit(1)


def _probed(call: Call, agents: list[_Agent]) -> bool:
    from coterie.cli.probe import probed

    return probed(call, {agent.name: agent.version for agent in agents})


def _agents_and_registry() -> tuple[list[_Agent], list[_Check]]:
    """Every agent that is registered or known by name, and how the registry is."""
    try:
        registry = load_registry(KNOWN_AGENTS)
    except CoterieError as error:
        return _agents(None), [_Check("registry", False, str(error), error.hint or "")]
    there = registry.path.exists()
    count = f"{len(registry.agents)} agents" if there else "not made yet"
    hint = "" if there else "coterie init"
    return _agents(registry), [_Check("registry", True, f"{shown(registry.path)}: {count}", hint)]


def _agents(registry: Registry | None) -> list[_Agent]:
    commands = {known.name: (known.name, known.adapter.name) for known in KNOWN_AGENTS.all}
    for agent in registry.agents.values() if registry is not None else ():
        commands[agent.name] = (agent.command, KNOWN_AGENTS.adapter_name(agent))
    return [_agent(name, *found) for name, found in commands.items()]


def _agent(name: str, command_: str, adapter: str) -> _Agent:
    from coterie.agents.table import has_adapter
    from coterie.app.project import version_of
    from coterie.process.programs import succeeds

    known = KNOWN_AGENTS.get(name)
    if known is not None and not known.is_program:
        return _own(known)
    where = program(command_)
    if where is None:
        return _Agent(name, None, "not installed", False, known.install if known else command_)
    version = version_of(where)
    if not has_adapter(adapter):
        return _Agent(name, version, "installed", False, f"there is no adapter {adapter}")
    signed = signed_in(known, where, succeeds) if known else None
    if known is not None and signed is False:
        return _Agent(name, version, "not signed in", False, known.sign_in)
    tested = known.tested if known else None
    state = "installed" if signed is None else "signed in"
    then = f"ready; untested, tested is {tested}" if tested and version != tested else "ready"
    return _Agent(name, version, state, True, then)


def _own(known: AgentFacts) -> _Agent:
    """The agent that is a part of Coterie: it needs its extra, and a key."""
    if not is_included(known):
        return _Agent(known.name, None, "not installed", False, known.install)
    if not has_key(known):
        return _Agent(known.name, None, "no model key", False, known.sign_in)
    return _Agent(known.name, None, "model key", True, "ready")


def _project_checks(call: Call) -> list[_Check]:
    try:
        project = here(call)
    except CoterieError as error:
        return [_Check("project", False, str(error), error.hint or "")]
    checks = [_writable(project)]
    if not project.database.exists():
        return [*checks, _Check("database", True, "not made yet")]
    try:
        count = opened(project, _count)
    except CoterieError as error:
        return [*checks, _Check("database", False, str(error), error.hint or "")]
    return [*checks, _Check("database", True, f"{shown(project.database)}: {count} tasks")]


async def _count(app: App) -> int:
    for problem in await app.problems():
        raise StorageDamaged(str(app.root), problem)
    return len(await app.tasks())


def _writable(project: Project) -> _Check:
    import os

    place = project.folder if project.exists else project.root
    if os.access(place, os.W_OK | os.X_OK):
        return _Check("project", True, f"{project.root}: writable")
    return _Check("project", False, f"{place} cannot be written", "-C DIR names another")


def _keeper(call: Call) -> _Check:
    from coterie.app.project import keeper_problem

    try:
        keeper = load_settings(here(call).folder).values.keeper
    except CoterieError as error:
        return _Check("settings", False, str(error), error.hint or "")
    name = "subreaper" if keeper == "auto" else keeper
    problem = keeper_problem(keeper)
    if problem is not None:
        return _Check("keeper", False, f"{name}: {problem}", "coterie config set keeper auto")
    return _Check("keeper", True, f"{name}: ends an agent's whole process tree")


def _git() -> _Check:
    where = program("git")
    if where is None:
        return _Check("git", True, "not installed: not needed to talk", "")
    return _Check("git", True, where)


def _agent_row(agent: _Agent) -> tuple[str, str, str, str]:
    then = agent.hint if agent.ready else f"-> {agent.hint}"
    return (f"  {agent.name}", agent.version or "-", agent.state, then)


def _check_row(check: _Check) -> tuple[str, str, str]:
    hint = f"   -> {check.hint}" if check.hint else ""
    return (f"  {check.name}", "ok" if check.ok else "!", f"{check.detail}{hint}")
