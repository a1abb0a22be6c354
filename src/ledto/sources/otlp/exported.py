"""Read events that `ledto export` wrote as OpenTelemetry records. Their attributes that begin with ``ledto.`` are columns.

One literal record's attributes, of an event of the process ``shop``::

    {"ledto.process": "shop", "ledto.seq": 2, "ledto.sends": "m1", "order": 7}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ledto.clocks.any_stamp import stamp_from_json
from ledto.errors import StampError
from ledto.events.schema import FIRST, KINDS
from ledto.sources.json.strict import value_of
from ledto.sources.otlp.values import json_text, object_text, shown
from ledto.sources.record_fields import BAD_LINE_PHASE, PARENT_WITHOUT_LINE, implied_kind
from ledto.sources.rows import BadRecord, Row

PREFIX: Final = "ledto."
_PROCESS = f"{PREFIX}process"
_NAMED_BY = {"sends": "message", "receives": "message", "line_joins": "line"}


def is_exported(attributes: Mapping[str, Any]) -> bool:
    """Return whether a record with these attributes is one event of a history."""
    return _PROCESS in attributes


def exported_row(attributes: Mapping[str, Any], time: int, file: str, place: int) -> Row:
    """Make the event's row. `time` is the record's time, for an event without ``ledto.time`` and ``ledto.seq``.

    Leaves out other attributes that begin with ``ledto.``: the export derived them from the history. Raises `BadRecord`.
    """
    row = Row(file=file, place=place)
    row.process = _text(attributes, "process")
    if not row.process:
        raise BadRecord("no-process", f"{_PROCESS} is the name of where the event happened, and is empty")
    row.computation = _text(attributes, "computation") or ""
    row.seq = _integer(attributes, "seq")
    row.time = _integer(attributes, "time")
    if row.seq is None and row.time is None:
        row.time = time or None
        if row.time is None:
            raise BadRecord("no-time", "an event needs ledto.seq, ledto.time or the time of its record")
    row.arrival = _integer(attributes, "arrival")
    row.id = _text(attributes, "id") or None
    row.name = _text(attributes, "name")
    row.clock_name = _text(attributes, "clock_name") or None
    row.line = _text(attributes, "line") or None
    row.line_parent = _text(attributes, "line_parent") or None
    if row.line_parent is not None and row.line is None:
        raise BadRecord(*PARENT_WITHOUT_LINE)
    row.line_phase = _text(attributes, "line_phase") or None
    if row.line_phase is not None and (row.line_phase != FIRST or row.line is None):
        raise BadRecord(*BAD_LINE_PHASE)
    row.line_joins = _keys(attributes, "line_joins") or None
    row.error = _truth(attributes, "error")
    row.stamp = _stamp(attributes)
    row.sends = _key(attributes.get(f"{PREFIX}sends"), "sends")
    row.receive(_keys(attributes, "receives"))
    row.kind = _kind(attributes, row)
    row.attributes = object_text({name: value for name, value in attributes.items() if not name.startswith(PREFIX)})
    return row


def _kind(attributes: Mapping[str, Any], row: Row) -> str:
    kind = _text(attributes, "kind")
    if kind is None:
        return implied_kind(sends=row.sends is not None, receives=row.receives is not None)
    if kind not in KINDS:
        raise BadRecord("bad-kind", f"ledto.kind is local, send or receive, not {shown(kind)}")
    return kind


def _stamp(attributes: Mapping[str, Any]) -> str | None:
    value = attributes.get(f"{PREFIX}stamp")
    if value is None:
        return None
    if isinstance(value, str):
        text, value = value, value_of(value)
    else:
        text = json_text(value)
    try:
        stamp_from_json(value)
    except StampError as error:
        raise BadRecord("bad-stamp", str(error)) from None
    return text


def _text(attributes: Mapping[str, Any], name: str) -> str | None:
    value = attributes.get(f"{PREFIX}{name}")
    if value is not None and (not isinstance(value, str) or "\0" in value):
        raise BadRecord("bad-field", f"{PREFIX}{name} is text, not {shown(value)}")
    return value


def _integer(attributes: Mapping[str, Any], name: str) -> int | None:
    value = attributes.get(f"{PREFIX}{name}")
    if value is not None and type(value) is not int:
        raise BadRecord("bad-field", f"{PREFIX}{name} is an integer, not {shown(value)}")
    return value


def _truth(attributes: Mapping[str, Any], name: str) -> bool | None:
    value = attributes.get(f"{PREFIX}{name}")
    if value is not None and not isinstance(value, bool):
        raise BadRecord("bad-field", f"{PREFIX}{name} is true or false, not {shown(value)}")
    return value


def _key(value: Any, name: str) -> str | None:
    if type(value) is int:
        return str(value)
    if value is not None and (not isinstance(value, str) or not value or "\0" in value):
        raise BadRecord("bad-field", f"{PREFIX}{name} is the id of a {_NAMED_BY[name]}, not {shown(value)}")
    return value


def _keys(attributes: Mapping[str, Any], name: str) -> list[str]:
    value = attributes.get(f"{PREFIX}{name}")
    keys = [_key(element, name) for element in (value if isinstance(value, list) else [value])]
    if isinstance(value, list) and None in keys:
        raise BadRecord("bad-field", f"{PREFIX}{name} lists null")
    return [key for key in keys if key is not None]
