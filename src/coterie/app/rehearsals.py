"""Rehearsals: what answers in place of models, and which agents are replaced altogether."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import anyio
import anyio.to_thread

from coterie.agents.table import KNOWN_AGENTS
from coterie.config.files import read_document
from coterie.config.registry import Registry
from coterie.config.registry_edit import agent_location
from coterie.config.team_members import agents_of
from coterie.engine.run import plain_errors
from coterie.model import instant
from coterie.model.agent import GENERIC, AgentDefinition, Capabilities
from coterie.model.journal import AppendThread, Turn
from coterie.model.task import DEMO, TaskCreated
from coterie.model.team import Member, Team
from coterie.ports import Storage
from coterie.rehearsal import stand_in
from coterie.rehearsal.script import ScriptedResponder, ScriptedTurn
from coterie.rehearsal.wire import address_for

if TYPE_CHECKING:
    from coterie.rehearsal.model_api import Responder
    from coterie.rehearsal.script import Script

ReplacementReason = Literal["unknown", "missing"]
"""Why a program replaces an agent: it cannot be pointed at another model, or is not installed."""


def agents_to_replace(team: Team, registry: Registry) -> dict[str, ReplacementReason]:
    """Like `replaced_agents`, for a team to be started with the agents of the registry."""
    return replaced_agents(team, registry.with_agents(*agents_of(team).values()).agents)


def replaced_agents(
    team: Team, agents: Mapping[str, AgentDefinition]
) -> dict[str, ReplacementReason]:
    """Return the agents of a team that a rehearsal replaces, by name, with the reason.  Looks for
    programs."""
    used = {member.agent for member in team.ai_members}
    replaced: dict[str, ReplacementReason] = {}
    for name, agent in agents.items():
        if name not in used:
            continue
        facts = KNOWN_AGENTS.of(agent)
        own = facts is not None and facts.adapter.name == KNOWN_AGENTS.adapter_name(agent)
        if not own or facts is None or (facts.shell is None and facts.is_program):
            replaced[name] = "unknown"
        elif agent_location(KNOWN_AGENTS, agent) is None or (
            facts.needs and not find_spec(facts.needs)
        ):
            replaced[name] = "missing"
    return replaced


def replacement_for(agent: AgentDefinition, member: Member, address: str) -> AgentDefinition:
    """Return the program that replaces a member's agent, under the agent's name."""
    may_write = member.permissions.mode != "read"
    rights = stand_in.MAY_WRITE if may_write else stand_in.READS_ONLY
    return AgentDefinition(
        name=agent.name,
        display_name=agent.display_name,
        command=sys.executable,
        base_args=("-I", "-S", stand_in.__file__, address, rights),
        capabilities=Capabilities(completion_detection="jsonl", completion_types=("result",)),
        adapter=GENERIC,
    )


def member_address(url: str, workflow: str, member: Member) -> str:
    """Return the address at which a member's agent finds the stand-in for its model."""
    return address_for(url, workflow, member.id)


@asynccontextmanager
async def served(created: TaskCreated, storage: Storage) -> AsyncGenerator[str]:
    """Serve the stand-in for a task's models for the length of the block; yields its address."""
    from coterie.rehearsal.prompt_facts import clarifying_question
    from coterie.rehearsal.server import RehearsalServer
    from coterie.rehearsal.simulation import Simulation

    # A user who said yes beforehand wants the task to finish without questions.
    question = "" if created.caps.yes else clarifying_question(created.goal)
    responder: Responder = Simulation(question)
    if created.script == DEMO:
        responder = await anyio.to_thread.run_sync(_demo_shop)
    elif created.script is not None:
        script = await anyio.to_thread.run_sync(script_in, Path(created.script))
        responder = ScriptedResponder(script, responder, _ScriptMemory(created, storage))
    with plain_errors():
        async with RehearsalServer(responder) as server:
            yield server.url


def _demo_shop() -> Responder:
    from coterie.rehearsal.demo_shop import DemoShop  # reads the files of the demo

    return DemoShop()


class _ScriptMemory:
    """`rehearsal.script.ScriptMemory` in a task's database, as a thread of the task."""

    def __init__(self, created: TaskCreated, storage: Storage) -> None:
        self._task = created.task_id
        self._session = created.session_id
        self._storage = storage
        self._thread = f"rehearsal/{created.task_id}"
        self._count = 0
        self._writing = anyio.Lock()

    async def past(self) -> Sequence[ScriptedTurn]:
        """Return the scripted turns so far.

        The last reply in a turn that was cut may have reached nobody, so it is given again; earlier
        replies in that turn are in the agent's history.
        """
        stored = await self._storage.conversation.thread(self._thread)
        entries = [json.loads(entry) for entry in stored]
        self._count = len(entries)
        again = {entry["again"] for entry in entries if "again" in entry}
        for number in await self._cut(entries) - again:
            await self._append({"again": number})
            again.add(number)
        return [
            ScriptedTurn(tuple(entry["fitted"]), entry["rule"], entry["member"])
            for number, entry in enumerate(entries)
            if "again" not in entry and number not in again
        ]

    async def keep(self, turn: ScriptedTurn) -> None:
        """Store one more scripted turn."""
        await self._append({**asdict(turn), "at": instant.now()})

    async def _append(self, entry: Mapping[str, object]) -> None:
        async with self._writing:
            self._count += 1
            write = AppendThread(self._task, self._thread, self._count, json.dumps(entry))
            await self._storage.commit(None, write)

    async def _cut(self, entries: Sequence[Mapping[str, Any]]) -> set[int]:
        """Return the numbers of the last replies in turns whose outcome is unknown."""
        numbers: set[int] = set()
        for row in await self._storage.events.tasks():
            if row.session_id == self._session:
                for turn in await self._storage.journal.turns(row.id):
                    numbers |= _last_within(turn, entries)
        return numbers


def _last_within(turn: Turn, entries: Sequence[Mapping[str, Any]]) -> set[int]:
    if turn.outcome not in (None, "unknown"):
        return set()
    until = turn.closed_at or "~"
    within = [
        number
        for number, entry in enumerate(entries)
        if entry.get("member") == turn.member and turn.opened_at <= entry["at"] < until
    ]
    return set(within[-1:])


def script_in(path: Path) -> Script:
    """Read the script of a rehearsal from a file; raises ConfigError if it is not one.  Blocks."""
    from coterie.rehearsal.script import parse_script

    return parse_script(read_document(path).data, str(path))
