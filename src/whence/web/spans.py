"""Times as a person reads them, from whole numbers in a history's unit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

UNIT_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
"""Nanoseconds of a unit; any other unit, such as tick, has no length in seconds."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def span(value: float, unit: str) -> str:
    """A length of time in two or three figures: ``283 ms``, ``1.9 s``, ``12 ticks``."""
    if unit not in UNIT_NS:
        return f"{value:,.4g} {unit}{'' if value == 1 else 's'}"
    ns = value * UNIT_NS[unit]
    for name, size in (("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1_000)):
        if abs(ns) >= size:
            amount = ns / size
            return f"{amount:,.0f} {name}" if abs(amount) >= 100 else f"{amount:.3g} {name}"
    return f"{ns:.0f} ns"


def signed_span(value: int, unit: str) -> str:
    """The same with its sign; a true minus, not a hyphen."""
    return f"{'−' if value < 0 else '+'}{span(abs(value), unit)}"


def wall_time(value: int | None, unit: str) -> str:
    """A wall time: date and time in UTC where the unit is one of seconds, else the number."""
    if value is None:
        return "unknown"
    if unit not in UNIT_NS:
        return str(value)
    ns = value * UNIT_NS[unit]
    try:
        shown = EPOCH + timedelta(microseconds=ns // 1_000)
    except OverflowError:
        return str(value)
    return shown.strftime("%Y-%m-%d %H:%M:%S.") + f"{ns // 1_000 % 1_000_000:06d}"
