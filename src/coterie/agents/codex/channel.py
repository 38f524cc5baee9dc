"""A member's channel to its Codex: one app-server, one thread, one turn at a time.

The fallback for a Codex without an app-server is `codex exec --json`, a process for each turn on
one thread.  That can ask nothing, so whatever the member may do, there it can only look; and its
audit may lack commands that the sandbox stopped.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast
from uuid import uuid4

import anyio
import anyio.to_thread

from coterie.agents.codex.calls import CodexCalls
from coterie.agents.codex.home import LOOKING, Leftovers, toml_value
from coterie.agents.codex.looks import CodexLooks
from coterie.agents.codex.turn import CodexTurn, Tokens, failed, gone, refused
from coterie.agents.fields import mapping
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

PATIENCE = 5.0
"""How long Codex may take over a word of ours that no turn waits for."""


@dataclass(frozen=True)
class CodexThread:
    """An open thread: where it works, and what became known of it when it was opened."""

    id: str
    cwd: str
    rollout: Rollout | None
    """Where the raw items stand, for a thread that was taken up again."""
    confined: bool = False
    """Whether its commands can do no more than look, and only at the folder it works in."""


class CodexChannel(ProcessChannel):
    """`ports.Channel` on an app-server."""

    def __init__(
        self,
        rpc: JsonRpc,
        thread: CodexThread,
        leftovers: Leftovers,
        serving: Serving,
        looks: CodexLooks | None = None,
    ) -> None:
        super().__init__(rpc.process)
        self._rpc = rpc
        self._thread = thread
        self._looks = looks
        self._leftovers = leftovers
        self._serving = serving
        self._tokens = Tokens()
        self._turn: CodexTurn | None = None
        self._runs_on: bool = False
        """Whether a command of an earlier turn may still be at work."""

    @property
    def thread(self) -> str:
        return self._thread.id

    async def take_turn(self, prompt: Prompt) -> AsyncGenerator[Update]:
        self._serving.begin()
        thread, words = self._thread, str(self._looks.folder) if self._looks else ""
        turn = self._turn = CodexTurn(thread.id, thread.cwd, self._tokens, thread.confined, words)
        try:
            async with aclosing(self._updates(turn, prompt)) as updates:
                async for update in updates:
                    yield update
        except AgentProcessEnded as end:
            turn.end = gone(end)
        except RpcError as error:
            turn.end = refused(error)
        finally:
            self._turn = None
        self._tokens = turn.tokens
        self._runs_on = self._runs_on or turn.calls.left_behind
        await anyio.to_thread.run_sync(self._tidy)
        assert turn.end is not None
        yield self._serving.finished(turn.end)

    async def answer(self, key: str, response: Response) -> None:
        """Give Codex the answer; a word that goes with a no is said to it too."""
        turn = self._turn
        if turn is None or self._serving.answer(key, response):
            return
        request, turn.request = turn.request, None
        if request is None or request.asked.key != key:
            return
        approved = response.approves
        word = response.comment or response.input_value
        if word and not approved:
            await self._tell(turn, f"[NOTE]\nThe answer was no: {word}")
        if approved and request.is_work and not response.is_read_only:
            await anyio.to_thread.run_sync(self._leftovers.work.begin)
        if approved and request.waiting is not None and self._looks is not None:
            await self._looks.let_go(request.waiting, only_looking=response.is_read_only)
        self._rpc.reply(request.id, request.yes if approved else request.no)

    async def interrupt(self) -> None:
        if self._turn is None or self._turn.interrupted:
            return
        self._turn.interrupted = True
        self._break_off(self._turn)

    async def close(self) -> None:
        """End the process and all below it, and remove what it left in the working folder."""
        await self._process.close()
        self._runs_on = False
        await anyio.to_thread.run_sync(self._tidy)

    def _tidy(self) -> None:
        self._put_right()
        self._leftovers.remove()
        if self._looks is not None:
            self._looks.clear()

    def _put_right(self) -> list[str]:
        """Take back what commands left in git directories: they have ended, or run on."""
        work = self._leftovers.work
        return work.put_right() if self._runs_on else work.end()

    async def _updates(self, turn: CodexTurn, prompt: Prompt) -> AsyncGenerator[Update]:
        given = {"threadId": turn.thread, "input": _text(prompt.text)}
        begun = await self._rpc.request("turn/start", given)
        turn.id = str(begun.get("turn", {}).get("id"))
        self._break_off(turn)
        while turn.end is None:
            for update in await self._heard(turn, await self._process.receive()):
                yield update
        if isinstance(turn.end, TurnInterrupted):
            async with aclosing(self._cleaned(turn)) as updates:
                async for update in updates:
                    yield update
        for update in turn.calls.leave(broken_off=isinstance(turn.end, TurnInterrupted)):
            yield update

    async def _tell(self, turn: CodexTurn, word: str) -> None:
        """Say something into the turn; known to be heard before the no that it goes with."""
        told = {"threadId": turn.thread, "expectedTurnId": turn.id, "input": _text(word)}
        with suppress(RpcError, AgentProcessEnded), anyio.move_on_after(PATIENCE):
            await self._rpc.request("turn/steer", told)

    def _break_off(self, turn: CodexTurn) -> None:
        if turn.interrupted and turn.id:
            # Not awaited: for a turn that has just ended by itself there is no answer.
            self._rpc.post("turn/interrupt", {"threadId": turn.thread, "turnId": turn.id})

    async def _heard(self, turn: CodexTurn, message: Object) -> list[Update]:
        """What a message has to tell, after we have answered what needs no person."""
        updates: list[Update] = []
        for item in await self._recorded(message):
            updates += turn.calls.raw(item)
        is_ours = message.get("method") == "item/tool/call"
        updates += [self._serve(message)] if is_ours else turn.take(message)
        for request_id in turn.unanswerable:
            self._rpc.refuse(request_id, "Nobody can answer this here.")
        turn.unanswerable.clear()
        if not turn.calls.runs_commands and any(map(_is_end, updates)):
            taken = await anyio.to_thread.run_sync(self._put_right)
            return [_noting(update, taken) for update in updates]
        return updates

    def _serve(self, message: Object) -> Update:
        """Serve a call of a tool of ours."""
        params = mapping(message.get("params"))

        def reply(result: Result) -> None:
            said = [{"type": "inputText", "text": result.text}]
            answer: Object = {"contentItems": said, "success": not result.failed}
            self._rpc.reply(message.get("id"), answer)

        key, given = f"ask.{params.get('callId')}", mapping(params.get("arguments"))
        return self._serving.call(key, str(params.get("tool")), given, reply) or Activity()

    async def _recorded(self, message: Object) -> list[Object]:
        """What Codex's own record has to tell: after each answer of the model, at the end, and
        before a question, of which it may say more than that does."""
        rollout, method = self._thread.rollout, message.get("method")
        if rollout is None or not (method in _RECORDED_BY or (method and "id" in message)):
            return []
        return await anyio.to_thread.run_sync(rollout.new_items)

    async def _cleaned(self, turn: CodexTurn) -> AsyncGenerator[Update]:
        """End the commands that an interrupted turn left running, and hear that they have."""
        deadline = anyio.current_time() + PATIENCE
        left: set[str] = set()
        with suppress(RpcError), anyio.CancelScope(deadline=deadline):
            left = await self._ended_commands(turn)
        while left.intersection(call.call_id for call in turn.calls.running):
            message = await self._next(deadline)
            if message is None:
                return
            for update in turn.take(message):
                yield update

    async def _ended_commands(self, turn: CodexTurn) -> set[str]:
        """The commands that ran on, by the ids of their calls; each will still tell its end."""
        terminals, thread = "thread/backgroundTerminals", {"threadId": turn.thread}
        told = await self._rpc.request(f"{terminals}/list", thread)
        await self._rpc.request(f"{terminals}/clean", thread)
        return {str(each.get("itemId")) for each in cast("list[Object]", told.get("data", []))}

    async def _next(self, deadline: float) -> Object | None:
        with anyio.CancelScope(deadline=deadline):
            return await self._process.receive()
        return None


def _is_end(update: Update) -> bool:
    return isinstance(update, ToolCallFinished)


def _noting(update: Update, taken: list[str]) -> Update:
    """The end of a command, with what was taken back of what it left in git directories."""
    if not taken or not isinstance(update, ToolCallFinished):
        return update
    return replace(update, output={**update.output, "taken_back": taken})


_RECORDED_BY = ("thread/tokenUsage/updated", "turn/completed")


def _text(text: str) -> list[Object]:
    return [{"type": "text", "text": text}]


# -- codex's own record of a thread, read as it grows ------------------------------------------


@dataclass
class Rollout:
    """The part of a record that was not read yet.  Its methods block."""

    path: Path
    _offset: int

    @classmethod
    def at_end(cls, path: Path) -> Rollout:
        """What will be added from now on."""
        return cls(path, path.stat().st_size if path.is_file() else 0)

    def new_items(self) -> list[Object]:
        """The response items that were added since the last look, as far as they are whole."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                added = file.read()
        except OSError:  # gone: then nothing was added
            return []
        whole = added[: added.rfind(b"\n") + 1]
        self._offset += len(whole)
        rows = [parse_object(line) for line in LineSplitter().feed(whole)]
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
    """What the thread had cost before; None where nobody knows."""
    prefix: str = field(default_factory=lambda: uuid4().hex[:8])
    """Codex counts its items from 0 in every process."""
    text: str = ""
    end: End | None = None
    calls: CodexCalls = field(default_factory=CodexCalls)

    @property
    def words(self) -> tuple[str, ...]:
        role = f"developer_instructions={toml_value(self.role)}"
        sandbox = f"default_permissions={toml_value(LOOKING)}"
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
                self._completed(cast("Object", event.get("usage", {})))
            case "turn.failed":
                self.end = failed(cast("Object", event.get("error", {})))
            case _:
                pass

    def left(self, *, broken_off: bool) -> Iterator[Update]:
        yield from self.calls.leave(broken_off=broken_off)

    def gone(self, end: AgentProcessEnded) -> End:
        return gone(end)

    def _item(self, event: Object) -> Object:
        item = cast("Object", event.get("item", {}))
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
        total = Tokens(int(usage.get("input_tokens", 0)), int(usage.get("output_tokens", 0)))
        spent, self.spent = self.spent, total
        self.end = TurnCompleted(self.text, total.since(spent) if spent else None)


class CodexExecChannel(OneShotChannel):
    """`ports.Channel` by `codex exec`."""

    holds_past = True

    def __init__(self, start: StartProcess, run: ExecRun, leftovers: Leftovers) -> None:
        super().__init__(start, run)
        self._leftovers = leftovers

    async def _end_process(self) -> None:
        await super()._end_process()
        await anyio.to_thread.run_sync(self._leftovers.remove)
