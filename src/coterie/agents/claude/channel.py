"""A member's channel to Claude: one process, one turn at a time."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from uuid import uuid4

import anyio
import anyio.to_thread

from coterie.agents.claude import permissions
from coterie.agents.claude.turn import ClaudeTurn
from coterie.agents.failures import exited
from coterie.agents.fields import mapping, text
from coterie.agents.process import AgentProcess, AgentProcessEnded, Object
from coterie.agents.program import AFTER_INTERRUPT, ProcessChannel
from coterie.agents.team_tools.program import called, replied, result_of
from coterie.agents.team_tools.serving import SERVER, Result, Serving, is_ours
from coterie.model.conversation import Prompt
from coterie.model.interaction import Response
from coterie.model.update import Activity, Asked, End, TurnCompleted, Update
from coterie.model.workspace import Workspace
from coterie.tools.read_only_sandbox import ReadOnlySandbox


@dataclass(frozen=True)
class ControlChannel:
    """Our side of Claude's control protocol."""

    process: AgentProcess

    def request(self, subtype: str, **more: object) -> str:
        """Send a request and return its id, which the answer repeats."""
        request_id = str(uuid4())
        request = {"subtype": subtype, **more}
        self.process.send({"type": "control_request", "request_id": request_id, "request": request})
        return request_id

    def reply(self, request_id: str, response: Object) -> None:
        """Answer a request from Claude."""
        body = {"subtype": "success", "request_id": request_id, "response": response}
        self.process.send({"type": "control_response", "response": body})

    def refuse(self, request_id: str, error: str) -> None:
        """Answer a request with an error, which Claude takes as a no."""
        body = {"subtype": "error", "request_id": request_id, "error": error}
        self.process.send({"type": "control_response", "response": body})


SUBTYPE = "mcp_message"
CONFIG: Object = {"mcpServers": {SERVER: {"type": "sdk", "name": SERVER}}}
_NOTED: Object = {"jsonrpc": "2.0", "result": {}}


class TeamToolServer:
    """Serves our tools to Claude; a call that needs a person waits for the answer."""

    def __init__(self, control: ControlChannel, serving: Serving) -> None:
        self.serving = serving
        self.is_met: bool = False
        """Whether Claude has contacted it at all; an older version would not."""
        self.is_listed: bool = False
        """Whether Claude has listed its tools."""
        self._control = control

    def handle(self, request_id: str, request: Object, *, in_turn: bool) -> Asked | None:
        """Answer a message, or return the question to ask first."""
        self.is_met = True
        message = mapping(request.get("message"))
        call = called(message)
        if call is None:
            self._reply(request_id, replied(message, self.serving.tools) or _NOTED)
            self.is_listed = self.is_listed or message.get("method") == "tools/list"
            return None

        def reply(result: Result) -> None:
            self._reply(request_id, result_of(message, asdict(result)))

        return self.serving.call(f"ask.{request_id}", *call, reply, in_turn=in_turn)

    def _reply(self, request_id: str, message: Object) -> None:
        self._control.reply(request_id, {"mcp_response": message})


BACKGROUND = 600.0
"""How many seconds of silence a finished turn waits for what runs in the background.

A build ends and Claude reports on it; a server never ends and is stopped.
"""


class ClaudeChannel(ProcessChannel):
    """`ports.Channel` on one Claude process."""

    def __init__(
        self,
        process: AgentProcess,
        server: TeamToolServer,
        thread: str,
        workspace: Workspace,
        sandbox: ReadOnlySandbox | None = None,
    ) -> None:
        super().__init__(process)
        self.thread: str | None = thread
        self._control = ControlChannel(process)
        self._server = server
        self._workspace = workspace
        self._sandbox = sandbox
        """The sandbox in which read-only commands run unasked."""
        self._turn: ClaudeTurn | None = None
        self._open: dict[str, permissions.ClaudeQuestions] = {}
        """The request that a question belongs to, by the question's key."""
        self._waiting = anyio.CancelScope()

    async def take_turn(self, prompt: Prompt) -> AsyncGenerator[Update]:
        # Never the id of an earlier try: Claude would consider it answered and stay silent.
        turn = self._turn = ClaudeTurn(str(uuid4()), str(self._workspace.execution_dir))
        self._server.serving.begin()
        self._refuse_pending()
        message: Object = {"role": "user", "content": prompt.text}
        self._process.send({"type": "user", "uuid": turn.message_id, "message": message})
        try:
            async with aclosing(self._updates(turn)) as updates:
                async for update in updates:
                    yield update
            end = self._finished(turn.end())
        except AgentProcessEnded as gone:
            end = turn.end() if turn.interrupted else exited("claude", gone)
        finally:
            self._turn = None
        # Calls still running when Claude exited get no result: their outcome is unknown.
        if self._process.alive or turn.interrupted:
            for ended in turn.calls.finish_open_calls(interrupted=turn.interrupted):
                yield ended
        yield end

    async def answer(self, key: str, response: Response) -> None:
        """Pass the answer to Claude; after an interrupt nothing waits for one."""
        if self._server.serving.answer(key, response):
            return
        pending = self._open.pop(key, None)
        if pending is None:
            return
        reply = pending.take(key, response, await self._held(pending, response))
        if reply is not None:
            self._control.reply(pending.request.id, reply)

    async def _held(self, pending: permissions.ClaudeQuestions, response: Response) -> str:
        """Return the requested command wrapped in a read-only sandbox, if the answer wants that."""
        call = pending.questions[0].call
        if not response.is_read_only or self._sandbox is None or call is None:
            return ""
        return await anyio.to_thread.run_sync(
            self._sandbox.wrapped, pending.command, Path(call.cwd)
        )

    async def interrupt(self) -> None:
        """Interrupt Claude and what it left in the background; does nothing between turns."""
        turn = self._turn
        if turn is None:
            return
        turn.interrupted = True
        turn.deadline = min(turn.deadline, anyio.current_time() + AFTER_INTERRUPT)
        self._waiting.deadline = min(self._waiting.deadline, turn.deadline)
        self._open.clear()  # from now on any answer is too late
        self._server.serving.forget()
        self._control.request("interrupt")
        self._stop(turn.tasks)

    async def close(self) -> None:
        await self._process.close()

    async def _updates(self, turn: ClaudeTurn) -> AsyncGenerator[Update]:
        while not turn.over:
            message = await self._next(turn)
            if message is None:
                await self._on_timeout(turn)
                continue
            for update in self._read(turn, message, await self._edit_diff(turn, message)):
                yield update
            if turn.failure is not None and not turn.interrupted:
                await self.interrupt()

    async def _next(self, turn: ClaudeTurn) -> Object | None:
        """Return the next message; None if none came in time."""
        limit = BACKGROUND if turn.answered else math.inf
        latest = min(turn.deadline, anyio.current_time() + limit)
        with anyio.CancelScope(deadline=latest) as self._waiting:
            return await self._process.receive()
        return None

    async def _on_timeout(self, turn: ClaudeTurn) -> None:
        self._stop(turn.tasks)
        turn.give_up_background()
        if turn.interrupted:
            await self._process.close()  # the next read then finds that it has ended
            turn.deadline = math.inf

    def _finished(self, end: End) -> End:
        # A rehearsal's tokens cost nothing.
        if isinstance(end, TurnCompleted) and self._workspace.rehearsal and end.usage:
            end = replace(end, usage=replace(end.usage, cost_usd=None, source="rehearsal"))
        return self._server.serving.finished(end)

    async def _edit_diff(self, turn: ClaudeTurn, message: Object) -> str:
        """Return the diff of an edit that Claude asks permission for; empty for other messages."""
        request = mapping(message.get("request"))
        tool = text(request.get("tool_name"))
        if request.get("subtype") != "can_use_tool" or tool not in permissions.EDITS:
            return ""
        given = mapping(request.get("input"))
        return await anyio.to_thread.run_sync(permissions.diff_of, tool, given, turn.cwd)

    def _read(self, turn: ClaudeTurn, message: Object, diff: str) -> Iterable[Update]:
        if message.get("type") != "control_request":
            return turn.handle(message)
        request_id = text(message.get("request_id"))
        request = mapping(message.get("request"))
        if request.get("subtype") == "can_use_tool":
            return self._permission(turn, permissions.ClaudeRequest.of(request_id, request), diff)
        return self._asked(turn, request_id, request)

    def _asked(self, turn: ClaudeTurn, request_id: str, request: Object) -> Iterable[Update]:
        match request.get("subtype"):
            case "hook_callback":
                hook = mapping(request.get("input"))
                turn.cwd = text(hook.get("cwd")) or turn.cwd
                # The call is reported before it may proceed, so no call can be missed.
                call = turn.calls.begin(hook)
                yield call
                self._control.reply(request_id, _opinion(call.name))
            case str(subtype) if subtype == SUBTYPE:
                in_turn = not turn.interrupted
                yield self._server.handle(request_id, request, in_turn=in_turn) or Activity()
            case other:
                self._control.refuse(request_id, f"Coterie does not support {other}")
                yield Activity()

    def _refuse_pending(self) -> None:
        """Refuse requests since the last turn: Claude must not wait for an answer forever."""
        self._open.clear()
        for message in self._process.drop_pending():
            request, request_id = mapping(message.get("request")), text(message.get("request_id"))
            if request.get("subtype") == SUBTYPE:
                self._server.handle(request_id, request, in_turn=False)
            elif message.get("type") == "control_request":
                self._control.refuse(request_id, "No turn is running.")

    def _permission(
        self, turn: ClaudeTurn, request: permissions.ClaudeRequest, diff: str
    ) -> Iterable[Update]:
        folder = turn.calls.folder_of(request.call_id) or turn.cwd
        sandbox = self._sandbox is not None
        pending = request.questions(folder, turn.speech.last, diff, sandbox=sandbox)
        for question in pending.questions:
            if not turn.interrupted:
                self._open[question.key] = pending
                yield question  # it has been answered when this resumes

    def _stop(self, tasks: Iterable[str]) -> None:
        for task in tasks:
            self._control.request("stop_task", task_id=task)


def _opinion(tool: str) -> Object:
    """Return our hook's answer to a call: whatever Claude itself thinks, it has to ask.

    The request then goes through the rules, which may say yes by themselves.
    """
    if permissions.is_harmless(tool) and not is_ours(tool):
        return {}
    decision = "allow" if is_ours(tool) else "ask"
    output = {"hookEventName": "PreToolUse", "permissionDecision": decision}
    return {"hookSpecificOutput": output}
