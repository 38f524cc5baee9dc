"""What went wrong, in our words first: Codex's errors as failures and as reasons to wait."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

from coterie.agents.fields import limit_ends_at, mapping, number, text
from coterie.agents.process import AgentProcessEnded, Object, RpcError
from coterie.model.update import FailureKind, TurnFailed, Waiting
from coterie.process.stdio_turns import clean

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_STATUS = re.compile(r"\bstatus:? (\d{3})\b")
_RETRY = re.compile(r"(\d+)/(\d+)")
_TAIL = 4000


@dataclass(frozen=True)
class _Sense:
    """What an error means for a person."""

    kind: FailureKind
    words: str
    hint: str | None = None
    retry: bool = True


SIGN_IN = "codex login"
_WAIT = "Wait, then try again."
_SIGNED_OUT = _Sense(
    "signed_out",
    "codex is not signed in",
    f"In another terminal: {SIGN_IN} (it serves every codex member). Then try again.",
    retry=False,
)
_BAD_KEY = _Sense(
    "signed_out",
    "the key or login that codex was given is refused",
    f"{SIGN_IN}, or mend CODEX_API_KEY",
    retry=False,
)
_LIMIT = _Sense("rate_limit", "the model's rate limit is reached", _WAIT)
_NO_MODEL = _Sense(
    "model",
    "the model is not known, or not open to this account",
    "Give the member another model in the team file.",
    retry=False,
)
_BAD_REQUEST = _Sense("model", "the model service refused the request", retry=False)
_UNREACHABLE = _Sense(
    "model", "the model service cannot be reached", "Look at the network, then try again."
)
_CUT = _Sense("model", "the connection to the model was cut", _UNREACHABLE.hint)
_FAILING = _Sense("model", "the model service is failing", _WAIT)

_USED_UP = _Sense(
    "rate_limit",
    "the account's usage limit is reached",
    "Wait for its reset, or look at the plan of the account.",
    retry=False,
)

_BY_NAME: Mapping[str, _Sense] = {
    "usageLimitExceeded": _USED_UP,
    "rateLimitExceeded": _LIMIT,
    "unauthorized": _BAD_KEY,
    "modelNotFound": _NO_MODEL,
    "badRequest": _BAD_REQUEST,
    "contextWindowExceeded": _Sense(
        "model",
        "the conversation is longer than the model can take",
        "Start a new task, or give the member less to read.",
        retry=False,
    ),
    "httpConnectionFailed": _UNREACHABLE,
    "responseStreamDisconnected": _CUT,
}
_BY_STATUS: Mapping[int, _Sense] = {
    400: _BAD_REQUEST,
    401: _BAD_KEY,
    403: _NO_MODEL,
    404: _NO_MODEL,
    429: _LIMIT,
}
_BY_WORDS = (("stream disconnected", _CUT), ("invalid_request_error", _BAD_REQUEST))
"""For what Codex itself has no name: it says `other`."""


def failed(error: Object, until: str | None = None) -> TurnFailed:
    """A turn that ended with this error; `until`: when the account's limit ends."""
    theirs = str(error.get("message", ""))
    sense = _sense(*_info(error), theirs)
    end = _told(sense, theirs)
    # Another 429 may come while an account that pays by use is past its limits.
    return replace(end, until=until) if sense is _USED_UP else end


def signed_out() -> TurnFailed:
    """A turn that was not begun: nobody has signed in."""
    return _told(_SIGNED_OUT, "")


def refused(error: RpcError) -> TurnFailed:
    """A request that Codex answered with an error."""
    return TurnFailed("protocol", f"codex refused {error.method}: {clean(error.message)}")


def gone(end: AgentProcessEnded) -> TurnFailed:
    """The process ended in the middle."""
    tail = readable(end.tail)
    return TurnFailed(
        "exit",
        f"codex ended in the middle of the turn (exit code {end.exit_code})",
        exit_code=end.exit_code,
        stderr_tail=tail,
    )


def waiting(error: Object) -> Waiting:
    """An error that Codex itself tries to get over: `model: 429, retry 2 of 10`."""
    _, status = _info(error)
    found = _RETRY.search(str(error.get("message", "")))
    count = f", retry {found[1]} of {found[2]}" if found else ""
    why = str(status) if status else clean(str(error.get("additionalDetails") or "no answer"))[:200]
    return Waiting(f"model: {why}{count}")


def readable(tail: str) -> str:
    """The end of what it wrote outside the protocol, without colours."""
    return clean(_ANSI.sub("", tail))[-_TAIL:].strip()


def _sense(name: str, status: int | None, theirs: str) -> _Sense:
    if status:
        return _BY_STATUS.get(status, _FAILING)
    by_words = next((sense for words, sense in _BY_WORDS if words in theirs), _FAILING)
    return _BY_NAME.get(name, by_words)


def _told(sense: _Sense, theirs: str) -> TurnFailed:
    message = f"{sense.words}. Codex says: {clean(theirs)[:1000]}" if theirs else sense.words
    return TurnFailed(sense.kind, message, retry=sense.retry, hint=sense.hint)


def _info(error: Object) -> tuple[str, int | None]:
    """The name of an error and the HTTP status behind it; exec tells the latter in words only."""
    info: object = error.get("codexErrorInfo")
    if isinstance(info, str):
        return info, None
    if isinstance(info, dict) and info:
        name, detail = next(iter(cast("Object", info).items()))
        status = cast("Object", detail).get("httpStatusCode") if isinstance(detail, dict) else None
        return name, status if isinstance(status, int) else None
    found = _STATUS.search(str(error.get("message", "")))
    return "", int(found[1]) if found else None


# -- the account's limits, as Codex tells them ---------------------------------------------------


UPDATED = "account/rateLimits/updated"
_WINDOWS = ("primary", "secondary")
_ALL = 100
_BY_TIME = "rate_limit_reached"
"""What is reached, if it is not the credits, or a limit that somebody in the company has set."""


class CodexLimits:
    """What is known of them; what an update does not speak of stays as it was."""

    def __init__(self) -> None:
        self._waiting_helps = True
        self._used_up: dict[tuple[str, str], int | float] = {}
        """By limit and window: when that begins anew, in seconds since 1970."""

    def hear(self, params: Object) -> None:
        """Take an update in."""
        told = mapping(params.get("rateLimits"))
        reached = text(told.get("rateLimitReachedType"))
        if reached:
            self._waiting_helps = reached == _BY_TIME
        for name in _WINDOWS:
            window = mapping(told.get(name))
            place = (text(told.get("limitId")), name)
            if number(window.get("usedPercent")) >= _ALL:
                self._used_up[place] = number(window.get("resetsAt"))
            elif window:
                self._used_up.pop(place, None)

    @property
    def until(self) -> str | None:
        """When the last of those that are used up ends; None where nobody knows."""
        last = max(self._used_up.values(), default=0)
        return limit_ends_at(last) if self._waiting_helps else None
