"""When a limit ends, as far as what an agent tells of it can be believed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from coterie.model import instant

_FARTHEST = 8 * 24 * 3600
"""The longest limit that is known is a week's; what ends later is an error, or a bill to pay."""


def at(moment: float) -> str | None:
    """The instant of seconds since 1970; None for what is over, or too far away to be meant."""
    if not _is_believed(moment - int(_now().timestamp())):
        return None
    return instant.of(datetime.fromtimestamp(moment, UTC))


def after(seconds: float) -> str | None:
    """The instant in so many seconds; None for what is over, or too far away to be meant."""
    if not _is_believed(seconds):
        return None
    return instant.of(_now() + timedelta(seconds=seconds))


def _is_believed(seconds: float) -> bool:
    return 0 < seconds <= _FARTHEST


def _now() -> datetime:
    return datetime.fromisoformat(instant.now())
