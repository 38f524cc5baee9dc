"""The adapter for agents of the Agent Client Protocol: a registry entry is all it needs.

Of a program nobody here knows, nothing can be written into its home: it gets an empty one, an
environment without keys, and who it is in front of its first message.  A vendor whose program would
run what a repository brings along says in a package of its own how to keep it from that.
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
from coterie.agents.acp.channel import AcpChannel, AcpSession, TeamTools, served
from coterie.agents.acp.turn import SIGNED_OUT, Failures, ways_to_sign_in, words_of
from coterie.agents.fields import mapping, mappings, text
from coterie.agents.process import AgentProcess, JsonRpc, Object, RpcError
from coterie.agents.program import CannotOpen, OneShotChannel, ProgramAdapter, opened_on
from coterie.model.agent import AgentDefinition
from coterie.model.team import Member, Mode
from coterie.model.workspace import InteractiveStart, Workspace
from coterie.workspace import homes

REHEARSAL_MODEL = "rehearsal"
_REAL = "OPENAI|ANTHROPIC|GEMINI|GOOGLE|OPENROUTER|DASHSCOPE"
"""Whose variables might lead a rehearsal to a real model."""


@dataclass(frozen=True)
class AcpHome:
    """What an agent is started with for one member, and how a session with it is opened."""

    cwd: Path
    """Where it works, without links."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    args: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    """Instructions of the material that it was kept from reading by itself."""
    introduction: str = ""
    """What stands in front of the first message of a thread."""
    reads_only: bool = False
    """Whether it has no tool that writes, so that it needs no mode for that."""
    takes_commands: bool = False
    """Whether its home says how to call our tools, as it would start no server for them."""
    sign_in: str = ""
    """What a person does to sign in; empty: what the agent itself says."""
    problem: str | None = None
    """Why it must not be started here."""
    memory: Path | None = None
    """The file of its home that it reads by itself: there is nothing but for a person, because
    whom Coterie speaks to is told its role by the protocol, and never twice."""
    model_flag: str | None = None
    """The flag that takes the model, for a person; Coterie chooses it by the protocol."""


SetUp = Callable[[Member, Workspace, Path], AcpHome]
"""Writes what a program is to find in a member's home; the path is where the member works."""


def nothing_known(_member: Member, _workspace: Workspace, cwd: Path) -> AcpHome:
    """The setup of a program that nobody here knows."""
    return AcpHome(cwd)


def prepare(member: Member, workspace: Workspace, set_up: SetUp = nothing_known) -> AcpHome:
    """Write what the agent is to find, each time anew, so that edits of the team reach it."""
    home = set_up(member, workspace, workspace.execution_dir.resolve())
    told = homes.briefing(member, workspace, home.documents)
    introduction = f"[SYSTEM]\n{told}\n\n" if told else ""
    if home.memory is not None and workspace.tools is None:
        homes.write_private(home.memory, f"{told}\n")
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
"""The one version of the protocol that is offered: of version 2 there is only a draft."""
_HEAD = 8


@dataclass(frozen=True)
class AcpOpening:
    """How a session is to be opened."""

    name: str
    home: AcpHome
    mode: Mode
    model: str | None = None
    """To be chosen by protocol; None where a flag said it, or nobody did."""

    async def on(self, process: AgentProcess, tools: TeamTools) -> AcpChannel:
        """A channel on this process, which is ended if there will be none."""
        tools.listening.divert(process.put)
        return await opened_on(process, self._channel(JsonRpc(process), tools), _brief)

    async def _channel(self, rpc: JsonRpc, tools: TeamTools) -> AcpChannel:
        servers = [] if self.home.takes_commands else tools.listening.servers
        try:
            return AcpChannel(rpc, await self._opened(rpc, servers), tools)
        except RpcError as error:
            raise CannotOpen(f"it refused {error.method}: {words_of(error)}") from error

    async def _opened(self, rpc: JsonRpc, servers: list[Object]) -> AcpSession:
        greeted = await self._greeted(rpc)
        failures = Failures(self.name, self.home.sign_in or ways_to_sign_in(greeted))
        cwd = str(self.home.cwd)
        session = AcpSession("", cwd, self.home.introduction, failures)
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

    async def _greeted(self, rpc: JsonRpc) -> Object:
        client = {"name": "coterie", "title": "Coterie", "version": __version__}
        # Neither files nor terminals are offered: the agent's own are audited all the same.
        hello = {"protocolVersion": VERSION, "clientCapabilities": {}, "clientInfo": client}
        greeted = await rpc.request("initialize", hello)
        spoken = greeted.get("protocolVersion")
        if spoken != VERSION:
            problem = f"it speaks version {spoken} of the Agent Client Protocol, Coterie {VERSION}"
            raise CannotOpen(problem)
        return greeted

    def _choices(self, new: Object) -> list[Choice]:
        """What is to be set before the first turn."""
        chosen: list[Choice] = []
        if self.mode == "read" and not self.home.reads_only:
            chosen += mode_for_reading(new)
        if self.model is not None:
            chosen.append(model_named(self.model, new))
        return chosen


def _brief(tail: str) -> str:
    """The beginning and the end of what an agent said: some print all their help in between."""
    lines = tail.splitlines()
    return "\n".join([*lines[:_HEAD], "…", *lines[-_HEAD:]] if len(lines) > 2 * _HEAD else lines)


_PROTOCOL = re.compile(r"(?:--)?(?:experimental-)?acp")
"""The words by which programs are told to speak the protocol, and not to a person."""
_READING = re.compile(r"(?:.*[#/])?(plan|read-?only)", re.IGNORECASE)
"""How agents call the mode in which they change nothing; some give it as an address."""
_SHOWN = 12
"""So many models are named where the one that was asked for is not among them."""


@dataclass(frozen=True)
class Choice:
    """One thing to choose for a session, and the request that does it."""

    value: str
    name: str
    """What people call it."""
    method: str
    params: Object


def model_named(model: str, new: Object) -> Choice:
    """The model that a member was given, among those of a new session."""
    offers = list(_offers(new, "model", "models", "availableModels", "modelId"))
    for offer in offers:
        if model in (offer.value, offer.name) or offer.value.endswith(f"/{model}"):
            return offer
    if not offers:
        raise CannotOpen(f'it has no way to be told of the model "{model}"')
    names = ", ".join(offer.value for offer in offers[:_SHOWN])
    raise CannotOpen(f'it has no model "{model}"; it has {names}')


def mode_for_reading(new: Object) -> list[Choice]:
    """The mode of a new session in which nothing is changed; none where there is none."""
    offers = _offers(new, "mode", "modes", "availableModes", "id")
    return [offer for offer in offers if _READING.fullmatch(offer.value)][:1]


def _offers(new: Object, category: str, old: str, listed: str, key: str) -> Iterator[Choice]:
    """What there is to choose: by the options of a session, else by the older list."""
    option = next(
        (each for each in mappings(new.get("configOptions")) if each.get("category") == category),
        None,
    )
    if option is not None:
        for given in _flat(mappings(option.get("options"))):
            value = text(given.get("value"))
            params: Object = {"configId": option.get("id"), "value": value}
            yield Choice(value, text(given.get("name")), "session/set_config_option", params)
        return
    for given in mappings(mapping(new.get(old)).get(listed)):
        value = text(given.get(key))
        name, params = text(given.get("name")), {f"{category}Id": value}
        yield Choice(value, name, f"session/set_{category}", params)


def _flat(options: list[Object]) -> Iterator[Object]:
    """Options, out of the groups they may stand in."""
    for option in options:
        yield from mappings(option.get("options")) or [option]


@dataclass(frozen=True)
class AcpAdapter(ProgramAdapter):
    """Opens members' channels to an agent that speaks the protocol."""

    set_up: ClassVar[SetUp] = staticmethod(nothing_known)
    """Of a program that is known, its vendor's package says."""

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
        given = (word for word in agent.base_args if not _PROTOCOL.fullmatch(word))
        words = (*given, *home.args, *model, *member.additional_args)
        return InteractiveStart(words, home.env, is_told=home.memory is not None)

    async def open(
        self, member: Member, workspace: Workspace, thread: str | None
    ) -> AcpChannel | OneShotChannel:
        """A channel on a new thread: an agent's own store of threads is not relied on."""
        async with served(self, member, workspace) as tools:
            furnished = replace(workspace, tools=tools.listening.commands)
            home = await anyio.to_thread.run_sync(self.prepare, member, furnished)
            if home.problem is not None:
                raise self.missing(member, workspace, home.problem)
            model, mode = self.model_by_protocol(member), member.permissions.mode
            process = await self.launch(member, workspace, home)
            channel = await AcpOpening(self.agent.name, home, mode, model).on(process, tools)
            # Of a program nobody knows, nobody knows whether it asks before it writes.
            channel.asks_first = type(self).set_up is not nothing_known
            return channel

    def model_by_protocol(self, member: Member) -> str | None:
        """The model that a session is told of; None where a flag says it, or nobody does."""
        return None if self.agent.capabilities.model_flag else member.model

    async def launch(
        self, member: Member, workspace: Workspace, home: AcpHome, *call: str
    ) -> AgentProcess:
        """Start the agent; `call` are words that choose another way of calling."""
        flag = self.agent.capabilities.model_flag
        model = (flag, member.model) if flag and member.model else ()
        words = (*self.agent.base_args, *home.args, *model, *member.additional_args)
        return await self.start(member, workspace, home.cwd, home.env, *call, *words)
