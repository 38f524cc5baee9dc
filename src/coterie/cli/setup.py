"""`init`, `doctor` and `agents`: what is installed, what works, which programs can be members."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from coterie.app.agent_health import AgentHealth, health_of, to_be_members
from coterie.app.agents import Agents, Doctor, HealthCheck, Registry, Scan
from coterie.app.teams import STARTER, Teams
from coterie.cli.main import (
    Call,
    command,
    current_project,
    ensure_project,
    list_group,
    show_notices,
)
from coterie.cli.text import one_line, table, wrap
from coterie.model.agent import AgentDefinition
from coterie.model.visible import printable
from coterie.model.workspace import shown

if TYPE_CHECKING:
    from coterie.app.probe_steps import ProbeResult, Step


@command("init", "coterie init")
def init(call: Call) -> None:
    """Find your agents and write a first team; only .coterie and the registry are touched."""
    project, scanned = current_project(call), Agents().scan()
    show_notices(call, scanned.registry.notices)
    teams = Teams(project)
    health = teams.health()
    ready = to_be_members(health)
    states = {one.name: one.state for one in health}
    fields = {"root": str(project.root), **fields_of_scan(scanned), "states": states}
    if not ready:
        call.record("init", {**fields, "team": None})
        call.line("No agent is ready. Set one up, then try again:")
        call.lines(table(list(map(_agent_row, Doctor().agents)), call.row_width, folds=True))
        call.line("Any other program:  coterie agents add NAME -- COMMAND")
        raise click.exceptions.Exit(1)
    ensure_project(call, project, announced=False)
    wrote = None
    if not teams.names():
        wrote = teams.write(STARTER, teams.entries(STARTER, None), default=True).team.name
    call.record("init", {**fields, "team": wrote})
    _show_start(call, teams, ready, wrote)
    for one in health:
        if one.state in ("not signed in", "no adapter"):
            call.line(f"Not ready: {one.name}, {one.state} -> {one.hint}")


def _show_start(call: Call, teams: Teams, ready: list[str], wrote: str | None) -> None:
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


@command("doctor", "coterie doctor --probe")
@click.option("--probe", is_flag=True, help="Run each CLI on a stand-in model; no tokens.")
def doctor(call: Call, *, probe: bool) -> None:
    """What is installed and what will work; changes nothing.

    With a store (--store or COTERIE_STORE), also whether it can be used from here.
    """
    checkup = Doctor(call.directory, call.store)
    show_notices(call, checkup.notices)
    for agent in checkup.agents:
        call.record("agent", asdict(agent))
    for check in checkup.checks:
        call.record("check", asdict(check))
    call.lines(table([_agent_row(agent) for agent in checkup.agents], call.row_width, folds=True))
    call.line()
    call.lines(table([_check_row(check) for check in checkup.checks], call.row_width, folds=True))
    works = _probe(call, checkup.agents) if probe else True
    works = _show_store_problems(call, checkup.checks) and works
    good = sum(agent.ready for agent in checkup.agents)
    count = len(checkup.agents)
    call.record("doctor", {"ready": good, "agents": count, "ok": good > 0 and works})
    enough = "enough to start" if good else "you need at least one to start"
    call.line()
    deeper = "   Deeper: coterie doctor --probe" if good and not probe else ""
    call.line(f"{good} of {count} ready: {enough}.{deeper}")
    if not (good and works):
        raise click.exceptions.Exit(1)


def _agent_row(agent: AgentHealth) -> tuple[str, str, str, str]:
    then = agent.hint if agent.ready else f"-> {agent.hint}"
    return (f"  {agent.name}", agent.version or "-", agent.state, then)


def _show_store_problems(call: Call, checks: Iterable[HealthCheck]) -> bool:
    """Show what is wrong with the store or with how branches travel, in full: an address leaves no
    room for it in a table. Return whether nothing is wrong."""
    failed = [check for check in checks if check.name in ("store", "travel") and not check.ok]
    for check in failed:
        call.lines(["", f"! {check.detail}", *(f"  {line}" for line in check.hint.splitlines())])
    return not failed


def _check_row(check: HealthCheck) -> tuple[str, str, str]:
    hint = f"   -> {check.hint.partition(chr(10))[0]}" if check.hint else ""
    return (f"  {check.name}", "ok" if check.ok else "!", f"{check.detail}{hint}")


_NO_STAND_IN = "there is no stand-in for its model"
_SHOWN = {"ok": "ok", "failed": "failed", "not tried": "-"}


def _probe(call: Call, health: tuple[AgentHealth, ...]) -> bool:
    """Probe what is installed, one after the other, and show it; return whether all worked."""
    import anyio

    from coterie.app.probe_steps import STEPS

    agents = Agents().installed({agent.name: agent.version for agent in health})
    probes = anyio.run(_probe_all, call, agents)
    for agent in agents:
        call.record("probe", _fields(agent, probes.get(agent.name)))
    call.line()
    if not agents:
        call.line("Nothing to probe: no agent is installed.")
        return True
    heads = ("", "", *STEPS, "")
    call.lines(table([heads, *(_probe_row(probed) for probed in probes.values())], call.row_width))
    for agent in agents:
        if agent.name not in probes:
            call.line(f"  {agent.name}: not probed, {_NO_STAND_IN}")
    for probed in probes.values():
        call.lines(_failures(probed, call.width))
    return all(probed.ok for probed in probes.values())


async def _probe_all(call: Call, agents: list[AgentDefinition]) -> Mapping[str, ProbeResult]:
    from coterie.app.probe import can_be_probed, probe_agent
    from coterie.cli.running import StopRequest, stop_on_signals

    probes: dict[str, ProbeResult] = {}
    parking = StopRequest()
    live = call.live and sys.stderr.isatty()
    try:
        with stop_on_signals(parking), parking.stoppable():
            for agent in filter(can_be_probed, agents):

                def show(step: Step, name: str = agent.name) -> None:
                    _show_progress(f"  probing {name}: {step}", live=live)

                probes[agent.name] = await probe_agent(agent, show)
    finally:
        _show_progress("", live=live)
    if parking.asked:
        raise click.exceptions.Exit(130)
    return probes


def _show_progress(text: str, *, live: bool) -> None:
    """Show on one terminal line what is being tried; the next call overwrites it."""
    if live:
        sys.stderr.write(f"\r\x1b[2K{text}")
        sys.stderr.flush()


def _probe_row(one: ProbeResult) -> tuple[str, ...]:
    seconds = sum(tried.ms for tried in one.steps) / 1000
    outcomes = (_SHOWN[tried.outcome] for tried in one.steps)
    return (f"  {one.name}", one.version or "-", *outcomes, f"{seconds:.1f} s")


def _failures(one: ProbeResult, width: int) -> list[str]:
    if one.message is None:
        return []
    lines = ["", *wrap(f"! {printable(one.message)}", width - 1)]
    for tried in one.failures:
        lines += wrap(f"  {tried.step}: {one_line(tried.detail)}", width - 1)
    return [*lines, f"  {one.hint}"] if one.hint else lines


def _fields(agent: AgentDefinition, one: ProbeResult | None) -> dict[str, object]:
    """One object per CLI; `ok` is null for one that was not probed."""
    if one is None:
        message = f"not probed: {_NO_STAND_IN}"
        return {"name": agent.name, "ok": None, "steps": [], "message": message}
    return {
        "name": one.name,
        "version": one.version,
        "tested": one.tested,
        "ok": one.ok,
        "steps": [asdict(tried) for tried in one.steps],
        "message": one.message,
        "hint": one.hint,
    }


OptionValue = str | int | bool | None


@list_group(
    "agents",
    "coterie agents add mine --ends-with result -- python3 agent.py",
    "The registry of this machine: which programs can be members.  Without a subcommand: list.",
    "coterie agents list --json",
)
def agents(call: Call) -> None:
    """Every registered agent, and whether its program is installed."""
    registry = Agents().registry()
    show_notices(call, registry.notices)
    _list(call, registry)


@command("scan", "coterie agents scan", agents)
def scan(call: Call) -> None:
    """Find agents on PATH and register them. What you changed by hand is kept."""
    scanned = Agents().scan()
    show_notices(call, scanned.registry.notices)
    call.record("scan", fields_of_scan(scanned))
    names = ", ".join(one.name for one in scanned.installed)
    new = f"; new: {', '.join(scanned.added)}" if scanned.added else ""
    names = f"{names}{new}" if names else "no agent that Coterie knows by name"
    call.line(f"Found {names}. Registry: {scanned.registry.path}")
    _list(call, scanned.registry)


@command("add", "coterie agents add mine --ends-with result -- python3 agent.py", agents)
@click.argument("name")
@click.argument("program_", metavar="-- COMMAND [ARGS]…", nargs=-1, required=True)
@click.option("--ends-with", metavar="TYPE,…", help="A JSON line of this type ends a reply.")
@click.option("--ends-when", metavar="REGEX", help="A line that matches ends a reply.")
@click.option("--silence", type=int, metavar="MS", help="How much silence ends a reply (2000).")
@click.option("--text-field", metavar="NAME", help="The field of that line that holds the reply.")
@click.option("--prompt-flag", metavar="FLAG", help="The flag that takes a member's role.")
@click.option("--model-flag", metavar="FLAG", help="The flag that takes a member's model.")
@click.option(
    "--persistent", is_flag=True, help="The process keeps running and takes a prompt per turn."
)
@click.option("--pty", is_flag=True, help="Run it under a pseudo-terminal.")
@click.option("--replace", is_flag=True, help="Replace the agent of this name.")
def add(call: Call, name: str, program_: tuple[str, ...], **options: OptionValue) -> None:
    """Register an agent by hand. It may be any program that reads a prompt and prints a reply."""
    facts = _facts(options)
    pty, replace = options["pty"] is True, options["replace"] is True
    entry, registry = Agents().add(name, program_, facts, use_pty=pty, replacing=replace)
    call.record("agent", fields_of(entry))
    call.line(f"Added {name} to {registry.path}.")
    show_notices(call, Agents().unused_words(entry))
    if Agents().place(entry) is None:
        call.note(f"! {entry.command} is not on PATH; it was registered anyway.")


@command("migrate", "coterie agents migrate", agents)
def migrate(call: Call) -> None:
    """Convert an old registry to the current format. A copy is kept; dropped prompts are shown."""
    done = Agents().migrate()
    dropped = [vars(one) for one in done.dropped]
    fields = {"path": str(done.path), "changed": done.changed, "dropped": dropped}
    call.record("migration", fields | {"backup": str(done.backup) if done.backup else None})
    if not done.changed:
        call.line(f"{done.path} is up to date; nothing was changed.")
        return
    call.line(f"Wrote {done.path}; the old one is kept as {done.backup}.")
    for one in done.dropped:
        call.line(f"  dropped from {one.agent}: {one.flag} {one_line(one.text)}")
    if done.dropped:
        call.line("A role's prompt belongs to a member: put it into the team file as `prompt`.")
    show_notices(call, done.notices)


def fields_of_scan(scanned: Scan) -> dict[str, object]:
    """What a scan found, as an object."""
    return {
        "path": str(scanned.registry.path),
        "found": [one.name for one in scanned.installed],
        "added": list(scanned.added),
        "updated": list(scanned.updated),
        "missing": list(scanned.missing),
    }


def fields_of(agent: AgentDefinition) -> dict[str, object]:
    """An entry as an object; of its environment, only the names are shown."""
    shown: dict[str, object] = agent.model_dump(mode="json", exclude={"env"})
    return shown | {"env": sorted(agent.env), "found": Agents().place(agent)}


def _list(call: Call, registry: Registry) -> None:
    entries = [(agent, health_of(agent)) for agent in registry.agents.values()]
    for agent, health in entries:
        call.record("agent", fields_of(agent) | {"state": health.state, "ready": health.ready})
    if not entries:
        call.line("No agent is registered yet.   coterie agents scan")
        return
    call.lines(table([_row(agent, health) for agent, health in entries], call.row_width))
    call.line("Running now: coterie ps")


def _row(agent: AgentDefinition, health: AgentHealth) -> tuple[str, str, str, str]:
    where = Agents().place(agent) or agent.command
    then = where if health.ready else f"-> {health.hint}"
    return (f"  {agent.name}", agent.version or "-", health.state, then)


def _facts(options: dict[str, OptionValue]) -> dict[str, object]:
    """Return the options as capabilities, under their names in the registry."""
    facts: dict[str, object] = {}
    if isinstance(types := options["ends_with"], str):
        facts["completionDetection"] = "jsonl"
        facts["completionTypes"] = [one.strip() for one in types.split(",") if one.strip()]
    if options["ends_when"] is not None:
        facts["completionDetection"] = "custom"
        facts["completionPattern"] = options["ends_when"]
    names = {
        "silence": "idleTimeoutMs",
        "text_field": "textField",
        "prompt_flag": "systemPromptFlag",
        "model_flag": "modelFlag",
    }
    facts |= {name: options[key] for key, name in names.items() if options[key] is not None}
    if options["persistent"]:
        facts["persistent"] = True
    return facts
