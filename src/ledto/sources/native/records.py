"""Read one record of the format ``ledto`` into a row: the exact reader, which decides what a record means.

One literal record, of the line ``5b8e/eee1``::

    {"process": "shop", "seq": 1, "trace_id": "5b8e", "span_id": "eee1"}

A record belongs to the line that its field ``line`` names, else to the trace and span, or the request, whose ids it has.

The compiled scanner (`ledto.sources.json.scanner`) gives the same rows; a test compares the two.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from ledto.clocks.any_stamp import stamp_from_json
from ledto.clocks.vector.stamp import VectorStamp
from ledto.errors import StampError
from ledto.events.schema import FIRST, KINDS, LOCAL, RECEIVE, SEND
from ledto.sources.json.strict import members
from ledto.sources.record_fields import (
    BAD_LINE_PHASE,
    JSON_FIELDS,
    LOCAL_HAS_MESSAGE,
    LOCAL_RECEIVES,
    PARENT_WITHOUT_LINE,
    RECEIVE_WITHOUT_MESSAGE,
    REQUEST_IDS,
    SEND_WITHOUT_MESSAGE,
    SPAN_IDS,
    TRACE_IDS,
    implied_kind,
)
from ledto.sources.rows import MOST_CAUSES, BadRecord, Row, bad_row
from ledto.sources.times import time_from_text
from ledto.sources.vectors import ClockGrowth, stamp_key

Member = tuple[Any, str, str]
"""A field's value, the value's own text, and the key's own text with its quotes."""
_ABSENT: Member = (None, "", "")
_KNOWN = frozenset(JSON_FIELDS)
_VECTOR_KEYS = {"clock", "counters"}
_INTEGERS_ONLY = {int}
_SEEN_NAMES: set[str] = set()
"""Names that occurred in vector stamps that decode. They only save time."""
_MOST_SEEN_NAMES = 100_000
_SHOWN = 60
_SEQ_MEMBER = re.compile(rb'"seq"\s*:\s*([0-9]{1,18})')
"""Also matches a number that is cut off: its digits make a smaller number, and the record may belong there."""
_PROCESS_MEMBER = re.compile(rb'"process"\s*:\s*("(?:[^"\\]|\\.){1,1000}")')


def row_from_line(raw: bytes, file: str, place: int, unit: str, growth: Callable[[], ClockGrowth]) -> Row:
    """Make the row of one line; a line that cannot be read gives a row with a reason.

    `growth` returns the vector clocks before this line. It is only called for records that need them.
    """
    record: Mapping[str, Member] = {}
    try:
        record = members(raw)
        return _row(record, file, place, unit, growth)
    except BadRecord as error:
        process = _printable(record.get("process", _ABSENT)[0])
        seq, time = (_number_if_good(record, name, unit) for name in ("seq", "time"))
        if not record:
            process, seq = _guess_process_and_seq(raw)
        return bad_row(
            file,
            place,
            str(error),
            raw,
            computation=_printable(record.get("computation", _ABSENT)[0]) or "",
            process=process,
            seq=seq,
            time=time,
        )


def _guess_process_and_seq(raw: bytes) -> tuple[str | None, int | None]:
    """Search a line that is not JSON, as a line that is cut off, for its process and number; None for what it lacks."""
    process, seq = _PROCESS_MEMBER.search(raw), _SEQ_MEMBER.search(raw)
    try:
        return (
            None if process is None else _printable(json.loads(process[1])),
            None if seq is None else int(seq[1]),
        )
    except ValueError:
        return None, None


def _number_if_good(record: Mapping[str, Member], name: str, unit: str) -> int | None:
    """Return the ``seq`` or ``time`` of a quarantined record; None if it has none that is good."""
    try:
        value = _integer(record, name) if name == "seq" else _time(record, name, unit)
    except BadRecord:
        return None
    return value if value is not None and -(1 << 63) <= value < 1 << 63 else None


def _row(record: Mapping[str, Member], file: str, place: int, unit: str, growth: Callable[[], ClockGrowth]) -> Row:
    row = Row(file=file, place=place)
    row.computation = _text(record, "computation", may_be_empty=True) or ""
    row.process = _text(record, "process")
    if row.process is None:
        raise BadRecord("no-process", 'a record needs "process", the name of where it happened')
    row.seq = _integer(record, "seq")
    row.time = _time(record, "time", unit)
    row.arrival = _time(record, "arrival", unit)
    row.id = _key(record, "id")
    row.name = _text(record, "name", may_be_empty=True)
    row.attributes = _attributes(record)
    is_vector = _stamp_is_vector(record)
    stamp, stamp_text, _ = record.get("stamp", _ABSENT)
    row.stamp = stamp_text if stamp is not None else None
    _set_messages(row, record, is_vector, growth)
    _set_line(row, record, is_vector)
    if row.seq is None and row.time is None:
        raise BadRecord("no-order", 'a record needs "seq" or "time" to have a place in its process')
    return row


def _set_messages(row: Row, record: Mapping[str, Member], is_vector: bool, growth: Callable[[], ClockGrowth]) -> None:
    kind = _text(record, "kind")
    if kind is not None and kind not in KINDS:
        raise BadRecord("bad-kind", f"kind is local, send or receive, not {kind[:_SHOWN]!r}")
    message, sends, receives = (record.get(name, _ABSENT)[0] for name in ("message", "sends", "receives"))
    if message is None and sends is None and receives is None and is_vector:
        _set_causes_of_vector(row, record["stamp"][0]["counters"], kind, growth())
        return
    if is_vector and record["stamp"][0]["counters"].get(row.process):
        # Its messages name its causes. Its clock is noted: the entries in it did not grow at the next event.
        growth().note(row.computation, str(row.process), record["stamp"][0]["counters"])
    row.sends = _key(record, "sends")
    received = _list(record, "receives", _key)
    if message is not None:
        if kind == SEND and sends is None:
            row.sends = _key(record, "message")
        elif kind == RECEIVE and receives is None:
            received = _list(record, "message", _key)
        elif kind is None:
            raise BadRecord("no-kind", 'a record with a message says whether it sends or receives it: "kind"')
        elif kind == LOCAL:
            raise BadRecord(*LOCAL_HAS_MESSAGE)
        else:
            raise BadRecord("bad-field", f'"message" and "{kind}s" are two names of one thing: give one of them')
    row.receive(received)
    if kind == SEND and row.sends is None:
        raise BadRecord(*SEND_WITHOUT_MESSAGE)
    if kind == RECEIVE and row.receives is None:
        raise BadRecord(*RECEIVE_WITHOUT_MESSAGE)
    if kind == LOCAL and row.receives is not None:
        raise BadRecord(*LOCAL_RECEIVES)
    row.kind = kind or implied_kind(sends=row.sends is not None, receives=row.receives is not None)


def _set_line(row: Row, record: Mapping[str, Member], is_vector: bool) -> None:
    if is_line(record.get("line", _ABSENT)[0]):
        row.line = _text(record, "line")
    elif not is_vector:
        # A vector stamp says that all events of its process follow each other, whatever request they belong to.
        row.line = line_from_ids(record)
    row.line_parent = _text(record, "line_parent")
    if row.line_parent is not None and row.line is None:
        raise BadRecord(*PARENT_WITHOUT_LINE)
    row.line_phase = _text(record, "line_phase")
    if row.line_phase is not None and (row.line_phase != FIRST or row.line is None):
        raise BadRecord(*BAD_LINE_PHASE)
    joins = _list(record, "line_joins", _text)
    if len(joins) > MOST_CAUSES:
        raise BadRecord("too-many-causes", f"{len(joins)} lines joined at once; the limit is {MOST_CAUSES}")
    row.line_joins = joins or None


def _set_causes_of_vector(row: Row, clock: Mapping[str, int], kind: str | None, growth: ClockGrowth) -> None:
    assert row.process is not None
    own_entry = clock.get(row.process)
    if not own_entry:
        raise BadRecord("bad-stamp", f"the vector stamp has no entry for its own process {row.process[:_SHOWN]!r}")
    if row.seq is None:
        row.seq = own_entry
    row.sends = stamp_key(row.process, own_entry)
    if kind != LOCAL:
        row.receive([stamp_key(*entry) for entry in growth.grown(row.computation, row.process, clock)])
    growth.note(row.computation, row.process, clock)
    row.kind = kind or implied_kind(sends=False, receives=row.receives is not None)


def _text(record: Mapping[str, Member], name: str, *, may_be_empty: bool = False) -> str | None:
    value = record.get(name, _ABSENT)[0]
    if value is None:
        return None
    if not isinstance(value, str):
        raise BadRecord("bad-field", f"{name} is text, not {_shown(record[name])}")
    if not value and not may_be_empty:
        raise BadRecord("bad-field", f"{name} is empty")
    if "\0" in value:
        raise BadRecord("bad-field", f"{name} holds a NUL character")
    return value


def _key(record: Mapping[str, Member], name: str) -> str | None:
    value = record.get(name, _ABSENT)[0]
    if value is not None and type(value) is int:
        return str(value)
    return _text(record, name)


def _list(
    record: Mapping[str, Member], name: str, read: Callable[[Mapping[str, Member], str], str | None]
) -> list[str]:
    """Return a field that is one value or a list of values as a list. `read` reads each value."""
    value, text, _ = record.get(name, _ABSENT)
    if not isinstance(value, list):
        one = read(record, name)
        return [] if one is None else [one]
    values = []
    for element in value:
        one = read({name: (element, text, "")}, name)
        if one is None:
            raise BadRecord("bad-field", f"{name} lists null")
        values.append(one)
    return values


def _integer(record: Mapping[str, Member], name: str) -> int | None:
    value = record.get(name, _ABSENT)[0]
    if value is None:
        return None
    if type(value) is not int:
        raise BadRecord("bad-field", f"{name} is an integer, not {_shown(record[name])}")
    return value


def _time(record: Mapping[str, Member], name: str, unit: str) -> int | None:
    value = record.get(name, _ABSENT)[0]
    return time_from_text(value, unit) if isinstance(value, str) else _integer(record, name)


def _stamp_is_vector(record: Mapping[str, Member]) -> bool:
    """Return whether the record has a vector stamp. Raises `BadRecord` for a stamp that does not decode."""
    value = record.get("stamp", _ABSENT)[0]
    if value is None:
        return False
    if _is_plain_vector(value):
        return True
    try:
        stamp = stamp_from_json(value)
    except StampError as error:
        raise BadRecord("bad-stamp", str(error)) from None
    if isinstance(stamp, VectorStamp) and len(_SEEN_NAMES) < _MOST_SEEN_NAMES:
        _SEEN_NAMES.update(value["counters"])
    return isinstance(stamp, VectorStamp)


def _is_plain_vector(value: object) -> bool:
    """Return whether this surely decodes as a vector stamp. To decode every stamp would take most of the time."""
    if not isinstance(value, dict) or value.keys() != _VECTOR_KEYS or value["clock"] != "vector":
        return False
    counters = value["counters"]
    if type(counters) is not dict or not counters or not counters.keys() <= _SEEN_NAMES:
        return False
    counts = counters.values()
    return {*map(type, counts)} == _INTEGERS_ONLY and min(counts) >= 0


def _attributes(record: Mapping[str, Member]) -> str | None:
    """Join the members of ``attributes`` and every unknown field, each in its own text, so that no number changes."""
    value, text, _ = record.get("attributes", _ABSENT)
    if value is not None and not isinstance(value, dict):
        raise BadRecord("bad-field", f"attributes is an object, not {_shown(record['attributes'])}")
    unknown = [name for name in record if name not in _KNOWN or (name == "line" and not is_line(record[name][0]))]
    if not unknown:
        return text if value else None
    for name in unknown:
        if value and name in value:
            raise BadRecord("duplicate-key", f"{name[:_SHOWN]!r} is both a field and an attribute")
    parts = [text[1:-1].strip()] if value else []
    parts += [f"{record[name][2]}:{record[name][1]}" for name in unknown]
    return "{" + ",".join(parts) + "}"


def _shown(member: Member) -> str:
    return member[1] if len(member[1]) <= _SHOWN else member[1][: _SHOWN - 3] + "..."


def _printable(value: object) -> str | None:
    if not isinstance(value, str):
        return None
    return value if value and value.isprintable() else None


def is_line(value: object) -> bool:
    """Return whether the value of the field ``line`` names a line.

    Any other value stays an attribute: in many logs the field is the number of a line of code.
    """
    return isinstance(value, str) and value != ""


def line_from_ids(record: Mapping[str, Member]) -> str | None:
    """Return the line that the ids of a record name: TRACE/SPAN, TRACE or REQUEST; None if it has none of them."""
    trace = _first_id(record, TRACE_IDS, zeros=False)
    if trace is None:
        return _first_id(record, REQUEST_IDS, zeros=True)
    span = _first_id(record, SPAN_IDS, zeros=False)
    return trace if span is None else f"{trace}/{span}"


def _first_id(record: Mapping[str, Member], names: tuple[str, ...], *, zeros: bool) -> str | None:
    """Return the first of these ids that is text. Tracers write zeros for "no trace"; they count only with `zeros`."""
    for name in names:
        value = record[name][0] if name in record else None
        if isinstance(value, str) and value and "\0" not in value and (zeros or value.strip("0")):
            return value
    return None
