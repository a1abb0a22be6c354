"""Write tables of events as CSV and Parquet: one row for each event, in history order, with wall and corrected times.

Parquet files are in ledto's own format. With the keys in ``sends`` and ``receives``, a history made of them has the same
relations. The keys of the source are in ``source_sends`` and ``source_receives``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from ledto.export.events import Stretch, Stretches
from ledto.export.keys import kind_of, received_keys, sent_key
from ledto.export.lines import ExportedLine
from ledto.export.times import Showing

COLUMNS = pa.schema(
    [
        pa.field("position", pa.int64(), nullable=False),
        pa.field("computation", pa.string(), nullable=False),
        pa.field("process", pa.string(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("id", pa.string(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("time", pa.int64()),
        pa.field("corrected_time", pa.int64()),
        pa.field("causal_time", pa.int64()),
        pa.field("arrival", pa.int64()),
        pa.field("sends", pa.string()),
        pa.field("receives", pa.list_(pa.string())),
        pa.field("attributes", pa.string()),
        pa.field("error", pa.bool_()),
        pa.field("clock_name", pa.string()),
        pa.field("line", pa.string()),
        pa.field("line_parent", pa.string()),
        pa.field("line_phase", pa.string()),
        pa.field("line_joins", pa.list_(pa.string())),
        pa.field("missing", pa.list_(pa.string())),
        pa.field("file", pa.string()),
        pa.field("place", pa.int64()),
        pa.field("source_sends", pa.string()),
        pa.field("source_receives", pa.string()),
    ]
)
DICTIONARIES = ["computation", "process", "name", "kind", "clock_name", "line", "file"]
ROW_GROUP = 65_536
_STORED = (
    *("computation", "process", "seq", "id", "name", "kind", "time", "correction", "causal_time", "arrival", "sends"),
    *("receives", "attributes", "error", "clock_name", "line", "missing", "file", "place"),
)
"""The columns of a history that are read."""
_AS_STORED = (
    *("computation", "process", "seq", "name", "time", "causal_time", "arrival", "error", "clock_name", "missing"),
    *("file", "place"),
)
"""Those that are written unchanged."""


def write_csv(stretches: Stretches, sink: BinaryIO, showing: Showing) -> Iterator[int]:
    """Write a header and a row for each event; yield the number of events of each stretch.

    Text is in quotes, with quotes doubled. Unknown values are empty.

    HAZARD: a spreadsheet takes a text that begins with ``=``, ``+``, ``-`` or ``@`` for a formula. Texts are not altered.
    """
    lists = [place for place, column in enumerate(COLUMNS) if pa.types.is_list(column.type)]
    schema = COLUMNS
    for place in lists:
        schema = schema.set(place, pa.field(COLUMNS.names[place], pa.string()))
    with pa_csv.CSVWriter(_open_sink(sink), schema) as writer:
        for stretch in stretches.iterate():
            table = _make_table(stretches, stretch)
            for place in lists:
                texts = [None if values is None else json.dumps(values) for values in table.column(place).to_pylist()]
                table = table.set_column(place, schema.field(place), pa.array(texts, pa.string()))
            writer.write_table(table)
            yield len(stretch)


def write_parquet(stretches: Stretches, sink: BinaryIO, showing: Showing) -> Iterator[int]:
    """Write the rows in groups of at least `ROW_GROUP`; yield the number of events of each stretch."""
    waiting: list[pa.Table] = []
    with pq.ParquetWriter(_open_sink(sink), COLUMNS, compression="zstd", use_dictionary=DICTIONARIES) as writer:
        for stretch in stretches.iterate():
            waiting.append(_make_table(stretches, stretch))
            if sum(map(len, waiting)) >= ROW_GROUP:
                writer.write_table(pa.concat_tables(waiting))
                waiting.clear()
            yield len(stretch)
        if waiting:
            writer.write_table(pa.concat_tables(waiting))


def _open_sink(sink: BinaryIO) -> pa.NativeFile:
    return pa.PythonFile(sink, mode="w")


def _make_table(stretches: Stretches, stretch: Stretch) -> pa.Table:
    stored = stretches.table(stretch, _STORED)
    source_keys, uses = stored["sends"].to_pylist(), stretch.uses.tolist()
    sends = [
        sent_key(position, source_key) if used or source_key is not None else None
        for position, used, source_key in zip(stretch.positions.tolist(), uses, source_keys, strict=True)
    ]
    receives = [
        received_keys(stretch.causes_with_assumed(row), missing or (), whole=stretches.selection.whole) or None
        for row, missing in enumerate(stored["missing"].to_pylist())
    ]
    lines = stretch.lines or [ExportedLine(line) for line in stored["line"].to_pylist()]
    kinds = [
        kind_of(kind, sends=sent is not None, receives=keys is not None)
        for kind, sent, keys in zip(stored["kind"].to_pylist(), sends, receives, strict=True)
    ]
    default_id = pc.binary_join_element_wise(stored["process"], stored["seq"].cast(pa.string()), ":")
    correction = pc.coalesce(stored["correction"], pa.scalar(0, pa.int64()))
    columns: dict[str, Any] = {
        "position": stretch.positions,
        "id": pc.coalesce(stored["id"], default_id),
        "kind": kinds,
        "corrected_time": pc.add(stored["time"], correction),
        "sends": pa.array(sends, pa.string()),
        "receives": pa.array(receives, pa.list_(pa.string())),
        "line": pa.array([event.line for event in lines], pa.string()),
        "line_parent": pa.array([event.parent for event in lines], pa.string()),
        "line_phase": pa.array([event.phase for event in lines], pa.string()),
        "line_joins": pa.array([event.joins for event in lines], pa.list_(pa.string())),
        "attributes": _write_attributes(stretches, stretch, stored),
        "source_sends": stored["sends"],
        "source_receives": stored["receives"],
    }
    columns |= {name: stored[name] for name in _AS_STORED}
    return pa.table({name: columns[name] for name in COLUMNS.names}, schema=COLUMNS)


def _write_attributes(stretches: Stretches, stretch: Stretch, stored: pa.Table) -> Any:
    """Write the attributes of each event as a JSON object, with the source's own columns; null if it has none."""
    if not stretches.run.manifest.native_columns:
        return stored["attributes"]
    attributes = [dict(event.attributes) for event in stretches.events(stretch)]
    return pa.array([json.dumps(values, ensure_ascii=False) if values else None for values in attributes], pa.string())
