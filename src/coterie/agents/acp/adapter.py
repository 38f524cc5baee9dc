"""The adapter for agents of the Agent Client Protocol: a registry entry is all it needs.

Nothing can be written into the home of an unknown program: it gets an empty one, an environment
without keys, and its role in front of its first message.  A vendor whose program would run what a
repository contains has a package of its own that prevents that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import anyio
import anyio.to_thread

from coterie import __version__
from coterie.agents.acp.calls import AcpCall
from coterie.agents.acp.channel import AcpChannel, AcpSession, TeamTools, served
from coterie.agents.acp.turn import SIGNED_OUT, Failures, ways_to_sign_in, words_of
from coterie.agents.fields import exact_text, mapping, mappings, text
from coterie.agents.process import AgentProcess, JsonRpc, Object, RpcError
from coterie.agents.program import CannotOpen, OneShotChannel, ProgramAdapter, open_or_end
from coterie.model.agent import AgentDefinition
from coterie.model.team import Member
from coterie.model.workspace import InteractiveStart, Workspace
from coterie.workspace import homes

REHEARSAL_MODEL = "rehearsal"
_REAL = "OPENAI|ANTHROPIC|GEMINI|GOOGLE|OPENROUTER|DASHSCOPE"
"""The vendors whose variables might lead a rehearsal to a real model."""


@dataclass(frozen=True)
class AcpHome:
    """What an agent is started with for one member, and how a session with it is opened."""

    cwd: Path
    """Its working directory, with links resolved."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    args: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    """Names of the project's instruction files that it is kept from reading by itself."""
    introduction: str = ""
    """Text put in front of the first message of a thread."""
    reads_only: bool = False
    """Whether it has no tools that write, so that it needs no read-only mode."""
    tools_as_commands: bool = False
    """Whether its home says how to call our tools, because it would start no server for them."""
    sign_in: str = ""
    """What a person does to sign in; if empty, what the agent itself says."""
    problem: str | None = None
    """Why it must not be started here."""
    memory: Path | None = None
    """The instruction file in its home that it reads by itself: written only for a person, because
    an agent driven by Coterie gets its role through the protocol, and must not get it twice."""
    model_flag: str | None = None
    """The flag that takes the model, for a person; Coterie sets it through the protocol."""


SetUp = Callable[[Member, Workspace, Path], AcpHome]
"""Writes a member's home for a program; the path is the member's working directory."""


def no_setup(_member: Member, _workspace: Workspace, cwd: Path) -> AcpHome:
    """Set up an unknown program."""
    return AcpHome(cwd)


def prepare(member: Member, workspace: Workspace, set_up: SetUp = no_setup) -> AcpHome:
    """Rewrite the member's home on every start, so that edits to the team take effect."""
    home = set_up(member, workspace, workspace.execution_dir.resolve())
    briefing = homes.briefing(member, workspace, home.documents)
    introduction = f"[SYSTEM]\n{briefing}\n\n" if briefing else ""
    if home.memory is not None and workspace.tools is None:
        homes.write_private(home.memory, f"{briefing}\n")
    elif home.memory is not None:
        homes.remove_private(home.memory)
    return replace(home, env={**home.env, **_environment(workspace)}, introduction=introduction)


def _environment(workspace: Workspace) -> dict[str, str]:
    if workspace.rehearsal is None:
        return dict(workspace.env)
    url = workspace.rehearsal
    login = {
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": homes.REHEARSAL_KEY,
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": homes.REHEARSAL_KEY,
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": homes.REHEARSAL_KEY,
    }
    return homes.rehearsal_env(workspace.env, _REAL, login)


VERSION = 1
"""The only version of the protocol that is offered: version 2 is just a draft."""
_HEAD = 8


@dataclass(frozen=True)
class AcpOpening:
    """How to open a session."""

    adapter: AcpAdapter
    member: Member
    home: AcpHome

    async def open(self, process: AgentProcess, tools: TeamTools) -> AcpChannel:
        """Open a channel on this process, which is ended if that fails."""
        tools.socket.divert(process.put)
        return await open_or_end(process, self._channel(JsonRpc(process), tools), _brief)

    async def _channel(self, rpc: JsonRpc, tools: TeamTools) -> AcpChannel:
        servers = [] if self.home.tools_as_commands else tools.socket.servers
        try:
            return AcpChannel(rpc, await self._opened(rpc, servers), tools)
        except RpcError as error:
            raise CannotOpen(f"it refused {error.method}: {words_of(error)}") from error

    async def _opened(self, rpc: JsonRpc, servers: list[Object]) -> AcpSession:
        initialized = await self._handshake(rpc)
        failures = Failures(
            self.adapter.agent.name, self.home.sign_in or ways_to_sign_in(initialized)
        )
        cwd = str(self.home.cwd)
        session = AcpSession("", cwd, self.home.introduction, failures, self.adapter.call_type)
        try:
            new = await rpc.request("session/new", {"cwd": cwd, "mcpServers": servers})
        except RpcError as error:
            if error.code != SIGNED_OUT:
                raise
            return replace(session, refusal=failures.signed_out(words_of(error)))
        session = replace(session, id=text(new.get("sessionId")))
        for choice in self._choices(new):
            await rpc.request(choice.method, {"sessionId": session.id, **choice.params})
        return session

    async def _handshake(self, rpc: JsonRpc) -> Object:
        client = {"name": "coterie", "title": "Coterie", "version": __version__}
        # Neither files nor terminals are offered: the agent's own are audited anyway.
        hello = {"protocolVersion": VERSION, "clientCapabilities": {}, "clientInfo": client}
        initialized = await rpc.request("initialize", hello)
        spoken = initialized.get("protocolVersion")
        if spoken != VERSION:
            protocol = "the Agent Client Protocol"
            problem = f"it speaks version {spoken} of {protocol}; Coterie needs {VERSION}"
            raise CannotOpen(problem)
        return initialized

    def _choices(self, new: Object) -> list[Choice]:
        """Return what to set before the first turn."""
        chosen: list[Choice] = []
        if self.member.permissions.mode == "read" and not self.home.reads_only:
            chosen += mode_for_reading(new)
        model = self.adapter.model_by_protocol(self.member)
        if model is not None:
            chosen.append(model_named(model, new))
        return chosen


def _brief(tail: str) -> str:
    """Keep the start and end of what an agent wrote: some print their whole help in between."""
    lines = tail.splitlines()
    return "\n".join([*lines[:_HEAD], "…", *lines[-_HEAD:]] if len(lines) > 2 * _HEAD else lines)


_PROTOCOL = re.compile(r"(?:--)?(?:experimental-)?acp")
"""The arguments that make programs speak the protocol instead of serving a person."""
_READING = re.compile(r"(?:.*[#/])?(plan|read-?only)", re.IGNORECASE)
"""What agents call the mode in which they change nothing; some give a URI."""
_SHOWN = 12
"""How many models an error lists when the requested one is not offered."""


@dataclass(frozen=True)
class Choice:
    """One setting for a session, and the request that makes it."""

    value: str
    name: str
    """Its display name."""
    method: str
    params: Object


def model_named(model: str, new: Object) -> Choice:
    """Return the choice of the member's model among those that a new session offers."""
    offers = list(_offers(new, "model", "models", "availableModels", "modelId"))
    for offer in offers:
        if model in (offer.value, offer.name) or offer.value.endswith(f"/{model}"):
            return offer
    if not offers:
        raise CannotOpen(f'it offers no choice of models, so "{model}" cannot be set')
    names = ", ".join(offer.value for offer in offers[:_SHOWN])
    raise CannotOpen(f'it has no model "{model}"; it has {names}')


def mode_for_reading(new: Object) -> list[Choice]:
    """Return the choice of a new session's read-only mode; empty if it offers none."""
    offers = _offers(new, "mode", "modes", "availableModes", "id")
    return [offer for offer in offers if _READING.fullmatch(offer.value)][:1]


def _offers(new: Object, category: str, old: str, listed: str, key: str) -> Iterator[Choice]:
    """Yield the choices of a category: from the session's options, else from the older list."""
    option = next(
        (each for each in mappings(new.get("configOptions")) if each.get("category") == category),
        None,
    )
    if option is not None:
        for offer in _flat(mappings(option.get("options"))):
            value = text(offer.get("value"))
            params: Object = {"configId": exact_text(option.get("id")), "value": value}
            yield Choice(value, text(offer.get("name")), "session/set_config_option", params)
        return
    for offer in mappings(mapping(new.get(old)).get(listed)):
        value = text(offer.get(key))
        name, params = text(offer.get("name")), {f"{category}Id": value}
        yield Choice(value, name, f"session/set_{category}", params)


def _flat(options: list[Object]) -> Iterator[Object]:
    """Flatten options, which may be grouped."""
    for option in options:
        yield from mappings(option.get("options")) or [option]


@dataclass(frozen=True)
class AcpAdapter(ProgramAdapter):
    """Opens members' channels to an agent that speaks the protocol."""

    set_up: ClassVar[SetUp] = staticmethod(no_setup)
    """Set by the vendor's package for a known program."""
    call_type: ClassVar[type[AcpCall]] = AcpCall
    """The same: how to read what it says about its calls."""

    @classmethod
    def prepare(cls, member: Member, workspace: Workspace) -> AcpHome:
        """Write a member's home.  Blocks."""
        return prepare(member, workspace, cls.set_up)

    @classmethod
    def interactive(
        cls, agent: AgentDefinition, member: Member, workspace: Workspace
    ) -> InteractiveStart:
        home = cls.prepare(member, workspace)
        flag = agent.capabilities.model_flag or home.model_flag
        model = (flag, member.model) if flag and member.model else ()
        base_args = (word for word in agent.base_args if not _PROTOCOL.fullmatch(word))
        words = (*base_args, *home.args, *model, *member.additional_args)
        return InteractiveStart(words, home.env, has_role=home.memory is not None)

    async def open(
        self, member: Member, workspace: Workspace, thread: str | None
    ) -> AcpChannel | OneShotChannel:
        """Open a channel on a new thread: agents' own stores of threads are not relied on."""
        async with served(self, member, workspace) as tools:
            with_tools = replace(workspace, tools=tools.socket.commands)
            home = await anyio.to_thread.run_sync(self.prepare, member, with_tools)
            if home.problem is not None:
                raise self.missing(member, workspace, home.problem)
            process = await self.launch(member, workspace, home)
            channel = await AcpOpening(self, member, home).open(process, tools)
            # We cannot assume that an unknown program asks before it writes.
            channel.asks_first = type(self).set_up is not no_setup
            return channel

    def model_by_protocol(self, member: Member) -> str | None:
        """Return the model to set in a session; None if a flag sets it, or there is none."""
        return None if self.agent.capabilities.model_flag else member.model

    async def launch(
        self, member: Member, workspace: Workspace, home: AcpHome, *call: str
    ) -> AgentProcess:
        """Start the agent; `call` holds arguments that select another way of calling it."""
        flag = self.agent.capabilities.model_flag
        model = (flag, member.model) if flag and member.model else ()
        words = (*self.agent.base_args, *home.args, *model, *member.additional_args)
        return await self.start(member, workspace, home.cwd, home.env, *call, *words)
