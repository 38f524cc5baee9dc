"""Why a turn failed: our message, Claude's own words after it, and what a person can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coterie.agents import failures
from coterie.agents.failures import LIMIT, FailureCase
from coterie.agents.fields import limit_ends_at, number, strings, text
from coterie.agents.process import Object
from coterie.model import instant
from coterie.model.update import TurnFailed

SIGN_IN = "claude auth login"


@dataclass(frozen=True)
class ApiTrouble:
    """What is known about a failing API: Claude's name for the error, and when a limit ends."""

    word: str = ""
    until: str | None = None


def end_of(limit: Object) -> str | None:
    """Return when a reported limit ends; None if Claude still answers, or bills by use."""
    if limit.get("status") != "rejected" or limit.get("isUsingOverage") is True:
        return None
    return limit_ends_at(number(limit.get("resetsAt")))


SIGNED_OUT = failures.SIGNED_OUT.with_hint(
    f"In another terminal: {SIGN_IN} (it serves every claude member). Then try again."
)
BAD_KEY = failures.BAD_KEY.with_hint(f"{SIGN_IN}, or fix ANTHROPIC_API_KEY")
_OWN_LIMIT = FailureCase(
    "refused", "claude stopped at a limit it was started with", "Raise the limit in additionalArgs."
)
_BY_STATUS: Mapping[int, FailureCase] = {
    **failures.BY_STATUS,
    401: BAD_KEY,
    403: failures.FORBIDDEN.with_hint(SIGN_IN),
}
_BY_WORD: Mapping[str, FailureCase] = {
    "authentication_failed": SIGNED_OUT,
    "billing_error": failures.NO_CREDIT,
    "model_not_found": failures.UNKNOWN_MODEL,
    "rate_limit": LIMIT,
    "server_error": failures.UNREACHABLE,
}


def failed(result: Object, trouble: ApiTrouble) -> TurnFailed:
    """Return the failure that a result reports."""
    case = _case(result, trouble.word)
    status = int(number(result.get("api_error_status")))
    words = text(result.get("result")) or "; ".join(strings(result.get("errors")))
    return failure_of(case, status, words, trouble.until)


def _case(result: Object, word: str) -> FailureCase:
    subtype, status = text(result.get("subtype")), int(number(result.get("api_error_status")))
    if subtype.startswith("error_max_"):
        return _OWN_LIMIT
    if subtype != "success":
        return failures.ABORTED
    if result.get("terminal_reason") == "prompt_too_long":
        return failures.TOO_LONG
    if result.get("stop_reason") == "refusal":
        return failures.REFUSED
    if word == "billing_error":  # whatever the status, which is 400
        return failures.NO_CREDIT
    return _BY_STATUS.get(status) or (
        failures.FAILING if status else _BY_WORD.get(word, failures.FAILING)
    )


def failure_of(
    case: FailureCase, status: int = 0, words: str = "", until: str | None = None
) -> TurnFailed:
    """Return a failure of this kind, with Claude's status and words."""
    until = until if case is LIMIT else None
    code = f" ({status})" if status else ""
    when = f" until {instant.in_utc(until)}" if until else ""
    return case.failure("claude", words, more=code + when, until=until)
