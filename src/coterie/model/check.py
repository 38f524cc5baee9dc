"""A check: a command that Coterie ran itself, on a known tree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from coterie.model.ticket import CheckScore

if TYPE_CHECKING:
    from coterie.model.envelope import ArtifactRef, CheckRun, Envelope


@dataclass(frozen=True)
class CheckOutcome:
    """How a command ended, as observed by Coterie rather than claimed by an agent."""

    command: str
    exit_code: int | None
    """None if it timed out or could not be started."""
    output: str
    """The tail of its output."""
    duration_ms: int
    tree: str = ""
    """The hash of the files it ran on; empty if unknown."""
    log: str = ""
    """The file with its complete output, under the session's artifacts."""
    digest: str = ""
    """`sha256:…` of that file."""
    size_bytes: int | None = None

    @property
    def passed(self) -> bool:
        """Whether it ended with exit code 0."""
        return self.exit_code == 0


def ended(outcome: CheckOutcome | CheckRun) -> str:
    """How a check ended, in a few words."""
    return "did not finish" if outcome.exit_code is None else f"exit {outcome.exit_code}"


def check_results(envelopes: Iterable[Envelope]) -> dict[str, dict[str, bool]]:
    """Whether each check passed in its last run, by ticket and command."""
    results: dict[str, dict[str, bool]] = {}
    for envelope in envelopes:
        if envelope.payload_type == "artifact_ref" and envelope.ticket_id:
            check = cast("ArtifactRef", envelope.payload).checked
            if check is not None:
                results.setdefault(envelope.ticket_id, {})[check.command] = check.passed
    return results


def check_scores(envelopes: Iterable[Envelope]) -> dict[str, CheckScore]:
    """How many checks of each ticket passed in their last run."""
    results = check_results(envelopes)
    return {ticket: CheckScore(sum(one.values()), len(one)) for ticket, one in results.items()}
