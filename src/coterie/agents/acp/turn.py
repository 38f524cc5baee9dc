"""One turn of an agent: its updates as they come, what it cost, and why it failed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from coterie.agents import failures
from coterie.agents.acp.calls import AcpCall, AcpCalls
from coterie.agents.failures import LONGEST_WORDS, FailureCase
from coterie.agents.fields import limit_ends_after, mapping, mappings, number, text
from coterie.agents.process import AgentProcessEnded, Object, RpcError, result_of
from coterie.agents.program import CallUpdate, InterruptDeadline
from coterie.model import update
from coterie.process.streams import parse_object

SIGNED_OUT = -32000
"""The protocol's error code of an agent that wants somebody to sign in first."""
_STATUS = re.compile(r"(?:^|error:?|status:?)\s*([45]\d\d)\b", re.IGNORECASE)
"""Qwen starts its message with the status, a bridge to Claude has it in the middle; Gemini gives
it as the error code."""

_AFTER = re.compile(
    r"\b(?:(?:re)?try (?:again )?(?:after|in)|reset after)\s+"
    r"(?=\d)(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?![\w.]*\w)",
    re.IGNORECASE,
)
"""How messages say when a limit ends: `retry after 7200s` from Gemini, `reset after 13h5m7s` from
its service, `try again in 7m12s` from OpenAI's."""
_SHORT = 30.0
"""A limit that ends within this many seconds is per minute: retried like any other failure."""


_QUOTA = FailureCase(
    "rate_limit",
    "the model's quota is used up",
    "Wait until it resets, or give the member another model.",
)
_CUT = failures.CUT.with_hint("Try again.")
_OTHER = FailureCase("protocol", "{name} could not complete the turn", retry=True)
_EMPTY = FailureCase("model", "{name} got an empty or blocked reply from its model", retry=True)

# Checked before the status: Gemini reports a model's 404 as a 500, and a bad key as a 400.
_BY_WORDS = (
    (
        re.compile(r"api.?key.{0,20}(not valid|invalid)|(invalid|incorrect).{0,20}api.?key"),
        failures.BAD_KEY,
    ),
    (
        re.compile(r"models?\b.{0,80}(not found|does not exist|not supported)"),
        failures.UNKNOWN_MODEL,
    ),
    (re.compile(r"\bquota\b.{0,40}exceeded|exhausted.{0,40}\bquota\b"), _QUOTA),
)
# Checked only where the status leaves the cause open.
_BY_WORDS_ALONE = (
    (re.compile(r"rate.?limit|too many requests"), failures.LIMIT),
    (re.compile(r"empty response|response was blocked"), _EMPTY),
    (re.compile(r"^terminated$|socket|econnre|connection|fetch failed"), _CUT),
)
_STOPPED = {
    "refusal": failures.REFUSED,
    "max_tokens": FailureCase(
        "model",
        "the model's token limit was reached before the reply was complete",
        failures.TOO_LONG.hint,
    ),
    "max_turn_requests": FailureCase(
        "refused",
        "{name} stopped by itself: it asked its model too often, or went in circles",
        "Say more precisely what you want.",
    ),
    "cancelled": failures.ABORTED,
}


@dataclass(frozen=True)
class Failures:
    """Reports the failures of one agent."""

    name: str
    sign_in: str
    """What a person does to sign in."""

    def failed(self, error: RpcError) -> update.TurnFailed:
        """Return the failure of a turn that was answered with an error."""
        words = words_of(error)
        if error.code == SIGNED_OUT:
            return self.signed_out(words)
        status = _status_of(error, words)
        clear = status in failures.BY_STATUS and status != 400
        cases = _BY_WORDS if clear else (*_BY_WORDS, *_BY_WORDS_ALONE)
        case = next((case for pattern, case in cases if pattern.search(words.lower())), None)
        if case is None:
            failing = failures.FAILING if status >= 500 else _OTHER
            case = failures.BY_STATUS.get(status, failing)
        return self._failure(case, words)

    def signed_out(self, words: str) -> update.TurnFailed:
        """Return the failure of an agent that refuses to work until somebody signs in."""
        return self._failure(failures.SIGNED_OUT, words)

    def stopped(self, reason: str) -> update.TurnFailed | None:
        """Return the failure of a turn that ended for this reason; None if it is no failure."""
        case = _STOPPED.get(reason)
        return self._failure(case, "") if case else None

    def empty(self) -> update.TurnFailed:
        """Return the failure of a turn that ended well but in which nothing was said or done."""
        return self._failure(_EMPTY, "")

    def gone(self, end: AgentProcessEnded) -> update.TurnFailed:
        return failures.exited(self.name, end)

    def _failure(self, case: FailureCase, words: str) -> update.TurnFailed:
        case = case.with_hint(self.sign_in) if case.kind == "signed_out" else case
        until = _end_of_limit(words) if case.kind == "rate_limit" else None
        return case.failure(self.name, words, until=until)


def words_of(error: RpcError) -> str:
    """Return what the agent says about an error, unwrapped from JSON if necessary."""
    message = text(mapping(error.data).get("details")) or error.message
    return (text(_wrapped(message).get("message")) or message).strip()


def _status_of(error: RpcError, words: str) -> int:
    """Return the model service's status: the error code, or wherever an agent puts it."""
    match = _STATUS.search(words)
    codes = (error.code, _wrapped(error.message).get("code"), int(match[1]) if match else 0)
    return next((code for code in codes if isinstance(code, int) and 400 <= code < 600), 0)


def _end_of_limit(words: str) -> str | None:
    match = _AFTER.search(words)
    if match is None:
        return None
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    wait = hours * 3600 + minutes * 60 + seconds
    return limit_ends_after(wait) if wait > _SHORT else None


def _wrapped(message: str) -> Object:
    return mapping((parse_object(message) or {}).get("error"))


def ways_to_sign_in(answer: Object) -> str:
    """Return the ways to sign in that an agent offers in its answer to `initialize`."""
    offered = mappings(answer.get("authMethods"))
    ways = (text(way.get("description")) or text(way.get("name")) for way in offered)
    return "; ".join(way for way in ways if way)[:LONGEST_WORDS]


class AcpUsage:
    """What an agent has reported about the cost of its turns.

    It comes with the answer to a prompt (`usage`; Gemini: `_meta.quota`), or with every answer of
    the model (Qwen: `_meta.usage`).  The price, if any, is cumulative over the whole thread.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._reported: list[Object] = []
        self._price: float | None = None
        self._paid = 0.0

    def begin(self) -> None:
        self._reported.clear()
        self._paid = self._price or 0.0

    def add(self, meta: Object) -> None:
        """Record the cost of one answer of the model."""
        if usage := mapping(meta.get("usage")):
            self._reported.append(usage)

    def priced(self, cost: Object) -> None:
        """Record what the thread has cost up to now."""
        if cost.get("currency") == "USD":
            self._price = float(number(cost.get("amount")))

    def usage(self, result: Object) -> update.Usage | None:
        """Return the cost of the turn that this answer ends; None if nothing was reported."""
        usage = mapping(result.get("usage"))
        quota = mapping(mapping(mapping(result.get("_meta")).get("quota")).get("token_count"))
        if usage:
            return self._sum([usage])
        if quota:
            named = {"inputTokens": quota.get("input_tokens")}
            return self._sum([named | {"outputTokens": quota.get("output_tokens")}])
        return self._sum(self._reported) if self._reported else None

    def _sum(self, reports: Sequence[Object]) -> update.Usage:
        return update.Usage(
            input_tokens=sum(map(_input, reports)),
            output_tokens=sum(int(number(each.get("outputTokens"))) for each in reports),
            cost_usd=None if self._price is None else self._price - self._paid,
            source=self._source,
        )


def _input(usage: Object) -> int:
    """Return the input tokens, including cached ones, which some agents count separately."""
    tokens_in, tokens_out, thought, total = (
        int(number(usage.get(f"{name}Tokens"))) for name in ("input", "output", "thought", "total")
    )
    return max(tokens_in, total - tokens_out - thought)


GAP = "\n\n"


class AcpTurn:
    """The state of the current turn."""

    def __init__(
        self, prompt: int, failures: Failures, spent: AcpUsage, call_type: type[AcpCall]
    ) -> None:
        self.prompt = prompt
        """The id of the request whose answer ends the turn."""
        self.interrupted = False
        """Whether the user interrupted it."""
        self.deadline: InterruptDeadline = InterruptDeadline()
        self.end: update.End | None = None
        self.calls: AcpCalls = AcpCalls(call_type)
        self.pending_updates: list[CallUpdate] = []
        """Updates that do not come from the agent: the ends of rejected calls."""
        self._failures = failures
        self._spent = spent
        self._texts: list[list[str]] = []
        """What it said, text by text, each as the pieces in which it arrived."""
        self._message_id = ""
        self._apart = True
        """Whether the next piece starts a new text."""
        self._handlers: Mapping[str, Callable[[Object], Iterable[update.Update]]] = {
            "agent_message_chunk": self._message_chunk,
            "tool_call": self._called,
            "tool_call_update": self._called,
            "usage_update": self._used,
        }

    @property
    def text(self) -> str:
        texts = ("".join(pieces) for pieces in self._texts)
        return GAP.join(part for part in texts if part.strip())

    @property
    def last(self) -> str:
        """The last text that it said."""
        return "".join(self._texts[-1]).strip() if self._texts else ""

    def handle(self, message: Object) -> Iterable[update.Update]:
        """Return the updates in one of the agent's; whatever it is, it is a sign of life."""
        handler = self._handlers.get(text(message.get("sessionUpdate")))
        return (list(handler(message)) if handler else []) or [update.Activity()]

    def answered(self, message: Object) -> Iterable[update.Update]:
        """Handle the answer to the prompt, which ends the turn."""
        try:
            result = result_of("session/prompt", message)
        except RpcError as error:
            failure = self._failures.failed(error)
            self.end = update.TurnInterrupted(self.text) if self.interrupted else failure
        else:
            self.end = self._ended(result)
        return self.calls.finish_open_calls(interrupted=self.interrupted)

    def asked(self, call: AcpCall) -> list[CallUpdate]:
        """Record a request for permission; not every agent has reported the call before."""
        self._apart = True
        call.asked += 1
        return list(self.calls.begin(call))

    def reject(self, call: AcpCall, why: str) -> None:
        """Finish a rejected call: not every agent reports its end."""
        output = {"status": "rejected", "reason": why} if why else {"status": "rejected"}
        self.pending_updates += self.calls.finish(call.id, True, output)

    def take_pending_updates(self) -> Iterable[update.Update]:
        """Return the pending updates that do not come from the agent, and forget them."""
        taken, self.pending_updates = self.pending_updates, []
        return taken

    def _message_chunk(self, message: Object) -> Iterable[update.Update]:
        self._spent.add(mapping(message.get("_meta")))
        piece = text(mapping(message.get("content")).get("text"))
        message_id = text(message.get("messageId"))
        if not piece:
            return
        gap = ""
        if self._apart or message_id != self._message_id:
            gap = GAP if self._texts else ""
            self._texts.append([])
        self._apart = False
        self._message_id = message_id
        self._texts[-1].append(piece)
        yield update.TextDelta(gap + piece)

    def _called(self, message: Object) -> Iterable[update.Update]:
        self._apart = True
        yield from self.calls.handle(message, interrupted=self.interrupted)

    def _used(self, message: Object) -> Iterable[update.Update]:
        self._spent.priced(mapping(message.get("cost")))
        yield update.Activity()

    def _ended(self, result: Object) -> update.End:
        reason = text(result.get("stopReason"))
        if self.interrupted:
            return update.TurnInterrupted(self.text)
        failure = self._failures.stopped(reason)
        if failure is None and not (self.text or self.calls.any):
            failure = self._failures.empty()
        return failure or update.TurnCompleted(self.text, self._spent.usage(result))
