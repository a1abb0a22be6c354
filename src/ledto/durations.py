"""Parse and format durations."""

from __future__ import annotations

import re
from fractions import Fraction

NANOSECONDS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}


def read_duration(text: str, unit: str) -> int:
    """Parse ``250``, ``250ms`` or ``1.5s`` into a whole number of `unit`. A bare number is in `unit` already.

    Raises `ValueError`, which says what is allowed. A time in ticks takes no unit: nobody knows how long a tick is.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text)
    with_unit = "" if unit == "tick" else ", or one with ns, us, ms, s, m or h, such as 250ms"
    allowed = f"a duration is a number of {unit}{with_unit}"
    if match is None or (match[2] and (unit == "tick" or match[2] not in NANOSECONDS)):
        raise ValueError(f"{allowed}, not {text!r:.60}")
    value = Fraction(match[1])
    if match[2]:
        value *= Fraction(NANOSECONDS[match[2]], NANOSECONDS[unit])
    if value.denominator != 1:
        raise ValueError(f"{allowed}; {text!r:.60} is not a whole number of {unit}")
    return int(value)


def show_duration(value: int, unit: str) -> str:
    """Format a duration in the largest unit that fits: ``12.3 ms``."""
    if unit not in NANOSECONDS:
        return f"{value:,} {unit}s"
    nanoseconds = value * NANOSECONDS[unit]
    for name in ("s", "ms", "us"):
        if abs(nanoseconds) >= NANOSECONDS[name]:
            return f"{nanoseconds / NANOSECONDS[name]:,.4g} {name}"
    return f"{nanoseconds} ns"
