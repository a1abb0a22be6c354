"""The line that a record of the format ``whence`` belongs to: what it says itself, or the trace or request it names.

One literal record, of the line ``5b8e/eee1``::

    {"process": "shop", "seq": 1, "trace_id": "5b8e", "span_id": "eee1"}

The compiled scanner (`whence.sources.json.scanner`) does the same; a test holds the two equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

TRACE_IDS: Final = ("trace_id", "traceId", "trace.id")
SPAN_IDS: Final = ("span_id", "spanId", "span.id")
REQUEST_IDS: Final = ("request_id", "requestId")
"""Fields that name what a process was doing when it wrote a record; of several, the first that does. They stay
attributes."""


def is_line(value: object) -> bool:
    """Whether the value of the field ``line`` names a line.

    Any other value stays an attribute: in many logs the field is the number of a line of code.
    """
    return isinstance(value, str) and value != ""


def named_line(found: Mapping[str, tuple[Any, str, str]]) -> str | None:
    """The line that a record without a line of its own names by its ids: TRACE/SPAN, TRACE or REQUEST."""
    trace = _first(found, TRACE_IDS, zeros=False)
    if trace is None:
        return _first(found, REQUEST_IDS, zeros=True)
    span = _first(found, SPAN_IDS, zeros=False)
    return trace if span is None else f"{trace}/{span}"


def _first(found: Mapping[str, tuple[Any, str, str]], names: tuple[str, ...], *, zeros: bool) -> str | None:
    """The first of these ids that is a text. Tracers write zeros where there is no trace; those count if `zeros`."""
    for name in names:
        value = found[name][0] if name in found else None
        if isinstance(value, str) and value and "\0" not in value and (zeros or value.strip("0")):
            return value
    return None
