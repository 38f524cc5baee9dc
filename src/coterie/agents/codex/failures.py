"""What went wrong, in our words first: Codex's errors as failures and as reasons to wait."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

from coterie.agents import failures
from coterie.agents.failures import FailureCase
from coterie.agents.fields import limit_ends_at, mapping, number, text
from coterie.agents.process import AgentProcessEnded, Object, RpcError
from coterie.model.update import TurnFailed, Waiting
from coterie.process.stdio_turns import clean

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_STATUS = re.compile(r"\bstatus:? (\d{3})\b")
_RETRY = re.compile(r"(\d+)/(\d+)")
_TAIL = 4000


SIGN_IN = "codex login"
_SIGNED_OUT = failures.SIGNED_OUT.hinting(
    f"In another terminal: {SIGN_IN} (it serves every codex member). Then try again."
)
_BAD_KEY = failures.BAD_KEY.hinting(f"{SIGN_IN}, or mend CODEX_API_KEY")
_USED_UP = FailureCase(
    "rate_limit",
    "the account's usage limit is reached",
    "Wait for its reset, or look at the plan of the account.",
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
_BY_WORDS = (
    ("stream disconnected", failures.CUT),
    ("invalid_request_error", failures.BAD_REQUEST),
)
"""For what Codex itself has no name: it says `other`."""


def failed(error: Object, until: str | None = None) -> TurnFailed:
    """A turn that ended with this error; `until`: when the account's limit ends."""
    theirs = str(error.get("message", ""))
    case = _case(*_info(error), theirs)
    # Another 429 may come while an account that pays by use is past its limits.
    return case.failure("codex", clean(theirs), until=until if case is _USED_UP else None)


def signed_out() -> TurnFailed:
    """A turn that was not begun: nobody has signed in."""
    return _SIGNED_OUT.failure("codex")


def refused(error: RpcError) -> TurnFailed:
    """A request that Codex answered with an error."""
    return TurnFailed("protocol", f"codex refused {error.method}: {clean(error.message)}")


def gone(end: AgentProcessEnded) -> TurnFailed:
    """The process ended in the middle."""
    return failures.exited("codex", end, readable(end.tail))


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


def _case(name: str, status: int | None, theirs: str) -> FailureCase:
    if status:
        return _BY_STATUS.get(status, failures.FAILING)
    by_words = next((case for words, case in _BY_WORDS if words in theirs), failures.FAILING)
    return _BY_NAME.get(name, by_words)


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


# -- the account's limits, as Codex tells them -------------------------------------------------


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
