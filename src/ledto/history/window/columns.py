"""Columns of a table of reports as arrays, for the solver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.causality.order import NO_TIME

Longs = NDArray[np.int64]
Codes = NDArray[np.int32]
Flags = NDArray[np.bool_]

BETWEEN = "\x00"
"""Between the name of a computation and a name or key within it, where several computations are solved as one."""

LARGEST_TIME = 1 << 62
"""Times beyond it are set aside, so that differences of times fit in 64 bits: the year 2116, in nanoseconds."""
LEAST_TIME = -1 << 60
"""Times before it are set aside, so that a difference and twice a wait still fit: the year 1933, in nanoseconds."""

_TEXT = pa.string()


class ReportColumns:
    """Columns of a table of reports as arrays; absent ones are null throughout. `names` are its processes, ascending."""

    def __init__(self, table: pa.Table, names: Sequence[str]) -> None:
        self.table = table
        self._arrays: dict[str, Any] = {}
        self._encoded: dict[str, Any] = {}
        self.process = self._places_in("process", names)
        count = len(table)
        self.own: Flags = np.ones(count, np.bool_)
        if "own" in table.column_names:
            self.own = self._array("own").to_numpy(zero_copy_only=False).astype(np.bool_)

    def has(self, name: str) -> bool:
        return name in self.table.column_names and self._array(name).null_count < len(self.table)

    def _array(self, name: str) -> Any:
        # One by one: attributes, of which most tables are made, are not needed here.
        if name not in self._arrays:
            column = self.table.column(name)
            chunks = column.chunks or [pa.array([], column.type)]
            self._arrays[name] = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
        return self._arrays[name]

    def text(self, name: str) -> Any:
        if name not in self.table.column_names:
            return pa.nulls(len(self.table), pa.string())
        array = self._array(name)
        return array if pa.types.is_string(array.type) else array.cast(pa.string())

    def lists(self, name: str, kind: pa.DataType = _TEXT) -> Any:
        return self._array(name).cast(pa.list_(kind))

    def longs(self, name: str) -> Longs:
        """With `NO_TIME` for null."""
        if name not in self.table.column_names:
            return np.full(len(self.table), NO_TIME, np.int64)
        found: Longs = self._array(name).fill_null(NO_TIME).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        return found

    def came(self) -> Longs:
        """By row of a table in order of arrival: its turn. What is delivered comes before all that is not."""
        found = np.empty(len(self.table), np.int64)
        found[np.argsort(~self.emitted(), kind="stable")] = np.arange(len(self.table))
        return found

    def emitted(self) -> Flags:
        """By row: whether its event is delivered."""
        if "emitted" not in self.table.column_names:
            return np.zeros(len(self.table), np.bool_)
        found: Flags = self._array("emitted").to_numpy(zero_copy_only=False).astype(np.bool_)
        return found

    def encoded(self, name: str) -> Any:
        """The texts as a dictionary array."""
        if name not in self.table.column_names:
            return pa.nulls(len(self.table), pa.string()).dictionary_encode()
        if name not in self._encoded:
            array = self._array(name)
            self._encoded[name] = array if pa.types.is_dictionary(array.type) else self.text(name).dictionary_encode()
        return self._encoded[name]

    def _places_in(self, name: str, values: Sequence[str]) -> Codes:
        """Where each text is among the values, all of which are there."""
        encoded = self.encoded(name)
        places = pc.index_in(encoded.dictionary, value_set=pa.array(values, pa.string())).take(encoded.indices)
        found: Codes = places.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
        return found

    def codes(self, name: str, rows: Longs) -> Longs:
        """Numbers equal iff the texts are, for some rows; -1 for null."""
        if name in self.table.column_names and 2 * len(rows) < len(self.table):
            chosen = self._array(name).take(pa.array(rows)).dictionary_encode()
        else:
            chosen = self.encoded(name).take(pa.array(rows))
        indices = chosen.indices
        found: Longs = indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return found

    def ranks(self, name: str) -> Longs:
        """Numbers in the order of the texts; -1 for null."""
        encoded = self.encoded(name)
        rank = pc.rank(encoded.dictionary, tiebreaker="dense") if len(encoded.dictionary) else pa.array([], pa.uint64())
        found: Longs = rank.take(encoded.indices).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        return found - 1


def out_of_range(table: pa.Table, *columns: str) -> Iterator[tuple[Flags, str, str]]:
    """Rows whose time or number cannot be meant, column by column: which, the code of the reason, and its detail."""
    for name in columns:
        what, code, least = ("seq", "bad-seq", 1) if name == "seq" else ("time", "absurd-time", LEAST_TIME)
        yield _outside(table, name, least), code, f"{what} runs from {least} to {LARGEST_TIME}"


def _outside(table: pa.Table, name: str, least: int) -> Flags:
    if name not in table.column_names:
        return np.zeros(len(table), np.bool_)
    wrong = pc.or_(pc.less(table[name], least), pc.greater(table[name], LARGEST_TIME))
    found: Flags = pc.fill_null(wrong, False).to_numpy().astype(np.bool_)
    return found


def numbered_names(values: Any, names: Sequence[str]) -> Any:
    """By value: its number among `names`, as digits that sort as the numbers do.

    Put before `BETWEEN` and another text, it says whose text that is, whatever characters are in the names.
    """
    width = len(str(len(names)))
    digits = pa.array([f"{number:0{width}d}" for number in range(len(names))], pa.string())
    return digits.take(pc.index_in(values, value_set=pa.array(names, pa.string())))
