"""What an installed CLI can do, found out by having it do it against a stand-in for its model.

Versions of these programs come weekly and none of them promises anything, so "it is installed"
says little.  A probe is a task like any other, in a temporary folder with a registry of its own:
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
from coterie.app.probe_steps import FOLDER, Probed, ProbeModel, ProbeTask, Step, Steps, Tried
from coterie.config.registry import Registry, registry_path
from coterie.config.registry_edit import save_registry
from coterie.errors import UsageError
from coterie.model.agent import AgentDefinition, ShellTool
from coterie.model.team import Member, Team
from coterie.rehearsal.server import RehearsalServer


def can_be_probed(agent: AgentDefinition) -> bool:
    """Whether a stand-in can take the task of its model, and we know its shell tool."""
    return _shell(agent) is not None


def _shell(agent: AgentDefinition) -> ShellTool | None:
    facts = KNOWN_AGENTS.of(agent)
    # By any other adapter it would be started on its real model.
    if facts is None or facts.adapter.name != KNOWN_AGENTS.adapter_name(agent):
        return None
    return facts.shell


async def probe_agent(
    agent: AgentDefinition, tell: Callable[[Step], None] = lambda _: None
) -> Probed:
    """Probe an agent as its entry in the registry says; `tell` hears which step begins."""
    shell = await anyio.to_thread.run_sync(_shell, agent)
    if shell is None:
        raise UsageError(f"{agent.name} cannot be probed: nothing can stand in for its model.")
    # Asking costs up to two seconds, and some write into the user's home even for that.
    version = agent.version or await anyio.to_thread.run_sync(version_of, agent.command)
    base = await anyio.to_thread.run_sync(_furnished, agent)
    try:
        steps = await _all_steps(agent, shell, base, tell)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(partial(shutil.rmtree, base, ignore_errors=True))
    known = KNOWN_AGENTS.of(agent)
    tested, install = (known.tested, known.install) if known else (None, None)
    return Probed(agent.name, version, tested, steps, install)


async def _all_steps(
    agent: AgentDefinition, shell: ShellTool, base: Path, tell: Callable[[Step], None]
) -> tuple[Tried, ...]:
    model = ProbeModel()
    steps: list[Tried] = []
    async with (
        RehearsalServer(model) as server,
        OpenProject.open(base / "project", base / "home", server.url) as app,
        anyio.create_task_group() as app.runs,
    ):
        task = ProbeTask(app, server, model, _team(agent))
        steps += await Steps(task, shell).all_steps(tell)
    return tuple(steps)


def _furnished(agent: AgentDefinition) -> Path:
    """A temporary folder with an empty project, and a home whose registry has this agent only."""
    base = Path(tempfile.mkdtemp(prefix=FOLDER)).resolve()
    (base / "project").mkdir()
    save_registry(Registry(registry_path(base / "home")).with_agents(agent))
    return base


def _team(agent: AgentDefinition) -> Team:
    name = agent.name  # so that what is told of the member reads as told of the agent
    member = Member(id=name, name=name, display_name=name, agent=name)
    return Team(name="probe", members=(member,))
