from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledto.sources.rows import BadRecord
from ledto.sources.times import time_from_text

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
OFFSETS = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda minutes: timezone(timedelta(minutes=minutes)))
MOMENTS = st.datetimes(datetime(1680, 1, 1), datetime(2260, 1, 1), timezones=OFFSETS)


@given(MOMENTS, st.sampled_from("T t"), st.sampled_from([("ns", 1000), ("us", 1), ("ms", None), ("s", None)]))
def test_text_means_the_moment_it_names(moment: datetime, separator: str, unit: tuple[str, int | None]) -> None:
    """A wrong offset or century would put an effect hours before its cause; the calendar is Python's own."""
    micros = (moment - EPOCH) // timedelta(microseconds=1)
    expected = {"ns": micros * 1000, "us": micros, "ms": micros // 1_000, "s": micros // 1_000_000}[unit[0]]
    assert time_from_text(moment.isoformat(separator), unit[0]) == expected


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1970-01-01T00:00:00", 0),
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("1969-12-31T23:59:59.999999999Z", -1),
        ("1970-01-01 00:00:00,5 +0030", -1_799_500_000_000),
        ("1970-01-01T00:00:00.1000000000000+01", -3_599_900_000_000),
        ("2262-04-11T23:47:16.854775807Z", 2**63 - 1),
    ],
)
def test_spellings_and_ends_of_the_range(text: str, nanoseconds: int) -> None:
    """Nanoseconds, other spellings of offsets, and the last moment that fits: each has been lost by some parser."""
    assert time_from_text(text, "ns") == nanoseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2024-05-01",
        "2024-02-30T00:00:00Z",
        "2023-02-29T00:00:00Z",
        "2024-05-01T24:00:00Z",
        "2024-05-01T12:00:60Z",
        "2024-05-01T12:00:00.0000000001Z",
        "2024-05-01T12:00:00+24:00",
        "2262-04-11T23:47:16.854775808Z",
        "２０24-05-01T12:00:00Z",
        "2024-05-01T12:00:00Z ",
    ],
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    """A guess at a time is a wrong order later."""
    with pytest.raises(BadRecord, match="bad-field"):
        time_from_text(text, "ns")


def test_text_has_no_meaning_in_a_unit_that_is_no_time() -> None:
    """A run in ticks that took dates as nanoseconds would mix two clocks."""
    with pytest.raises(BadRecord, match="in the unit 'ticks' a time is an integer"):
        time_from_text("2024-05-01T12:00:00Z", "ticks")
