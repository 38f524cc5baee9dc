"""Time, in one form everywhere: UTC, ISO 8601, milliseconds, ending in `Z`.

An instant is a text because that is how it is stored, shown and compared: the form has a fixed
width, so texts sort in time order.
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
    """The current instant; the only place that reads an instant from the wall clock."""
    seconds, milliseconds = divmod(time.time_ns() // 1_000_000, 1000)
    return f"{_second(seconds)}.{milliseconds:03d}Z"


@lru_cache(maxsize=1)  # a turn asks for the time several times, often within one second
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:-6]


@lru_cache(maxsize=512)  # many stored records share the same instant
def parse(text: str) -> str:
    """Parse an ISO 8601 time with an offset.  Raises InvalidTime if it is naive or unreadable."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidTime(
            f"{text!r} is not an ISO 8601 time.", "Write it like 2026-01-31T12:00:00Z."
        ) from None
    return of(moment)


def seconds_between(earlier: str, later: str) -> float:
    """The seconds from one instant to another."""
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


def seconds_until(moment: str) -> float:
    """The seconds from now until an instant; negative if it has passed."""
    return seconds_between(now(), moment)


def seconds_since(timestamp: float) -> float:
    """The seconds since a Unix timestamp, as used by file systems."""
    return time.time_ns() / 1e9 - timestamp


def after(seconds: float) -> str:
    """The instant this many seconds from now; in the past if negative."""
    return of(datetime.fromisoformat(now()) + timedelta(seconds=seconds))


def local(moment: str) -> str:
    """An instant as local time of day, with the date if it was not today."""
    here = datetime.fromisoformat(moment).astimezone()
    is_today = here.date() == datetime.fromisoformat(now()).astimezone().date()
    return here.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M:%S")


def in_utc(moment: str, *, short: bool = False) -> str:
    """An instant for people anywhere: `2026-01-31 14:05 UTC`, or without today's date if short."""
    day = "" if short and moment[:10] == now()[:10] else f"{moment[:10]} "
    return f"{day}{moment[11:16]} UTC"


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
