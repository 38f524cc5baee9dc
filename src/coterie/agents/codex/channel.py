"""A member's channel to its Codex: one app-server, one thread, one turn at a time.

The fallback for a Codex without an app-server is `codex exec --json`, one process per turn on one
thread.  It cannot ask, so it is read-only whatever the member may do; and its audit may lack
commands that the sandbox stopped.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast
from uuid import uuid4

import anyio
import anyio.to_thread

from coterie.agents.codex.calls import CodexCalls
from coterie.agents.codex.home import READ_ONLY_PROFILE, CodexHome, Leftovers, toml_value
from coterie.agents.codex.permits import CommandPermits
from coterie.agents.codex.turn import CodexTurn, Tokens, failed, gone, refused
from coterie.agents.fields import mapping, mappings, number
from coterie.agents.process import AgentProcessEnded, JsonRpc, Object, RpcError
from coterie.agents.program import OneShotChannel, ProcessChannel, StartProcess
from coterie.agents.team_tools.serving import Result, Serving
from coterie.model.conversation import Prompt
from coterie.model.interaction import Response
from coterie.model.update import (
    Activity,
    End,
    TextDelta,
    ToolCallFinished,
    TurnCompleted,
    TurnInterrupted,
    Update,
)
from coterie.process.streams import LineSplitter, clean, parse_object
from coterie.workspace.beneath import regular_file
from coterie.workspace.git_guard import GitRestored

TIMEOUT = 5.0
"""How long Codex may take over a request that no turn depends on."""


@dataclass(frozen=True)
class CodexThread:
    """An open thread, and the home of the Codex that has it open."""

    id: str
    home: CodexHome
    rollout: Rollout | None
    """The file with the raw items, for a resumed thread."""


class CodexChannel(ProcessChannel):
    """`ports.Channel` on an app-server."""

    def __init__(
        self,
        rpc: JsonRpc,
        thread: CodexThread,
        leftovers: Leftovers,
        serving: Serving,
        permits: CommandPermits | None = None,
    ) -> None:
        super().__init__(rpc.process)
        self._rpc = rpc
        self._thread = thread
        self._permits = permits
        self._leftovers = leftovers
        self._serving = serving
        self._tokens = Tokens()
        self._turn: CodexTurn | None = None
        self._runs_on: bool = False
        """Whether a command of an earlier turn may still be running."""

    @property
    def thread(self) -> str:
        return self._thread.id

    async def take_turn(self, prompt: Prompt) -> AsyncGenerator[Update]:
        self._serving.begin()
        home, permits = self._thread.home, str(self._permits.folder) if self._permits else ""
        cwd, confined = str(home.cwd), home.confined
        turn = self._turn = CodexTurn(self._thread.id, cwd, self._tokens, confined, permits)
        try:
            async with aclosing(self._updates(turn, prompt)) as updates:
                async for update in updates:
                    yield update
        except AgentProcessEnded as end:
            turn.end = TurnInterrupted(turn.text) if turn.interrupted else gone(end)
        except RpcError as error:
            turn.end = refused(error)
        finally:
            self._turn = None
        self._tokens = turn.tokens
        self._runs_on = self._runs_on or turn.calls.left_behind
        await anyio.to_thread.run_sync(self._tidy)
        if turn.interrupted:  # and ended for ignoring it: if it exits by itself, nothing is known
            for ended in turn.calls.finish_open_calls(interrupted=True):
                yield ended
        assert turn.end is not None
        yield self._serving.finished(turn.end)

    async def answer(self, key: str, response: Response) -> None:
        """Pass the answer to Codex; a comment that comes with a no is sent to it too."""
        turn = self._turn
        if turn is None or self._serving.answer(key, response):
            return
        request, turn.request = turn.request, None
        if request is None or request.asked.key != key:
            return
        approved = response.approves
        word = response.comment or response.input_value
        if word and not approved:
            await self._tell(turn, f"[NOTE]\nPermission was denied: {word}")
        if approved and request.is_sandboxed and not response.is_read_only:
            await anyio.to_thread.run_sync(self._leftovers.guard.begin)
        if approved and request.waiting is not None and self._permits is not None:
            with turn.interruptible():  # a command that only reads is run here
                await self._permits.grant(request.waiting, read_only=response.is_read_only)
        approved = approved and not turn.interrupted
        self._rpc.reply(request.id, request.yes if approved else request.no)

    async def interrupt(self) -> None:
        if self._turn is None or self._turn.interrupted:
            return
        self._turn.interrupt()
        self._send_interrupt(self._turn)

    async def close(self) -> None:
        """End the process and its children, and remove what it left in the working folder."""
        await self._process.close()
        self._runs_on = False
        await anyio.to_thread.run_sync(self._tidy)

    def _tidy(self) -> None:
        self._restore_git()
        self._leftovers.remove()
        if self._permits is not None:
            self._permits.clear()

    def _restore_git(self) -> GitRestored:
        """Take back what commands left in git directories, whether they have ended or run on."""
        guard = self._leftovers.guard
        return guard.restore() if self._runs_on else guard.end()

    async def _updates(self, turn: CodexTurn, prompt: Prompt) -> AsyncGenerator[Update]:
        params = {"threadId": turn.thread, "input": _text(prompt.text)}
        wait, process = turn.deadline.wait, self._process
        begun = await wait(process, self._rpc.request("turn/start", params))
        turn.id = str(mapping(begun.get("turn")).get("id"))
        self._send_interrupt(turn)
        while turn.end is None:
            for update in await self._updates_in(turn, await wait(process, process.receive())):
                yield update
        if isinstance(turn.end, TurnInterrupted):
            async with aclosing(self._cleaned(turn)) as updates:
                async for update in updates:
                    yield update
        for update in turn.calls.finish_open_calls(
            interrupted=isinstance(turn.end, TurnInterrupted)
        ):
            yield update

    async def _tell(self, turn: CodexTurn, word: str) -> None:
        """Send a text into the turn, and wait so that it arrives before the no it explains."""
        params = {"threadId": turn.thread, "expectedTurnId": turn.id, "input": _text(word)}
        with suppress(RpcError, AgentProcessEnded), anyio.move_on_after(TIMEOUT):
            await self._rpc.request("turn/steer", params)

    def _send_interrupt(self, turn: CodexTurn) -> None:
        if turn.interrupted and turn.id:
            # Not awaited: a turn that has just ended by itself gives no answer.
            self._rpc.post("turn/interrupt", {"threadId": turn.thread, "turnId": turn.id})

    async def _updates_in(self, turn: CodexTurn, message: Object) -> list[Update]:
        """Return the updates in a message, after answering requests that need no person."""
        updates: list[Update] = []
        for item in await self._recorded(message):
            updates += turn.calls.raw(item)
        is_ours = message.get("method") == "item/tool/call"
        updates += [self._serve(turn, message)] if is_ours else turn.take(message)
        for request_id in turn.unanswerable:
            self._rpc.refuse(request_id, "This request is not supported here.")
        turn.unanswerable.clear()
        if not turn.calls.runs_commands and any(map(_is_end, updates)):
            restored = await anyio.to_thread.run_sync(self._restore_git)
            return [_noting(update, restored) for update in updates]
        return updates

    def _serve(self, turn: CodexTurn, message: Object) -> Update:
        """Serve a call of one of our tools."""
        params = mapping(message.get("params"))

        def reply(result: Result) -> None:
            content = [{"type": "inputText", "text": result.text}]
            answer: Object = {"contentItems": content, "success": not result.failed}
            self._rpc.reply(message.get("id"), answer)

        key, given = f"ask.{params.get('callId')}", mapping(params.get("arguments"))
        tool, in_turn = str(params.get("tool")), not turn.interrupted
        return self._serving.call(key, tool, given, reply, in_turn=in_turn) or Activity()

    async def _recorded(self, message: Object) -> list[Object]:
        """Return what is new in Codex's own record: read after each answer of the model, at the
        end, and before a question, as it may say more about that than the question does."""
        rollout, method = self._thread.rollout, message.get("method")
        if rollout is None or not (method in _RECORDED_BY or (method and "id" in message)):
            return []
        return await anyio.to_thread.run_sync(rollout.new_items)

    async def _cleaned(self, turn: CodexTurn) -> AsyncGenerator[Update]:
        """End the commands that an interrupted turn left running, and wait for their ends."""
        deadline = anyio.current_time() + TIMEOUT
        ending: set[str] = set()
        with suppress(RpcError), anyio.CancelScope(deadline=deadline):
            ending = await self._ended_commands(turn)
        while ending.intersection(call.call_id for call in turn.calls.running):
            message = await self._next(deadline)
            if message is None:
                return
            for update in turn.take(message):
                yield update

    async def _ended_commands(self, turn: CodexTurn) -> set[str]:
        """End the commands that ran on; return their call ids, as each still reports its end."""
        terminals, thread = "thread/backgroundTerminals", {"threadId": turn.thread}
        answer = await self._rpc.request(f"{terminals}/list", thread)
        await self._rpc.request(f"{terminals}/clean", thread)
        return {str(each.get("itemId")) for each in mappings(answer.get("data"))}

    async def _next(self, deadline: float) -> Object | None:
        with anyio.CancelScope(deadline=deadline):
            return await self._process.receive()
        return None


def _is_end(update: Update) -> bool:
    return isinstance(update, ToolCallFinished)


def _noting(update: Update, restored: GitRestored) -> Update:
    """Note in the end of a command what was taken back of its changes to git directories."""
    notes = {"taken_back": [*restored.undone], "not_taken_back": [*restored.failed]}
    noted = {name: paths for name, paths in notes.items() if paths}
    if not noted or not isinstance(update, ToolCallFinished):
        return update
    return replace(update, output={**update.output, **noted})


_RECORDED_BY = ("thread/tokenUsage/updated", "turn/completed")


def _text(text: str) -> list[Object]:
    return [{"type": "text", "text": text}]


# -- codex's own record of a thread, read as it grows ------------------------------------------


@dataclass
class Rollout:
    """The part of a record that has not been read yet.  Its methods block."""

    path: Path
    _offset: int

    @classmethod
    def at_end(cls, path: Path) -> Rollout:
        """Read only what will be added from now on."""
        return cls(path, path.stat().st_size if path.is_file() else 0)

    def new_items(self) -> list[Object]:
        """Return the response items added since the last call, as far as they are complete."""
        try:
            # The file is in the member's home, where it may be replaced by anything.
            with regular_file(
                os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            ) as file:
                file.seek(self._offset)
                added = file.read()
        except (OSError, ValueError):  # gone, or no path at all: nothing was added
            return []
        complete = added[: added.rfind(b"\n") + 1]
        self._offset += len(complete)
        rows = [parse_object(line) for line in LineSplitter().feed(complete)]
        payloads = [row.get("payload") for row in rows if row and row.get("type") == _ITEM]
        return [cast("Object", payload) for payload in payloads if isinstance(payload, dict)]


_ITEM = "response_item"


_ITEMS = {
    "command_execution": "commandExecution",
    "file_change": "fileChange",
    "mcp_tool_call": "mcpToolCall",
}
_NAMES = {"aggregated_output": "aggregatedOutput", "exit_code": "exitCode"}


@dataclass
class ExecRun:
    """`OneShotRun` of `codex exec`."""

    role: str
    thread: str | None
    spent: Tokens | None
    """What the thread had cost before; None if unknown."""
    prefix: str = field(default_factory=lambda: uuid4().hex[:8])
    """Makes item ids unique: Codex counts its items from 0 in every process."""
    text: str = ""
    end: End | None = None
    calls: CodexCalls = field(default_factory=CodexCalls)

    @property
    def words(self) -> tuple[str, ...]:
        role = f"developer_instructions={toml_value(self.role)}"
        sandbox = f"default_permissions={toml_value(READ_ONLY_PROFILE)}"
        resumed = ("resume", self.thread) if self.thread else ()
        settings = ("-c", role, "-c", sandbox)
        return ("exec", "--json", "--skip-git-repo-check", *settings, *resumed, "-")

    def next(self) -> ExecRun:
        return ExecRun(self.role, self.thread, self.spent)

    def take(self, event: Object) -> Iterator[Update]:
        yield Activity()
        match event.get("type"):
            case "thread.started":
                self.thread = str(event.get("thread_id"))
            case "item.started":
                yield from self.calls.item_started(self._item(event))
            case "item.completed":
                yield from self._item_completed(event)
            case "turn.completed":
                self._completed(mapping(event.get("usage")))
            case "turn.failed":
                self.end = failed(mapping(event.get("error")))
            case _:
                pass

    def finish_open_calls(self, *, interrupted: bool) -> Iterator[Update]:
        yield from self.calls.finish_open_calls(interrupted=interrupted)

    def end_of_exit(self, end: AgentProcessEnded) -> End:
        return gone(end)

    def _item(self, event: Object) -> Object:
        item = mapping(event.get("item"))
        named = {_NAMES.get(key, key): value for key, value in item.items()}
        kind = str(item.get("type"))
        return {**named, "type": _ITEMS.get(kind, kind), "id": f"{self.prefix}.{item.get('id')}"}

    def _item_completed(self, event: Object) -> Iterator[Update]:
        item = self._item(event)
        if item["type"] == "agent_message":
            self.text = clean(str(item.get("text", "")))
            yield TextDelta(f"{self.text}\n\n")
        yield from self.calls.item_completed(item)

    def _completed(self, usage: Object) -> None:
        total = Tokens(*(int(number(usage.get(f"{way}_tokens"))) for way in ("input", "output")))
        spent, self.spent = self.spent, total
        self.end = TurnCompleted(self.text, total.since(spent) if spent else None)


class CodexExecChannel(OneShotChannel):
    """`ports.Channel` to `codex exec`."""

    holds_past = True

    def __init__(self, start: StartProcess, run: ExecRun, leftovers: Leftovers) -> None:
        super().__init__(start, run)
        self._leftovers = leftovers

    async def _end_process(self) -> None:
        await super()._end_process()
        await anyio.to_thread.run_sync(self._leftovers.remove)
