"""Bound the size of an answer before it is built: cut long texts of events, and count the events that were cut.

A question reads whole events only to show them. `BoundedRun` then adds up the lengths of their texts before it decodes
them. If the sum is too large, it cuts the longest texts, all to the same length.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from ledto.history import layout
from ledto.history.run import LARGE_GROUP_BYTES, Run
from ledto.history.tables import Longs
from ledto.questions.event import event_columns
from ledto.questions.history import History
from ledto.service.http.limits import RequestRefused

MOST_EVENTS: Final = 25_000
"""The most events that one answer shows."""
LATER_SHARE: Final = 64
"""A read may take 1/64 of the answer's bytes even if earlier reads have used them all."""
READ_AT_ONCE: Final = 64
"""Rows that are read together to measure their texts."""
LONG_NAME: Final = 1_000
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
TRUNCATED: Final = "ledto.truncated"
"""The attribute that says how many others were left out."""


@dataclass(frozen=True, slots=True, eq=False)
class _RowGroupEvents:
    """Some events of one row group of a segment."""

    number: int
    """The segment's number."""
    group: int
    rows: Longs
    """Row numbers within the group, ascending."""


class BoundedRun(Run):
    """A run that returns whole events with up to `answer_bytes` of text in all.

    Later reads share what earlier ones left, and may always take 1/`LATER_SHARE` of `answer_bytes`.
    """

    answer_bytes: int
    left_bytes: int
    """What earlier reads left of `answer_bytes`; may be negative."""
    truncated: int
    """How many events have been cut so far."""
    _check: Callable[[], None]

    def rows(self, positions: Longs, columns: Sequence[str]) -> pa.Table:
        """Read rows as `Run.rows` does; bound whole events. Raises `RequestRefused` for more than `MOST_EVENTS` of them."""
        if len(positions) == 0 or list(columns) != event_columns(self):
            return super().rows(positions, columns)
        if len(positions) > MOST_EVENTS:
            raise _too_many(len(positions))
        ascending = np.sort(positions)
        budget = max(self.left_bytes, self.answer_bytes // LATER_SHARE)
        whole = self._read_bounded(ascending, columns, budget)
        self.left_bytes -= _text_bytes(whole)
        if np.array_equal(ascending, positions):
            return whole
        return whole.take(pa.array(np.searchsorted(ascending, positions)))

    def events(self, number: int, columns: Sequence[str], start: int, stop: int) -> pa.Table:
        """Read rows as `Run.events` does; bound whole events."""
        if stop <= start or list(columns) != event_columns(self):
            return super().events(number, columns, start, stop)
        first = int(self.segments.first_position[number])
        return self._read_bounded(np.arange(first + start, first + stop, dtype=np.int64), columns, self.answer_bytes)

    def _read_bounded(self, ascending: Longs, columns: Sequence[str], budget: int) -> pa.Table:
        numbers = np.searchsorted(self.segments.first_position, ascending, side="right") - 1
        row = ascending - self.segments.first_position[numbers]
        group = row // layout.EVENT_ROWS
        starts = np.flatnonzero(np.diff(numbers, prepend=-1) | np.diff(group, prepend=-1)).tolist()
        pieces = [
            _RowGroupEvents(int(numbers[first]), int(group[first]), row[first:last] - group[first] * layout.EVENT_ROWS)
            for first, last in itertools.pairwise([*starts, len(row)])
        ]
        # By piece: its rows, or None if they did not fit and have to be read again to be cut.
        tables_of: list[list[pa.Table] | None] = []
        cuttable: list[Longs] = []
        total = others = 0

        for piece in pieces:
            parts: list[pa.Table] = []

            def weigh(part: pa.Table, parts: list[pa.Table] = parts) -> None:
                nonlocal total, others
                sizes = _cuttable_bytes(part)
                cuttable.append(sizes)
                others += _text_bytes(part) - int(sizes.sum())
                total += _text_bytes(part)
                if total <= budget:
                    parts.append(part)

            self._read(piece, columns, weigh)
            tables_of.append(parts if total <= budget else None)
        if others > self.answer_bytes:
            message = f"the names in the answer have {others:,} bytes: ask for less, or ask with the command line"
            raise RequestRefused(400, "too-large", message)
        tables: list[pa.Table] = []
        if total <= budget:
            tables = [part for parts in tables_of for part in parts or ()]
        else:
            level = fair_level(np.concatenate(cuttable), max(0, budget - others))

            def shorten(part: pa.Table) -> None:
                tables.append(self._cut(part, level))

            for piece, piece_tables in zip(pieces, tables_of, strict=True):
                if piece_tables is None:
                    self._read(piece, columns, shorten)
                else:
                    for part in piece_tables:
                        shorten(part)
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive")

    def _read(self, piece: _RowGroupEvents, columns: Sequence[str], receive: Callable[[pa.Table], None]) -> None:
        """Pass the rows of a piece to `receive`, a few at a time; never hold all long attributes in memory."""
        name = self.segments.events_file[piece.number]
        large = self.column_bytes(name, piece.group, "attributes") > LARGE_GROUP_BYTES
        if not large:
            table = self._event_group(piece.number, piece.group, columns)
            for start in range(0, len(piece.rows), READ_AT_ONCE):
                self._check()
                receive(table.take(pa.array(piece.rows[start : start + READ_AT_ONCE])))
            return
        others = [name for name in columns if name != "attributes"]
        rest = self._event_group(piece.number, piece.group, others).take(pa.array(piece.rows))
        self._guarded(name, lambda: self._stream(piece, rest, list(columns), receive))

    def _stream(
        self, piece: _RowGroupEvents, rest: pa.Table, columns: list[str], receive: Callable[[pa.Table], None]
    ) -> None:
        """Add attributes, read in small batches, to the other columns in `rest`; pass the rows to `receive`."""
        file = self._parquet(self.segments.events_file[piece.number])
        batches = file.iter_batches(READ_AT_ONCE, row_groups=[piece.group], columns=["attributes"], use_threads=False)
        first = 0
        for batch in batches:
            self._check()
            begin, end = np.searchsorted(piece.rows, [first, first + len(batch)]).tolist()
            if begin < end:
                texts = batch.column(0).take(pa.array(piece.rows[begin:end] - first))
                receive(rest.slice(begin, end - begin).append_column("attributes", texts).select(columns))
            first += len(batch)
            if end == len(piece.rows):
                return

    def search_batches(self, number: int, group: int, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Read rows as `Run.search_batches` does; stop when the time is over."""
        for batch in super().search_batches(number, group, columns):
            self._check()
            yield batch

    def _cut(self, rows: pa.Table, level: int) -> pa.Table:
        """Cut attributes and name to about `level` bytes in rows where they are longer; count those rows."""
        over = _cuttable_bytes(rows) > level
        self.truncated += int(over.sum())
        for name, shorten in (("attributes", shorten_attributes), ("name", _shorten_name)):
            index, column = rows.column_names.index(name), rows[name]
            # Decoded one at a time: all whole texts together may take many times the memory of the cut ones.
            texts = [
                shorten(column[row].as_py(), level) if cut else column[row].as_py()
                for row, cut in enumerate(over.tolist())
            ]
            rows = rows.set_column(index, name, pa.array(texts, pa.string()))
        return rows


def bound_answers(history: History, answer_bytes: int, check: Callable[[], None] = lambda: None) -> History:
    """Copy a history, with answers of up to `answer_bytes` of text. Its reads call `check` now and then, which may raise."""
    bounded = copy.copy(history)
    run = copy.copy(history.run)
    run.__class__ = BoundedRun
    assert isinstance(run, BoundedRun)
    run.answer_bytes, run.left_bytes, run.truncated, run._check = answer_bytes, answer_bytes, 0, check
    bounded.run = run
    return bounded


def truncated_events(history: History) -> int:
    """Count the events that answers of this history have cut."""
    return history.run.truncated if isinstance(history.run, BoundedRun) else 0


def fair_level(sizes: Longs, budget: int) -> int:
    """Find the largest level for which the sizes, each cut to it, add up to no more than the budget."""
    ascending = np.sort(sizes)
    sum_before = np.concatenate(([0], np.cumsum(ascending)[:-1]))
    remaining = np.arange(len(ascending), 0, -1)
    # The first size that is too long if all later ones are cut to it. It and the later ones share what is left.
    first = int(np.searchsorted(sum_before + ascending * remaining > budget, True))
    if first == len(ascending):
        return int(ascending[-1])
    return max(0, (budget - int(sum_before[first])) // int(remaining[first]))


def shorten_attributes(text: str | None, level: int) -> str | None:
    """Shorten the JSON of an event's attributes to about `level` bytes: cut long values, drop the last attributes.

    Values that are not cut keep their spelling, and are not parsed.
    """
    if text is None or len(text) <= level:
        return text
    try:
        whole = _MEMBERS.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return json.dumps({TRUNCATED: f"{len(text):,} characters left out"})
    kept: dict[str, Any] = {}
    left = level
    for name, value in whole.items():
        # Answers escape characters beyond ASCII: two bytes of UTF-8 become six.
        size = memoryview(value).nbytes * (1 if text.isascii() else 3)
        left -= len(name) + 8
        if left <= 0:
            break
        kept[name] = value if size <= left else _shorten_value(bytes(value), left)
        left -= size
    if len(kept) < len(whole):
        kept[TRUNCATED] = f"{len(whole) - len(kept):,} attributes left out"
    return msgspec.json.encode(kept).decode()


def _shorten_value(value: bytes, most_bytes: int) -> str:
    """Return the beginning of a JSON value as text, up to `most_bytes` as JSON, and the number of characters cut."""
    try:
        text = msgspec.json.decode(value, type=str)
    except msgspec.MsgspecError:
        # Not a string, or one with half of a surrogate pair: show its JSON.
        text = value.decode("utf-8", "replace")
    kept = min(most_bytes, len(text))
    while kept and len(json.dumps(text[:kept])) > most_bytes:
        kept //= 2
    return f"{text[:kept]}… ({len(text) - kept:,} more characters)"


def _shorten_name(name: str | None, level: int) -> str | None:
    kept = min(level, LONG_NAME)
    return name if name is None or len(name) <= kept else f"{name[:kept]}… ({len(name) - kept:,} more characters)"


def _cuttable_bytes(rows: pa.Table) -> Longs:
    """Return the bytes of each row's attributes and name, which may be cut."""
    sizes = np.zeros(len(rows), np.int64)
    for name in ("attributes", "name"):
        sizes += pc.fill_null(pc.binary_length(_decode(rows[name])), 0).to_numpy().astype(np.int64)
    return sizes


def _text_bytes(rows: pa.Table) -> int:
    """Add up the bytes of all texts of all rows."""
    total = 0
    for name in rows.column_names:
        column = _decode(rows[name])
        if kinds.is_list(column.type):
            column = pc.list_flatten(column)
        if kinds.is_string(column.type) or kinds.is_large_string(column.type):
            total += pc.sum(pc.binary_length(column)).as_py() or 0
    return int(total)


def _decode(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if kinds.is_dictionary(column.type) else column


def _too_many(events: int) -> RequestRefused:
    message = (
        f"the answer has {events:,} events, and over HTTP up to {MOST_EVENTS:,}: ask for less, or with the command line"
    )
    return RequestRefused(400, "too-wide", message)
