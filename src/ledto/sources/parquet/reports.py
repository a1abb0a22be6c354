"""Rows of a Parquet file in the format ``ledto`` as rows of `REPORTS`: the one place that says what its columns mean.

All is done by column. What cannot be used is a row with a reason, as in JSON lines.
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
from ledto.sources.rows import MOST_CAUSES
from ledto.sources.times import INT64_LEAST, INT64_MOST, NANOSECONDS_IN

DICTIONARIES: Final = ("computation", "process", "kind", "name")
"""Columns with few values, which may be read and given as numbers of them."""


def reports_of(
    rows: pa.Table | pa.RecordBatch, mapping: Mapping, file: str, first_row: int, *, keep_dictionaries: bool = False
) -> pa.Table:
    """The reports of some rows of a file, as many and in the same order; `first_row` is the number of the first, from 0.

    The columns are those of `mapping.schema`. Columns of the file that are not among `rows` count as null. With
    `keep_dictionaries`, the columns of `DICTIONARIES` and ``file`` are numbers of their few values.
    """
    batches = [rows] if isinstance(rows, pa.RecordBatch) else rows.combine_chunks().to_batches()
    found = []
    for batch in batches:
        found.append(_BatchReports(batch, mapping, file, first_row, keep_dictionaries).table())
        first_row += batch.num_rows
    if found:
        return pa.concat_tables(found)
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
        self._given, self._broken = legible(batch)
        self._whens: list[tuple[Mask, str]] = []

    def table(self) -> pa.Table:
        """The rows."""
        process = self._column("process", pa.string())
        kind = self._column("kind", pa.string())
        self._unless(self._broken, "not-utf8: a text holds bytes that are not UTF-8")
        self._unless(~is_valid(process), "no-process: the column process is null")
        self._unless(where(process, partial(pc.equal, "")), "bad-field: process is empty")
        self._check_nuls()
        known_kind = where(kind, lambda texts: pc.is_in(texts, value_set=pa.array(KINDS)))
        self._unless(is_valid(kind) & ~known_kind, "bad-kind: kind is local, send or receive")
        times = {name: self._time(name) for name in ("time", "arrival")}
        stamp, attributes = self._stamp(), self._attributes()
        lines = self._lines()
        native = self._native()
        sends, receives, own = self._messages(process, kind, stamp)
        given_seq = seq = self._column("seq", pa.int64()).cast(pa.int64())
        if own is not None:
            seq = pc.coalesce(seq, pa.array(own, mask=own == 0))
        self._unless(~is_valid(seq) & ~is_valid(times["time"]), "no-order: both seq and time are null")
        reason = self._reason()
        good = None if reason.null_count == self._count else reason.is_null()
        received = np.zeros(self._count, np.bool_) if receives is None else receives.given
        others = {
            "arrival": times["arrival"],
            "kind": self._few("kind", self._kind(kind, received)),
            "sends": sends,
            "receives": None if receives is None else receives.first,
            "receives_more": None if receives is None else receives.more,
            "id": plain_text(self._given["id"]) if "id" in self._given else None,
            "name": self._few("name", self._column("name", pa.string())),
            "stamp": stamp,
            "attributes": attributes,
            "clock_name": self._text_if_known("clock_name"),
            **lines,
            "error": self._errors(attributes),
        }
        columns: dict[str, Any] = {
            "computation": self._few("computation", _filled(self._column("computation", pa.string()))),
            "process": self._few("process", _not_empty(process)),
            # A row that is set aside keeps its number and time: they tell where its process lacks it.
            "seq": seq if good is None else pc.if_else(good, seq, given_seq),
            "time": times["time"],
            **{
                name: column if good is None or column is None else _when(good, column)
                for name, column in others.items()
            },
            "file": self._few("file", pa.DictionaryArray.from_arrays(np.zeros(self._count, np.int32), [self._file])),
            "place": pa.array(np.arange(self._first_row, self._first_row + self._count)),
            "reason": reason,
            "text": None if good is None else self._texts(pc.invert(good)),
        }
        arrays = [
            pa.nulls(self._count, each.type) if columns.get(each.name) is None else columns[each.name]
            for each in REPORTS
        ]
        fields = [each.with_type(array.type) for each, array in zip(REPORTS, arrays, strict=True)]
        return pa.table([*arrays, *native.values()], schema=pa.schema([*fields, *native]))

    def _column(self, name: str, kind: pa.DataType) -> pa.Array:
        if name not in self._given or kinds.is_null(self._given[name].type):
            return pa.nulls(self._count, kind)
        return self._given[name]

    def _unless(self, wrong: Mask, reason: str) -> None:
        """Set these rows aside, unless an earlier reason does."""
        self._whens.append((wrong, reason))

    def _reason(self) -> pa.Array:
        first = np.full(self._count, -1)
        for number in reversed(range(len(self._whens))):
            first[self._whens[number][0]] = number
        if (first < 0).all():
            return pa.nulls(self._count, pa.string())
        return pa.array([reason for _, reason in self._whens]).take(pa.array(first, mask=first < 0))

    def _check_nuls(self) -> None:
        for name in ("computation", "process", "kind", "name", "clock_name", "line", "line_parent", "line_phase"):
            if name in self._given and name in self._mapping.known:
                self._unless(where(self._given[name], holds_nul), f"bad-field: {name} holds a NUL character")

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
            # NumPy's division goes down, before 1970 as well.
            return pa.array(counts // (want // have), mask=missing)
        factor = have // want
        beyond = (counts > INT64_MOST // factor) | (counts < -(-INT64_LEAST // factor))
        self._unless(beyond, f"bad-field: {name} is beyond 64 bits of {self._mapping.unit}")
        return pa.array(np.where(beyond, 0, counts) * factor, mask=missing | beyond)

    def _stamp(self) -> pa.Array | None:
        if "stamp" not in self._given:
            return None
        column = self._given["stamp"]
        return json_text(column) if kinds.is_struct(column.type) else plain_text(column)

    def _attributes(self) -> pa.Array | None:
        if "attributes" not in self._given:
            return None
        column = self._given["attributes"]
        if not kinds.is_nested(column.type):
            text = plain_text(column)
            self._unless(bad_objects(text), "bad-field: attributes is no JSON object")
            return text
        text = json_text(column)
        return pc.if_else(pc.equal(text, "{}"), NO_TEXT, text)

    def _native(self) -> dict[pa.Field, pa.Array]:
        """The further columns."""
        found = {}
        for name, alias, kind in self._mapping.native:
            column, beyond = as_type(self._column(name, kind), kind)
            if beyond is not None:
                self._unless(beyond, f"bad-field: {name} is beyond what {kind} can hold")
            found[pa.field(alias, kind)] = column
        return found

    def _messages(
        self, process: pa.Array, kind: pa.Array, stamp: pa.Array | None
    ) -> tuple[pa.Array | None, Keys | None, NDArray[np.int64] | None]:
        """What each event sends and receives, and the own entries of vector stamps that say so."""
        message, sent, received = (
            keys_of(self._given[name]) if name in self._given else None for name in ("message", "sends", "receives")
        )
        local, sending, receiving = (where(kind, partial(pc.equal, each)) for each in KINDS)
        nobody = np.zeros(self._count, np.bool_)
        has_message, has_sent, has_received = (
            nobody if keys is None else keys.given for keys in (message, sent, received)
        )
        stamps = self._check_stamps(process, stamp, ~(has_message | has_sent | has_received))
        from_vector = nobody if stamps is None else stamps.own > 0
        if message is not None:
            self._unless(has_message & ~is_valid(kind), "no-kind: a message needs a kind, send or receive")
            self._unless(has_message & local, "bad-kind: a local event has no message")
            self._unless(has_message & sending & has_sent, "bad-field: message and sends are both given")
            self._unless(has_message & receiving & has_received, "bad-field: message and receives are both given")
            self._unless(sending & (message.count > 1), "bad-field: a send has one message")
            sent = choose(sending & ~has_sent, message, sent)
            received = choose(receiving & ~has_received, message, received)
        if stamps is not None:
            sent = choose(from_vector, Keys(stamps.sends, None, from_vector.astype(np.int64), nobody), sent)
            # A local event receives nothing, whatever its process knows.
            received = choose(from_vector, only(~local, stamps.receives), received)
        given = nobody if received is None else received.given
        self._unless(
            sending & ~(nobody if sent is None else sent.given), "no-message: a send needs the id of its message"
        )
        self._unless(
            receiving & ~from_vector & ~given,
            "no-message: a receive needs the id of its message",
        )
        self._unless(local & given, "bad-kind: a local event receives nothing")
        if "id" in self._given:
            self._unless(where(self._given["id"], is_flawed), "bad-field: id is empty, or holds a NUL character")
        flawed = (nobody if sent is None else sent.flawed) | (nobody if received is None else received.flawed)
        self._unless(flawed, "bad-field: a message's id is empty or null, or holds a NUL character")
        if received is not None:
            self._unless(received.count > MOST_CAUSES, f"too-many-causes: the limit is {MOST_CAUSES}")
        return None if sent is None else sent.first, received, None if stamps is None else stamps.own

    def _check_stamps(self, process: pa.Array, stamp: pa.Array | None, without_messages: Mask) -> ColumnStamps | None:
        if stamp is None:
            return None
        stamps = read_stamps(stamp, plain_text(process), without_messages)
        self._unless(stamps.clockless, "bad-stamp: it is no JSON with a clock")
        self._unless(stamps.unclear, "bad-stamp: the vector stamp has no counters that can be read")
        self._unless(
            stamps.vector & without_messages & (stamps.own == 0),
            "bad-stamp: the vector stamp has no entry for its own process",
        )
        return stamps

    def _kind(self, kind: pa.Array, received: Mask) -> pa.Array:
        if not kind.null_count:
            return kind
        sent = is_valid(self._given["sends"]) if "sends" in self._given else np.zeros(self._count, np.bool_)
        codes = np.where(received, 1, np.where(sent, 2, 0)).astype(np.int32)
        implied = pa.DictionaryArray.from_arrays(codes, [LOCAL, RECEIVE, SEND])
        if kind.null_count == self._count:
            return implied
        return pc.coalesce(plain_text(kind), plain_text(implied)).dictionary_encode()

    def _errors(self, attributes: pa.Array | None) -> pa.Array:
        """What the column error says, or else what other columns and the attributes tell."""
        is_own = "error" in self._mapping.known
        given = self._column("error", pa.bool_()) if is_own else pa.nulls(self._count, pa.bool_())
        others = [errors_of_column(name, self._column(name, kind)) for name, _, kind in self._mapping.native]
        told = combine_errors(each for each in others if each is not None)
        known = given if told is None else pc.coalesce(given, told)
        return known if attributes is None else errors_of(known, attributes)

    def _text_if_known(self, name: str) -> pa.Array | None:
        """A column that means something if it is text; empty text is none."""
        if name not in self._given or name not in self._mapping.known:
            return None
        return plain_text(_not_empty(self._given[name]))

    def _lines(self) -> dict[str, pa.Array | None]:
        """The columns that tell lines apart."""
        line = self._text_if_known("line")
        found: dict[str, pa.Array | None] = dict.fromkeys(("line_parent", "line_phase", "line_joins")) | {"line": line}
        without = np.ones(self._count, np.bool_) if line is None else ~is_valid(line)
        if "line_parent" in self._given:
            parent = found["line_parent"] = plain_text(self._given["line_parent"])
            self._unless(where(parent, partial(pc.equal, "")), "bad-field: line_parent is empty")
            self._unless(
                is_valid(parent) & without, "bad-field: line_parent says what a line was started from: give line"
            )
        if "line_phase" in self._given:
            phase = found["line_phase"] = plain_text(self._given["line_phase"])
            self._unless(
                where(phase, partial(pc.not_equal, FIRST)) | (is_valid(phase) & without),
                "bad-field: line_phase can only be first, on the first event of a line: give line",
            )
        if "line_joins" in self._given:
            joins = keys_of(self._given["line_joins"])
            self._unless(
                joins.flawed, "bad-field: line_joins has a text that is empty or null, or holds a NUL character"
            )
            self._unless(joins.count > MOST_CAUSES, f"too-many-causes: the limit of lines joined is {MOST_CAUSES}")
            found["line_joins"] = lists_of(self._given["line_joins"])
        return found

    def _few(self, name: str, column: pa.Array) -> pa.Array:
        """A column of few values as the caller wants it."""
        if not self._keep_dictionaries:
            return plain_text(column)
        return column if kinds.is_dictionary(column.type) else plain_text(column).dictionary_encode()

    def _texts(self, bad: pa.Array) -> pa.Array:
        """The rows that are set aside, as JSON."""
        given = {name: column.filter(bad) for name, column in self._given.items()}
        shown = json_text(pa.StructArray.from_arrays(list(given.values()), list(given)))
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
