"""The adapter for agents of the Agent Client Protocol: a registry entry is all it needs.

Of a program nobody here knows, nothing can be written into its home: it gets an empty one, an
environment without keys, and who it is in front of its first message.  A vendor whose program would
run what a repository brings along says in a package of its own how to keep it from that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import anyio.to_thread

from coterie import __version__
from coterie.agents.acp.channel import (
    AcpChannel,
    AcpSession,
    Choice,
    NoSuchModel,
    TeamTools,
    mode_for_reading,
    model_named,
    served,
)
from coterie.agents.acp.turn import SIGNED_OUT, Failures, ways_to_sign_in, words_of
from coterie.agents.fields import mapping, text
from coterie.agents.process import (
    AgentProcess,
    AgentProcessEnded,
    JsonRpc,
    Object,
    ProcessStart,
    RpcError,
)
from coterie.agents.program import ProgramAdapter
from coterie.errors import AgentMissing
from coterie.model.team import Member, Mode
from coterie.model.workspace import Workspace
from coterie.workspace.homes import (
    REHEARSAL_KEY,
    TEAM_INSTRUCTION,
    briefing,
    instruction_text,
    write_instruction,
)

REHEARSAL_MODEL = "rehearsal"
_REHEARSING = ("OPENAI", "ANTHROPIC", "GEMINI", "GOOGLE", "OPENROUTER", "DASHSCOPE")
"""Whose variables might lead a rehearsal to a real model."""


@dataclass(frozen=True)
class ProgramSetup:
    """What is peculiar to one program, for one member."""

    env: Mapping[str, str] = field(default_factory=dict[str, str])
    args: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    """Instructions of the material that it was kept from reading by itself."""
    reads_only: bool = False
    """Whether it has no tool that writes."""
    takes_commands: bool = False
    """Whether its home says how to call our tools, as it would start no server for them."""
    problem: str | None = None
    """Why it must not be started here."""


SetUp = Callable[[Member, Workspace, Path], ProgramSetup]
"""Writes what a program is to find in a member's home; the path is where the member works."""


@dataclass(frozen=True)
class AcpHome:
    """What an agent's process is started with."""

    cwd: Path
    """Where it works, without links."""
    env: Mapping[str, str]
    setup: ProgramSetup
    introduction: str = ""
    """What stands in front of the first message of a thread."""


def nothing_known(_member: Member, _workspace: Workspace, _cwd: Path) -> ProgramSetup:
    """The setup of a program that nobody here knows."""
    return ProgramSetup()


def prepare(member: Member, workspace: Workspace, set_up: SetUp = nothing_known) -> AcpHome:
    """Write what the agent is to find, each time anew, so that edits of the team reach it."""
    cwd = workspace.execution_dir.resolve()
    reference = f"What everyone in the team is told stands in {TEAM_INSTRUCTION}: read it first."
    write_instruction(workspace.folder / "AGENTS.md", instruction_text(member, reference))
    setup = set_up(member, workspace, cwd)
    told = briefing(member, workspace, setup.documents)
    return AcpHome(
        cwd=cwd,
        env={**_environment(workspace), **setup.env},
        setup=setup,
        introduction=f"[SYSTEM]\n{told}\n\n" if told else "",
    )


def _environment(workspace: Workspace) -> dict[str, str]:
    if workspace.rehearsal is None:
        return dict(workspace.env)
    kept = {
        name: value for name, value in workspace.env.items() if not name.startswith(_REHEARSING)
    }
    url, direct = workspace.rehearsal, "127.0.0.1,localhost"
    return {
        **kept,
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": REHEARSAL_KEY,
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": REHEARSAL_KEY,
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": REHEARSAL_KEY,
        "NO_PROXY": direct,
        "no_proxy": direct,
    }


START = 60.0
"""How long an agent may take to start and open a session; in practice a few seconds."""
VERSION = 1
"""The one version of the protocol that is offered: of version 2 there is only a draft."""
_HEAD = 8


@dataclass(frozen=True)
class AcpOpening:
    """How a session is to be opened."""

    name: str
    cwd: str
    mode: Mode
    introduction: str = ""
    model: str | None = None
    """To be chosen by protocol; None where a flag said it, or nobody did."""
    sign_in: str = ""
    """What a person does to sign in; empty: what the agent itself says."""
    reads_only: bool = False
    """Whether it was given no tool that writes, so that it needs no mode for that."""
    takes_servers: bool = True
    """Whether it is to start our tools as a server; else its home says how to call them."""

    async def on(self, process: AgentProcess, tools: TeamTools) -> AcpChannel:
        """A channel on this process, which is ended if there will be none."""
        rpc = JsonRpc(process)
        tools.divert(process.put)
        servers = tools.servers if self.takes_servers else []
        try:
            with anyio.move_on_after(START):
                return AcpChannel(rpc, await self._opened(rpc, servers), tools)
            problem = f"it did not open a session within {START:g} s"
        except RpcError as error:
            problem = f"it refused {error.method}: {words_of(error)}"
        except AgentProcessEnded as end:
            problem = f"it ended with exit code {end.exit_code}"
        except NoSuchModel as error:
            problem = str(error)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await process.close()
            raise
        await process.close()
        raise self._missing(process, problem)

    async def _opened(self, rpc: JsonRpc, servers: list[Object]) -> AcpSession:
        greeted = await self._greeted(rpc)
        failures = Failures(self.name, self.sign_in or ways_to_sign_in(greeted))
        version = text(mapping(greeted.get("agentInfo")).get("version"))
        session = AcpSession("", self.cwd, version, self.introduction, failures)
        try:
            new = await rpc.request("session/new", {"cwd": self.cwd, "mcpServers": servers})
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
            raise self._missing(rpc.process, problem)
        return greeted

    def _choices(self, new: Object) -> list[Choice]:
        """What is to be set before the first turn."""
        chosen: list[Choice] = []
        if self.mode == "read" and not self.reads_only:
            chosen += mode_for_reading(new)
        if self.model is not None:
            chosen.append(model_named(self.model, new))
        return chosen

    def _missing(self, process: AgentProcess, problem: str) -> AgentMissing:
        spawn = process.child.spawn
        told = f"{problem}\n{_brief(process.tail)}" if process.tail else problem
        return AgentMissing(spawn.member, spawn.folder, spawn.command, told)


def _brief(tail: str) -> str:
    """The beginning and the end of what an agent said: some print all their help in between."""
    lines = tail.splitlines()
    return "\n".join([*lines[:_HEAD], "…", *lines[-_HEAD:]] if len(lines) > 2 * _HEAD else lines)


# -- the adapter for agents of the Agent Client Protocol ---------------------------------------


@dataclass(frozen=True)
class AcpAdapter(ProgramAdapter):
    """Opens members' channels to an agent that speaks the protocol."""

    @staticmethod
    def set_up(member: Member, workspace: Workspace, cwd: Path) -> ProgramSetup:
        """Write what this program is to find in the member's home; a vendor's adapter overrides."""
        return nothing_known(member, workspace, cwd)

    @classmethod
    def environment(cls, member: Member, workspace: Workspace) -> Mapping[str, str]:
        """Prepare a member's home; returns the environment to start its CLI in by hand.  Blocks."""
        return prepare(member, workspace, cls.set_up).env

    async def open(self, member: Member, workspace: Workspace, thread: str | None) -> AcpChannel:
        """A channel on a new thread: an agent's own store of threads is not relied on."""
        async with served(self, member, workspace) as tools:
            furnished = replace(workspace, tools=tools.commands)
            home = await anyio.to_thread.run_sync(prepare, member, furnished, self.set_up)
            if home.setup.problem is not None:
                raise self.missing(member, workspace, home.setup.problem)
            flag = self.agent.capabilities.model_flag
            opening = AcpOpening(
                name=self.agent.name,
                cwd=str(home.cwd),
                mode=member.permissions.mode,
                introduction=home.introduction,
                model=None if flag else member.model,
                reads_only=home.setup.reads_only,
                takes_servers=not home.setup.takes_commands,
            )
            return await opening.on(
                await AgentProcess.open(self._starting(member, workspace, home)), tools
            )

    def _starting(self, member: Member, workspace: Workspace, home: AcpHome) -> ProcessStart:
        flag = self.agent.capabilities.model_flag
        model = (flag, member.model) if flag and member.model else ()
        words = (*self.agent.base_args, *home.setup.args, *model, *member.additional_args)
        return self.starting(member, workspace, home.cwd, home.env, *words)
