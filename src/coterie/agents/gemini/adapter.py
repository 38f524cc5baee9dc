"""The adapter for Gemini CLI: the Agent Client Protocol, in a home of its own.

The fallback for a Gemini that does not speak it is `gemini --output-format stream-json`, one
process per turn.  It cannot ask, so tools that would need a yes are not available.  It has no
memory: what was said before comes from our own store with every prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, cast

import anyio.to_thread

from coterie.agents.acp.adapter import AcpAdapter, AcpHome
from coterie.agents.acp.calls import AcpCall
from coterie.agents.acp.channel import AcpChannel
from coterie.agents.acp.turn import Failures
from coterie.agents.fields import bounded, mapping, number, text, verbatim
from coterie.agents.gemini import FACTS
from coterie.agents.gemini.calls import GeminiCall
from coterie.agents.gemini.home import UNATTENDED, prepare
from coterie.agents.process import AgentProcess, AgentProcessEnded, Object, RpcError
from coterie.agents.program import CallLedger, OneShotChannel
from coterie.errors import AgentMissing
from coterie.model import update
from coterie.model.agent import AgentDefinition
from coterie.model.team import Member
from coterie.model.workspace import InteractiveStart, Workspace

_API_ERROR = re.compile(r"\[API Error: (.*)\]", re.DOTALL)
_LOOKING = frozenset(
    {"glob", "grep_search", "list_directory", "read_file", "read_many_files", "update_topic"}
)
_NOT_SIGNED_IN = 41
"""The exit code of a Gemini without a login."""


@dataclass
class HeadlessRun:
    """`OneShotRun` of a Gemini that does not speak the protocol."""

    failures: Failures
    thread = None
    words: tuple[str, ...] = ("--output-format", "stream-json")
    pieces: list[str] = field(default_factory=list[str])
    complaint: str = ""
    """The last error that it reported."""
    end: update.End | None = None
    calls: CallLedger = field(default_factory=CallLedger)

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def next(self) -> HeadlessRun:
        """Return a fresh run, which knows nothing of earlier turns."""
        return HeadlessRun(self.failures)

    def take(self, event: Object) -> Iterator[update.Update]:
        yield update.Activity()
        match event.get("type"):
            case "message" if event.get("role") == "assistant":
                yield from self._text_delta(text(event.get("content")))
            case "tool_use":
                yield from self.calls.start(_called(event))
            case "tool_result":
                yield from self.calls.finish(*_returned(event))
            case "error":
                self.complaint = text(event.get("message"))
            case "result":
                self.end = self._ended(event)
            case _:
                pass

    def _text_delta(self, piece: str) -> Iterator[update.Update]:
        if piece:
            self.pieces.append(piece)
            yield update.TextDelta(piece)

    def finish_open_calls(self, *, interrupted: bool) -> Iterator[update.Update]:
        """Finish the calls that have not ended, unless their outcome is unknown."""
        if isinstance(self.end, update.TurnFailed) and self.end.kind == "exit":
            return
        yield from self.calls.finish_open_calls(interrupted=interrupted)

    def end_of_exit(self, end: AgentProcessEnded) -> update.End:
        signed_out = end.exit_code == _NOT_SIGNED_IN
        return self.failures.signed_out(end.tail) if signed_out else self.failures.gone(end)

    def _ended(self, event: Object) -> update.End:
        if event.get("status") != "success":
            words = text(mapping(event.get("error")).get("message")) or self.complaint
            match = _API_ERROR.match(words)
            # In the form the protocol would have reported it.
            return self.failures.failed(RpcError("", {"message": match[1] if match else words}))
        if not (self.text or self.calls.started):
            return self.failures.empty()
        stats = mapping(event.get("stats"))
        given, made = (int(number(stats.get(f"{way}_tokens"))) for way in ("input", "output"))
        return update.TurnCompleted(self.text, update.Usage(given, made, source=self.failures.name))


def _called(event: Object) -> update.ToolCallStarted:
    call_id, given = text(event.get("tool_id")), verbatim(mapping(event.get("parameters")))
    name = text(event.get("tool_name"))
    effect = "read" if name in _LOOKING else "other"
    return update.ToolCallStarted(call_id, name, cast("Object", given), effect)


def _returned(event: Object) -> tuple[str, bool, Object]:
    result = {"text": text(event.get("output")), "error": mapping(event.get("error"))}
    output = bounded({name: value for name, value in result.items() if value})
    failed = event.get("status") != "success"
    return text(event.get("tool_id")), failed, cast("Object", output)


_NO_PROTOCOL = re.compile(r"Unknown arguments?: (?:.*, )?acp\b")
"""The error of a Gemini that does not know the flag for the protocol."""


@dataclass(frozen=True)
class GeminiAdapter(AcpAdapter):
    """Opens members' channels to Gemini."""

    call_type: ClassVar[type[AcpCall]] = GeminiCall

    @classmethod
    def prepare(cls, member: Member, workspace: Workspace) -> AcpHome:
        return prepare(member, workspace)

    async def open(
        self, member: Member, workspace: Workspace, thread: str | None
    ) -> AcpChannel | OneShotChannel:
        """Open a channel on a new thread: what Gemini keeps of an old one may be lost."""
        try:
            return await super().open(member, workspace, thread)
        except AgentMissing as error:
            if _NO_PROTOCOL.search(error.problem) is None:
                raise
        home = await anyio.to_thread.run_sync(prepare, member, workspace)
        each = partial(self.launch, member, workspace, home)
        return OneShotChannel(each, HeadlessRun(Failures(self.agent.name, home.sign_in)))

    @classmethod
    def interactive(
        cls, agent: AgentDefinition, member: Member, workspace: Workspace
    ) -> InteractiveStart:
        home = prepare(member, workspace)
        given = FACTS.flags.passed_on((*agent.base_args, *member.additional_args))
        ours = UNATTENDED.keys() - workspace.env.keys()
        env = {name: value for name, value in home.env.items() if name not in ours}
        return InteractiveStart((*home.args, *given), env)

    def model_by_protocol(self, member: Member) -> str | None:
        return None

    async def launch(
        self, member: Member, workspace: Workspace, home: AcpHome, *call: str
    ) -> AgentProcess:
        given = FACTS.flags.passed_on((*self.agent.base_args, *member.additional_args))
        words = (*(call or ("--acp",)), *home.args, *given)
        return await self.start(member, workspace, home.cwd, home.env, *words)
