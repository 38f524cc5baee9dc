"""What an installed CLI can do, found out by having it do it against a stand-in for its model.

Versions of these programs come weekly and none of them promises anything, so "it is installed"
says little.  A probe is a task like any other, in a temporary folder with a registry of its own:
nothing of the user's is read or touched, no token is spent, and what works here works in a team.
"""

from __future__ import annotations

import math
import secrets
import shlex
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Literal, NoReturn, TypeVar

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from coterie.app import App, version_of
from coterie.config.known_agents import family, known_agent
from coterie.config.registry import Registry, registry_path, save_registry
from coterie.errors import CoterieError
from coterie.model import instant
from coterie.model.agent import AgentDefinition
from coterie.model.interaction import Interaction
from coterie.model.message import YOU
from coterie.model.record import (
    DeltaRecord,
    ErrorRecord,
    InteractionRecord,
    MemberRecord,
    MessageRecord,
    Record,
)
from coterie.model.task import Caps
from coterie.model.team import Member, Team
from coterie.rehearsal.dialogue import Answer, Asked, Reply, Said, Silence, ToolCall, reply
from coterie.rehearsal.server import RehearsalServer

Step = Literal["start", "turn", "tool", "permission", "interrupt", "resume"]
STEPS: tuple[Step, ...] = ("start", "turn", "tool", "permission", "interrupt", "resume")
NEEDED: tuple[Step, ...] = ("start", "turn")
"""Without these none of the later ones can be tried."""
PATIENCE = 20.0
"""Seconds for a step: a cold start of the slowest CLI takes five."""

_MEMBER = "probed"
_OWN_ADAPTERS = ("claude", "codex", "gemini")

T = TypeVar("T")


@dataclass(frozen=True)
class Tried:
    """One step of a probe."""

    step: Step
    outcome: Literal["ok", "failed", "not tried"]
    detail: str
    """In a sentence: what was seen, or what went wrong."""
    ms: int = 0


@dataclass(frozen=True)
class Probed:
    """What one CLI, in one version, can do."""

    name: str
    version: str | None
    tested: str | None
    """The version that our own tests run; None for a program that is not known by name."""
    steps: tuple[Tried, ...]
    install: str | None = None

    @property
    def ok(self) -> bool:
        """Whether everything worked."""
        return not self.failures

    @property
    def failures(self) -> tuple[Tried, ...]:
        """The steps that did not work."""
        return tuple(tried for tried in self.steps if tried.outcome == "failed")

    @property
    def message(self) -> str | None:
        """What is wrong with this version, in a sentence; None when nothing is."""
        if self.ok:
            return None
        at = ", ".join(f'"{tried.step}"' for tried in self.failures)
        who = f"{self.name} {self.version or '(unknown version)'}"
        if self.tested and self.version != self.tested:
            return f"{who} is untested (tested: {self.tested}) and failed the probe at {at}."
        return f"{who} failed the probe at {at}."

    @property
    def hint(self) -> str | None:
        """How to come by a version that works, where that may help."""
        return None if self.ok or self.version == self.tested else self.install


def can_be_probed(agent: AgentDefinition) -> bool:
    """Whether a stand-in can take the place of its model, and we know its shell tool."""
    adapter = agent.adapter_in(_OWN_ADAPTERS)
    return adapter in _OWN_ADAPTERS or (adapter == "acp" and family(agent) in _SHELLS)


async def probe(name: str, command: str) -> Probed:
    """Probe a program that is known by name, at the place where it is installed."""
    known = known_agent(name)
    if known is None:
        return await probe_agent(AgentDefinition(name=name, command=command))
    return await probe_agent(known.definition(command, None, instant.now()))


async def probe_agent(
    agent: AgentDefinition, tell: Callable[[Step], None] = lambda _: None
) -> Probed:
    """Probe an agent as its entry in the registry says; `tell` hears which step begins."""
    version = await anyio.to_thread.run_sync(version_of, agent.command)
    base = await anyio.to_thread.run_sync(_furnished, agent)
    model = _Model()
    try:
        async with (
            RehearsalServer(model) as server,
            App.open(base / "project", base / "home", server.url) as app,
            anyio.create_task_group() as group,
        ):
            place = _Place(app, server, model, group, _team(agent))
            steps = await _Probe(place, _shell_of(agent)).all_steps(tell)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(partial(shutil.rmtree, base, ignore_errors=True))
    known = known_agent(family(agent))
    tested, install = (known.tested, known.install) if known else (None, None)
    return Probed(agent.name, version, tested, steps, install)


def _furnished(agent: AgentDefinition) -> Path:
    """A temporary folder with an empty project, and a home whose registry has this agent only."""
    base = Path(tempfile.mkdtemp(prefix="coterie-probe-")).resolve()
    (base / "project").mkdir()
    save_registry(Registry(registry_path(base / "home")).with_agents(agent))
    return base


def _team(agent: AgentDefinition) -> Team:
    member = Member(id=_MEMBER, name=_MEMBER, display_name="Probed", agent=agent.name)
    return Team(name="probe", members=(member,))


# -- each CLI's own shell tool -----------------------------------------------------------------

_WHY = "Coterie probes whether this works."


def _codex(command: str, asks: bool) -> ToolCall:
    # In its sandbox Codex asks nobody; what is to leave it must be approved.
    leave = {"sandbox_permissions": "require_escalated", "justification": _WHY} if asks else {}
    return ToolCall("exec_command", {"cmd": command, **leave})


def _plainly(tool: str, **more: object) -> Callable[[str, bool], ToolCall]:
    def call(command: str, asks: bool) -> ToolCall:
        return ToolCall(tool, {"command": command, "description": _WHY, **more})

    return call


_SHELLS: Mapping[str, Callable[[str, bool], ToolCall]] = {
    "claude": _plainly("Bash"),
    "codex": _codex,
    "gemini": _plainly("run_shell_command"),
    "qwen": _plainly("run_shell_command", is_background=False),
    "opencode": _plainly("bash"),
}
"""By whose flags it understands: a call of its shell, and whether that is to need approval."""


def _shell_of(agent: AgentDefinition) -> Callable[[str, bool], ToolCall]:
    return _SHELLS.get(family(agent), _SHELLS["claude"])


# -- the place ---------------------------------------------------------------------------------


class _Failed(Exception):
    """A step did not work; the reason is a sentence's end."""


class _Model:
    """A brain that answers the next word with what it was given, and tool results with one word."""

    def __init__(self) -> None:
        self.next: Answer = reply("Yes.")

    async def answer(self, asked: Asked) -> Answer:
        """As the step that runs now wants it."""
        return reply("Done.") if asked.results else self.next


class _Place:
    """The task that is probed with, its run, and what is heard of it."""

    def __init__(
        self, app: App, server: RehearsalServer, model: _Model, group: TaskGroup, team: Team
    ) -> None:
        self.app = app
        self.server = server
        self._model = model
        self._group = group
        self._team = team
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._ended.set()
        self.task = ""
        self.trouble = ""
        """What was last told to be wrong: it says more than that nothing came."""

    async def begin(self) -> None:
        """A new task, which waits for our first word."""
        self.task = await self.app.start(
            self._team, "", Caps(max_rounds=1, floor="ask"), rehearsal=True
        )
        self.run()

    def run(self) -> None:
        """Run the task, from where it is."""
        self._scope, self._ended, self.trouble = anyio.CancelScope(), anyio.Event(), ""
        self._saw, self._heard = anyio.create_memory_object_stream[Record](math.inf)
        self._group.start_soon(self._run)

    async def _run(self) -> None:
        try:
            with self._scope, self._saw:
                await self.app.run(self.task, self, patience=None)
        except CoterieError as error:
            self.trouble = str(error)
        finally:
            self._ended.set()

    async def end(self) -> None:
        """End the run and every process of it; the task is kept."""
        self._scope.cancel()
        await self._ended.wait()
        self._heard.close()

    def saw(self, record: Record) -> None:
        """The engine tells what happens (ports.Observer)."""
        if isinstance(record, ErrorRecord):
            self.trouble = record.message
        if not isinstance(record, DeltaRecord):
            self._saw.send_nowait(record)

    async def heard(self, wanted: Callable[[Record], T | None]) -> T:
        """The first thing told from now on that is wanted."""
        async for record in self._heard:
            if _cannot_speak(record):
                break
            found = wanted(record)
            if found is not None:
                return found
        return self._give_up("the task ended before its time")

    def _give_up(self, otherwise: str) -> NoReturn:
        raise _Failed(self.trouble or otherwise)

    async def say(self, word: str, answer: Answer) -> None:
        """Have the member take a turn on this word, in which its model answers so."""
        await self.heard(_our_turn)
        self._model.next = answer
        await self.app.say(self.task, word)

    async def rest(self) -> None:
        """Wait until nothing runs: it is our turn."""
        await self.heard(_our_turn)


def _cannot_speak(record: Record) -> bool:
    asked = record.interaction if isinstance(record, InteractionRecord) else None
    return asked is not None and asked.kind == "Select" and asked.author_actor_id == _MEMBER


def _our_turn(record: Record) -> Interaction | None:
    if isinstance(record, InteractionRecord) and record.state == "open":
        return record.interaction if record.interaction.kind == "Input" else None
    return None


def _opened(record: Record) -> bool | None:
    started = isinstance(record, MemberRecord) and record.state == "working"
    return True if started and record.member == _MEMBER else None


def _reply(record: Record) -> MessageRecord | None:
    spoken = isinstance(record, MessageRecord) and record.member == _MEMBER
    return record if spoken else None


def _reply_or_question(record: Record) -> MessageRecord | Interaction | None:
    asked = record.interaction if isinstance(record, InteractionRecord) else None
    if asked is not None and asked.purpose == "confirm_risky_action":
        return asked if record.state == "open" else None  # pyright: ignore
    return _reply(record)


# -- the steps ---------------------------------------------------------------------------------


class _Probe:
    """The steps, in order; after one that failed the next begins on a new task."""

    def __init__(self, place: _Place, shell: Callable[[str, bool], ToolCall]) -> None:
        self._place = place
        self._shell = shell
        self._word = f"heliotrope-{secrets.token_hex(4)}"

    async def all_steps(self, tell: Callable[[Step], None]) -> tuple[Tried, ...]:
        """Try them all, as far as they can be."""
        tries: Mapping[Step, Callable[[], Awaitable[str]]] = {
            "start": self._start,
            "turn": self._turn,
            "tool": self._tool,
            "permission": self._permission,
            "interrupt": self._interrupt,
            "resume": self._resume,
        }
        tried: list[Tried] = []
        await self._place.begin()
        for step in STEPS:
            lacking = next((t.step for t in tried if t.step in NEEDED and t.outcome != "ok"), None)
            if lacking is not None:
                tried.append(Tried(step, "not tried", f"there is no {lacking} to try it on"))
                continue
            tell(step)
            tried.append(await self._tried(step, tries[step]))
            if tried[-1].outcome == "failed":
                await self._place.end()
                await self._place.begin()
        await self._place.end()
        return tuple(tried)

    async def _tried(self, step: Step, attempt: Callable[[], Awaitable[str]]) -> Tried:
        began = monotonic()

        def ended(outcome: Literal["ok", "failed"], detail: str) -> Tried:
            return Tried(step, outcome, detail, round((monotonic() - began) * 1000))

        with anyio.move_on_after(PATIENCE):
            try:
                return ended("ok", await attempt())
            except (_Failed, CoterieError) as error:
                return ended("failed", str(error))
        trouble = self._place.trouble
        return ended("failed", f"no end within {PATIENCE:g} s" + (f": {trouble}" if trouble else ""))

    async def _start(self) -> str:
        await self._place.say("Which word?", reply(f"My word is {self._word}."))
        await self._place.heard(_opened)
        return "its channel opened"

    async def _turn(self) -> str:
        said = await self._place.heard(_reply)
        if self._word not in said.text:
            raise _Failed("the reply is not what its model said")
        return "the reply of its model came back"

    async def _tool(self) -> str:
        made, call = self._making("tool", asks=False)
        await self._take("Make a file.", call, "approve", made)
        if not await made.exists():
            raise _Failed("its shell tool did not make the file")
        return "its shell tool made a file"

    async def _permission(self) -> str:
        for choice in ("reject", "approve"):
            made, call = self._making(choice, asks=True)
            if not await self._take("Make another file.", call, choice, made):
                raise _Failed("it asked nobody before it ran a command")
            if await made.exists() != (choice == "approve"):
                raise _Failed(f"the answer {choice} did not count")
        return "it asked, and kept to the answer"

    async def _interrupt(self) -> str:
        place = self._place
        number = len(place.server.turns) + 1
        await place.say("Think for long.", Silence())
        await place.server.turn(number)
        await place.app.interrupt(place.task)
        if not (await place.heard(_reply)).cut:
            raise _Failed("the turn was not broken off")
        await place.say("Are you there?", reply(f"I am, {self._word}."))
        said = await place.heard(_reply)
        if said.cut or self._word not in said.text:
            raise _Failed("the turn after the one that was broken off did not work")
        return "the turn was broken off, and the next one worked"

    async def _resume(self) -> str:
        place, word = self._place, f"{self._word}-kept"
        await place.say("Which word do you keep?", reply(f"I keep {word}."))
        await place.heard(_reply)
        await place.rest()
        await place.end()
        place.run()
        await place.say("Which one was it?", reply("You know it."))
        await place.heard(_reply)
        asked = place.server.turns[-1].asked
        said = [item for item in asked.conversation if isinstance(item, Said)] if asked else []
        if not any(word in item.text for item in said):
            raise _Failed("its model was not told again what had been said before")
        return "a new process knew what had been said before"

    def _making(self, name: str, *, asks: bool) -> tuple[anyio.Path, Reply]:
        """A file that is not there, and a model that wants it made."""
        path = self._place.app.root / f"made-{name}-{secrets.token_hex(4)}.txt"
        return anyio.Path(path), Reply((), (self._shell(f"touch {shlex.quote(str(path))}", asks),))

    async def _take(self, word: str, answer: Answer, choice: str, made: anyio.Path) -> int:
        """A turn in which every permission is answered so; how many were asked for."""
        place, asked = self._place, 0
        await place.say(word, answer)
        while isinstance(found := await place.heard(_reply_or_question), Interaction):
            asked += 1
            if await made.exists():
                raise _Failed("it ran the command before the question was answered")
            await place.app.answer(found.interaction_id, choice=choice, text=None, author=YOU)
        return asked
