"""Times are UTC with a Z; naive times are refused."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.errors import InvalidTime
from coterie.model import instant

offsets = st.integers(-23 * 60, 23 * 60).map(lambda m: timezone(timedelta(minutes=m)))
moments = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=offsets)


@given(moments)
def test_any_offset_is_converted(moment: datetime) -> None:
    text = instant.parse(moment.isoformat())
    assert text.endswith("Z")
    assert text == instant.parse(text)
    read = datetime.fromisoformat(text)
    assert abs(read - moment) < timedelta(milliseconds=1)
    assert read.tzinfo == UTC


@given(moments, moments)
def test_the_order_of_the_text_is_the_order_of_time(one: datetime, other: datetime) -> None:
    first, second = instant.of(one), instant.of(other)
    if abs(one - other) >= timedelta(milliseconds=1):
        assert (first < second) == (one < other)


@given(st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)))
def test_a_naive_time_is_refused(moment: datetime) -> None:
    with pytest.raises(InvalidTime, match="no offset"):
        instant.parse(moment.isoformat())
    with pytest.raises(InvalidTime, match="no offset"):
        instant.of(moment)


@given(st.text(max_size=40))
def test_unreadable_text_is_refused_and_nothing_else_is_raised(text: str) -> None:
    with suppress(InvalidTime):
        assert instant.parse(text).endswith("Z")


def test_the_edges_of_time_are_refused_not_overflown() -> None:
    with pytest.raises(InvalidTime, match="out of range"):
        instant.parse("0001-01-01T00:00:00+10:00")


def test_people_read_local_times(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Pacific/Kiritimati")  # fourteen hours ahead
        time.tzset()
        there = instant.local("2026-01-31T23:30:05.000Z")
        nine = datetime.now().astimezone().replace(hour=9, minute=5, second=7)
        today = instant.local(instant.of(nine))
    time.tzset()
    assert there == "2026-02-01 13:30:05"
    assert today == "09:05:07"


def test_a_time_for_people_anywhere_names_its_zone_and_may_omit_todays_date() -> None:
    assert instant.in_utc("2026-01-31T23:30:05.000Z") == "2026-01-31 23:30 UTC"
    assert instant.in_utc("2026-01-31T23:30:05.000Z", short=True) == "2026-01-31 23:30 UTC"
    now = instant.now()
    assert instant.in_utc(now, short=True) in (f"{now[11:16]} UTC", instant.in_utc(now))
