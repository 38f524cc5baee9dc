"""What a turn cost, from its results: per turn, where Claude's own totals run on for ever."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.agents.fields import mapping, number
from coterie.agents.wire import Object
from coterie.model.update import Usage

_SINCE = "model_usage_since_last_result"


def usage_of(results: Sequence[Object]) -> Usage:
    """The tokens that went in, cached ones too, and came out; the price by Claude's own list."""
    if not any(_SINCE in result for result in results):
        return _of_old_version(results)
    used = [mapping(model) for each in results for model in mapping(each.get(_SINCE)).values()]
    return Usage(
        input_tokens=_sum(used, "inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"),
        output_tokens=_sum(used, "outputTokens"),
        cost_usd=sum(number(model.get("costUSD")) for model in used),
        source="claude",
    )


def _of_old_version(results: Sequence[Object]) -> Usage:
    """Its only price is a total since the thread began, so there is none for a turn."""
    used = [mapping(result.get("usage")) for result in results]
    return Usage(
        input_tokens=_sum(
            used, "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"
        ),
        output_tokens=_sum(used, "output_tokens"),
        source="claude",
    )


def _sum(used: Sequence[Object], *names: str) -> int:
    return int(sum(number(each.get(name)) for each in used for name in names))
