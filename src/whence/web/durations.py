"""Format times, which are whole numbers in a history's unit, for people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

UNIT_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
"""Nanoseconds in a unit. Other units, such as tick, have no length in seconds."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def format_span(value: float, unit: str) -> str:
    """Format a length of time with two or three digits: ``283 ms``, ``1.9 s``, ``12 ticks``."""
    if unit not in UNIT_NS:
        return f"{value:,.4g} {unit}{'' if value == 1 else 's'}"
    ns = value * UNIT_NS[unit]
    for name, size in (("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1_000)):
        if abs(ns) >= size:
            amount = ns / size
            return f"{amount:,.0f} {name}" if abs(amount) >= 100 else f"{amount:.3g} {name}"
    return f"{ns:.0f} ns"


def format_signed_span(value: int, unit: str) -> str:
    """Format a length of time with its sign; a minus sign, not a hyphen."""
    return f"{'−' if value < 0 else '+'}{format_span(abs(value), unit)}"


def format_wall_time(value: int | None, unit: str) -> str:
    """Format a wall time as date and time in UTC, or as a number if the unit has no length in seconds."""
    if value is None:
        return "unknown"
    if unit not in UNIT_NS:
        return str(value)
    ns = value * UNIT_NS[unit]
    try:
        moment = EPOCH + timedelta(microseconds=ns // 1_000)
    except OverflowError:
        return str(value)
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{ns // 1_000 % 1_000_000:06d}"
