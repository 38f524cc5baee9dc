"""`doctor --probe`: every installed CLI, tried for real, and what was seen of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict

import anyio
import click

from coterie.agents.known import KNOWN_AGENTS
from coterie.cli.call import Call
from coterie.cli.running import Parking, signals
from coterie.cli.text import one_line, table, wrap
from coterie.config.registry import load_registry
from coterie.config.scan import program
from coterie.errors import CoterieError
from coterie.model import instant
from coterie.model.agent import AgentDefinition
from coterie.probe import STEPS, Probed, Step, can_be_probed, probe_agent

_NO_STAND_IN = "nothing can stand in for its model"
_SHOWN = {"ok": "ok", "failed": "failed", "not tried": "-"}


def probed(call: Call, versions: Mapping[str, str | None]) -> bool:
    """Probe what is installed, one after the other, and show it; whether all of it worked.

    `versions` is what the programs said of themselves, by name.
    """
    agents = _installed(versions)
    found = anyio.run(_all, call, agents)
    for agent in agents:
        call.record("probe", _fields(agent, found.get(agent.name)))
    call.line()
    if not agents:
        call.line("Nothing to probe: no agent is installed.")
        return True
    heads = ("", "", *STEPS, "")
    call.lines(table([heads, *(_row(one) for one in found.values())], call.width))
    for agent in agents:
        if agent.name not in found:
            call.line(f"  {agent.name}: not probed, {_NO_STAND_IN}")
    for one in found.values():
        call.lines(_failures(one, call.width))
    return all(one.ok for one in found.values())


def _installed(versions: Mapping[str, str | None]) -> list[AgentDefinition]:
    """The agents that are known by name or registered, each with the program that is there."""
    now = instant.now()
    agents = {known.name: known.definition(known.name, None, now) for known in KNOWN_AGENTS.all}
    with suppress(CoterieError):  # doctor has told what is wrong with it
        agents |= load_registry(KNOWN_AGENTS).agents
    there = ((agent, program(agent.command)) for agent in agents.values())
    return [
        agent.model_copy(update={"command": path, "version": versions.get(agent.name)})
        for agent, path in there
        if path
    ]


async def _all(call: Call, agents: list[AgentDefinition]) -> dict[str, Probed]:
    found: dict[str, Probed] = {}
    parking = Parking()
    progress = _Progress(call)
    try:
        with signals(parking), parking.stoppable():
            for agent in filter(can_be_probed, agents):
                found[agent.name] = await probe_agent(agent, progress.about(agent.name))
    finally:
        progress.clear()
    if parking.asked:
        raise click.exceptions.Exit(130)
    return found


class _Progress:
    """One line on a terminal that says what is tried now, and goes away with it."""

    def __init__(self, call: Call) -> None:
        self._live = call.live and sys.stderr.isatty()

    def about(self, name: str) -> _Tell:
        """Says of this agent which step begins."""
        return _Tell(self, name)

    def show(self, text: str) -> None:
        if self._live:
            sys.stderr.write(f"\r\x1b[2K{text}")
            sys.stderr.flush()

    def clear(self) -> None:
        self.show("")


class _Tell:
    def __init__(self, progress: _Progress, name: str) -> None:
        self._progress = progress
        self._name = name

    def __call__(self, step: Step) -> None:
        self._progress.show(f"  probing {self._name}: {step}")


# -- shown -------------------------------------------------------------------------------------


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
