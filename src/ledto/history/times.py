"""Parse and format times as people and programs write them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ISO = re.compile(
    r"(?P<whole>\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?)(?:\.(?P<fraction>\d{1,9}))?(?P<zone>Z|[+-]\d\d:?\d\d)?"
)


def parse_time(text: str, unit: str) -> int | None:
    """Parse an integer in the history's unit, or ISO 8601 (UTC unless it names a zone); None if it is neither."""
    if re.fullmatch(r"-?\d+", text, re.ASCII):
        return int(text)
    match = ISO.fullmatch(text)
    per_second = PER_SECOND.get(unit)
    if match is None or per_second is None:
        return None
    try:
        whole = match["whole"] if len(match["whole"]) > len("2026-01-31") else f"{match['whole']}T00:00"
        moment = datetime.fromisoformat(whole + (match["zone"] or "+00:00"))
    except ValueError:
        return None
    fraction = int((match["fraction"] or "0").ljust(9, "0"))
    seconds = round((moment - EPOCH).total_seconds())
    return seconds * per_second + fraction * per_second // 10**9


def to_datetime(time: int | None, unit: str) -> datetime | None:
    """Turn a time into a datetime in UTC, down to the microsecond.

    None without a time, for a unit that is no part of a second, such as a tick, and outside the years 1 to 9999.
    """
    per_second = PER_SECOND.get(unit)
    if time is None or per_second is None:
        return None
    try:
        return EPOCH + timedelta(microseconds=time * 10**6 // per_second)
    except OverflowError:
        return None


def format_time(time: int | None, unit: str, *, digits: int | None = None) -> str:
    """Format a time in UTC, with `digits` after the second or all of the unit; a plain number if the unit is a tick."""
    if time is None:
        return ""
    per_second = PER_SECOND.get(unit)
    if per_second is None:
        return str(time)
    seconds, fraction = divmod(time, per_second)
    try:
        whole = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return str(time)
    every = len(str(per_second)) - 1
    shown = f"{fraction:0{every}d}"[: every if digits is None else digits] if every else ""
    return f"{whole}.{shown}Z" if shown else f"{whole}Z"


def count_digits(times: Iterable[int | None], unit: str) -> int:
    """Count the digits after the second that show these times exactly: 0, 3, 6 or 9."""
    per_second = PER_SECOND.get(unit, 1)
    every = len(str(per_second)) - 1
    fractions = [f"{time % per_second:0{every}d}".rstrip("0") for time in times if time is not None and every]
    return -(-max(map(len, fractions), default=0) // 3) * 3


class ShortTimes:
    """Formats the times of one table: the time of day, with the date apart.

    Times have milliseconds, or as many digits as it takes to tell different times apart. They are UTC, or those of
    this machine's zone if `local`. Times in ticks are plain numbers without a date.
    """

    def __init__(self, times: Iterable[int | None], unit: str, *, local: bool = False) -> None:
        known = {time for time in times if time is not None}
        self._per_second, self._local = PER_SECOND.get(unit), local
        every = len(str(self._per_second or 1)) - 1
        self._digits = min(3, every)
        while self._digits < every and len({time // 10 ** (every - self._digits) for time in known}) < len(known):
            self._digits += 3
        self._dates = {date for date in map(self.date, known) if date}

    @property
    def heading(self) -> str:
        """What `show` leaves out: the date and the zone, or the zone if there are several dates; nothing for ticks."""
        if len(self._dates) <= 1:
            return next(iter(self._dates), "")
        return "local time" if self._local else "UTC"

    def date(self, time: int | None) -> str:
        """Return the date and the zone; nothing without a time or a date."""
        moment = self._moment(time)
        return "" if moment is None else f"{moment:%Y-%m-%d %Z}"

    def time_of_day(self, time: int | None) -> str:
        """Return the time without its date; a plain number if it has none."""
        moment = self._moment(time)
        if time is None or moment is None or self._per_second is None:
            return "" if time is None else str(time)
        every = len(str(self._per_second)) - 1
        fraction = f"{time % self._per_second:0{every}d}"[: self._digits] if every else ""
        return f"{moment:%H:%M:%S}{f'.{fraction}' if fraction else ''}"

    def show(self, time: int | None) -> str:
        """Return the time, with its date unless all times have the same."""
        date, shown = self.date(time), self.time_of_day(time)
        return f"{date.partition(' ')[0]} {shown}" if date and len(self._dates) > 1 else shown

    def _moment(self, time: int | None) -> datetime | None:
        if time is None or self._per_second is None:
            return None
        try:
            moment = datetime.fromtimestamp(time // self._per_second, UTC)
            return moment.astimezone() if self._local else moment
        except (ValueError, OverflowError, OSError):
            return None


def time_or_event(text: str, unit: str) -> tuple[int, None] | tuple[None, str]:
    """Read where to cut: a time, or the name of an event. Raises `ValueError` for a text that begins like a time."""
    time = parse_time(text, unit)
    if time is not None:
        return time, None
    if re.match(r"\d{4}-\d", text, re.ASCII):
        raise ValueError(f"{text!r:.60} is not a time; write it like 2026-01-31T12:00:00.5Z")
    return None, text
