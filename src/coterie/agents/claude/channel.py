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
from coterie.agents.program import ProcessChannel
from coterie.agents.team_tools.program import called, replied, result_of
from coterie.agents.team_tools.serving import SERVER, Result, Serving, is_ours
from coterie.model.conversation import Prompt
from coterie.model.interaction import Response
from coterie.model.update import Activity, Asked, End, TurnCompleted, Update
from coterie.model.workspace import Workspace
from coterie.tools.read_only_sandbox import ReadOnlySandbox


@dataclass(frozen=True)
class ControlChannel:
    """Our side of it."""

    process: AgentProcess

    def request(self, subtype: str, **more: object) -> str:
        """Ask for something; the id by which its answer is known."""
        request_id = str(uuid4())
        request = {"subtype": subtype, **more}
        self.process.send({"type": "control_request", "request_id": request_id, "request": request})
        return request_id

    def reply(self, request_id: str, response: Object) -> None:
        """Answer a request of Claude's."""
        body = {"subtype": "success", "request_id": request_id, "response": response}
        self.process.send({"type": "control_response", "response": body})

    def refuse(self, request_id: str, error: str) -> None:
        """Answer it with an error, which to Claude is a no."""
        body = {"subtype": "error", "request_id": request_id, "error": error}
        self.process.send({"type": "control_response", "response": body})


SUBTYPE = "mcp_message"
CONFIG: Object = {"mcpServers": {SERVER: {"type": "sdk", "name": SERVER}}}
_NOTED: Object = {"jsonrpc": "2.0", "result": {}}


class TeamToolServer:
    """Answers what Claude asks of it; a call that needs a person waits for the answer."""

    def __init__(self, control: ControlChannel, serving: Serving) -> None:
        self.serving = serving
        self.is_met: bool = False
        """Whether Claude has spoken to it at all; an older one would not."""
        self.is_listed: bool = False
        """Whether Claude knows its tools."""
        self._control = control

    def hear(self, request_id: str, request: Object, *, in_turn: bool) -> Asked | None:
        """Answer a message, or have something asked first."""
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


AFTER_INTERRUPT = 10.0
"""How long Claude may take to break off before it is ended; in practice a tenth of a second."""
BACKGROUND = 600.0
"""How long a finished turn waits, with no word, for what runs in the background.

A build ends and Claude speaks of it; a server never does and is stopped.
"""


class ClaudeChannel(ProcessChannel):
    """`ports.Channel` on one Claude."""

    def __init__(
        self,
        process: AgentProcess,
        server: TeamToolServer,
        thread: str,
        workspace: Workspace,
        looking: ReadOnlySandbox | None = None,
    ) -> None:
        super().__init__(process)
        self.thread: str | None = thread
        self._control = ControlChannel(process)
        self._server = server
        self._workspace = workspace
        self._looking = looking
        """Where what only looks is run, unasked."""
        self._turn: ClaudeTurn | None = None
        self._open: dict[str, permissions.ClaudeQuestions] = {}
        """By its key: the request that a question belongs to."""
        self._waiting = anyio.CancelScope()

    async def take_turn(self, prompt: Prompt) -> AsyncGenerator[Update]:
        # Never the id of an earlier try: Claude would take it for answered and say nothing.
        turn = self._turn = ClaudeTurn(str(uuid4()), str(self._workspace.execution_dir))
        self._server.serving.begin()
        self._refuse_pending()
        said: Object = {"role": "user", "content": prompt.text}
        self._process.send({"type": "user", "uuid": turn.message_id, "message": said})
        try:
            async with aclosing(self._updates(turn)) as updates:
                async for update in updates:
                    yield update
            end = self._finished(turn.end())
        except AgentProcessEnded as gone:
            end = turn.end() if turn.interrupted else exited("claude", gone)
        finally:
            self._turn = None
        # What ran when Claude itself ended has no end: whether it came to one is unknown.
        if self._process.alive or turn.interrupted:
            for ended in turn.calls.leave(broken_off=turn.interrupted):
                yield ended
        yield end

    async def answer(self, key: str, response: Response) -> None:
        """Give Claude the answer to what it asked; after an interrupt nobody waits for one."""
        if self._server.serving.answer(key, response):
            return
        asked = self._open.pop(key, None)
        if asked is None:
            return
        reply = asked.take(key, response, await self._held(asked, response))
        if reply is not None:
            self._control.reply(asked.request.id, reply)

    async def _held(self, asked: permissions.ClaudeQuestions, response: Response) -> str:
        """The command line for a sandbox in which the one that was asked for can only look."""
        call = asked.questions[0].call
        if not response.is_read_only or self._looking is None or call is None:
            return ""
        return await anyio.to_thread.run_sync(self._looking.wrapped, asked.command, Path(call.cwd))

    async def interrupt(self) -> None:
        """Have Claude break off, also what it left in the background; between turns nothing."""
        turn = self._turn
        if turn is None:
            return
        turn.interrupted = True
        turn.deadline = anyio.current_time() + AFTER_INTERRUPT
        self._waiting.deadline = min(self._waiting.deadline, turn.deadline)
        self._open.clear()  # an answer that comes now is too late
        self._server.serving.forget()
        self._control.request("interrupt")
        self._stop(turn.tasks)

    async def close(self) -> None:
        await self._process.close()

    async def _updates(self, turn: ClaudeTurn) -> AsyncGenerator[Update]:
        while not turn.over:
            message = await self._next(turn)
            if message is None:
                await self._out_of_patience(turn)
                continue
            for update in self._read(turn, message, await self._foreseen(turn, message)):
                yield update
            if turn.failure is not None and not turn.interrupted:
                await self.interrupt()

    async def _next(self, turn: ClaudeTurn) -> Object | None:
        """The next message; None when there was none in the time that there is."""
        patience = BACKGROUND if turn.answered else math.inf
        latest = min(turn.deadline, anyio.current_time() + patience)
        with anyio.CancelScope(deadline=latest) as self._waiting:
            return await self._process.receive()
        return None

    async def _out_of_patience(self, turn: ClaudeTurn) -> None:
        self._stop(turn.tasks)
        turn.give_up_background()
        if turn.interrupted:
            await self._process.close()  # and so the next look at the process finds its end
            turn.deadline = math.inf

    def _finished(self, end: End) -> End:
        # Nobody pays for the tokens of a stand-in.
        if isinstance(end, TurnCompleted) and self._workspace.rehearsal and end.usage:
            end = replace(end, usage=replace(end.usage, cost_usd=None, source="rehearsal"))
        return self._server.serving.finished(end)

    async def _foreseen(self, turn: ClaudeTurn, message: Object) -> str:
        """What an edit that is asked for would change."""
        request = mapping(message.get("request"))
        tool = text(request.get("tool_name"))
        if request.get("subtype") != "can_use_tool" or tool not in permissions.EDITS:
            return ""
        given = mapping(request.get("input"))
        return await anyio.to_thread.run_sync(permissions.diff_of, tool, given, turn.cwd)

    def _read(self, turn: ClaudeTurn, message: Object, diff: str) -> Iterable[Update]:
        if message.get("type") != "control_request":
            return turn.hear(message)
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
                # The call is told of before it is let go on, so no call can be missed.
                call = turn.calls.begin(hook)
                yield call
                self._control.reply(request_id, _opinion(call.name))
            case str(subtype) if subtype == SUBTYPE:
                yield self._server.hear(request_id, request, in_turn=True) or Activity()
            case other:
                self._control.refuse(request_id, f"Coterie does not know {other}")
                yield Activity()

    def _refuse_pending(self) -> None:
        """Refuse what was asked since the last turn: Claude must not wait for it for ever."""
        self._open.clear()
        for message in self._process.drop_pending():
            request, request_id = mapping(message.get("request")), text(message.get("request_id"))
            if request.get("subtype") == SUBTYPE:
                self._server.hear(request_id, request, in_turn=False)
            elif message.get("type") == "control_request":
                self._control.refuse(request_id, "It is nobody's turn.")

    def _permission(
        self, turn: ClaudeTurn, request: permissions.ClaudeRequest, diff: str
    ) -> Iterable[Update]:
        folder = turn.calls.folder_of(request.call_id) or turn.cwd
        sandbox = self._looking is not None
        around = permissions.ClaudeRequestContext(folder, turn.speech.last, diff, sandbox)
        asked = permissions.asking(request, around)
        for question in asked.questions:
            if not turn.interrupted:
                self._open[question.key] = asked
                yield question  # and when this goes on, it is answered

    def _stop(self, tasks: Iterable[str]) -> None:
        for task in tasks:
            self._control.request("stop_task", task_id=task)


def _opinion(tool: str) -> Object:
    """What we say to a call before it is made: whatever Claude itself thinks, it has to ask.

    What is asked then goes through the rules, which may say yes by themselves.
    """
    if permissions.is_harmless(tool) and not is_ours(tool):
        return {}
    decision = "allow" if is_ours(tool) else "ask"
    told = {"hookEventName": "PreToolUse", "permissionDecision": decision}
    return {"hookSpecificOutput": told}
