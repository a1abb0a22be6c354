"""Parse times as text: ISO-8601, or as a format of `strptime` says, perhaps in a time zone that the text does not name.

Text of a format is matched by an expression that is made once, and dates are remembered: most lines of a log share theirs.
Names of months and days are English, whatever the machine's language is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo

from ledto.sources.rows import BadRecord
from ledto.sources.times import INT64_LEAST, INT64_MOST, NANOSECONDS_IN, quick_time, time_from_text

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_OFFSET = r"[Zz]|[+-]\d\d:?\d\d"
_DIRECTIVES: Final = {
    "Y": r"(?P<Y>\d{4})",
    "y": r"(?P<y>\d\d)",
    "m": r"(?P<m>\d{1,2})",
    "b": r"(?P<b>[A-Za-z]{3,9})",
    "d": r" ?(?P<d>\d{1,2})",
    "j": r"(?P<j>\d{1,3})",
    "H": r" ?(?P<H>\d{1,2})",
    "I": r" ?(?P<I>\d{1,2})",
    "p": r"(?P<p>[AaPp]\.?[Mm]\.?)",
    "M": r"(?P<M>\d{1,2})",
    "S": r"(?P<S>\d{1,2})",
    "f": r"(?P<f>\d{1,9})",
    "z": rf"(?P<z>{_OFFSET})",
    "Z": r"(?P<Z>UTC|GMT|Z)",
    "s": r"(?P<s>-?\d{1,12})",
    "a": r"[A-Za-z]{2,9}",
    "%": "%",
}
_SAME_AS: Final = {
    "B": "%b",
    "h": "%b",
    "A": "%a",
    "e": "%d",
    "T": "%H:%M:%S",
    "R": "%H:%M",
    "F": "%Y-%m-%d",
    "D": "%m/%d/%y",
}
_TOKEN = re.compile(r"%(.)|(\s+)|([^%\s]+)|%$", re.DOTALL)
_FIXED = re.compile(r"(?:UTC)?([+-])(\d\d):?(\d\d)")
_HAS_OFFSET = re.compile(r".*(?:[Zz]|[T ][0-9:.,]+\s?[+-]\d\d:?(?:\d\d)?)", re.DOTALL)
_ISO_SHAPE = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d")
_REMEMBERED = 10_000
_SHOWN = 60


def read_zone(name: str) -> tzinfo:
    """Return the zone of a name, as ``Europe/Berlin``, ``UTC`` or ``+02:00``. Raises `ValueError`."""
    fixed = _FIXED.fullmatch(name)
    if fixed is not None:
        offset = timedelta(hours=int(fixed[2]), minutes=int(fixed[3]))
        return timezone(-offset if fixed[1] == "-" else offset)
    try:
        return UTC if name in ("UTC", "Z") else ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"is a time zone, as Europe/Berlin, UTC or +02:00, not {name[:_SHOWN]!r}") from None


@dataclass(frozen=True)
class TimeText:
    """How times are written as text. Pickles.

    In the hour that comes twice when summer time ends, a time without an offset is taken as the first of the two.
    """

    format: str | None = None
    """As for `strptime`; None for ISO-8601."""
    zone: tzinfo | None = None
    """Of text without an offset; None is UTC."""
    _parse: Callable[[str], int | None] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parse = _make_iso(self.zone) if self.format is None else _make_parser(self.format, self.zone)
        object.__setattr__(self, "_parse", parse)

    def __reduce__(self) -> tuple[Any, ...]:
        return TimeText, (self.format, self.zone)

    def quick(self, text: str, unit: str) -> int | None:
        """Parse a time in `unit`; None if `exact` must read it."""
        time = self._parse(text) if unit in NANOSECONDS_IN else None
        return None if time is None else time // NANOSECONDS_IN[unit]

    def exact(self, text: str, unit: str) -> int:
        """Parse a time in `unit`. Raises `BadRecord`."""
        if self.format is None and (self.zone is None or _HAS_OFFSET.fullmatch(text) or not _ISO_SHAPE.match(text)):
            return time_from_text(text, unit)
        if unit not in NANOSECONDS_IN:
            raise BadRecord("bad-field", f"in the unit {unit!r} a time is an integer, not {text[:_SHOWN]!r}")
        time = self._parse(text)
        if time is None:
            expected = "ISO-8601 text" if self.format is None else f"text of the format {self.format}"
            raise BadRecord("bad-field", f"a time is {expected}, not {text[:_SHOWN]!r}")
        if not INT64_LEAST <= time // NANOSECONDS_IN[unit] <= INT64_MOST:
            raise BadRecord("bad-field", f"{text[:_SHOWN]!r} is beyond 64 bits of {unit}")
        return time // NANOSECONDS_IN[unit]


def check_format(format: str) -> None:
    """Raise `ValueError` if times of this format would have no date and no hour, or if it has unknown directives."""
    names = re.compile(_expression(format)).groupindex.keys()
    has_day = {"d"} <= names and ({"m"} <= names or {"b"} <= names)
    if "s" not in names and not (names & {"Y", "y"} and (has_day or "j" in names) and names & {"H", "I"}):
        raise ValueError(f"{format!r} needs a year, a month, a day and an hour: %Y, %m or %b, %d, and %H; or %s")


def _expression(format: str) -> str:
    parts = []
    for token in _TOKEN.finditer(format):
        if token[1] is not None:
            directive = token[1]
            if directive in _SAME_AS:
                parts.append(_expression(_SAME_AS[directive]))
            elif directive in _DIRECTIVES:
                parts.append(_DIRECTIVES[directive])
            else:
                known = " ".join(f"%{each}" for each in sorted({*_DIRECTIVES, *_SAME_AS}))
                raise ValueError(f"{format!r} has %{directive}, which is not known; known are {known}")
        elif token[2] is not None:
            parts.append(r"\s+")
        elif token[3] is not None:
            parts.append(re.escape(token[3]))
        else:
            raise ValueError(f"{format!r} ends with a single %")
    try:
        re.compile("".join(parts))
    except re.error:
        raise ValueError(f"{format!r} has a directive twice") from None
    return "".join(parts)


def _make_parser(format: str, zone: tzinfo | None) -> Callable[[str], int | None]:
    """Make a function that parses text of a format into nanoseconds since 1970; None for text that has another form."""
    pattern = re.compile(_expression(format), re.ASCII)
    names = [name for name in pattern.groupindex if name != "f"]
    has_fraction = "f" in pattern.groupindex

    @lru_cache(maxsize=_REMEMBERED)
    def second(parts: tuple[str, ...]) -> int | None:
        return _second(dict(zip(names, parts, strict=True)), zone)

    def parse(text: str) -> int | None:
        match = pattern.fullmatch(text)
        if match is None:
            return None
        whole = second(match.group(*names) if len(names) > 1 else (match[names[0]],))
        if whole is None or not has_fraction:
            return whole
        return whole + int(match["f"].ljust(9, "0"))

    return parse


def _second(parts: dict[str, str], zone: tzinfo | None) -> int | None:
    """Return the nanoseconds since 1970 of a second; None if there is no such time."""
    if "s" in parts:
        return int(parts["s"]) * NANOSECONDS_IN["s"]
    year = int(parts["Y"]) if "Y" in parts else _full_year(int(parts["y"]))
    month, day, hour = 1, 1, int(parts.get("H") or parts.get("I") or 0)
    if "p" in parts:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (parts["p"][0] in "pP")
    try:
        if "b" in parts:
            month = _MONTHS.index(parts["b"][:3].lower()) + 1
        elif "m" in parts:
            month = int(parts["m"])
        moment = datetime(year, month, int(parts.get("d", day)), hour, int(parts.get("M", 0)), int(parts.get("S", 0)))
        if "j" in parts:
            moment += timedelta(days=int(parts["j"]) - 1)
    except (ValueError, OverflowError):
        return None
    return _nanoseconds(moment, _zone_of(parts, zone))


def _full_year(short: int) -> int:
    # As POSIX has it: 69 to 99 are of the last century.
    return short + (1900 if short >= 69 else 2000)


def _zone_of(parts: dict[str, str], zone: tzinfo | None) -> tzinfo:
    if "Z" in parts:
        return UTC
    offset = parts.get("z")
    if offset is None:
        return zone or UTC
    return UTC if offset in "Zz" else read_zone(offset)


def _nanoseconds(moment: datetime, zone: tzinfo) -> int | None:
    try:
        since = moment.replace(tzinfo=zone) - datetime(1970, 1, 1, tzinfo=UTC)
    except OverflowError:
        return None
    return (since.days * 86_400 + since.seconds) * NANOSECONDS_IN["s"]


def _make_iso(zone: tzinfo | None) -> Callable[[str], int | None]:
    """Make a function that parses usual ISO-8601 text into nanoseconds since 1970; None for other text."""
    if zone is None:
        return lambda text: quick_time(text, "ns")
    chosen = zone

    @lru_cache(maxsize=_REMEMBERED)
    def offset_at(minute: str) -> int | None:
        try:
            offset = datetime.fromisoformat(minute).replace(tzinfo=chosen).utcoffset()
        except (ValueError, OverflowError):
            return None
        return None if offset is None else (offset.days * 86_400 + offset.seconds) * NANOSECONDS_IN["s"]

    def parse(text: str) -> int | None:
        time = quick_time(text, "ns")
        if time is None or text[-1:] in ("Z", "z"):
            return time
        offset = offset_at(text[:16].replace("t", "T"))
        return None if offset is None else time - offset

    return parse


ISO: Final = TimeText()
"""ISO-8601, in UTC if it names no offset."""
