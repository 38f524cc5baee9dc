"""Why a turn failed: our words first, Claude's after them, and what a person can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coterie.agents import failures
from coterie.agents.failures import LIMIT, FailureCase
from coterie.agents.fields import limit_ends_at, number, text
from coterie.agents.process import Object
from coterie.model.update import TurnFailed

SIGN_IN = "claude auth login"


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


SIGNED_OUT = failures.SIGNED_OUT.hinting(
    f"In another terminal: {SIGN_IN} (it serves every claude member). Then try again."
)
BAD_KEY = failures.BAD_KEY.hinting(f"{SIGN_IN}, or mend ANTHROPIC_API_KEY")
_OWN_LIMIT = FailureCase(
    "refused", "claude stopped at a limit it was started with", "Raise the limit in additionalArgs."
)
_BY_STATUS: Mapping[int, FailureCase] = {
    **failures.BY_STATUS,
    401: BAD_KEY,
    403: failures.FORBIDDEN.hinting(SIGN_IN),
}
_BY_WORD: Mapping[str, FailureCase] = {
    "authentication_failed": SIGNED_OUT,
    "billing_error": failures.NO_CREDIT,
    "model_not_found": failures.UNKNOWN_MODEL,
    "rate_limit": LIMIT,
    "server_error": failures.UNREACHABLE,
}


def failed(result: Object, trouble: ApiTrouble) -> TurnFailed:
    """The failure that a result tells of."""
    case = _case(result, trouble.word)
    status = int(number(result.get("api_error_status")))
    errors = result.get("errors")
    words = text(result.get("result")) or "; ".join(map(str, errors if errors else ()))
    return told(case, status, words, trouble.until)


def _case(result: Object, word: str) -> FailureCase:
    subtype, status = text(result.get("subtype")), int(number(result.get("api_error_status")))
    if subtype.startswith("error_max_"):
        return _OWN_LIMIT
    if subtype != "success":
        return failures.BROKEN_OFF
    if result.get("terminal_reason") == "prompt_too_long":
        return failures.TOO_LONG
    if result.get("stop_reason") == "refusal":
        return failures.REFUSED
    if word == "billing_error":  # whatever the status, which is 400
        return failures.NO_CREDIT
    return _BY_STATUS.get(status) or (
        failures.FAILING if status else _BY_WORD.get(word, failures.FAILING)
    )


def told(
    case: FailureCase, status: int = 0, words: str = "", until: str | None = None
) -> TurnFailed:
    """A failure of this kind, with the status and the words that Claude gives."""
    until = until if case is LIMIT else None
    code = f" ({status})" if status else ""
    when = f" until {until[:10]} {until[11:16]} UTC" if until else ""
    return case.failure("claude", words, more=code + when, until=until)
