"""Rows of an Arrow stream, checked as strictly as JSON lines, and set aside for the same reasons.

Columns are those of `REPORTS` that a sender knows, of exactly their types. Rows that are good at a glance are taken as they
are, by column; each of the others is written as a line and read as one, so that both ways can only agree.
"""

from __future__ import annotations

import json
from functools import reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from whence.events.schema import LOCAL, PHASES, RECEIVE, REPORTS, SEND
from whence.service.arrow_sizes import check_sizes, not_arrow
from whence.service.limits import Limits, Refused, too_large
from whence.sources.records import row_from_line
from whence.sources.rows import BadRecord, Row, Rows, bad_row
from whence.sources.strict_json import value_of
from whence.sources.vectors import Growth

OURS: Final = ("file", "place", "reason", "text")
"""Columns that the collector fills."""
SENT: Final = tuple(name for name in REPORTS.names if name not in OURS)

_NEVER_EMPTY = ("process", "sends", "receives", "id")
_BESIDE_LINES = ("clock_name", "instance_key", "instance_parent", "instance_phase", "channel_key", "channel_bytes")
"""Columns that a line has no field for."""
_TEXTS = tuple(each.name for each in REPORTS if each.type == pa.string() and each.name not in OURS)
_UNIT = "ns"


def arrow_rows(body: bytes, file: str, limits: Limits) -> pa.Table:
    """The rows of a body, bad ones with a reason; `place` counts from 1. Raises `Refused` for no such stream."""
    check_sizes(body, limits)
    sent = _read(body, limits)
    count = len(sent)
    whole = pa.table(
        {name: sent[name] if name in sent.column_names else pa.nulls(count, REPORTS.field(name).type) for name in SENT}
    ).combine_chunks()
    whole = whole.set_column(0, "computation", pc.fill_null(whole["computation"], ""))
    good = _good(whole)
    places = np.arange(1, count + 1)
    taken = _taken(whole.filter(pa.array(good)), places[good], file)
    if good.all():
        return taken
    left = _left(whole.filter(pa.array(~good)), places[~good], file)
    order = np.empty(count, np.int64)
    order[np.flatnonzero(good)] = np.arange(len(taken))
    order[np.flatnonzero(~good)] = len(taken) + np.arange(len(left))
    return pa.concat_tables([taken, left]).take(pa.array(order))


def _read(body: bytes, limits: Limits) -> pa.Table:
    try:
        with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
            _check_columns(reader.schema)
            batches = []
            rows = 0
            for batch in reader:
                rows += batch.num_rows
                if rows > limits.reports:
                    raise too_large("reports of a body", limits.reports)
                batch.validate(full=True)
                batches.append(batch)
            table = pa.Table.from_batches(batches, schema=reader.schema)
        if table.nbytes > limits.body_bytes:
            raise too_large("bytes of a body after decompression", limits.body_bytes)
    except (pa.ArrowException, OSError, ValueError, MemoryError):
        raise not_arrow() from None
    return table


def _check_columns(schema: pa.Schema) -> None:
    if "process" not in schema.names:
        raise Refused(400, "columns", "a column process is needed, which says where an event happened")
    for name in schema.names:
        if name not in SENT:
            raise Refused(400, "columns", f"there is no column {name[:60]!r}; there are {', '.join(SENT)}")
        if schema.names.count(name) > 1:
            raise Refused(400, "columns", f"the column {name} stands twice")
        if schema.field(name).type != REPORTS.field(name).type:
            raise Refused(400, "columns", f"the column {name} must have the type {REPORTS.field(name).type}")


def _good(rows: pa.Table) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which rows are good at a glance; of the others nothing is said."""
    sends, receives = pc.is_valid(rows["sends"]), pc.is_valid(rows["receives"])
    kind = rows["kind"]
    fitting = [
        pc.is_null(kind),
        pc.and_(pc.equal(kind, LOCAL), pc.invert(receives)),
        pc.and_(pc.equal(kind, SEND), sends),
        pc.and_(pc.equal(kind, RECEIVE), receives),
    ]
    conditions = [
        reduce(pc.or_, (pc.fill_null(each, False) for each in fitting)),
        pc.is_valid(rows["process"]),
        pc.or_(pc.is_valid(rows["seq"]), pc.is_valid(rows["time"])),
        *(pc.is_null(rows[name]) for name in ("stamp", "receives_more", *_BESIDE_LINES)),
        *(pc.not_equal(rows[name], "") for name in _NEVER_EMPTY),
        *(pc.invert(pc.match_substring(rows[name], "\0")) for name in _TEXTS),
    ]
    good = np.ones(len(rows), np.bool_)
    for condition in conditions:
        # A text that is not there is neither empty nor holds a NUL.
        good &= pc.fill_null(condition, True).to_numpy()
    attributes = rows["attributes"]
    for row in np.flatnonzero(good & pc.is_valid(attributes).to_numpy()).tolist():
        good[row] = _is_plain_object(attributes[row].as_py())
    return good


def _is_plain_object(text: str) -> bool:
    """Whether the text is an object with members and nothing around it."""
    try:
        value = value_of(text)
    except BadRecord:
        return False
    return isinstance(value, dict) and bool(value) and text[0] == "{" and text[-1] == "}"


def _taken(rows: pa.Table, places: np.ndarray[Any, Any], file: str) -> pa.Table:
    implied = pc.if_else(pc.is_valid(rows["receives"]), RECEIVE, pc.if_else(pc.is_valid(rows["sends"]), SEND, LOCAL))
    count = len(rows)
    columns = {name: rows[name] for name in SENT}
    columns["kind"] = pc.coalesce(rows["kind"], implied)
    columns["file"] = pa.repeat(pa.scalar(file, pa.string()), count)
    columns["place"] = pa.array(places, pa.int64())
    columns |= {name: pa.nulls(count, pa.string()) for name in ("reason", "text")}
    return pa.table([columns[name] for name in REPORTS.names], schema=REPORTS)


def _left(rows: pa.Table, places: np.ndarray[Any, Any], file: str) -> pa.Table:
    growth = Growth()
    found = Rows()
    for record, place in zip(rows.to_pylist(), places.tolist(), strict=True):
        found.add(_exact_row(record, file, place, growth))
    return pa.Table.from_batches([found.batch()], schema=REPORTS)


def _exact_row(record: dict[str, Any], file: str, place: int, growth: Growth) -> Row:
    try:
        line = _line(record)
        _check_beside(record)
    except BadRecord as fault:
        shown = {name: value for name, value in record.items() if value is not None}
        text = json.dumps(shown, ensure_ascii=False)
        computation, process = _legible(record["computation"]), _legible(record["process"])
        return bad_row(file, place, str(fault), text, computation=computation or "", process=process)
    row = row_from_line(line, file, place, _UNIT, lambda: growth)
    if row.reason is None:
        for name in _BESIDE_LINES:
            setattr(row, name, record[name])
    return row


def _line(record: dict[str, Any]) -> bytes:
    """The record as a line of JSON. Raises `BadRecord`."""
    fields = {
        name: json.dumps(record[name], ensure_ascii=False)
        for name in ("computation", "process", "seq", "time", "arrival", "kind", "sends", "id", "name")
        if record[name] is not None
    }
    more = record["receives_more"]
    if more is not None and (record["receives"] is None or not more):
        raise BadRecord("bad-field", "receives_more lists further messages than that of receives, or is null")
    if record["receives"] is not None:
        fields["receives"] = json.dumps([record["receives"], *(more or ())], ensure_ascii=False)
    for name in ("stamp", "attributes"):
        if record[name] is not None:
            # Only what is one value by itself may stand in the line.
            value_of(record[name])
            fields[name] = record[name]
    return ("{" + ",".join(f'"{name}":{text}' for name, text in fields.items()) + "}").encode()


def _check_beside(record: dict[str, Any]) -> None:
    for name in _BESIDE_LINES[:-1]:
        value = record[name]
        if value is not None and (not value or "\0" in value):
            raise BadRecord("bad-field", f"{name} is empty, or holds a NUL character")
    phase = record["instance_phase"]
    if phase is not None and phase not in PHASES:
        raise BadRecord("bad-field", f"instance_phase is one of {', '.join(PHASES)}")
    if record["instance_key"] is None and (phase is not None or record["instance_parent"] is not None):
        raise BadRecord("bad-field", "an instance's phase or parent needs its instance_key")
    length = record["channel_bytes"]
    if length is not None and (length < 0 or record["channel_key"] is None):
        raise BadRecord("bad-field", "channel_bytes is 0 or more, and needs a channel_key")


def _legible(value: str | None) -> str | None:
    return value if value and value.isprintable() else None
