"""Lines of syslog: RFC 5424, RFC 3164, and the forms in which syslog daemons write files.

Four literal lines::

    <165>1 2024-05-01T12:00:00.003Z shop pay 4711 ID47 [order@32473 id="7"] card declined
    <34>May  1 12:00:00 shop pay[4711]: card declined
    May  1 12:00:00 shop pay[4711]: card declined
    2024-05-01T12:00:00.003+02:00 shop pay[4711]: card declined

All have the fields ``time``, ``host``, ``app``, ``pid`` and ``message``; those with a priority have ``facility`` and
``severity`` as words. Structured data is the field ``structured``. A hyphen of RFC 5424 means that there is no such field.

RFC 3164 has no year. `NewestYear` takes the latest one that does not put the line after the file was last written, and the
record says so: ``assumed_year``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from ledto.sources.contract import SourceError
from ledto.sources.records.contract import Fields, Options, RecordDecoder
from ledto.sources.records.lines import MESSAGE, LineDecoder, most_are, text_of_line, whole_lines
from ledto.sources.rows import BadRecord

SEVERITIES: Final = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
FACILITIES: Final = (
    *("kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp"),
    *("ntp", "audit", "alert", "clock", *(f"local{number}" for number in range(8))),
)
YEAR, LATEST_NS = "year", "latest_ns"
"""Options: the year of lines without one; else the moment after which none of them can be."""

_SLACK: Final = timedelta(days=1)
"""How far a line may seem to lie after the file was written: its zone is not known, and zones differ by up to 26 hours."""
_MONTHS: Final = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), start=1
    )
}
_LEVELS: Final = frozenset(
    (*SEVERITIES, *("trace", "warn", "error", "critical", "fatal", "severe", "fine", "finer", "config", "panic"))
)
_LEAP_YEARS_APART = 9
"""February 29 comes at least once in so many years."""

_PRI = r"<(\d{1,3})>"
_STRUCTURED = r'\[[^\s=\]"]{1,255}(?: [^\s=\]"]{1,255}="(?:[^"\\\]]|\\.)*")*\]'
_RFC5424 = re.compile(
    rf"{_PRI}[1-9]\d? (\S+) (\S+) (\S+) (\S+) (\S+) (-|(?:{_STRUCTURED})+)(?: (.*))?", re.ASCII | re.DOTALL
)
_OLDER = re.compile(
    rf"(?:{_PRI})?(?:([A-Z][a-z]{{2}}) +(\d{{1,2}}) (?:(\d{{4}}) )?(\d\d:\d\d:\d\d(?:\.\d{{1,9}})?)"
    r"|(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*)) (\S+) (.*)",
    re.ASCII | re.DOTALL,
)
_TAG = re.compile(r"([^\s:\[\]]{1,128})(?:\[([^\]\s]*)\])?: ?(.*)", re.DOTALL)
_ELEMENT = re.compile(r'\[([^\s=\]"]+)((?: [^\s=\]"]+="(?:[^"\\\]]|\\.)*")*)\]')
_PARAMETER = re.compile(r' ([^\s=\]"]+)="((?:[^"\\\]]|\\.)*)"')
_ESCAPED = re.compile(r'\\(["\\\]])')


@dataclass(frozen=True, slots=True)
class NewestYear:
    """Find the year of a date without one."""

    year: int | None
    """The year, if it is known."""
    latest: datetime
    """When the file was last written."""

    def of(self, month: int, day: int, clock: str) -> int:
        """Return the latest year that does not put this date after the file was written. Raises `BadRecord` without one."""
        hour, minute, second = int(clock[:2]), int(clock[3:5]), int(clock[6:8])
        newest = self.latest.year + 1
        years = (self.year,) if self.year is not None else range(newest, newest - _LEAP_YEARS_APART, -1)
        for year in years:
            try:
                moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
            except ValueError:
                continue
            if self.year is not None or moment <= self.latest + _SLACK:
                return year
        raise BadRecord("bad-field", f"no such time: month {month}, day {day}, {clock}")


@dataclass(frozen=True, slots=True)
class Syslog:
    """Lines of syslog, in any of its forms, also mixed."""

    name: str = "syslog"
    suffixes: tuple[str, ...] = (".log", ".syslog")
    options: tuple[str, ...] = (YEAR, LATEST_NS)
    values_are_text: bool = True

    def joins_lines(self, options: Options, head: bytes) -> bool:
        return False

    def sniff(self, head: bytes) -> dict[str, Any] | None:
        record_of = _reader_of({LATEST_NS: 0, YEAR: 2024})
        return {} if most_are(whole_lines(head), lambda line: _is_surely_syslog(line, record_of)) else None

    def decoder(self, options: Options, head: bytes) -> RecordDecoder:
        return LineDecoder(_reader_of(options))


def _is_surely_syslog(line: bytes, record_of: Any) -> bool:
    """Return whether a line has a priority, or else the name of a program with a colon, as plain text seldom has it."""
    try:
        record = record_of(line)
    except BadRecord:
        return False
    # Programs write a level where syslog has the host.
    return line.startswith(b"<") or ("app" in record and record["host"].strip("[]").lower() not in _LEVELS)


def _reader_of(options: Options) -> Any:
    year = options.get(YEAR)
    if year is not None and (type(year) is not int or not 1970 <= year <= 2200):
        raise SourceError(f"the year is a number from 1970 to 2200, not {year!r}")
    years = NewestYear(year, datetime.fromtimestamp((options.get(LATEST_NS) or 0) // 10**9, UTC))
    year_of = lru_cache(maxsize=10_000)(years.of)

    def record_of(line: bytes) -> Fields:
        text = text_of_line(line)
        newer = _RFC5424.fullmatch(text)
        if newer is not None:
            return _newer(newer)
        older = _OLDER.fullmatch(text)
        if older is None:
            raise BadRecord("not-syslog", "a line begins with a priority and a version, or with a time and a host")
        return _older(older, year_of)

    return record_of


def _newer(line: re.Match[str]) -> Fields:
    """Make the record of a line of RFC 5424."""
    record = _priority(line[1])
    for name, value in zip(("time", "host", "app", "pid", "msgid"), line.groups()[1:6], strict=True):
        if value != "-":
            record[name] = value
    if line[7] != "-":
        structured: dict[str, dict[str, str]] = {}
        for element in _ELEMENT.finditer(line[7]):
            if element[1] in structured:
                raise BadRecord("duplicate-key", f"the structured data {element[1][:60]!r} is given twice")
            structured[element[1]] = {
                name: _ESCAPED.sub(r"\1", value) for name, value in _PARAMETER.findall(element[2])
            }
        record["structured"] = structured
    if line[8]:
        record[MESSAGE] = line[8].removeprefix("\ufeff")
    return record


def _older(line: re.Match[str], year_of: Any) -> Fields:
    """Make the record of a line of RFC 3164, or of one with an ISO time."""
    pri, month, day, year, clock, iso, host, rest = line.groups()
    record = {} if pri is None else _priority(pri)
    if iso is not None:
        record["time"] = iso
    else:
        if month not in _MONTHS:
            raise BadRecord("bad-field", f"no such month: {month!r}")
        if year is None:
            year = record["assumed_year"] = str(year_of(_MONTHS[month], int(day), clock[:8]))
        record["time"] = f"{year}-{_MONTHS[month]:02d}-{int(day):02d}T{clock}"
    record["host"] = host
    tag = _TAG.fullmatch(rest)
    if tag is None:
        record[MESSAGE] = rest
        return record
    record["app"] = tag[1]
    if tag[2]:
        record["pid"] = tag[2]
    record[MESSAGE] = tag[3]
    return record


def _priority(digits: str) -> Fields:
    number = int(digits)
    if number >= len(FACILITIES) * 8:
        raise BadRecord("bad-field", f"a priority is at most {len(FACILITIES) * 8 - 1}, not {number}")
    return {"facility": FACILITIES[number >> 3], "severity": SEVERITIES[number & 7]}
