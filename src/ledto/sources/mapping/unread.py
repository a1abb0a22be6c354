"""Make rows of lines that cannot be read as records: events of plain lines of a container, and bad rows of all others.

Programs in containers write more than their log: a Go panic or a shell's message stands between lines of JSON. The
container's file says when such a line was written, and its path by whom, so it is an event whose name is the line.
"""

from __future__ import annotations

from functools import cache

from ledto.sources.mapping.file import load_mapping
from ledto.sources.mapping.reading import RecordsChunk
from ledto.sources.mapping.rules import CONTAINER, LogMapping, MappingRule
from ledto.sources.mapping.values import Record
from ledto.sources.records.lines import MESSAGE
from ledto.sources.rows import BadRecord, Row, bad_row

_PLAIN = ("not-json", "not-logfmt")
"""The codes of what is wrong with a line that is plain text in a log of records."""


def plain_row(
    error: BadRecord, chunk: RecordsChunk, number: int, file: str, mapping: LogMapping, unit: str
) -> Row | None:
    """Make the event of a plain line of a container; None for any other record.

    A line that begins like an object of JSON is a damaged record, and no plain line.
    """
    raw, known = chunk.raws[number], chunk.known(number)
    if CONTAINER not in known or error.code not in _PLAIN or raw.lstrip().startswith(b"{"):
        return None
    try:
        text = raw.decode("utf-8").rstrip("\r")
        row = _plain_rule().rows({**known, **chunk.as_record({MESSAGE: text})}, unit)[0]
    except (UnicodeDecodeError, BadRecord):
        return None
    row.process = _legible(mapping.rules[-1], "process", known) or row.process
    row.file, row.place = file, chunk.places[number]
    return row


def unread_row(
    error: BadRecord,
    chunk: RecordsChunk,
    number: int,
    file: str,
    mapping: LogMapping,
    unit: str,
    rule: MappingRule | None,
    record: Record,
) -> Row:
    """Make the row of a bad record, with its process and its time as far as they are known."""
    time = None
    known = chunk.known(number)
    if not record and CONTAINER in known:
        record, rule = known, mapping.rules[-1]
    process = _legible(rule, "process", record)
    if CONTAINER in record:
        process = process or _legible(_plain_rule(), "process", record)
        time = _time(_plain_rule(), record, unit)
    computation = _legible(rule, "computation", record) or ""
    place, raw = chunk.places[number], chunk.raws[number]
    return bad_row(file, place, str(error), raw, computation=computation, process=process, time=time)


@cache
def _plain_rule() -> MappingRule:
    """Return the rule for plain lines of containers."""
    return load_mapping("text").for_containers().rules[-1]


def _time(rule: MappingRule, record: Record, unit: str) -> int | None:
    value = rule.columns["time"]
    try:
        return value.as_time(value.of(record), unit)
    except BadRecord:
        return None


def _legible(rule: MappingRule | None, column: str, record: Record) -> str | None:
    """Return a column of a bad record, if at least that can be read; else None."""
    try:
        text = None if rule is None else rule.text(column, record)
    except BadRecord:
        return None
    return text if text and text.isprintable() else None
