"""Why a turn failed: our words first, the agent's after them, and what a person can do."""

from __future__ import annotations

import re
from dataclasses import dataclass

from coterie.agents import failures
from coterie.agents.failures import LONGEST_WORDS, FailureCase
from coterie.agents.fields import limit_ends_after, mapping, mappings, text
from coterie.agents.process import AgentProcessEnded, Object, RpcError
from coterie.model.update import TurnFailed
from coterie.process.stdio_turns import parse_object

SIGNED_OUT = -32000
"""The protocol's code for an agent that wants somebody to sign in first."""
_STATUS = re.compile(r"(?:^|error:?|status:?)\s*([45]\d\d)\b", re.IGNORECASE)
"""Qwen begins its words with the status, a bridge to Claude has it in the middle; Gemini gives it
as the code."""

_AFTER = re.compile(
    r"\b(?:(?:re)?try (?:again )?(?:after|in)|reset after)\s+"
    r"(?=\d)(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?![\w.]*\w)",
    re.IGNORECASE,
)
"""How it is said when a limit ends: `retry after 7200s` by Gemini, `reset after 13h5m7s` by its
service, `try again in 7m12s` by the one of OpenAI."""
_SHORT = 30.0
"""What ends so soon is a limit of the minute: it is tried again like any other failure."""


_QUOTA = FailureCase(
    "rate_limit",
    "nothing is left of the model's quota",
    "Wait until it is renewed, or give the member another model.",
)
_CUT = failures.CUT.hinting("Try again.")
_OTHER = FailureCase("protocol", "{name} could not carry the turn out", retry=True)
_EMPTY = FailureCase(
    "model",
    "{name} got no reply from its model: an empty one, or one that was blocked",
    retry=True,
)

# Looked at before the status: a 404 of the model comes as a 500 from Gemini, a bad key as a 400.
_BY_WORDS = (
    (
        re.compile(r"api.?key.{0,20}(not valid|invalid)|(invalid|incorrect).{0,20}api.?key"),
        failures.BAD_KEY,
    ),
    (
        re.compile(r"models?\b.{0,80}(not found|does not exist|not supported)"),
        failures.UNKNOWN_MODEL,
    ),
    (re.compile(r"\bquota\b.{0,40}exceeded|exhausted.{0,40}\bquota\b"), _QUOTA),
    (re.compile(r"rate.?limit|too many requests"), failures.LIMIT),
    (re.compile(r"empty response|response was blocked"), _EMPTY),
    (
        re.compile(r"^terminated$|socket|econnre|connection|fetch failed"),
        failures.CUT.hinting("Try again."),
    ),
)
_STOPPED = {
    "refusal": failures.REFUSED,
    "max_tokens": FailureCase(
        "model",
        "the model's limit of tokens was reached before the reply was whole",
        failures.TOO_LONG.hint,
    ),
    "max_turn_requests": FailureCase(
        "refused",
        "{name} stopped by itself: it asked its model too often, or went in circles",
        "Say more exactly what is wanted.",
    ),
    "cancelled": failures.BROKEN_OFF,
}


@dataclass(frozen=True)
class Failures:
    """How the failures of one agent are told."""

    name: str
    sign_in: str
    """What a person does to sign in."""

    def failed(self, error: RpcError) -> TurnFailed:
        """The turn was answered with an error."""
        words = words_of(error)
        if error.code == SIGNED_OUT:
            return self.signed_out(words)
        status = _status_of(error, words)
        case = next((case for found, case in _BY_WORDS if found.search(words.lower())), None)
        if case is None:
            failing = failures.FAILING if status >= 500 else _OTHER
            case = failures.BY_STATUS.get(status, failing)
        return self._told(case, words)

    def signed_out(self, words: str) -> TurnFailed:
        """The agent will not speak before somebody signs in."""
        return self._told(failures.SIGNED_OUT, words)

    def stopped(self, reason: str) -> TurnFailed | None:
        """The turn ended for this reason; None where that is no failure."""
        case = _STOPPED.get(reason)
        return self._told(case, "") if case else None

    def empty(self) -> TurnFailed:
        """The turn ended well, and nothing was said or done in it."""
        return self._told(_EMPTY, "")

    def gone(self, end: AgentProcessEnded) -> TurnFailed:
        """The process ended before the turn did."""
        return failures.exited(self.name, end)

    def _told(self, case: FailureCase, words: str) -> TurnFailed:
        case = case.hinting(self.sign_in) if case.kind == "signed_out" else case
        until = _end_of_limit(words) if case.kind == "rate_limit" else None
        return case.failure(self.name, words, until=until)


def words_of(error: RpcError) -> str:
    """What the agent says about an error, out of the JSON it may be wrapped in."""
    said = text(mapping(error.data).get("details")) or error.message
    return (text(_wrapped(said).get("message")) or said).strip()


def _status_of(error: RpcError, words: str) -> int:
    """The status of the model service: the code, or wherever else an agent puts it."""
    found = _STATUS.search(words)
    told = (error.code, _wrapped(error.message).get("code"), int(found[1]) if found else 0)
    return next((code for code in told if isinstance(code, int) and 400 <= code < 600), 0)


def _end_of_limit(words: str) -> str | None:
    found = _AFTER.search(words)
    if found is None:
        return None
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    wait = hours * 3600 + minutes * 60 + seconds
    return limit_ends_after(wait) if wait > _SHORT else None


def _wrapped(said: str) -> Object:
    return mapping((parse_object(said) or {}).get("error"))


def ways_to_sign_in(told: Object) -> str:
    """What an agent that was greeted offers for signing in."""
    offered = mappings(told.get("authMethods"))
    ways = (text(way.get("description")) or text(way.get("name")) for way in offered)
    return "; ".join(way for way in ways if way)[:LONGEST_WORDS]
