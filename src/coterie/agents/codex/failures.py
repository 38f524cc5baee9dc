"""What went wrong, in our words first: Codex's errors as failures and as reasons to wait."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from coterie.agents.rpc import RpcError
from coterie.agents.wire import Object, WireEnded
from coterie.model.update import FailureKind, TurnFailed, Waiting
from coterie.process.completion import clean

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


SIGNED_OUT = _Sense("signed_out", "codex is not signed in", "codex login", retry=False)
_BUSY = _Sense("rate_limit", "the model service takes no more requests for now")
_NO_MODEL = _Sense(
    "model",
    "the model service does not know this model, or the account may not use it",
    "Name another model for this member in the team file.",
    retry=False,
)
_UNREACHED = _Sense("model", "the model service could not be reached", "coterie doctor")
_BROKEN = _Sense("model", "the model service failed")

_BY_NAME: Mapping[str, _Sense] = {
    "usageLimitExceeded": _Sense(
        "rate_limit",
        "the account's usage limit is reached",
        "Wait for its reset, or look at the plan of the account.",
        retry=False,
    ),
    "rateLimitExceeded": _BUSY,
    "unauthorized": SIGNED_OUT,
    "modelNotFound": _NO_MODEL,
    "contextWindowExceeded": _Sense(
        "model",
        "the conversation has grown larger than the model can take",
        "Start a new task.",
        retry=False,
    ),
    "httpConnectionFailed": _UNREACHED,
}
_BY_STATUS: Mapping[int, _Sense] = {401: SIGNED_OUT, 403: _NO_MODEL, 404: _NO_MODEL, 429: _BUSY}


def failed(error: Object) -> TurnFailed:
    """A turn that ended with this error."""
    name, status = _info(error)
    sense = _BY_STATUS.get(status or 0) or _BY_NAME.get(name, _BROKEN)
    return _told(sense, str(error.get("message", "")))


def signed_out() -> TurnFailed:
    """A turn that was not begun: nobody has signed in."""
    return _told(SIGNED_OUT, "")


def refused(error: RpcError) -> TurnFailed:
    """A request that Codex answered with an error."""
    return TurnFailed("protocol", f"codex refused {error.method}: {clean(error.message)}")


def gone(end: WireEnded) -> TurnFailed:
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
