"""One turn on a thread: what Codex sends, as updates, up to the event or the error that ends it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import cast

import anyio

from coterie.agents import failures
from coterie.agents.codex.calls import CodexCalls
from coterie.agents.codex.permissions import CodexRequest, CodexRequestReader
from coterie.agents.failures import FailureCase
from coterie.agents.fields import limit_ends_at, mapping, number, text
from coterie.agents.process import AgentProcessEnded, Object, RpcError
from coterie.agents.program import InterruptDeadline
from coterie.model import update
from coterie.process.streams import clean

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_STATUS = re.compile(r"\bstatus:? (\d{3})\b")
_RETRY = re.compile(r"(\d+)/(\d+)")
_TAIL = 4000


SIGN_IN = "codex login"
SIGNED_OUT = failures.SIGNED_OUT.with_hint(
    f"In another terminal: {SIGN_IN} (it serves every codex member). Then try again."
)
_BAD_KEY = failures.BAD_KEY.with_hint(f"{SIGN_IN}, or fix CODEX_API_KEY")
_USED_UP = FailureCase(
    "rate_limit",
    "the account's usage limit is reached",
    "Wait for it to reset, or check the account's plan.",
)
_BY_NAME: Mapping[str, FailureCase] = {
    "usageLimitExceeded": _USED_UP,
    "rateLimitExceeded": failures.LIMIT,
    "unauthorized": _BAD_KEY,
    "modelNotFound": failures.UNKNOWN_MODEL,
    "badRequest": failures.BAD_REQUEST,
    "contextWindowExceeded": failures.TOO_LONG,
    "httpConnectionFailed": failures.UNREACHABLE,
    "responseStreamDisconnected": failures.CUT,
}
_BY_STATUS: Mapping[int, FailureCase] = {
    **failures.BY_STATUS,
    401: _BAD_KEY,
    403: failures.UNKNOWN_MODEL,
}
_BY_WORDS = (("stream disconnected", failures.CUT), ("invalid_request_error", failures.BAD_REQUEST))
"""For errors that Codex has no name for: it says `other`."""


def failed(error: Object, until: str | None = None) -> update.TurnFailed:
    """Return the failure of a turn that ended with this error; `until`: the end of a limit."""
    message = str(error.get("message", ""))
    case = _case(*_info(error), message)
    # An account that pays by use may get another 429 while it is past its limits.
    return case.failure("codex", clean(message), until=until if case is _USED_UP else None)


def refused(error: RpcError) -> update.TurnFailed:
    """Return the failure of a turn for which Codex answered a request with an error."""
    return update.TurnFailed("protocol", f"codex refused {error.method}: {clean(error.message)}")


def gone(end: AgentProcessEnded) -> update.TurnFailed:
    """Return the failure of a turn whose process ended first."""
    return failures.exited("codex", end, readable(end.tail))


def waiting(error: Object) -> update.Waiting:
    """Return an error of the model that Codex retries by itself: `429, retry 2 of 10`."""
    _, status = _info(error)
    match = _RETRY.search(str(error.get("message", "")))
    count = f", retry {match[1]} of {match[2]}" if match else ""
    why = str(status) if status else clean(str(error.get("additionalDetails") or "no answer"))[:200]
    return update.Waiting("model", f"{why}{count}")


def readable(tail: str) -> str:
    """Return the end of what it wrote outside the protocol, without colours."""
    return clean(_ANSI.sub("", tail))[-_TAIL:].strip()


def _case(name: str, status: int | None, message: str) -> FailureCase:
    if status:
        return _BY_STATUS.get(status, failures.FAILING)
    by_words = next((case for words, case in _BY_WORDS if words in message), failures.FAILING)
    return _BY_NAME.get(name, by_words)


def _info(error: Object) -> tuple[str, int | None]:
    """Return an error's name and its HTTP status, which exec only mentions in the message."""
    info: object = error.get("codexErrorInfo")
    if isinstance(info, str):
        return info, None
    if isinstance(info, dict) and info:
        name, detail = next(iter(cast("Object", info).items()))
        status = cast("Object", detail).get("httpStatusCode") if isinstance(detail, dict) else None
        return name, status if isinstance(status, int) else None
    match = _STATUS.search(str(error.get("message", "")))
    return "", int(match[1]) if match else None


UPDATED = "account/rateLimits/updated"
_WINDOWS = ("primary", "secondary")
_ALL = 100
_BY_TIME = "rate_limit_reached"
"""The type of limit that waiting helps with, unlike credits or a limit that the company has set."""


class CodexLimits:
    """What is known of the account's limits; what an update does not mention stays as it was."""

    def __init__(self) -> None:
        self._waiting_helps = True
        self._used_up: dict[tuple[str, str], int | float] = {}
        """By limit and window: when the window resets, in seconds since 1970."""

    def record(self, params: Object) -> None:
        limits = mapping(params.get("rateLimits"))
        reached = text(limits.get("rateLimitReachedType"))
        if reached:
            self._waiting_helps = reached == _BY_TIME
        for name in _WINDOWS:
            window = mapping(limits.get(name))
            place = (text(limits.get("limitId")), name)
            if number(window.get("usedPercent")) >= _ALL:
                self._used_up[place] = number(window.get("resetsAt"))
            elif window:
                self._used_up.pop(place, None)

    @property
    def until(self) -> str | None:
        """When the last of those that are used up ends; None if unknown."""
        last = max(self._used_up.values(), default=0)
        return limit_ends_at(last) if self._waiting_helps else None


SOURCE = "codex"
_USAGE = "thread/tokenUsage/updated"


@dataclass(frozen=True)
class Tokens:
    """What a thread has cost so far."""

    input: int = 0
    output: int = 0

    def since(self, before: Tokens) -> update.Usage:
        """Return what was spent since then."""
        return update.Usage(self.input - before.input, self.output - before.output, source=SOURCE)


@dataclass
class CodexTurn:
    """The state of one turn.  `take` gets every message, in order."""

    thread: str
    cwd: str
    before: Tokens
    confined: bool = False
    """Whether its commands can only read, and only in the folder it works in."""
    permits_folder: str = ""
    """The folder of the permits that its commands wait for; empty if they need none."""
    id: str = ""
    interrupted: bool = False
    """Whether the user interrupted it."""
    deadline: InterruptDeadline = field(default_factory=InterruptDeadline)
    ours: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    """What is done for it on this side, as long as nobody interrupts it."""
    end: update.End | None = None
    request: CodexRequest | None = None
    """The last request; nothing follows it until it is answered."""
    unanswerable: list[object] = field(default_factory=list[object])
    """Ids of requests that a yes or a no does not answer."""
    calls: CodexCalls = field(init=False)
    _limits: CodexLimits = field(default_factory=CodexLimits)
    _spent: Tokens | None = None
    _texts: dict[str, str] = field(default_factory=dict[str, str])
    """What it said, message by message; the last is the reply."""

    def __post_init__(self) -> None:
        self.calls = CodexCalls(self.permits_folder)
        self._handlers: Mapping[str, Callable[[Object], Iterator[update.Update]]] = {
            "error": self._error,
            "item/agentMessage/delta": self._text_delta,
            "item/completed": self._item_completed,
            "item/started": lambda given: self.calls.item_started(mapping(given.get("item"))),
            "rawResponseItem/completed": lambda given: self.calls.raw(mapping(given.get("item"))),
            _USAGE: self._usage,
            "turn/completed": self._completed,
        }

    def interrupt(self) -> None:
        """Note that the user interrupted it, and stop what is done for it on this side."""
        self.interrupted = True
        self.ours.cancel()
        self.deadline.start()

    def interruptible(self) -> anyio.CancelScope:
        """Return a scope that ends with the interrupt, at once if there was one."""
        self.ours = anyio.CancelScope(deadline=-inf if self.interrupted else inf)
        return self.ours

    @property
    def text(self) -> str:
        """The last message, as far as it has arrived."""
        return next(reversed(self._texts.values()), "")

    @property
    def tokens(self) -> Tokens:
        """What the thread has cost up to now."""
        return self._spent or self.before

    def take(self, message: Object) -> Iterator[update.Update]:
        """Yield the updates in a message; anything from this thread is at least a sign of life."""
        params = mapping(message.get("params"))
        method = str(message.get("method", ""))
        if "id" in message:
            yield from self._asked(message) if method else ()
            return
        if method == UPDATED:  # about the account, whichever thread it names
            self._limits.record(params)
        if params.get("threadId") != self.thread:
            return
        if _turn_of(params) not in ("", self.id):
            self._of_another_turn(method, params)
            return
        handle = self._handlers.get(method)
        updates = list(handle(params)) if handle else []
        yield from updates or (update.Activity(),)

    def _asked(self, message: Object) -> Iterator[update.Update]:
        reader = CodexRequestReader(message, self.cwd, self.text, self.calls, self.confined)
        # Once interrupted, nobody is asked: the turn is about to end.
        self.request = None if self.interrupted else reader.request()
        if self.request is None:
            self.unanswerable.append(message.get("id"))
            yield update.Activity()
        else:
            yield self.request.asked

    def _text_delta(self, params: Object) -> Iterator[update.Update]:
        key, delta = str(params.get("itemId")), clean(str(params.get("delta", "")))
        if key not in self._texts and self._texts:
            yield update.TextDelta("\n\n")
        self._texts[key] = self._texts.get(key, "") + delta
        yield update.TextDelta(delta)

    def _item_completed(self, params: Object) -> Iterator[update.Update]:
        item = mapping(params.get("item"))
        if item.get("type") == "agentMessage":
            key, text = str(item.get("id")), str(item.get("text", ""))
            if key not in self._texts:
                yield from self._text_delta({"itemId": key, "delta": text})
            self._texts[key] = clean(text)
        yield from self.calls.item_completed(item)

    def _usage(self, params: Object) -> Iterator[update.Update]:
        self._spent = _total(params)
        yield update.Activity()

    def _error(self, params: Object) -> Iterator[update.Update]:
        # Any other error is reported again at the end of the turn, which it does not end itself.
        if params.get("willRetry") is True:
            yield waiting(mapping(params.get("error")))

    def _completed(self, params: Object) -> Iterator[update.Update]:
        turn = mapping(params.get("turn"))
        match turn.get("status"):
            case "completed":
                spent = self._spent.since(self.before) if self._spent else None
                self.end = update.TurnCompleted(self.text, spent)
            case "interrupted" if self.interrupted:
                self.end = update.TurnInterrupted(self.text)
            case "failed":
                self.end = failed(mapping(turn.get("error")), self._limits.until)
            case status:
                self.end = update.TurnFailed(
                    "protocol", f"codex ended the turn as {status!r} by itself"
                )
        yield update.Activity()

    def _of_another_turn(self, method: str, params: Object) -> None:
        """Handle a late message of an earlier turn, or one sent when a thread is resumed."""
        if method == _USAGE and self._spent is None:
            self.before = _total(params)


def _turn_of(params: Object) -> str:
    """Return the turn that a notification is about; empty if it is about none."""
    return str(params.get("turnId") or mapping(params.get("turn")).get("id") or "")


def _total(params: Object) -> Tokens:
    total = mapping(mapping(params.get("tokenUsage")).get("total"))
    return Tokens(*(int(number(total.get(f"{way}Tokens"))) for way in ("input", "output")))
