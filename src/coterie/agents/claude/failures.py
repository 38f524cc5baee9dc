"""Why a turn failed: our words first, Claude's after them, and what a person can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coterie.agents.fields import limit_ends_at, number, text
from coterie.agents.process import AgentProcessEnded, Object
from coterie.model.update import FailureKind, TurnFailed

SIGN_IN = "claude auth login"
_LONGEST_WORDS = 600


@dataclass(frozen=True)
class ApiTrouble:
    """What is known of an API that fails: Claude's own word for it, and when a limit ends."""

    word: str = ""
    until: str | None = None


def end_of(limit: Object) -> str | None:
    """When a limit ends that Claude tells of; None where it still answers, or pays by use."""
    if limit.get("status") != "rejected" or limit.get("isUsingOverage") is True:
        return None
    return limit_ends_at(number(limit.get("resetsAt")))


@dataclass(frozen=True)
class _FailureCase:
    kind: FailureKind
    ours: str
    retry: bool = True
    hint: str | None = None


_SIGNED_OUT = _FailureCase(
    "signed_out",
    "claude is not signed in",
    retry=False,
    hint=f"In another terminal: {SIGN_IN} (it serves every claude member). Then try again.",
)
_BAD_KEY = _FailureCase(
    "signed_out",
    "the key or login that claude was given is refused",
    retry=False,
    hint=f"{SIGN_IN}, or mend ANTHROPIC_API_KEY",
)
_BILLING = _FailureCase(
    "model", "the account has no credit left", retry=False, hint="Top it up, then try again."
)
_UNKNOWN_MODEL = _FailureCase(
    "model",
    "the model is not known, or not open to this account",
    retry=False,
    hint="Give the member another model in the team file.",
)
_TOO_LONG = _FailureCase(
    "model",
    "the conversation is longer than the model can take",
    retry=False,
    hint="Start a new task, or give the member less to read.",
)
_REFUSED = _FailureCase(
    "refused", "the model will not answer this", retry=False, hint="Say it in another way."
)
_LIMIT = _FailureCase(
    "rate_limit", "the model's rate limit is reached", hint="Wait, then try again."
)
_BAD_REQUEST = _FailureCase("model", "the model service refused the request", retry=False)
_FORBIDDEN = _FailureCase("model", "the account may not use this model", retry=False, hint=SIGN_IN)
_FAILING = _FailureCase("model", "the model service is failing", hint="Wait, then try again.")
_UNREACHABLE = _FailureCase(
    "model", "the model service cannot be reached", hint="Look at the network, then try again."
)
_OWN_LIMIT = _FailureCase(
    "refused",
    "claude stopped at a limit it was started with",
    retry=False,
    hint="Raise the limit in additionalArgs.",
)
_BROKEN_OFF = _FailureCase("protocol", "claude broke the turn off by itself")

_BY_STATUS: Mapping[int, _FailureCase] = {
    400: _BAD_REQUEST,
    401: _BAD_KEY,
    403: _FORBIDDEN,
    404: _UNKNOWN_MODEL,
    413: _TOO_LONG,
    429: _LIMIT,
}
_BY_WORD: Mapping[str, _FailureCase] = {
    "authentication_failed": _SIGNED_OUT,
    "billing_error": _BILLING,
    "model_not_found": _UNKNOWN_MODEL,
    "rate_limit": _LIMIT,
    "server_error": _UNREACHABLE,
}


def failed(result: Object, trouble: ApiTrouble) -> TurnFailed:
    """The failure that a result tells of."""
    case = _case(result, trouble.word)
    status = int(number(result.get("api_error_status")))
    errors = result.get("errors")
    words = text(result.get("result")) or "; ".join(map(str, errors if errors else ()))
    return _told(case, status, words, trouble.until)


def signed_out() -> TurnFailed:
    """The failure of a turn that was not begun: nobody has signed in."""
    return _told(_SIGNED_OUT)


def key_refused(status: int) -> TurnFailed:
    """The failure of a turn whose key is refused again and again; Claude would go on trying."""
    return _told(_BAD_KEY, status)


def limited(status: int, until: str) -> TurnFailed:
    """The failure of a turn at a limit that is known to end later than Claude will try."""
    return _told(_LIMIT, status, until=until)


def exited(end: AgentProcessEnded) -> TurnFailed:
    """The process ended before the turn did."""
    message = f"claude ended with exit code {end.exit_code} in the middle of the turn"
    return TurnFailed("exit", message, exit_code=end.exit_code, stderr_tail=end.tail)


def unanswered() -> TurnFailed:
    """Claude says that it is done with a message, and there is no result."""
    return TurnFailed("protocol", "claude took the message and gave no result for it")


def _case(result: Object, word: str) -> _FailureCase:
    subtype, status = text(result.get("subtype")), int(number(result.get("api_error_status")))
    if subtype.startswith("error_max_"):
        return _OWN_LIMIT
    if subtype != "success":
        return _BROKEN_OFF
    if result.get("terminal_reason") == "prompt_too_long":
        return _TOO_LONG
    if result.get("stop_reason") == "refusal":
        return _REFUSED
    if word == "billing_error":  # whatever the status, which is 400
        return _BILLING
    return _BY_STATUS.get(status) or (_FAILING if status else _BY_WORD.get(word, _FAILING))


def _told(
    case: _FailureCase, status: int = 0, words: str = "", until: str | None = None
) -> TurnFailed:
    message = case.ours + (f" ({status})" if status else "")
    until = until if case is _LIMIT else None
    if until:
        message += f" until {until[:10]} {until[11:16]} UTC"
    if words:
        message += f'. Claude says: "{words[:_LONGEST_WORDS]}"'
    return TurnFailed(case.kind, message, retry=case.retry, hint=case.hint, until=until)
