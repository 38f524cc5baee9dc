"""Why a turn failed: our message, the agent's own words after it, and what a person can do.

The cases common to all vendors are here; each vendor maps its own errors to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from coterie.agents.process import AgentProcessEnded
from coterie.model.update import FailureKind, TurnFailed

LONGEST_WORDS = 600
"""The most characters kept of what an agent says about an error."""
WAIT = "Wait, then try again."


@dataclass(frozen=True)
class FailureCase:
    """One kind of failure; `{name}` in its texts stands for the agent."""

    kind: FailureKind
    message: str
    hint: str | None = None
    retry: bool = False

    def failure(
        self, name: str, words: str = "", *, more: str = "", until: str | None = None
    ) -> TurnFailed:
        """Build the turn's failure: `more` follows our message, `words` are the agent's own."""
        message = self.message.format(name=name) + more
        if words:
            message += f'. It says: "{words[:LONGEST_WORDS]}"'
        hint = self.hint.format(name=name) if self.hint else None
        return TurnFailed(self.kind, message, retry=self.retry, hint=hint, until=until)

    def with_hint(self, hint: str) -> FailureCase:
        """Return the same case with another hint."""
        return replace(self, hint=hint)


def exited(name: str, end: AgentProcessEnded, tail: str | None = None) -> TurnFailed:
    """Return the failure of a turn whose process ended first."""
    message = f"{name} ended with exit code {end.exit_code} in the middle of the turn"
    stderr_tail = end.tail if tail is None else tail
    return TurnFailed("exit", message, exit_code=end.exit_code, stderr_tail=stderr_tail)


SIGNED_OUT = FailureCase("signed_out", "{name} is not signed in")
BAD_KEY = FailureCase("signed_out", "the key or login given to {name} was rejected")
UNKNOWN_MODEL = FailureCase(
    "model",
    "the model is unknown, or not available to this account",
    "Give the member another model in the team file.",
)
TOO_LONG = FailureCase(
    "model",
    "the conversation is longer than the model's context window",
    "Start a new task, or give the member less to read.",
)
NO_CREDIT = FailureCase("model", "the account has no credit left", "Top it up, then try again.")
REFUSED = FailureCase("refused", "the model will not answer this", "Rephrase the request.")
FORBIDDEN = FailureCase("model", "the account has no access to this model")
BAD_REQUEST = FailureCase("model", "the model service refused the request")
LIMIT = FailureCase("rate_limit", "the model's rate limit is reached", WAIT, retry=True)
FAILING = FailureCase("model", "the model service is failing", WAIT, retry=True)
UNREACHABLE = FailureCase(
    "model",
    "the model service cannot be reached",
    "Check the network connection, then try again.",
    retry=True,
)
CUT = FailureCase("model", "the connection to the model was cut", UNREACHABLE.hint, retry=True)
ABORTED = FailureCase("protocol", "{name} ended the turn by itself", retry=True)

BY_STATUS: Mapping[int, FailureCase] = {
    400: BAD_REQUEST,
    401: BAD_KEY,
    403: FORBIDDEN,
    404: UNKNOWN_MODEL,
    413: TOO_LONG,
    429: LIMIT,
}
"""By the HTTP status of the model service."""
