"""Bounds what an answer holds before it is built: long texts of events are cut, and the answer says so.

A question reads whole events only where it is about to show them. There, `BoundedRun` looks at how long their texts are
before it makes values of them: if they are too many bytes together, the longest are cut, all at the same length.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from whence.history import layout
from whence.history.questions.event import event_columns
from whence.history.questions.history import History
from whence.history.reading import Run
from whence.history.tables import Longs
from whence.service.limits import Refused

MOST_EVENTS: Final = 25_000
"""Shown by one answer."""
LATER_SHARE: Final = 64
"""One in so many of an answer's bytes is for each read after those that took them all."""
READ_AT_ONCE: Final = 64
"""Events whose texts are held while their lengths are found out."""
LARGE_GROUP_BYTES: Final = 32 << 20
"""Attributes of a row group that are read a few rows at a time, and not kept in memory."""
LONG_NAME: Final = 1_000
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
TRUNCATED: Final = "whence.truncated"
"""The attribute that stands for those that were left out."""


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """Events of one row group of one segment."""

    number: int
    group: int
    rows: Longs
    """Within the group, ascending."""


class BoundedRun(Run):
    """A run whose whole events have up to so many bytes of text, together.

    Reads after the first share what is left of them, and have a small part of all in any case.
    """

    answer_bytes: int
    left_bytes: int
    """Of `answer_bytes`, after what was read so far."""
    truncated: int
    """Events that were cut so far."""
    _check: Callable[[], None]

    def rows(self, positions: Longs, columns: Sequence[str]) -> pa.Table:
        """As `Run` says; whole events bounded. Raises `Refused` for more than `MOST_EVENTS` of them."""
        if len(positions) == 0 or list(columns) != event_columns(self):
            return super().rows(positions, columns)
        if len(positions) > MOST_EVENTS:
            raise _too_many(len(positions))
        ascending = np.sort(positions)
        budget = max(self.left_bytes, self.answer_bytes // LATER_SHARE)
        whole = self._bounded(ascending, columns, budget)
        self.left_bytes -= _text_bytes(whole)
        if np.array_equal(ascending, positions):
            return whole
        return whole.take(pa.array(np.searchsorted(ascending, positions)))

    def events(self, number: int, columns: Sequence[str], start: int, stop: int) -> pa.Table:
        """As `Run` says; whole events bounded."""
        if stop <= start or list(columns) != event_columns(self):
            return super().events(number, columns, start, stop)
        first = int(self.segments.first_position[number])
        return self._bounded(np.arange(first + start, first + stop, dtype=np.int64), columns, self.answer_bytes)

    def _bounded(self, ascending: Longs, columns: Sequence[str], budget: int) -> pa.Table:
        numbers = np.searchsorted(self.segments.first_position, ascending, side="right") - 1
        row = ascending - self.segments.first_position[numbers]
        group = row // layout.EVENT_ROWS
        starts = np.flatnonzero(np.diff(numbers, prepend=-1) | np.diff(group, prepend=-1)).tolist()
        pieces = [
            _Piece(int(numbers[first]), int(group[first]), row[first:last] - group[first] * layout.EVENT_ROWS)
            for first, last in itertools.pairwise([*starts, len(row)])
        ]
        held: list[list[pa.Table] | None] = []
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
            held.append(parts if total <= budget else None)
        if others > self.answer_bytes:
            told = f"the names in the answer have {others:,} bytes: ask for less, or ask with the command line"
            raise Refused(400, "too-large", told)
        found: list[pa.Table] = []
        if total <= budget:
            found = [part for parts in held for part in parts or ()]
        else:
            level = fair_level(np.concatenate(cuttable), max(0, budget - others))

            def shorten(part: pa.Table) -> None:
                found.append(self._cut(part, level))

            for piece, kept in zip(pieces, held, strict=True):
                if kept is None:
                    self._read(piece, columns, shorten)
                else:
                    for part in kept:
                        shorten(part)
        return found[0] if len(found) == 1 else pa.concat_tables(found, promote_options="permissive")

    def _read(self, piece: _Piece, columns: Sequence[str], take: Callable[[pa.Table], None]) -> None:
        """Give the rows of a piece, a few at a time; long attributes are never all in memory."""
        large = self._guarded(
            self.segments.events_file[piece.number], lambda: self._attributes_bytes(piece) > LARGE_GROUP_BYTES
        )
        if not large:
            table = self._event_group(piece.number, piece.group, columns)
            for start in range(0, len(piece.rows), READ_AT_ONCE):
                self._check()
                take(table.take(pa.array(piece.rows[start : start + READ_AT_ONCE])))
            return
        others = [name for name in columns if name != "attributes"]
        rest = self._event_group(piece.number, piece.group, others).take(pa.array(piece.rows))
        self._guarded(self.segments.events_file[piece.number], lambda: self._stream(piece, rest, list(columns), take))

    def _stream(self, piece: _Piece, rest: pa.Table, columns: list[str], take: Callable[[pa.Table], None]) -> None:
        file = self._parquet(self.segments.events_file[piece.number])
        batches = file.iter_batches(READ_AT_ONCE, row_groups=[piece.group], columns=["attributes"], use_threads=False)
        first = 0
        for batch in batches:
            self._check()
            begin, end = np.searchsorted(piece.rows, [first, first + len(batch)]).tolist()
            if begin < end:
                texts = batch.column(0).take(pa.array(piece.rows[begin:end] - first))
                take(rest.slice(begin, end - begin).append_column("attributes", texts).select(columns))
            first += len(batch)
            if end == len(piece.rows):
                return

    def _attributes_bytes(self, piece: _Piece) -> int:
        """Of all rows of the group, as its file says; attributes are written plainly, so that is what they take."""
        file = self._parquet(self.segments.events_file[piece.number])
        group = file.metadata.row_group(piece.group)
        columns = (group.column(place) for place in range(group.num_columns))
        return next((each.total_uncompressed_size for each in columns if each.path_in_schema == "attributes"), 0)

    def _cut(self, rows: pa.Table, level: int) -> pa.Table:
        """The rows, those whose attributes and name are longer than the level cut to about that."""
        over = _cuttable_bytes(rows) > level
        self.truncated += int(over.sum())
        for name, shorten in (("attributes", shortened_attributes), ("name", _shortened_name)):
            place, column = rows.column_names.index(name), rows[name]
            # One at a time: whole, they may be many times what is kept of them.
            texts = [
                shorten(column[row].as_py(), level) if cut else column[row].as_py()
                for row, cut in enumerate(over.tolist())
            ]
            rows = rows.set_column(place, name, pa.array(texts, pa.string()))
        return rows


def bounded(history: History, answer_bytes: int, check: Callable[[], None] = lambda: None) -> History:
    """The same history, whose answers are bounded; `check` is called now and then, and may raise."""
    found = copy.copy(history)
    run = copy.copy(history.run)
    run.__class__ = BoundedRun
    assert isinstance(run, BoundedRun)
    run.answer_bytes, run.left_bytes, run.truncated, run._check = answer_bytes, answer_bytes, 0, check
    found.run = run
    return found


def truncated_events(history: History) -> int:
    """How many events of its answers were cut."""
    return history.run.truncated if isinstance(history.run, BoundedRun) else 0


def fair_level(sizes: Longs, budget: int) -> int:
    """The largest level so that sizes, cut to it, are no more than the budget together."""
    ascending = np.sort(sizes)
    before = np.concatenate(([0], np.cumsum(ascending)[:-1]))
    left = np.arange(len(ascending), 0, -1)
    # The first that does not fit, if all from it on were as long as it is: these share what the shorter ones leave.
    first = int(np.searchsorted(before + ascending * left > budget, True))
    return int(ascending[-1]) if first == len(ascending) else max(0, (budget - int(before[first])) // int(left[first]))


def shortened_attributes(text: str | None, level: int) -> str | None:
    """The attributes of an event in about `level` bytes: long texts are cut, and what finds no room is left out.

    Values stay as they are written: a long text is looked into only where it is cut.
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
        # As answers are written: a character beyond ASCII takes six bytes.
        written = memoryview(value).nbytes * (1 if text.isascii() else 3)
        left -= len(name) + 8
        if left <= 0:
            break
        kept[name] = value if written <= left else _shortened(bytes(value), left)
        left -= written
    if len(kept) < len(whole):
        kept[TRUNCATED] = f"{len(whole) - len(kept):,} attributes left out"
    return msgspec.json.encode(kept).decode()


def _shortened(value: bytes, left: int) -> str:
    """The beginning of a text, or of a value as text, in up to `left` bytes of JSON; and how much is left out."""
    try:
        said = msgspec.json.decode(value, type=str)
    except msgspec.MsgspecError:
        # No text, or one with half of a character: shown as it is written.
        said = value.decode("utf-8", "replace")
    kept = min(left, len(said))
    while kept and len(json.dumps(said[:kept])) > left:
        kept //= 2
    return f"{said[:kept]}… ({len(said) - kept:,} more characters)"


def _shortened_name(name: str | None, level: int) -> str | None:
    kept = min(level, LONG_NAME)
    return name if name is None or len(name) <= kept else f"{name[:kept]}… ({len(name) - kept:,} more characters)"


def _cuttable_bytes(rows: pa.Table) -> Longs:
    found = np.zeros(len(rows), np.int64)
    for name in ("attributes", "name"):
        found += pc.fill_null(pc.binary_length(_plain(rows[name])), 0).to_numpy().astype(np.int64)
    return found


def _text_bytes(rows: pa.Table) -> int:
    total = 0
    for name in rows.column_names:
        column = _plain(rows[name])
        if kinds.is_list(column.type):
            column = pc.list_flatten(column)
        if kinds.is_string(column.type) or kinds.is_large_string(column.type):
            total += pc.sum(pc.binary_length(column)).as_py() or 0
    return int(total)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if kinds.is_dictionary(column.type) else column


def _too_many(events: int) -> Refused:
    told = (
        f"the answer has {events:,} events, and over HTTP up to {MOST_EVENTS:,}: ask for less, or with the command line"
    )
    return Refused(400, "too-wide", told)
