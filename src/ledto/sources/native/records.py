"""The line that a record of the format ``ledto`` belongs to: what it says itself, or the trace or request it names.

One literal record, of the line ``5b8e/eee1``::

    {"process": "shop", "seq": 1, "trace_id": "5b8e", "span_id": "eee1"}

The compiled scanner (`ledto.sources.json.scanner`) does the same; a test holds the two equal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from ledto.clocks.any_stamp import stamp_from_json
from ledto.clocks.vector.stamp import VectorStamp
from ledto.errors import StampError
from ledto.events.schema import FIRST, KINDS, LOCAL, RECEIVE, SEND
from ledto.sources.json.strict import members
from ledto.sources.rows import MOST_CAUSES, BadRecord, Row, bad_row
from ledto.sources.times import time_from_text
from ledto.sources.vectors import ClockDeltas, stamp_key

FIELDS: Final = (
    "computation",
    "process",
    "seq",
    "time",
    "arrival",
    "kind",
    "message",
    "sends",
    "receives",
    "id",
    "name",
    "stamp",
    "attributes",
    "line",
    "line_parent",
    "line_joins",
    "line_phase",
)
"""The fields that mean something; every other field of a record becomes an attribute."""

Member = tuple[Any, str, str]
_NOTHING: Member = (None, "", "")
_KNOWN = frozenset(FIELDS)
_VECTOR_KEYS = {"clock", "counters"}
_INTEGERS_ONLY = {int}
_SEEN_NAMES: set[str] = set()
"""Names that vector stamps have been decoded with; what is in here only saves time."""
_MOST_SEEN_NAMES = 100_000
_SHOWN = 60
_NUMBERED = re.compile(rb'"seq"\s*:\s*([0-9]{1,18})')
"""Of a number that is cut off, too: what is left of it is smaller, and the record may belong there."""
_NAMED = re.compile(rb'"process"\s*:\s*("(?:[^"\\]|\\.){1,1000}")')


def row_from_line(raw: bytes, file: str, place: int, unit: str, growth: Callable[[], ClockDeltas]) -> Row:
    """The row of one line; a line that cannot be read gives a row with a reason.

    `growth` gives what is known of the vector clocks before this line; it is asked for only by records that need it.
    """
    found: Mapping[str, Member] = {}
    try:
        found = members(raw)
        return _row(found, file, place, unit, growth)
    except BadRecord as error:
        named = _legible(found.get("process", _NOTHING)[0])
        seq, time = (_number_if_good(found, name, unit) for name in ("seq", "time"))
        if not found:
            named, seq = _named_in(raw)
        return bad_row(
            file,
            place,
            str(error),
            raw,
            computation=_legible(found.get("computation", _NOTHING)[0]) or "",
            process=named,
            seq=seq,
            time=time,
        )


def _named_in(raw: bytes) -> tuple[str | None, int | None]:
    """The process and number that a line which is no JSON seems to name: a line may be cut off. None for what it lacks."""
    name, number = _NAMED.search(raw), _NUMBERED.search(raw)
    try:
        return (
            None if name is None else _legible(json.loads(name[1])),
            None if number is None else int(number[1]),
        )
    except ValueError:
        return None, None


def _number_if_good(found: Mapping[str, Member], name: str, unit: str) -> int | None:
    """The number or time of a record that is set aside; None if it has none that can be meant."""
    try:
        value = _integer(found, name) if name == "seq" else _time(found, name, unit)
    except BadRecord:
        return None
    return value if value is not None and -(1 << 63) <= value < 1 << 63 else None


def _row(found: Mapping[str, Member], file: str, place: int, unit: str, growth: Callable[[], ClockDeltas]) -> Row:
    row = Row(file=file, place=place)
    row.computation = _text(found, "computation", may_be_empty=True) or ""
    row.process = _text(found, "process")
    if row.process is None:
        raise BadRecord("no-process", 'a record needs "process", the name of where it happened')
    row.seq = _integer(found, "seq")
    row.time = _time(found, "time", unit)
    row.arrival = _time(found, "arrival", unit)
    row.id = _key(found, "id")
    row.name = _text(found, "name", may_be_empty=True)
    row.attributes = _attributes(found)
    is_vector = _stamp_is_vector(found)
    stamp, stamp_text, _ = found.get("stamp", _NOTHING)
    row.stamp = stamp_text if stamp is not None else None
    _set_messages(row, found, is_vector, growth)
    _set_line(row, found, is_vector)
    if row.seq is None and row.time is None:
        raise BadRecord("no-order", 'a record needs "seq" or "time" to have a place in its process')
    return row


def _set_messages(row: Row, found: Mapping[str, Member], is_vector: bool, growth: Callable[[], ClockDeltas]) -> None:
    kind = _text(found, "kind")
    if kind is not None and kind not in KINDS:
        raise BadRecord("bad-kind", f"kind is local, send or receive, not {kind[:_SHOWN]!r}")
    message, sends, receives = (found.get(name, _NOTHING)[0] for name in ("message", "sends", "receives"))
    if message is None and sends is None and receives is None and is_vector:
        _set_causes_of_vector(row, found["stamp"][0]["counters"], kind, growth())
        return
    if is_vector and found["stamp"][0]["counters"].get(row.process):
        # Its messages say what caused it; what it knows, its successors do not learn anew.
        growth().note(row.computation, str(row.process), found["stamp"][0]["counters"])
    row.sends = _key(found, "sends")
    received = _keys(found, "receives")
    if message is not None:
        if kind == SEND and sends is None:
            row.sends = _key(found, "message")
        elif kind == RECEIVE and receives is None:
            received = _keys(found, "message")
        elif kind is None:
            raise BadRecord("no-kind", 'a record with a message says whether it sends or receives it: "kind"')
        elif kind == LOCAL:
            raise BadRecord("bad-kind", "a local event has no message")
        else:
            raise BadRecord("bad-field", f'"message" and "{kind}s" are two names of one thing: give one of them')
    row.receive(received)
    if kind == SEND and row.sends is None:
        raise BadRecord("no-message", "a send needs the id of its message")
    if kind == RECEIVE and row.receives is None:
        raise BadRecord("no-message", "a receive needs the id of its message")
    if kind == LOCAL and row.receives is not None:
        raise BadRecord("bad-kind", "a local event receives nothing")
    row.kind = kind or (RECEIVE if row.receives is not None else SEND if row.sends is not None else LOCAL)


def _set_line(row: Row, found: Mapping[str, Member], is_vector: bool) -> None:
    if is_line(found.get("line", _NOTHING)[0]):
        row.line = _text(found, "line")
    elif not is_vector:
        # A vector stamp says that all events of its process follow each other, whatever they were done for.
        row.line = named_line(found)
    row.line_parent = _text(found, "line_parent")
    if row.line_parent is not None and row.line is None:
        raise BadRecord("bad-field", 'line_parent says what a line was started from: give "line" as well')
    row.line_phase = _text(found, "line_phase")
    if row.line_phase is not None and (row.line_phase != FIRST or row.line is None):
        raise BadRecord(
            "bad-field", 'line_phase can only be "first", on the first event of a line: give "line" as well'
        )
    joins = _names(found, "line_joins")
    if len(joins) > MOST_CAUSES:
        raise BadRecord("too-many-causes", f"{len(joins)} lines joined at once; the limit is {MOST_CAUSES}")
    row.line_joins = joins or None


def _set_causes_of_vector(row: Row, clock: Mapping[str, int], kind: str | None, growth: ClockDeltas) -> None:
    assert row.process is not None
    own = clock.get(row.process)
    if not own:
        raise BadRecord("bad-stamp", f"the vector stamp has no entry for its own process {row.process[:_SHOWN]!r}")
    if row.seq is None:
        row.seq = own
    row.sends = stamp_key(row.process, own)
    if kind != LOCAL:
        row.receive([stamp_key(*entry) for entry in growth.grown(row.computation, row.process, clock)])
    growth.note(row.computation, row.process, clock)
    row.kind = kind or (RECEIVE if row.receives is not None else LOCAL)


def _text(found: Mapping[str, Member], name: str, *, may_be_empty: bool = False) -> str | None:
    value = found.get(name, _NOTHING)[0]
    if value is None:
        return None
    if not isinstance(value, str):
        raise BadRecord("bad-field", f"{name} is text, not {_shown(found[name])}")
    if not value and not may_be_empty:
        raise BadRecord("bad-field", f"{name} is empty")
    if "\0" in value:
        raise BadRecord("bad-field", f"{name} holds a NUL character")
    return value


def _key(found: Mapping[str, Member], name: str) -> str | None:
    value = found.get(name, _NOTHING)[0]
    if value is not None and type(value) is int:
        return str(value)
    return _text(found, name)


def _keys(found: Mapping[str, Member], name: str) -> list[str]:
    value = found.get(name, _NOTHING)[0]
    if not isinstance(value, list):
        one = _key(found, name)
        return [] if one is None else [one]
    keys = []
    for element in value:
        one = _key({name: (element, found[name][1], "")}, name)
        if one is None:
            raise BadRecord("bad-field", f"{name} lists null")
        keys.append(one)
    return keys


def _names(found: Mapping[str, Member], name: str) -> list[str]:
    """One text, or a list of texts."""
    value, text, _ = found.get(name, _NOTHING)
    if value is None:
        return []
    names = []
    for each in value if isinstance(value, list) else [value]:
        one = _text({name: (each, text, "")}, name)
        if one is None:
            raise BadRecord("bad-field", f"{name} lists null")
        names.append(one)
    return names


def _integer(found: Mapping[str, Member], name: str) -> int | None:
    value = found.get(name, _NOTHING)[0]
    if value is None:
        return None
    if type(value) is not int:
        raise BadRecord("bad-field", f"{name} is an integer, not {_shown(found[name])}")
    return value


def _time(found: Mapping[str, Member], name: str, unit: str) -> int | None:
    value = found.get(name, _NOTHING)[0]
    return time_from_text(value, unit) if isinstance(value, str) else _integer(found, name)


def _stamp_is_vector(found: Mapping[str, Member]) -> bool:
    """Whether the record has a vector stamp; raises `BadRecord` for a stamp that does not decode."""
    value = found.get("stamp", _NOTHING)[0]
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
    """Whether this surely decodes as a vector stamp: making one of each line would take most of the time."""
    if not isinstance(value, dict) or value.keys() != _VECTOR_KEYS or value["clock"] != "vector":
        return False
    counters = value["counters"]
    if type(counters) is not dict or not counters or not counters.keys() <= _SEEN_NAMES:
        return False
    counts = counters.values()
    return {*map(type, counts)} == _INTEGERS_ONLY and min(counts) >= 0


def _attributes(found: Mapping[str, Member]) -> str | None:
    """The members of ``attributes`` and every unknown field, each in its own text, so that no number changes."""
    value, text, _ = found.get("attributes", _NOTHING)
    if value is not None and not isinstance(value, dict):
        raise BadRecord("bad-field", f"attributes is an object, not {_shown(found['attributes'])}")
    unknown = [name for name in found if name not in _KNOWN or (name == "line" and not is_line(found[name][0]))]
    if not unknown:
        return text if value else None
    for name in unknown:
        if value and name in value:
            raise BadRecord("duplicate-key", f"{name[:_SHOWN]!r} stands in the record and in its attributes")
    parts = [text[1:-1].strip()] if value else []
    parts += [f"{found[name][2]}:{found[name][1]}" for name in unknown]
    return "{" + ",".join(parts) + "}"


def _shown(member: Member) -> str:
    return member[1] if len(member[1]) <= _SHOWN else member[1][: _SHOWN - 3] + "..."


def _legible(value: object) -> str | None:
    if not isinstance(value, str):
        return None
    return value if value and value.isprintable() else None


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
