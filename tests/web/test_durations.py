"""Numbers in reports are read by tired people: they must be right, and in units that make sense."""

from __future__ import annotations

import pytest

from ledto.web.diagram import format_duration, format_signed_duration, format_wall_time


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (283_074_112, "ns", "283 ms"),
        (1_900_000, "us", "1.9 s"),
        (999, "ns", "999 ns"),
        (0, "ns", "0 ns"),
        (3_700, "s", "3,700 s"),
        (1, "tick", "1 tick"),
        (12, "tick", "12 ticks"),
    ],
)
def test_spans(value: int, unit: str, shown: str) -> None:
    """A factor of a thousand wrong sends the reader after the wrong clock."""
    assert format_duration(value, unit) == shown


def test_signs_and_times() -> None:
    """A cause shown on the wrong side of the failure, or a date off by a zone, would undo the report."""
    assert format_signed_duration(-291_000_000, "ns") == "−291 ms"
    assert format_signed_duration(5, "ms") == "+5 ms"
    assert format_wall_time(1_773_479_159_972_211_258, "ns") == "2026-03-14 09:05:59.972211"
    assert format_wall_time(1_773_479_159, "s") == "2026-03-14 09:05:59.000000"
    assert format_wall_time(-1, "us") == "1969-12-31 23:59:59.999999"
    assert format_wall_time(17, "tick") == "17"
    assert format_wall_time(None, "ns") == "unknown"
    assert format_wall_time(10**18, "s") == str(10**18)
