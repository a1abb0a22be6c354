"""Turn rows of a Parquet file in the format ``ledto`` into rows of `REPORTS`, by column.

A row that cannot be used becomes a row with a reason, as in JSON lines.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types as kinds

from ledto.events.schema import FIRST, KINDS, LOCAL, RECEIVE, REPORTS, SEND, TEXT_LIMIT_CHARACTERS
from ledto.sources.error_column import combine_errors, errors_of, errors_of_column
from ledto.sources.parquet.columns import Mapping
from ledto.sources.parquet.json_text import json_text
from ledto.sources.parquet.keys import (
    NO_TEXT,
    Keys,
    Mask,
    choose,
    holds_nul,
    is_flawed,
    is_valid,
    keys_of,
    lists_of,
    only,
    plain_text,
    where,
)
from ledto.sources.parquet.legible import as_type, bad_objects, legible
from ledto.sources.parquet.stamps import ColumnStamps, read_stamps
from ledto.sources.record_fields import (
    BAD_LINE_PHASE,
    FIELD_TYPES,
    LOCAL_HAS_MESSAGE,
    LOCAL_RECEIVES,
    PARENT_WITHOUT_LINE,
    RECEIVE_WITHOUT_MESSAGE,
    SEND_WITHOUT_MESSAGE,
    FieldType,
)
from ledto.sources.rows import MOST_CAUSES
from ledto.sources.times import INT64_LEAST, INT64_MOST, NANOSECONDS_IN

DICTIONARIES: Final = ("computation", "process", "kind", "name")
"""Columns with few different values, which may be dictionaries."""


def reports_of(
    rows: pa.Table | pa.RecordBatch, mapping: Mapping, file: str, first_row: int, *, keep_dictionaries: bool = False
) -> pa.Table:
    """Make the reports of some rows of a file, one for each, in order. `first_row` is the number of the first, from 0.

    The columns are those of `mapping.schema`. Columns of the file that `rows` lacks count as null. With
    `keep_dictionaries`, the columns of `DICTIONARIES` and ``file`` are dictionaries.
    """
    batches = [rows] if isinstance(rows, pa.RecordBatch) else rows.combine_chunks().to_batches()
    tables = []
    for batch in batches:
        tables.append(_BatchReports(batch, mapping, file, first_row, keep_dictionaries).table())
        first_row += batch.num_rows
    if tables:
        return pa.concat_tables(tables)
    empty = mapping.schema.empty_table()
    if keep_dictionaries:
        for name in (*DICTIONARIES, "file"):
            at = empty.schema.get_field_index(name)
            empty = empty.set_column(at, name, empty[name].dictionary_encode())
    return empty


class _BatchReports:
    """The reports of one batch."""

    def __init__(
        self, batch: pa.RecordBatch, mapping: Mapping, file: str, first_row: int, keep_dictionaries: bool
    ) -> None:
        self._mapping, self._file, self._first_row = mapping, file, first_row
        self._keep_dictionaries = keep_dictionaries
        self._count = batch.num_rows
        self._columns, self._broken = legible(batch)
        """The columns of the file, and the rows with text that is not UTF-8."""
        self._flaws: list[tuple[Mask, str]] = []
        """Rows that cannot be used, and why. The first reason of a row counts."""

    def table(self) -> pa.Table:
        """Make the table. Checks run in the order of the reasons."""
        process = self._column("process", pa.string())
        kind = self._column("kind", pa.string())
        self._quarantine(self._broken, "not-utf8: a text holds bytes that are not UTF-8")
        self._quarantine(~is_valid(process), "no-process: the column process is null")
        self._quarantine(where(process, partial(pc.equal, "")), "bad-field: process is empty")
        self._check_nuls()
        known_kind = where(kind, lambda texts: pc.is_in(texts, value_set=pa.array(KINDS)))
        self._quarantine(is_valid(kind) & ~known_kind, "bad-kind: kind is local, send or receive")
        times = {name: self._time(name) for name in ("time", "arrival")}
        stamp, attributes = self._stamp(), self._attributes()
        lines = self._lines()
        native = self._native()
        sends, receives, own_entries = self._messages(process, kind, stamp)
        given_seq = seq = self._column("seq", pa.int64()).cast(pa.int64())
        if own_entries is not None:
            seq = pc.coalesce(seq, pa.array(own_entries, mask=own_entries == 0))
        self._quarantine(~is_valid(seq) & ~is_valid(times["time"]), "no-order: both seq and time are null")
        reason = self._reason()
        good = None if reason.null_count == self._count else reason.is_null()
        received = np.zeros(self._count, np.bool_) if receives is None else receives.given
        others = {
            "arrival": times["arrival"],
            "kind": self._few(self._kind(kind, received)),
            "sends": sends,
            "receives": None if receives is None else receives.first,
            "receives_more": None if receives is None else receives.more,
            "id": plain_text(self._columns["id"]) if "id" in self._columns else None,
            "name": self._few(self._column("name", pa.string())),
            "stamp": stamp,
            "attributes": attributes,
            "clock_name": self._text_if_known("clock_name"),
            **lines,
            "error": self._errors(attributes),
        }
        columns: dict[str, Any] = {
            "computation": self._few(_filled(self._column("computation", pa.string()))),
            "process": self._few(_not_empty(process)),
            # A quarantined row keeps its number and time: they say where its process lacks an event.
            "seq": seq if good is None else pc.if_else(good, seq, given_seq),
            "time": times["time"],
            **{
                name: column if good is None or column is None else _when(good, column)
                for name, column in others.items()
            },
            "file": self._few(pa.DictionaryArray.from_arrays(np.zeros(self._count, np.int32), [self._file])),
            "place": pa.array(np.arange(self._first_row, self._first_row + self._count)),
            "reason": reason,
            "text": None if good is None else self._texts(pc.invert(good)),
        }
        arrays = [
            pa.nulls(self._count, field.type) if columns.get(field.name) is None else columns[field.name]
            for field in REPORTS
        ]
        fields = [field.with_type(array.type) for field, array in zip(REPORTS, arrays, strict=True)]
        return pa.table([*arrays, *native.values()], schema=pa.schema([*fields, *native]))

    def _column(self, name: str, kind: pa.DataType) -> pa.Array:
        if name not in self._columns or kinds.is_null(self._columns[name].type):
            return pa.nulls(self._count, kind)
        return self._columns[name]

    def _quarantine(self, rows: Mask, reason: str | tuple[str, str]) -> None:
        """Quarantine these rows, except those that an earlier call quarantined. A reason may be a code and a detail."""
        self._flaws.append((rows, reason if isinstance(reason, str) else ": ".join(reason)))

    def _reason(self) -> pa.Array:
        """Return the first reason of each row; null for good rows."""
        first, is_bad = np.zeros(self._count, np.int64), np.zeros(self._count, np.bool_)
        for number, (rows, _) in reversed([*enumerate(self._flaws)]):
            first[rows] = number
            is_bad |= rows
        if not is_bad.any():
            return pa.nulls(self._count, pa.string())
        return pa.array([reason for _, reason in self._flaws]).take(pa.array(first, mask=~is_bad))

    def _check_nuls(self) -> None:
        for name, field_type in FIELD_TYPES.items():
            is_text = field_type in (FieldType.TEXT, FieldType.TEXT_OR_ATTRIBUTE)
            if is_text and name in self._columns and name in self._mapping.known:
                self._quarantine(where(self._columns[name], holds_nul), f"bad-field: {name} holds a NUL character")

    def _time(self, name: str) -> pa.Array:
        column = self._column(name, pa.int64())
        if not kinds.is_timestamp(column.type):
            return column.cast(pa.int64())
        have, want = NANOSECONDS_IN[column.type.unit], NANOSECONDS_IN[self._mapping.unit]
        raw = column.cast(pa.int64())
        if have == want:
            return raw
        counts, missing = np.asarray(raw.fill_null(0).to_numpy()), ~is_valid(raw)
        if have < want:
            # NumPy's division rounds down, also before 1970.
            return pa.array(counts // (want // have), mask=missing)
        factor = have // want
        beyond = (counts > INT64_MOST // factor) | (counts < -(-INT64_LEAST // factor))
        self._quarantine(beyond, f"bad-field: {name} is beyond 64 bits of {self._mapping.unit}")
        return pa.array(np.where(beyond, 0, counts) * factor, mask=missing | beyond)

    def _stamp(self) -> pa.Array | None:
        if "stamp" not in self._columns:
            return None
        column = self._columns["stamp"]
        return json_text(column) if kinds.is_struct(column.type) else plain_text(column)

    def _attributes(self) -> pa.Array | None:
        if "attributes" not in self._columns:
            return None
        column = self._columns["attributes"]
        if not kinds.is_nested(column.type):
            text = plain_text(column)
            self._quarantine(bad_objects(text), "bad-field: attributes is no JSON object")
            return text
        text = json_text(column)
        return pc.if_else(pc.equal(text, "{}"), NO_TEXT, text)

    def _native(self) -> dict[pa.Field, pa.Array]:
        """Return the further columns."""
        further = {}
        for name, alias, kind in self._mapping.native:
            column, beyond = as_type(self._column(name, kind), kind)
            if beyond is not None:
                self._quarantine(beyond, f"bad-field: {name} is beyond what {kind} can hold")
            further[pa.field(alias, kind)] = column
        return further

    def _messages(
        self, process: pa.Array, kind: pa.Array, stamp: pa.Array | None
    ) -> tuple[pa.Array | None, Keys | None, NDArray[np.int64] | None]:
        """Return what each event sends and receives, and the own entries of the vector stamps that say so."""
        message, sent, received = (
            keys_of(self._columns[name]) if name in self._columns else None for name in ("message", "sends", "receives")
        )
        local, sending, receiving = (where(kind, partial(pc.equal, name)) for name in KINDS)
        no_rows = np.zeros(self._count, np.bool_)
        has_message, has_sent, has_received = (
            no_rows if keys is None else keys.given for keys in (message, sent, received)
        )
        stamps = self._check_stamps(process, stamp, ~(has_message | has_sent | has_received))
        from_vector = no_rows if stamps is None else stamps.own_entries > 0
        if message is not None:
            self._quarantine(has_message & ~is_valid(kind), "no-kind: a message needs a kind, send or receive")
            self._quarantine(has_message & local, LOCAL_HAS_MESSAGE)
            self._quarantine(has_message & sending & has_sent, "bad-field: message and sends are both given")
            self._quarantine(has_message & receiving & has_received, "bad-field: message and receives are both given")
            self._quarantine(sending & (message.count > 1), "bad-field: a send has one message")
            sent = choose(sending & ~has_sent, message, sent)
            received = choose(receiving & ~has_received, message, received)
        if stamps is not None:
            sent = choose(from_vector, Keys(stamps.sends, None, from_vector.astype(np.int64), no_rows), sent)
            # A local event receives nothing, even if its clock grew.
            received = choose(from_vector, only(~local, stamps.receives), received)
        does_send = no_rows if sent is None else sent.given
        does_receive = no_rows if received is None else received.given
        self._quarantine(sending & ~does_send, SEND_WITHOUT_MESSAGE)
        self._quarantine(receiving & ~from_vector & ~does_receive, RECEIVE_WITHOUT_MESSAGE)
        self._quarantine(local & does_receive, LOCAL_RECEIVES)
        if "id" in self._columns:
            self._quarantine(where(self._columns["id"], is_flawed), "bad-field: id is empty, or holds a NUL character")
        flawed = (no_rows if sent is None else sent.flawed) | (no_rows if received is None else received.flawed)
        self._quarantine(flawed, "bad-field: a message's id is empty or null, or holds a NUL character")
        if received is not None:
            self._quarantine(received.count > MOST_CAUSES, f"too-many-causes: the limit is {MOST_CAUSES}")
        return None if sent is None else sent.first, received, None if stamps is None else stamps.own_entries

    def _check_stamps(self, process: pa.Array, stamp: pa.Array | None, without_messages: Mask) -> ColumnStamps | None:
        if stamp is None:
            return None
        stamps = read_stamps(stamp, plain_text(process), without_messages)
        self._quarantine(stamps.clockless, "bad-stamp: it is no JSON with a clock")
        self._quarantine(stamps.unclear, "bad-stamp: the vector stamp has no counters that can be read")
        self._quarantine(
            stamps.vector & without_messages & (stamps.own_entries == 0),
            "bad-stamp: the vector stamp has no entry for its own process",
        )
        return stamps

    def _kind(self, kind: pa.Array, received: Mask) -> pa.Array:
        if not kind.null_count:
            return kind
        sent = is_valid(self._columns["sends"]) if "sends" in self._columns else np.zeros(self._count, np.bool_)
        codes = np.where(received, 1, np.where(sent, 2, 0)).astype(np.int32)
        implied = pa.DictionaryArray.from_arrays(codes, [LOCAL, RECEIVE, SEND])
        if kind.null_count == self._count:
            return implied
        return pc.coalesce(plain_text(kind), plain_text(implied)).dictionary_encode()

    def _errors(self, attributes: pa.Array | None) -> pa.Array:
        """Return the column ``error``; where it is null, the answer of other columns, then of the attributes."""
        is_known = "error" in self._mapping.known
        given = self._column("error", pa.bool_()) if is_known else pa.nulls(self._count, pa.bool_())
        others = [errors_of_column(name, self._column(name, kind)) for name, _, kind in self._mapping.native]
        from_others = combine_errors(column for column in others if column is not None)
        errors = given if from_others is None else pc.coalesce(given, from_others)
        return errors if attributes is None else errors_of(errors, attributes)

    def _text_if_known(self, name: str) -> pa.Array | None:
        """Return a column that has a meaning only if it is text, with null for empty text."""
        if name not in self._columns or name not in self._mapping.known:
            return None
        return plain_text(_not_empty(self._columns[name]))

    def _lines(self) -> dict[str, pa.Array | None]:
        """Return the columns about lines."""
        line = self._text_if_known("line")
        lines: dict[str, pa.Array | None] = dict.fromkeys(("line_parent", "line_phase", "line_joins")) | {"line": line}
        without_line = np.ones(self._count, np.bool_) if line is None else ~is_valid(line)
        if "line_parent" in self._columns:
            parent = lines["line_parent"] = plain_text(self._columns["line_parent"])
            self._quarantine(where(parent, partial(pc.equal, "")), "bad-field: line_parent is empty")
            self._quarantine(is_valid(parent) & without_line, PARENT_WITHOUT_LINE)
        if "line_phase" in self._columns:
            phase = lines["line_phase"] = plain_text(self._columns["line_phase"])
            is_other = where(phase, partial(pc.not_equal, FIRST))
            self._quarantine(is_other | (is_valid(phase) & without_line), BAD_LINE_PHASE)
        if "line_joins" in self._columns:
            joins = keys_of(self._columns["line_joins"])
            self._quarantine(
                joins.flawed, "bad-field: line_joins has a text that is empty or null, or holds a NUL character"
            )
            self._quarantine(joins.count > MOST_CAUSES, f"too-many-causes: the limit of lines joined is {MOST_CAUSES}")
            lines["line_joins"] = lists_of(self._columns["line_joins"])
        return lines

    def _few(self, column: pa.Array) -> pa.Array:
        """Return a column with few different values as text, or as a dictionary if the caller wants that."""
        if not self._keep_dictionaries:
            return plain_text(column)
        return column if kinds.is_dictionary(column.type) else plain_text(column).dictionary_encode()

    def _texts(self, bad: pa.Array) -> pa.Array:
        """Return the rows that are quarantined as JSON, cut, and null for others."""
        columns = {name: column.filter(bad) for name, column in self._columns.items()}
        shown = json_text(pa.StructArray.from_arrays(list(columns.values()), list(columns)))
        return pc.replace_with_mask(
            pa.nulls(self._count, pa.string()), bad, pc.utf8_slice_codeunits(shown, 0, TEXT_LIMIT_CHARACTERS)
        )


def _filled(column: pa.Array) -> pa.Array:
    return pc.fill_null(plain_text(column), "") if column.null_count else column


def _not_empty(column: pa.Array) -> pa.Array:
    empty = where(column, partial(pc.equal, ""))
    return pc.if_else(pa.array(empty), NO_TEXT, plain_text(column)) if empty.any() else column


def _when(good: pa.Array, column: pa.Array) -> pa.Array:
    return pc.if_else(good, column, pa.scalar(None, column.type))
