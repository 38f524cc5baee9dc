"""What the two OpenAI formats have in common: the errors."""

from __future__ import annotations

from coterie.rehearsal.dialogue import Refusal
from coterie.rehearsal.loose import Json

_CODES = {
    400: "invalid_value",
    401: "invalid_api_key",
    404: "model_not_found",
    429: "rate_limit_exceeded",
    500: "server_error",
    503: "server_is_overloaded",
}
_OVERLOADED = 529
"""Anthropic's number alone; here it is 503."""


def refused(refusal: Refusal) -> tuple[int, Json]:
    """An error as this vendor spells it."""
    status = 503 if refusal.status == _OVERLOADED else refusal.status
    code = "insufficient_quota" if refusal.quota else _CODES.get(status)
    error: Json = {
        "message": refusal.message,
        "type": _kind(status, quota=refusal.quota),
        "param": None,
        "code": code,
    }
    return status, {"error": error}


def _kind(status: int, *, quota: bool) -> str:
    if quota:
        return "insufficient_quota"
    if status == 429:
        return "rate_limit_error"
    return "server_error" if status >= 500 else "invalid_request_error"
