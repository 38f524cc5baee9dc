"""Why a model gave no reply: our words first, the service's after them, and what helps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelOverloadedError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
)

from coterie.agents import failures
from coterie.agents.builtin.choice import ModelChoice
from coterie.agents.builtin.conversation import ModelTrouble
from coterie.agents.failures import WAIT, FailureCase
from coterie.agents.fields import mapping, text
from coterie.model import instant
from coterie.model.update import TurnFailed

_SHORT_LIMIT = 30.0
"""A limit that ends so soon is waited for; a longer one is told with its end."""
_RESETS = ("anthropic-ratelimit-requests-reset", "anthropic-ratelimit-tokens-reset")
_TOO_LARGE = 413


_KEY = "Look at the key in your environment (ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY)."
# The first that fits counts: some are kinds of others.
_CASES: Mapping[type[ModelAPIError], FailureCase] = {
    ModelContextWindowExceededError: failures.TOO_LONG,
    ModelAuthenticationError: FailureCase("signed_out", "the key for the model is refused", _KEY),
    ModelNotFoundError: FailureCase(
        "model",
        "the model is not known, or not open to this key",
        "Give the member another model in the team file.",
    ),
    ModelQuotaExceededError: failures.NO_CREDIT,
    ModelRateLimitError: failures.LIMIT,
    ModelOverloadedError: FailureCase("model", "the model service is overloaded", WAIT, True),
    ModelUnavailableError: failures.FAILING,
    ModelServerError: failures.FAILING,
    ModelTimeoutError: FailureCase("timeout", "the model service does not answer", WAIT, True),
    ModelConnectionError: FailureCase(
        "model",
        "the connection to the model service broke, or cannot be opened",
        failures.UNREACHABLE.hint,
        True,
    ),
    ModelRequestRejectedError: failures.BAD_REQUEST,
}
_FORBIDDEN = failures.FORBIDDEN.hinting("Give the member another model, or key.")
_UNCLEAR = FailureCase("model", "the model service gave an error", WAIT, True)
_GARBLED = FailureCase("protocol", "the model service sent what is no reply", WAIT, True)
_HALF = FailureCase("model", "the reply of the model broke off half-way", WAIT, True)


def half(choice: ModelChoice) -> ModelTrouble:
    """The trouble with a reply that has no end."""
    return ModelTrouble(_told(_HALF, choice, ""), passing=True)


def trouble(error: Exception, choice: ModelChoice) -> ModelTrouble:
    """What an error of the model layer means."""
    if not isinstance(error, ModelAPIError):
        return ModelTrouble(_told(_GARBLED, choice, str(error)), passing=True)
    case = _case(error)
    wait = _seconds(error)
    failure = _told(case, choice, _words(error))
    if case is failures.LIMIT and wait is not None and wait > _SHORT_LIMIT:
        at = datetime.fromisoformat(instant.now()) + timedelta(seconds=wait)
        return ModelTrouble(replace(failure, until=instant.of(at)))
    passing = case.retry and case is not _UNCLEAR
    return ModelTrouble(failure, passing=passing, wait=wait, too_long=case is failures.TOO_LONG)


def _case(error: ModelAPIError) -> FailureCase:
    status = error.status_code if isinstance(error, ModelHTTPError) else 0
    if status == _TOO_LARGE:
        return failures.TOO_LONG
    if isinstance(error, ModelAuthenticationError) and status == 403:
        return _FORBIDDEN
    return next((case for kind, case in _CASES.items() if isinstance(error, kind)), _UNCLEAR)


def _told(case: FailureCase, choice: ModelChoice, words: str) -> TurnFailed:
    return case.failure("builtin", words, more=f" ({choice.provider}:{choice.name})")


def _words(error: ModelAPIError) -> str:
    """What the service itself said."""
    body = mapping(error.body)
    inner = mapping(body.get("error")) or body
    said = text(inner.get("message"))
    return said or ("" if isinstance(error, ModelHTTPError) else error.message)


def _seconds(error: ModelAPIError) -> float | None:
    """How long the service asks to wait."""
    if error.retry_after is not None or not isinstance(error, ModelHTTPError):
        return error.retry_after
    headers = error.headers or {}
    ends = [headers[name] for name in _RESETS if name in headers]
    found = [left for end in ends if (left := _left(end)) is not None]
    if found:
        return max(found)
    return _of_epoch(headers.get("x-ratelimit-reset", ""))


def _left(end: str) -> float | None:
    try:
        return max(0.0, (datetime.fromisoformat(end) - _now()).total_seconds())
    except (ValueError, TypeError):
        return None


def _of_epoch(value: str) -> float | None:
    """The seconds in a `x-ratelimit-reset`, which some give as a moment and some as a duration."""
    try:
        number = float(value)
    except ValueError:
        return None
    if number < 1e9:
        return max(0.0, number)
    seconds = number / 1000 if number > 1e12 else number
    return max(0.0, seconds - _now().timestamp())


def _now() -> datetime:
    return datetime.fromisoformat(instant.now()).astimezone(UTC)
