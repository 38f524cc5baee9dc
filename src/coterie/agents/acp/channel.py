"""A member's channel to an agent that speaks the protocol: one process, one turn at a time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import anyio.to_thread

from coterie.agents.acp.calls import CANCELLED, AcpCall, Permission, question_for
from coterie.agents.acp.turn import AcpTurn, AcpUsage, Failures
from coterie.agents.fields import mapping, mappings
from coterie.agents.process import AgentProcessEnded, JsonRpc, Object
from coterie.agents.program import ProcessChannel, ProgramAdapter
from coterie.agents.team_tools.listening import ToolRequest, ToolSocket, call_in
from coterie.agents.team_tools.serving import Serving
from coterie.model.conversation import Prompt
from coterie.model.interaction import APPROVE, Response
from coterie.model.team import Member
from coterie.model.update import Activity, Asked, TurnFailed, TurnInterrupted, Update
from coterie.model.workspace import Workspace

_PERMISSION = "session/request_permission"


@dataclass(frozen=True)
class AcpSession:
    """An open session, and what its channel needs to know about it."""

    id: str
    cwd: str
    introduction: str
    """The member's role, put in front of its first message; empty if its home states it."""
    failures: Failures
    call_type: type[AcpCall] = AcpCall
    """How to read what this agent says about its calls."""
    refusal: TurnFailed | None = None
    """Why there is no session: the agent runs, but wants somebody to sign in first."""


class AcpChannel(ProcessChannel):
    """`ports.Channel` on an agent that speaks the Agent Client Protocol."""

    def __init__(self, rpc: JsonRpc, session: AcpSession, tools: TeamTools) -> None:
        super().__init__(rpc.process)
        self._rpc = rpc
        self._session = session
        self._tools = tools
        self._prompt_prefix = session.introduction
        """Text to put in front of the next message: the member's role, why a rule said no."""
        self._spent = AcpUsage(session.failures.name)
        self._turn: AcpTurn | None = None
        self._open: dict[str, Permission] = {}
        """The requests for permission that are not answered yet, by key."""

    @property
    def thread(self) -> str | None:
        """The agent's id for the session, which dies with the process and is never loaded again."""
        return self._session.id or None

    async def take_turn(self, prompt: Prompt) -> AsyncGenerator[Update]:
        if self._session.refusal is not None:
            yield self._session.refusal
            return
        turn = self._turn = self._begin(prompt)
        try:
            while turn.end is None:
                message = await turn.deadline.wait(self._process, self._process.receive())
                for update in await self._read(turn, message):
                    yield update
                for update in turn.take_pending_updates():
                    yield update
        except AgentProcessEnded as end:
            failures = self._session.failures
            turn.end = TurnInterrupted(turn.text) if turn.interrupted else failures.gone(end)
        finally:
            self._turn = None
            self._tools.serving.give_up()
        if turn.interrupted:  # and ended for ignoring it: if it exits by itself, nothing is known
            for ended in turn.calls.finish_open_calls(interrupted=True):
                yield ended
        yield self._tools.serving.finished(turn.end)

    async def answer(self, key: str, response: Response) -> None:
        """Pass the answer to the agent; an answer to a withdrawn question is dropped."""
        if self._tools.serving.answer(key, response):
            return
        permission = self._open.pop(key, None)
        if permission is None or self._turn is None:
            return
        approved = response.selected_option_id == APPROVE
        self._rpc.reply(permission.id, permission.reply(approved))
        if approved:
            return
        self._turn.reject(permission.call, response.comment or "")
        if response.comment and not response.by_person:
            # The protocol's answer has no field for a comment; a person's comment reaches the
            # agent another way.
            about = permission.call.title or permission.call.name
            self._prompt_prefix += (
                f"[NOTE]\nPermission for {about} was denied: {response.comment}\n\n"
            )

    async def interrupt(self) -> None:
        """Interrupt the agent; its open requests count as canceled, as the protocol demands."""
        turn = self._turn
        if turn is None or turn.interrupted:
            return
        turn.interrupted = True
        self._rpc.notify("session/cancel", {"sessionId": self._session.id})
        for permission in self._open.values():
            self._rpc.reply(permission.id, CANCELLED)
        self._open.clear()
        self._tools.serving.give_up()
        turn.deadline.start()

    async def close(self) -> None:
        try:
            await self._process.close()
        finally:
            with anyio.CancelScope(shield=True):
                await self._tools.socket.close()

    def _begin(self, prompt: Prompt) -> AcpTurn:
        self._open.clear()
        self._tools.serving.begin()
        for late in self._process.drop_pending():
            self._turn_away(late)
        self._spent.begin()
        text = f"{self._prompt_prefix}{prompt.text}"
        self._prompt_prefix = ""
        blocks = [{"type": "text", "text": text}]
        params = {"sessionId": self._session.id, "prompt": blocks}
        number = self._rpc.post("session/prompt", params)
        session = self._session
        return AcpTurn(number, session.failures, self._spent, session.call_type)

    async def _read(self, turn: AcpTurn, message: Object) -> Iterable[Update]:
        params = mapping(message.get("params"))
        call = call_in(message)
        if call is not None:
            return [self._serve(call, in_turn=not turn.interrupted) or Activity()]
        match message.get("method"):
            case None if message.get("id") == turn.prompt:
                return turn.answered(message)
            case "session/update" if params.get("sessionId") == self._session.id:
                return turn.handle(mapping(params.get("update")))
            case "session/request_permission":
                return await self._asked(turn, message.get("id"), params)
            case "$/cancel_request":
                self._open.pop(str(params.get("requestId")), None)
            case _:
                self._turn_away(message)
        return [Activity()]

    def _turn_away(self, message: Object) -> None:
        """Refuse a request that nobody can answer: otherwise the agent might wait for it."""
        call = call_in(message)
        if call is not None:
            self._serve(call, in_turn=False)
        if "id" not in message or "method" not in message:
            return
        if message["method"] == _PERMISSION:
            self._rpc.reply(message["id"], CANCELLED)
        else:
            self._rpc.refuse(message["id"], "Coterie does not support this method.")

    def _serve(self, call: ToolRequest, *, in_turn: bool) -> Asked | None:
        serving = self._tools.serving
        return serving.call(call.key, call.tool, call.given, call.answer, in_turn=in_turn)

    async def _asked(self, turn: AcpTurn, request_id: object, params: Object) -> Iterable[Update]:
        call = turn.calls.learned(mapping(params.get("toolCall")))
        permission = Permission(request_id, call, mappings(params.get("options")))
        # In a worker thread: long texts may have to be compared.
        begun = await anyio.to_thread.run_sync(turn.asked, call)
        cwd, question = self._session.cwd, None
        if not call.is_ours:  # our own tools need no permission
            question = await anyio.to_thread.run_sync(question_for, permission, cwd, turn.last)
        if question is None or turn.interrupted:  # perhaps meanwhile
            answer = CANCELLED if turn.interrupted else permission.reply(approved=True)
            self._rpc.reply(request_id, answer)
            return [*begun, Activity()]
        self._open[permission.key] = permission
        return [*begun, question]


@dataclass(frozen=True)
class TeamTools:
    """Our tools for an agent that reaches them through programs it starts."""

    serving: Serving
    socket: ToolSocket
    """Where those programs call; closed by the code that opened it."""


@asynccontextmanager
async def served(
    adapter: ProgramAdapter, member: Member, workspace: Workspace
) -> AsyncGenerator[TeamTools]:
    """Provide the tools for a channel being opened, which then owns them; closed on failure."""
    serving = Serving(workspace.others)
    try:
        tools = TeamTools(serving, await ToolSocket.open(workspace.tmp, serving.tools))
    except OSError as error:
        problem = f"its team tools cannot be served: {error.strerror or error}"
        raise adapter.missing(member, workspace, problem) from error
    try:
        yield tools
    except BaseException:
        with anyio.CancelScope(shield=True):
            await tools.socket.close()
        raise
