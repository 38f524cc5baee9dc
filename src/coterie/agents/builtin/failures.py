"""Why a model gave no reply: our words first, the service's after them, and what helps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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

from coterie.agents.builtin.choice import ModelChoice
from coterie.agents.builtin.conversation import ModelTrouble
from coterie.agents.fields import mapping, text
from coterie.model import instant
from coterie.model.update import FailureKind, TurnFailed

_LONGEST_WORDS = 600
_SHORT_LIMIT = 30.0
"""A limit that ends so soon is waited for; a longer one is told with its end."""
_RESETS = ("anthropic-ratelimit-requests-reset", "anthropic-ratelimit-tokens-reset")
_TOO_LARGE = 413


@dataclass(frozen=True)
class _Case:
    kind: FailureKind
    ours: str
    hint: str | None = None
    retry: bool = False
    passing: bool = False
    too_long: bool = False


_KEY = "Look at the key in your environment (ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY)."
_WAIT = "Wait, then try again."
_LIMIT = _Case("rate_limit", "the model's rate limit is reached", _WAIT, True, True)
_TOO_LONG = _Case(
    "model",
    "the conversation is longer than the model can take",
    "Start a new task, or give the member less to read.",
    too_long=True,
)
# The first that fits counts: some are kinds of others.
_CASES: Mapping[type[ModelAPIError], _Case] = {
    ModelContextWindowExceededError: _TOO_LONG,
    ModelAuthenticationError: _Case("signed_out", "the key for the model is refused", _KEY),
    ModelNotFoundError: _Case(
        "model",
        "the model is not known, or not open to this key",
        "Give the member another model in the team file.",
    ),
    ModelQuotaExceededError: _Case(
        "model", "the account has no credit left", "Top it up, then try again."
    ),
    ModelRateLimitError: _LIMIT,
    ModelOverloadedError: _Case("model", "the model service is overloaded", _WAIT, True, True),
    ModelUnavailableError: _Case("model", "the model service is failing", _WAIT, True, True),
    ModelServerError: _Case("model", "the model service is failing", _WAIT, True, True),
    ModelTimeoutError: _Case("timeout", "the model service does not answer", _WAIT, True, True),
    ModelConnectionError: _Case(
        "model",
        "the line to the model service broke, or cannot be opened",
        "Look at the network, then try again.",
        True,
        True,
    ),
    ModelRequestRejectedError: _Case("model", "the model service refused the request"),
}
_FORBIDDEN = _Case(
    "model", "the account may not use this model", "Give the member another model, or key."
)
_UNCLEAR = _Case("model", "the model service gave an error", _WAIT, True)
_GARBLED = _Case("protocol", "the model service sent what is no reply", _WAIT, True, True)
_HALF = _Case("model", "the reply of the model broke off half-way", _WAIT, True, True)


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
    if case is _LIMIT and wait is not None and wait > _SHORT_LIMIT:
        return ModelTrouble(_until(failure, wait))
    return ModelTrouble(failure, passing=case.passing, wait=wait, too_long=case.too_long)


def _case(error: ModelAPIError) -> _Case:
    status = error.status_code if isinstance(error, ModelHTTPError) else 0
    if status == _TOO_LARGE:
        return _TOO_LONG
    if isinstance(error, ModelAuthenticationError) and status == 403:
        return _FORBIDDEN
    return next((case for kind, case in _CASES.items() if isinstance(error, kind)), _UNCLEAR)


def _told(case: _Case, choice: ModelChoice, words: str) -> TurnFailed:
    message = f"{case.ours} ({choice.provider}:{choice.name})"
    if words:
        message += f'. It says: "{words[:_LONGEST_WORDS]}"'
    return TurnFailed(case.kind, message, retry=case.retry, hint=case.hint)


def _until(failure: TurnFailed, seconds: float) -> TurnFailed:
    at = datetime.fromisoformat(instant.now()) + timedelta(seconds=seconds)
    return TurnFailed(
        failure.kind, failure.message, retry=True, hint=failure.hint, until=instant.of(at)
    )


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
