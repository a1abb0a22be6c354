"""Check the JSON values that every stamp's `from_json` reads; convert nothing.

Apart from `ledto.clocks.any_stamp`, which imports every stamp: stamps import this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ledto.clocks.wire import MAX_COUNTER, check_name
from ledto.errors import StampError


def read_fields(
    value: object, clock: str, required: set[str], *, optional: frozenset[str] = frozenset()
) -> Mapping[str, Any]:
    """Return the object's fields; `StampError` unless it is a `clock` stamp with exactly these keys."""
    if not isinstance(value, Mapping):
        raise StampError(f"a {clock} stamp in JSON is an object, not {type(value).__name__}")
    if value.get("clock") != clock:
        raise StampError(f'expected "clock": "{clock}", found {value.get("clock")!r:.60}')
    missing = required - value.keys()
    if missing:
        raise StampError(f"a {clock} stamp needs {', '.join(sorted(missing))}")
    unknown = value.keys() - required - optional - {"clock"}
    if unknown:
        raise StampError(f"a {clock} stamp has no field {min(map(str, unknown))!r:.60}")
    return value


def read_integer(value: object, name: str, *, least: int = 0, most: int = MAX_COUNTER) -> int:
    """Return a JSON integer from `least` to `most`; `StampError` for anything else, booleans and floats included."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise StampError(f"{name} is an integer, not {value!r:.60}")
    if not least <= value <= most:
        # str() raises for an int with thousands of digits.
        shown = str(value) if abs(value) < 1 << 64 else "a number of more than 64 bits"
        raise StampError(f"{name} runs from {least} to {most}, found {shown}")
    return value


def read_name(value: object) -> str:
    """Return a process id; `StampError` for what cannot be one."""
    check_name(value)
    assert isinstance(value, str)
    return value
