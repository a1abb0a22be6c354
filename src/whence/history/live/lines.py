"""Where a report stands in its process, given what of the process is closed.

A report that comes so late that events after it are closed cannot take its place any more. It stands on a line of its
own, ``NAME (late)``: nothing is claimed about its order with the rest of its process, and `missing` says so. A second
report of an event that is closed is a duplicate, which the numbers that were closed tell.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from whence.causality.ordering import NO_TIME
from whence.history.live.dating import DATED

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

MOST_GAPS = 4_096
"""Ranges of numbers that are remembered as missing, a process. Where there are more, a report from among the oldest is set
aside: whether it was delivered before is not known."""


@dataclass(slots=True)
class Closed:
    """The numbers of one process that are closed."""

    last: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Ranges of numbers below it that were not reported, ascending, ends included."""
    unknown_until: int = 0
    """Up to here gaps were forgotten."""

    def lacks(self, seq: int) -> bool:
        """Whether a number up to the last was not reported."""
        at = bisect_right(self.gaps, (seq, 1 << 62)) - 1
        return at >= 0 and seq <= self.gaps[at][1]

    def add(self, numbers: list[int]) -> None:
        """Close these numbers, which ascend."""
        for seq in numbers:
            if seq > self.last:
                if seq > self.last + 1:
                    self.gaps.append((self.last + 1, seq - 1))
                self.last = seq
            else:
                self._fill(seq)
        if len(self.gaps) > MOST_GAPS:
            self.unknown_until = self.gaps[-MOST_GAPS][0] - 1
            del self.gaps[:-MOST_GAPS]

    def _fill(self, seq: int) -> None:
        at = bisect_left(self.gaps, (seq + 1,)) - 1
        if at >= 0 and self.gaps[at][0] <= seq <= self.gaps[at][1]:
            first, last = self.gaps[at]
            self.gaps[at : at + 1] = [each for each in ((first, seq - 1), (seq + 1, last)) if each[0] <= each[1]]


@dataclass(slots=True)
class Lines:
    """All processes of a chain. Pickles."""

    closed: dict[str, Closed] = field(default_factory=dict)
    """By name of a process or line."""
    of: dict[str, str] = field(default_factory=dict)
    """By name of a line of late reports: the process."""

    def sort_out(self, rows: pa.Table) -> tuple[Flags, Flags]:
        """Which rows report events that are closed already, and which may or may not: nobody knows any more."""
        again, unknown = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_)
        for row, name, seq in self._behind(rows):
            closed = self.closed[name]
            if seq <= closed.unknown_until:
                unknown[row] = True
            elif not closed.lacks(seq):
                again[row] = True
        return again, unknown

    def placed(self, rows: pa.Table) -> pa.Table:
        """The rows, late ones on lines of their own, with ``missing`` for what is not known of those."""
        moved = self._moved(rows)
        if not moved:
            return rows
        names = rows["process"].to_pylist()
        missing: list[str | None] = [None] * len(rows)
        for row, line in moved.items():
            seq = rows["seq"][row].as_py()
            missing[row] = f"the place of {names[row]}{'' if seq is None else f':{seq}'} in its process: it came late"
            self.of[line] = names[row]
            names[row] = line
        at = rows.column_names.index("process")
        placed = rows.set_column(at, "process", pa.array(names, pa.string()))
        return placed.append_column("missing", pa.array(missing, pa.string()))

    def _moved(self, rows: pa.Table) -> dict[int, str]:
        """By row: the line it goes to instead of its process."""
        behind: dict[str, list[tuple[int, int]]] = {}
        for row, name, seq in self._behind(rows):
            behind.setdefault(name, []).append((seq, row))
        moved: dict[int, str] = {}
        for name, found in behind.items():
            line = self._line(name, min(found)[0])
            moved |= {row: line for _, row in found}
        time, dated = rows["time"].fill_null(NO_TIME).to_numpy(), rows[DATED].to_numpy()
        unnumbered = rows["seq"].is_null().to_numpy()
        for row in np.flatnonzero(unnumbered & (time != NO_TIME) & (dated > time)).tolist():
            moved[row] = f"{rows['process'][row].as_py()} (late)"
        return moved

    def _line(self, name: str, first: int) -> str:
        number = 1
        while True:
            line = f"{name} (late)" if number == 1 else f"{name} (late {number})"
            if line not in self.closed or self.closed[line].last < first:
                return line
            number += 1

    def _behind(self, rows: pa.Table) -> list[tuple[int, str, int]]:
        """Rows, with process and number, that do not come after all that is closed of their process."""
        if not self.closed:
            return []
        encoded = rows["process"].combine_chunks().dictionary_encode()
        names = encoded.dictionary.to_pylist()
        last = np.array([self.closed[name].last if name in self.closed else 0 for name in names], np.int64)
        codes = encoded.indices.to_numpy()
        seq = rows["seq"].fill_null(NO_TIME).to_numpy()
        if not names:
            return []
        found = np.flatnonzero((seq != NO_TIME) & (seq >= 1) & (seq <= last[codes]))
        return [(row, names[codes[row]], int(seq[row])) for row in found.tolist()]

    def pass_over(self, events: pa.Table) -> None:
        """Close the events of a segment."""
        encoded = events["process"].combine_chunks()
        encoded = encoded.dictionary_encode() if not pa.types.is_dictionary(encoded.type) else encoded
        codes, names = encoded.indices.to_numpy(), encoded.dictionary.to_pylist()
        seq = events["seq"].fill_null(0).to_numpy()
        order = np.argsort(codes, kind="stable")
        starts = np.searchsorted(codes[order], np.arange(len(names) + 1))
        for code, name in enumerate(names):
            numbers = seq[order[starts[code] : starts[code + 1]]]
            numbers = numbers[numbers > 0]
            if not len(numbers):
                continue
            closed = self.closed.setdefault(name, Closed())
            dense = numbers[0] == closed.last + 1 and numbers[-1] - numbers[0] + 1 == len(numbers)
            if dense:
                closed.last = int(numbers[-1])
            else:
                closed.add(numbers.tolist())
            if name in self.of:
                self.closed.setdefault(self.of[name], Closed()).add(numbers.tolist())
