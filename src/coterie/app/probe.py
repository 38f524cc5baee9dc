"""Find out what an installed CLI can do by running it against a stand-in for its model.

New versions of these programs appear weekly without any guarantees, so "it is installed" says
little.  A probe is a task like any other, in a temporary folder with a registry of its own:
nothing of the user's is read or touched, no token is spent, and what works here works in a team.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from coterie.agents.table import KNOWN_AGENTS
from coterie.app.agent_health import version_of
from coterie.app.open_project import OpenProject
from coterie.app.probe_steps import (
    FOLDER,
    ProbeModel,
    ProbeResult,
    ProbeStepResult,
    ProbeTask,
    Step,
    Steps,
)
from coterie.config.registry import Registry, registry_path
from coterie.config.registry_edit import save_registry
from coterie.errors import UsageError
from coterie.model.agent import AgentDefinition, ShellTool
from coterie.model.team import Member, Team
from coterie.rehearsal.server import RehearsalServer


def can_be_probed(agent: AgentDefinition) -> bool:
    """Whether a stand-in can replace its model, and its shell tool is known."""
    return _shell(agent) is not None


def _shell(agent: AgentDefinition) -> ShellTool | None:
    facts = KNOWN_AGENTS.of(agent)
    # Any other adapter would start it on its real model.
    if facts is None or facts.adapter.name != KNOWN_AGENTS.adapter_name(agent):
        return None
    return facts.shell


async def probe_agent(
    agent: AgentDefinition, tell: Callable[[Step], None] = lambda _: None
) -> ProbeResult:
    """Probe an agent as its registry entry defines it; `tell` is called as each step begins."""
    shell = await anyio.to_thread.run_sync(_shell, agent)
    if shell is None:
        raise UsageError(f"{agent.name} cannot be probed: nothing can stand in for its model.")
    # Asking takes up to two seconds, and some programs write into the user's home even for that.
    version = agent.version or await anyio.to_thread.run_sync(version_of, agent.command)
    base = await anyio.to_thread.run_sync(_create_probe_folder, agent)
    try:
        steps = await _all_steps(agent, shell, base, tell)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(partial(shutil.rmtree, base, ignore_errors=True))
    known = KNOWN_AGENTS.of(agent)
    tested, install = (known.tested, known.install) if known else (None, None)
    return ProbeResult(agent.name, version, tested, steps, install)


async def _all_steps(
    agent: AgentDefinition, shell: ShellTool, base: Path, tell: Callable[[Step], None]
) -> tuple[ProbeStepResult, ...]:
    model = ProbeModel()
    steps: list[ProbeStepResult] = []
    async with (
        RehearsalServer(model) as server,
        OpenProject.open(base / "project", base / "home", server.url) as app,
        anyio.create_task_group() as app.runs,
    ):
        task = ProbeTask(app, server, model, _team(agent))
        steps += await Steps(task, shell).all_steps(tell)
    return tuple(steps)


def _create_probe_folder(agent: AgentDefinition) -> Path:
    """Make a temporary folder with an empty project and a home that registers only this agent."""
    base = Path(tempfile.mkdtemp(prefix=FOLDER)).resolve()
    (base / "project").mkdir()
    save_registry(Registry(registry_path(base / "home")).with_agents(agent))
    return base


def _team(agent: AgentDefinition) -> Team:
    name = agent.name  # so that messages about the member name the agent
    member = Member(id=name, name=name, display_name=name, agent=name)
    return Team(name="probe", members=(member,))
