"""Parse and format durations."""

from __future__ import annotations

import re
from fractions import Fraction

NANOSECONDS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
LONGEST = 1 << 61
"""The longest duration, in the unit of the times, so that sums with times stay exact in 64 bits: 73 years in nanoseconds."""


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
    if value > LONGEST:
        raise ValueError(explain_limit(LONGEST, unit, text))
    return int(value)


def explain_limit(limit: int, unit: str, text: str) -> str:
    """Say that a duration, as it was typed, is over the limit, which is in `unit`; tell the limit as it would be typed."""
    typed = text.strip().lstrip("0123456789. ")
    if typed in NANOSECONDS and unit in NANOSECONDS and (most := limit * NANOSECONDS[unit] // NANOSECONDS[typed]):
        return f"at most {most}{typed}, not {text!r:.60}"
    return f"at most {limit}{'' if unit == 'tick' else unit}, not {text!r:.60}"


def show_duration(value: int, unit: str) -> str:
    """Format a duration in the largest unit that fits: ``12.3 ms``."""
    if unit not in NANOSECONDS:
        return f"{value:,} {unit if abs(value) == 1 else f'{unit}s'}"
    nanoseconds = value * NANOSECONDS[unit]
    for name in ("s", "ms", "us"):
        if abs(nanoseconds) >= NANOSECONDS[name]:
            return f"{nanoseconds / NANOSECONDS[name]:,.4g} {name}"
    return f"{nanoseconds} ns"


def round_up_duration(value: int, unit: str) -> str:
    """Write a duration that is not shorter as `read_duration` reads it, with at least two digits kept: ``81ms``."""
    if unit not in NANOSECONDS:
        return str(value)
    nanoseconds = value * NANOSECONDS[unit]
    for name in ("s", "ms", "us"):
        if nanoseconds >= 10 * NANOSECONDS[name] and NANOSECONDS[name] >= NANOSECONDS[unit]:
            return f"{-(-nanoseconds // NANOSECONDS[name])}{name}"
    return f"{value}{unit}"
