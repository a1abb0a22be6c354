"""Read columns of a table of reports as arrays, for the solver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.causality.order import NO_TIME
from ledto.events.file_names import rank_files

Longs = NDArray[np.int64]
Codes = NDArray[np.int32]
Flags = NDArray[np.bool_]

BETWEEN = "\x00"
"""Separates the number of a computation from a name or key in it, where several computations are solved as one."""

LARGEST_TIME = 1 << 62
"""Rows with later times are quarantined, so that differences fit in 64 bits: the year 2116, in nanoseconds."""
LEAST_TIME = -1 << 60
"""Rows with earlier times are quarantined, so that a difference and twice a wait fit: the year 1933, in nanoseconds."""
NO_CODE = -1
"""In place of the number of a text or process: there is none."""

_TEXT = pa.string()


class ReportColumns:
    """Columns of a table of reports as arrays. Absent columns count as null. `names` are its processes, ascending."""

    def __init__(self, table: pa.Table, names: Sequence[str]) -> None:
        self.table = table
        self._arrays: dict[str, Any] = {}
        self._encoded: dict[str, Any] = {}
        self.process = self._places_in("process", names)
        """By row: the number of its process among the names."""
        self.own: Flags = np.ones(len(table), np.bool_)
        """By row: whether this window quarantines it, if that is due, and not another."""
        if "own" in table.column_names:
            self.own = self._array("own").to_numpy(zero_copy_only=False).astype(np.bool_)

    def has(self, name: str) -> bool:
        """Tell whether a column has any value."""
        return name in self.table.column_names and self._array(name).null_count < len(self.table)

    def _array(self, name: str) -> Any:
        # One by one: attributes take most of a table's memory, and are not needed here.
        if name not in self._arrays:
            column = self.table.column(name)
            chunks = column.chunks or [pa.array([], column.type)]
            self._arrays[name] = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
        return self._arrays[name]

    def text(self, name: str) -> Any:
        """Read a column of texts."""
        if name not in self.table.column_names:
            return pa.nulls(len(self.table), pa.string())
        array = self._array(name)
        return array if pa.types.is_string(array.type) else array.cast(pa.string())

    def lists(self, name: str, kind: pa.DataType = _TEXT) -> Any:
        """Read a column of lists, which must not be absent."""
        return self._array(name).cast(pa.list_(kind))

    def longs(self, name: str) -> Longs:
        """Read a column of numbers; `NO_TIME` for null."""
        if name not in self.table.column_names:
            return np.full(len(self.table), NO_TIME, np.int64)
        filled = self._array(name).fill_null(NO_TIME).to_numpy(zero_copy_only=False)
        numbers: Longs = filled.astype(np.int64, copy=False)
        return numbers

    def turns(self) -> Longs:
        """Give each row its turn: rows are in order of arrival, but delivered ones come before all others."""
        turn = np.empty(len(self.table), np.int64)
        turn[np.argsort(~self.emitted(), kind="stable")] = np.arange(len(self.table))
        return turn

    def emitted(self) -> Flags:
        """Tell for each row whether its event is delivered."""
        if "emitted" not in self.table.column_names:
            return np.zeros(len(self.table), np.bool_)
        emitted: Flags = self._array("emitted").to_numpy(zero_copy_only=False).astype(np.bool_)
        return emitted

    def encoded(self, name: str) -> Any:
        """Read a column of texts as a dictionary array."""
        if name not in self.table.column_names:
            return pa.nulls(len(self.table), pa.string()).dictionary_encode()
        if name not in self._encoded:
            array = self._array(name)
            self._encoded[name] = array if pa.types.is_dictionary(array.type) else self.text(name).dictionary_encode()
        return self._encoded[name]

    def _places_in(self, name: str, values: Sequence[str]) -> Codes:
        """Find the place of each text of a column among `values`, which have all of them."""
        encoded = self.encoded(name)
        indices = pc.index_in(encoded.dictionary, value_set=pa.array(values, pa.string())).take(encoded.indices)
        places: Codes = indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
        return places

    def codes(self, name: str, rows: Longs) -> Longs:
        """Number the texts of some rows: numbers are equal iff the texts are; `NO_CODE` for null."""
        if name in self.table.column_names and 2 * len(rows) < len(self.table):
            chosen = self._array(name).take(pa.array(rows)).dictionary_encode()
        else:
            chosen = self.encoded(name).take(pa.array(rows))
        codes: Longs = chosen.indices.fill_null(NO_CODE).to_numpy(zero_copy_only=False).astype(np.int64)
        return codes

    def file_ranks(self) -> Longs:
        """Number the files of all rows in their order (`rank_files`), from 0; `NO_CODE` for null."""
        encoded = self.encoded("file")
        ranks = pa.array(rank_files(encoded.dictionary.to_pylist()), pa.int64())
        found: Longs = ranks.take(encoded.indices).fill_null(NO_CODE).to_numpy(zero_copy_only=False)
        return found


def out_of_range(table: pa.Table, *columns: str) -> Iterator[tuple[Flags, str, str]]:
    """Find rows with an absurd time or number; yield for each column the rows, the reason's code, and its detail."""
    for name in columns:
        what, code, least = ("seq", "bad-seq", 1) if name == "seq" else ("time", "absurd-time", LEAST_TIME)
        yield _outside(table, name, least), code, f"{what} runs from {least} to {LARGEST_TIME}"


def _outside(table: pa.Table, name: str, least: int) -> Flags:
    """Mark rows whose value is not from `least` to `LARGEST_TIME`."""
    if name not in table.column_names:
        return np.zeros(len(table), np.bool_)
    wrong = pc.or_(pc.less(table[name], least), pc.greater(table[name], LARGEST_TIME))
    flags: Flags = pc.fill_null(wrong, False).to_numpy().astype(np.bool_)
    return flags


def numbered_names(values: Any, names: Sequence[str]) -> Any:
    """Give for each value its number among `names`, as digits that sort as the numbers do.

    Before `BETWEEN` and another text, it says which computation the text belongs to, whatever characters the texts have.
    """
    width = len(str(len(names)))
    digits = pa.array([f"{number:0{width}d}" for number in range(len(names))], pa.string())
    return digits.take(pc.index_in(values, value_set=pa.array(names, pa.string())))
