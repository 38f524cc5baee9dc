"""`init` and `doctor`: what is installed, what will work, a first team."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from coterie.app.agents import AgentHealth, Agents, Doctor, HealthCheck
from coterie.app.teams import STARTER, Teams
from coterie.cli.agents import fields_of_scan
from coterie.cli.call import Call, command, pass_call
from coterie.cli.project import here, made, show_notices
from coterie.cli.text import one_line, table, wrap
from coterie.model.workspace import shown

if TYPE_CHECKING:
    from coterie.app.probe_steps import Probed, Step
    from coterie.model.agent import AgentDefinition


@command("init", "coterie init")
@pass_call
def init(call: Call) -> None:
    """Find your agents and write a first team; nothing but .coterie and the registry is touched."""
    project, agents = here(call), Agents()
    found = agents.scan()
    show_notices(call, found.registry.notices)
    teams = Teams(project)
    ready = teams.ready_agents()
    if not ready:
        call.record("init", {"root": str(project.root), **fields_of_scan(found), "team": None})
        call.line("Found no agent. Install one, then try again:")
        call.lines([f"  {name:<10}{install}" for name, install in agents.installable().items()])
        call.line("Any other program:  coterie agents add NAME -- COMMAND")
        raise click.exceptions.Exit(1)
    made(call, project, announced=False)
    wrote = None
    if not teams.names():
        wrote = teams.write(STARTER, teams.entries(STARTER, None), default=True).team.name
    call.record("init", {"root": str(project.root), **fields_of_scan(found), "team": wrote})
    _tell(call, teams, ready, wrote)


def _tell(call: Call, teams: Teams, ready: list[str], wrote: str | None) -> None:
    project = teams.project
    wrote_it = "git ignores it; nothing else touched"
    call.line(f"Found {', '.join(ready)}. Wrote {shown(project.folder)}/ ({wrote_it}).")
    if wrote is None:
        call.line(f"Your teams are kept as they are: {', '.join(teams.names())}")
        return
    ada, rex = ready[0], ready[1 % len(ready)]
    call.line(f"  {wrote}     ada ({ada}) writes, rex ({rex}) reviews, you decide   [default]")
    call.line(f"Edit:  {shown(project.teams / wrote / 'team.json')}")
    call.line('Try:   coterie "why is test_total slow? fix it"')


# -- doctor ------------------------------------------------------------------------------------


@command("doctor", "coterie doctor --probe")
@click.option("--probe", is_flag=True, help="Run each CLI on a stand-in model; no tokens.")
@pass_call
def doctor(call: Call, *, probe: bool) -> None:
    """What is installed and what will work; changes nothing."""
    found = Doctor(call.directory)
    for agent in found.agents:
        call.record("agent", asdict(agent))
    for check in found.checks:
        call.record("check", asdict(check))
    call.lines(table([_agent_row(agent) for agent in found.agents], call.width))
    call.line()
    call.lines(table([_check_row(check) for check in found.checks], call.width))
    works = _probe(call, found.agents) if probe else True
    good = sum(agent.ready for agent in found.agents)
    count = len(found.agents)
    call.record("doctor", {"ready": good, "agents": count, "ok": good > 0 and works})
    enough = "enough to start" if good else "one is needed to start"
    call.line()
    deeper = "   Deeper: coterie doctor --probe" if good and not probe else ""
    call.line(f"{good} of {count} ready: {enough}.{deeper}")
    if not (good and works):
        raise click.exceptions.Exit(1)


def _agent_row(agent: AgentHealth) -> tuple[str, str, str, str]:
    then = agent.hint if agent.ready else f"-> {agent.hint}"
    return (f"  {agent.name}", agent.version or "-", agent.state, then)


def _check_row(check: HealthCheck) -> tuple[str, str, str]:
    hint = f"   -> {check.hint}" if check.hint else ""
    return (f"  {check.name}", "ok" if check.ok else "!", f"{check.detail}{hint}")


# -- doctor --probe ----------------------------------------------------------------------------

_NO_STAND_IN = "nothing can stand in for its model"
_SHOWN = {"ok": "ok", "failed": "failed", "not tried": "-"}


def _probe(call: Call, health: tuple[AgentHealth, ...]) -> bool:
    """Probe what is installed, one after the other, and show it; whether all of it worked."""
    import anyio

    from coterie.app.probe_steps import STEPS

    agents = Agents().installed({agent.name: agent.version for agent in health})
    found = anyio.run(_probe_all, call, agents)
    for agent in agents:
        call.record("probe", _fields(agent, found.get(agent.name)))
    call.line()
    if not agents:
        call.line("Nothing to probe: no agent is installed.")
        return True
    heads = ("", "", *STEPS, "")
    call.lines(table([heads, *(_row(probed) for probed in found.values())], call.width))
    for agent in agents:
        if agent.name not in found:
            call.line(f"  {agent.name}: not probed, {_NO_STAND_IN}")
    for probed in found.values():
        call.lines(_failures(probed, call.width))
    return all(probed.ok for probed in found.values())


async def _probe_all(call: Call, agents: list[AgentDefinition]) -> Mapping[str, Probed]:
    from coterie.app.probe import can_be_probed, probe_agent
    from coterie.cli.running import StopRequest, signals

    found: dict[str, Probed] = {}
    parking = StopRequest()
    live = call.live and sys.stderr.isatty()
    try:
        with signals(parking), parking.stoppable():
            for agent in filter(can_be_probed, agents):

                def show(step: Step, name: str = agent.name) -> None:
                    _show_progress(f"  probing {name}: {step}", live=live)

                found[agent.name] = await probe_agent(agent, show)
    finally:
        _show_progress("", live=live)
    if parking.asked:
        raise click.exceptions.Exit(130)
    return found


def _show_progress(text: str, *, live: bool) -> None:
    """One line on a terminal that says what is tried now, and goes away with it."""
    if live:
        sys.stderr.write(f"\r\x1b[2K{text}")
        sys.stderr.flush()


def _row(one: Probed) -> tuple[str, ...]:
    seconds = sum(tried.ms for tried in one.steps) / 1000
    outcomes = (_SHOWN[tried.outcome] for tried in one.steps)
    return (f"  {one.name}", one.version or "-", *outcomes, f"{seconds:.1f} s")


def _failures(one: Probed, width: int) -> list[str]:
    if one.message is None:
        return []
    lines = ["", *wrap(f"! {one.message}", width - 1)]
    for tried in one.failures:
        lines += wrap(f"  {tried.step}: {one_line(tried.detail)}", width - 1)
    return [*lines, f"  {one.hint}"] if one.hint else lines


def _fields(agent: AgentDefinition, one: Probed | None) -> dict[str, object]:
    """One object per CLI; `ok` is null for one that was not probed."""
    if one is None:
        return {
            "name": agent.name,
            "ok": None,
            "steps": [],
            "message": f"not probed: {_NO_STAND_IN}",
        }
    return {
        "name": one.name,
        "version": one.version,
        "tested": one.tested,
        "ok": one.ok,
        "steps": [asdict(tried) for tried in one.steps],
        "message": one.message,
        "hint": one.hint,
    }
