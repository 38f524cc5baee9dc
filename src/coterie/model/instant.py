"""Time, in one form everywhere: UTC, ISO 8601, milliseconds, ending in `Z`.

An instant is kept as text because that is how it is stored, shown and compared: the form has a
fixed width, so the order of the text is the order of time.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator

from coterie.errors import InvalidTime


def of(moment: datetime) -> str:
    """The instant of an aware datetime."""
    if moment.utcoffset() is None:
        raise InvalidTime(
            f"{moment.isoformat()} has no offset from UTC.", "Write it like 2026-01-31T12:00:00Z."
        )
    try:
        utc = moment.astimezone(UTC)
    except OverflowError:
        raise InvalidTime(f"{moment.isoformat()} is out of range in UTC.") from None
    return utc.isoformat(timespec="milliseconds")[:-6] + "Z"


def now() -> str:
    """The present instant; the only place that looks at the wall clock."""
    seconds, milliseconds = divmod(time.time_ns() // 1_000_000, 1000)
    return f"{_second(seconds)}.{milliseconds:03d}Z"


@lru_cache(maxsize=1)  # a turn asks for the time several times, and most of it is the same
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:-6]


@lru_cache(maxsize=512)  # many things that are stored happened at the same instant
def parse(text: str) -> str:
    """Any ISO 8601 time with an offset, as an instant; a naive or unreadable one is refused."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidTime(
            f"{text!r} is not an ISO 8601 time.", "Write it like 2026-01-31T12:00:00Z."
        ) from None
    return of(moment)


def seconds_between(earlier: str, later: str) -> float:
    """How long it was from one instant to another."""
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


def seconds_until(moment: str) -> float:
    """How long it is from now; negative for what is past."""
    return seconds_between(now(), moment)


def seconds_since(timestamp: float) -> float:
    """How long it is since a time as file systems have it."""
    return time.time_ns() / 1e9 - timestamp


def after(seconds: float) -> str:
    """The instant so long from now; for a negative length, before it."""
    return of(datetime.fromisoformat(now()) + timedelta(seconds=seconds))


def end_of_day() -> str:
    """The next midnight in UTC."""
    return of(datetime.fromisoformat(f"{now()[:10]}T00:00:00Z") + timedelta(days=1))


def _checked(text: str) -> str:
    try:
        return parse(text)
    except InvalidTime as error:
        raise ValueError(str(error)) from None


Instant = Annotated[str, AfterValidator(_checked)]
"""An instant inside a pydantic model: converted to UTC when read, refused when naive."""
