"""Turn the texts of an expression's named groups into columns of rows: wall times and attributes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from itertools import repeat
from typing import Final

import msgspec

from ledto.sources.rows import BadRecord
from ledto.sources.times import INT64_LEAST, INT64_MOST, NANOSECONDS_IN, quick_time, time_from_text

Groups = Mapping[str, Sequence[str | None]]
"""By name of a group: what it matched in each event."""

KNOWN_GROUPS: Final = ("host", "clock", "event")
"""Groups that become columns of their own."""
TIME_GROUPS: Final = ("timestamp", "date", "time")
"""Groups that may have a wall time."""

_INTEGER = re.compile(r"-?\d{1,19}", re.ASCII)
_AMERICAN = "%m/%d/%Y %I:%M:%S %p"
"""A time as loggers of Java and C# write it in the United States."""
_SECOND_OF_AMERICAN = re.compile(r"(.*:)([0-5]\d)( .M)", re.ASCII)
_encode_lines = msgspec.json.Encoder().encode_lines


def parse_times(groups: Groups, unit: str) -> list[int | None] | None:
    """Parse the wall time of each event, an integer or a date and time as text; None if no group has times."""
    columns = [groups[name] for name in TIME_GROUPS if name in groups]
    if not columns:
        return None
    if len(columns) == 1:
        return [_parse_time(text.strip(), unit) if text else None for text in columns[0]]
    timestamps, dates, clock_times = (groups.get(name) or [None] * len(columns[0]) for name in TIME_GROUPS)
    return list(map(_parse_first_time, timestamps, dates, clock_times, repeat(unit)))


def _parse_first_time(timestamp: str | None, date: str | None, clock_time: str | None, unit: str) -> int | None:
    """Parse the first of the texts that is a time; date and time together come first."""
    texts = [text.strip() for text in (timestamp, date, clock_time) if text]
    if date and clock_time:
        texts[:0] = [f"{date.strip()}{between}{clock_time.strip()}" for between in "T "]
    return next((time for text in texts if (time := _parse_time(text, unit)) is not None), None)


@lru_cache(maxsize=10_000)  # Events of one second often have the same text.
def _parse_time(text: str, unit: str) -> int | None:
    """Parse a time; None if it is malformed."""
    if _INTEGER.fullmatch(text) and INT64_LEAST <= int(text) <= INT64_MOST:
        return int(text)
    if "/" in text:
        second = _SECOND_OF_AMERICAN.fullmatch(text)
        minute = None if second is None else _parse_american_minute(f"{second[1]}00{second[3]}")
        if second is not None and minute is not None and unit in NANOSECONDS_IN:
            time = (minute + int(second[2])) * NANOSECONDS_IN["s"] // NANOSECONDS_IN[unit]
            return time if INT64_LEAST <= time <= INT64_MOST else None
    else:
        quick = quick_time(text, unit)
        if quick is not None:
            return quick
    try:
        return time_from_text(_to_iso(text), unit)
    except BadRecord:
        return None


@lru_cache(maxsize=10_000)
def _parse_american_minute(text: str) -> int | None:
    """Parse an American time into seconds since 1970; None if it is malformed."""
    try:
        return time_from_text(datetime.strptime(text, _AMERICAN).isoformat(), "s")
    except (ValueError, BadRecord):
        return None


def _to_iso(text: str) -> str:
    """Write an American time in ISO 8601. Return other texts unchanged."""
    with suppress(ValueError):
        return datetime.strptime(text, _AMERICAN).isoformat()
    return text


def write_attributes(groups: Groups) -> list[str | None] | None:
    """Write all other groups of each event that matched as a JSON object; None if there are no such groups."""
    names = [name for name in groups if name not in KNOWN_GROUPS]
    if not names:
        return None
    columns = [groups[name] for name in names]
    attributes = [dict(zip(names, texts, strict=True)) for texts in zip(*columns, strict=True)]
    if any(None in column for column in columns):
        attributes = [{name: text for name, text in event.items() if text is not None} for event in attributes]
    return [text if text != "{}" else None for text in _encode_lines(attributes).decode().split("\n")[:-1]]
