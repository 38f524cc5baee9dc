"""The adapter for Codex: starts its app-server in a home of its own and opens a thread there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from coterie import __version__
from coterie.agents.codex import FACTS, channel
from coterie.agents.codex.home import NETWORK, PROFILE, CodexHome, Leftovers, prepare, toml_value
from coterie.agents.codex.permits import CommandPermits
from coterie.agents.codex.turn import SIGNED_OUT, Tokens, readable
from coterie.agents.fields import exact_text, mapping, mappings, text
from coterie.agents.process import AgentProcess, AgentProcessEnded, JsonRpc, Object, RpcError
from coterie.agents.program import CannotOpen, ProgramAdapter, RefusedChannel, open_or_end
from coterie.agents.team_tools.serving import Serving, Tool
from coterie.model.agent import AgentDefinition
from coterie.model.team import Member
from coterie.model.workspace import InteractiveStart, Workspace
from coterie.tools.read_only_sandbox import read_only_sandbox
from coterie.tools.run_command import CommandRunner
from coterie.workspace.durable_git_guard import DurableGitGuard

_MODEL = ("-m", "--model")


def passed_on(arguments: Sequence[str]) -> tuple[str, ...]:
    """Drop arguments that the adapter chooses; a model becomes a setting, which always works."""
    kept: list[str] = []
    rest = list(FACTS.flags.passed_on(arguments))
    while rest:
        flag, equals, value = rest.pop(0).partition("=")
        if flag in _MODEL:
            model = value if equals or not rest else rest.pop(0)
            kept += ["-c", f"model={toml_value(model)}"]
        else:
            kept.append(flag + equals + value)
    return tuple(kept)


_NO_APP_SERVER = ("unrecognized subcommand", "stdin is not a terminal")
"""What a Codex without an app-server says: it takes the subcommand for a prompt, or rejects it."""
ASKS_ALWAYS = "untrusted"
"""The policy under which Codex asks about every command and every patch, whatever they do."""
_OPT_OUT = ("thread/readState/changed", "turn/diff/updated")


class NoAppServer(Exception):
    """This Codex has no app-server that we can speak to."""


class SignedOut(Exception):
    """Nobody has signed in to this Codex, and it was given no key."""


@dataclass(frozen=True)
class CodexAdapter(ProgramAdapter):
    """Opens members' channels to Codex."""

    @classmethod
    def interactive(
        cls, agent: AgentDefinition, member: Member, workspace: Workspace
    ) -> InteractiveStart:
        # The model is in its config.toml, as it is when Coterie runs it.
        words = passed_on((*agent.base_args, *member.additional_args))
        if member.system_instruction:
            role = f"developer_instructions={toml_value(member.system_instruction)}"
            words = ("-c", role, *words)
        return InteractiveStart(words, prepare(member, workspace, agent.command).env)

    async def open(
        self, member: Member, workspace: Workspace, thread: str | None
    ) -> channel.CodexChannel | channel.CodexExecChannel | RefusedChannel:
        """Open a channel on this thread, or on a new one if Codex cannot find it."""
        home = await anyio.to_thread.run_sync(prepare, member, workspace, self.agent.command)
        leftovers = await anyio.to_thread.run_sync(Leftovers.before, home)
        start = partial(self._start, member, workspace, home, leftovers.guard)
        permits = await self._permits(member, workspace, home)
        opening = CodexOpening(member, home, leftovers, thread, Serving(workspace.others), permits)
        # Every command is asked about here, so an approved one may use the network.
        settings = () if member.permissions.mode == "read" else ("-c", f"{NETWORK}=true")
        settings = (*settings, *(permits.settings if permits else ()))
        try:
            return await opening.open(await start("app-server", *settings))
        except NoAppServer:
            run = channel.ExecRun(member.system_instruction, thread, None if thread else Tokens())
            return channel.CodexExecChannel(start, run, leftovers)
        except SignedOut:
            return RefusedChannel(SIGNED_OUT.failure("codex"))

    async def _permits(
        self, member: Member, workspace: Workspace, home: CodexHome
    ) -> CommandPermits | None:
        """Return how read-only commands run unasked; None in mode `full`, or without a sandbox."""
        sandbox = await read_only_sandbox(home.cwd)
        if member.permissions.mode == "full" or sandbox is None:
            return None
        commands = await CommandRunner.of(member.id, workspace, self.children)
        permits = CommandPermits(home.permits_folder, replace(commands, read_only_sandbox=sandbox))
        await anyio.to_thread.run_sync(permits.clear)  # left over from a kill
        return permits

    async def _start(
        self,
        member: Member,
        workspace: Workspace,
        home: CodexHome,
        guard: DurableGitGuard,
        *call: str,
    ) -> AgentProcess:
        way, *rest = call
        given = passed_on((*self.agent.base_args, *member.additional_args))
        words = (way, *given, *rest)
        return await self.start(member, workspace, home.cwd, home.env, *words, guard=guard)


@dataclass(frozen=True)
class CodexOpening:
    """What happens between the start of a process and its first turn."""

    member: Member
    home: CodexHome
    leftovers: Leftovers
    thread: str | None
    serving: Serving
    permits: CommandPermits | None = None

    async def open(self, process: AgentProcess) -> channel.CodexChannel:
        """Open a channel on this process, which is ended if that fails."""
        return await open_or_end(process, self._opened(JsonRpc(process, jsonrpc=False)), readable)

    async def _opened(self, rpc: JsonRpc) -> channel.CodexChannel:
        await self._handshake(rpc)
        await self._check_login(rpc)
        await self._without_skills(rpc)
        if self.permits is not None:
            await self.permits.trust_hook(rpc, self.home.cwd)
        opened, resumed = await self._resumed_or_new(rpc)
        self._check(opened)
        thread = mapping(opened.get("thread"))
        thread_id, path = text(thread.get("id")), Path(exact_text(thread.get("path")))
        if not thread_id:
            raise CannotOpen("it opened no thread")
        rollout = None
        if resumed:
            rollout = await anyio.to_thread.run_sync(channel.Rollout.at_end, path)
        known = channel.CodexThread(thread_id, self.home, rollout)
        return channel.CodexChannel(rpc, known, self.leftovers, self.serving, self.permits)

    async def _handshake(self, rpc: JsonRpc) -> None:
        client = {"name": "coterie", "title": "Coterie", "version": __version__}
        can = {"experimentalApi": True, "optOutNotificationMethods": list(_OPT_OUT)}
        try:
            await rpc.request("initialize", {"clientInfo": client, "capabilities": can})
        except RpcError as error:
            raise NoAppServer from error
        except AgentProcessEnded as end:
            if any(words in end.tail for words in _NO_APP_SERVER):
                raise NoAppServer from end
            raise
        rpc.notify("initialized")

    async def _check_login(self, rpc: JsonRpc) -> None:
        """Stop before anything is sent: offline, Codex would only say that it reconnects.

        Checked here because `codex login status` ignores keys and other model services.
        """
        answer = await rpc.request("account/read", {"refreshToken": False})
        if answer.get("requiresOpenaiAuth") and not answer.get("account"):
            raise SignedOut

    async def _without_skills(self, rpc: JsonRpc) -> None:
        """Switch off the repository's skills, which even an untrusted one could provide."""
        answer = await rpc.request("skills/list", {"cwds": [str(self.home.cwd)]})
        for folder in mappings(answer.get("data")):
            for skill in mappings(folder.get("skills")):
                off = {"path": exact_text(skill.get("path")), "enabled": False}
                await rpc.request("skills/config/write", off)

    async def _resumed_or_new(self, rpc: JsonRpc) -> tuple[Object, bool]:
        # Neither sandbox nor permissions are passed here: Codex would mark the folder as trusted.
        # The policy is no longer taken from config.toml, only from here.
        where = {"cwd": str(self.home.cwd), "approvalPolicy": ASKS_ALWAYS}
        if self.thread is not None:
            old = {"threadId": self.thread, "excludeTurns": True, **where}
            try:
                return await rpc.request("thread/resume", old), True
            except RpcError:  # not found, or open in another process: it is lost
                pass
        role = self.member.system_instruction
        tools = [_dynamic(tool) for tool in self.serving.tools]
        new = {**where, "experimentalRawEvents": True, "dynamicTools": tools}
        if role:
            new["developerInstructions"] = role
        return await rpc.request("thread/start", new), False

    def _check(self, opened: Object) -> None:
        """Refuse a thread whose limits are not the home's: Codex drops settings it dislikes."""
        profile = mapping(opened.get("activePermissionProfile")).get("id")
        if profile != PROFILE or opened.get("approvalPolicy") != ASKS_ALWAYS:
            raise CannotOpen("it did not apply the permissions it was given")


def _dynamic(tool: Tool) -> Object:
    """Return one of our tools in Codex's format; a thread keeps the tools it began with."""
    named = {"type": "function", "name": tool["name"], "description": tool["description"]}
    return {**named, "inputSchema": tool["inputSchema"]}
