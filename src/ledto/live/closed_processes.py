"""Where a report stands in its process, given what of the process is closed.

A report that comes so late that events after it are closed cannot take its place any more. It stands on a line of its
own, ``NAME (late)``: nothing is claimed about its order with the rest of its process, and `missing` says so. A second
report of an event that is closed is a duplicate, which the numbers that were closed tell. A process whose events have no
numbers is in the order of its own clock, however wrong that is; a second report of one of its events is known as such
only until the event is closed. Whether a process numbers its events is what its first report says: others are set aside,
because nothing tells where they stand.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ledto.causality.order import NO_TIME

_GIVEN = re.compile(r" \((?:late|late \d+|reported)\)")


def own_name(name: str) -> str:
    """What a process goes by: its own name, if that cannot be taken for another's."""
    start = name.rfind(" (")
    return f"{name} (reported)" if start >= 0 and _GIVEN.fullmatch(name, start) else name


def late_name(name: str, number: int) -> str:
    """What the given late part of it goes by, from 1 on; its own name for part 0."""
    if number == 0:
        return own_name(name)
    return f"{name} (late)" if number == 1 else f"{name} (late {number})"


Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

MOST_LATE_LINES = 4
"""Lines of late reports, a process; each comes after what is closed of the one before. What fits on none is set aside."""
MOST_GAPS = 4_096
"""Ranges of numbers that are remembered as missing, a process. Where there are more, a report from among the oldest is set
aside: whether it was delivered before is not known."""


@dataclass(slots=True)
class ClosedNumbers:
    """The numbers of one process that are closed."""

    last: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Ranges of numbers below it that were not reported, ascending, ends included."""
    unknown_until: int = 0
    """Up to here gaps were forgotten."""
    missing: int = 0
    """How many numbers up to the last were not reported."""

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
                    self.missing += seq - 1 - self.last
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
            self.missing -= 1
            self.gaps[at : at + 1] = [each for each in ((first, seq - 1), (seq + 1, last)) if each[0] <= each[1]]


@dataclass(slots=True)
class ClosedProcesses:
    """All processes of a chain."""

    closed: dict[str, ClosedNumbers] = field(default_factory=dict)
    """By name of a process or line that has numbers."""
    last_time: dict[str, int] = field(default_factory=dict)
    """By name of one that has none: the last time that is closed."""
    of: dict[str, str] = field(default_factory=dict)
    """By name of a line of late reports: the line of the process."""
    numbered: dict[str, bool] = field(default_factory=dict)
    """By process of which something is closed, as it calls itself: whether it numbers its events."""

    def strangers(self, waiting: pa.Table, fresh: pa.Table) -> tuple[Flags, Flags]:
        """Which of the fresh rows have no number although their process has them, and which have one although it has none.

        `waiting` are the rows of the tail, which came before.
        """
        rows = pa.concat_tables([each.select(["process", "seq"]) for each in (waiting, fresh)])
        codes, names = _encoded(rows["process"])
        given = rows["seq"].is_valid().to_numpy()
        numbers = np.zeros(len(names), np.bool_)
        numbers[codes[::-1]] = given[::-1]
        for code, name in enumerate(names):
            numbers[code] = self.numbered.get(name, numbers[code])
        without, with_one = numbers[codes] & ~given, ~numbers[codes] & given
        return without[len(waiting) :], with_one[len(waiting) :]

    def sort_out(self, rows: pa.Table) -> tuple[Flags, Flags]:
        """Which rows report events that are closed already, and which come too late: their place is not known any more."""
        again, unknown = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_)
        for row, name, seq in self._behind(rows, "seq"):
            closed = self.closed[own_name(name)]
            if closed.unknown_until < seq and not closed.lacks(seq):
                again[row] = True
            elif seq <= closed.unknown_until or not self._has_line(name, seq, "seq"):
                unknown[row] = True
        for row, name, time in self._behind(rows, "time"):
            unknown[row] = not self._has_line(name, time, "time")
        return again, unknown

    def late(self, rows: pa.Table) -> Flags:
        """Which rows do not come after all that is closed of their process."""
        found = np.zeros(len(rows), np.bool_)
        for by in ("seq", "time"):
            found[[row for row, _, _ in self._behind(rows, by)]] = True
        return found

    def placed(self, rows: pa.Table) -> pa.Table:
        """The rows, late ones on lines of their own, with ``missing`` for what is not known of those."""
        moved = {row: line for by in ("seq", "time") for row, line in self._moved(rows, by)}
        odd = {name: own for name in rows["process"].unique().to_pylist() if (own := own_name(name)) != name}
        if odd:
            rows = _renamed(rows, [odd.get(name, name) for name in rows["process"].to_pylist()])
        if not moved:
            return rows
        names = rows["process"].to_pylist()
        missing: list[str | None] = [None] * len(rows)
        for row, line in moved.items():
            seq = rows["seq"][row].as_py()
            missing[row] = f"the place of {names[row]}{'' if seq is None else f':{seq}'} in its process: it came late"
            names[row] = line
        placed = _renamed(rows, names)
        return placed.append_column("missing", pa.array(missing, pa.string()))

    def _moved(self, rows: pa.Table, by: str) -> Iterator[tuple[int, str]]:
        """Rows, and the lines they go to instead of their processes."""
        behind: dict[str, list[tuple[int, int]]] = {}
        for row, name, value in self._behind(rows, by):
            behind.setdefault(name, []).append((value, row))
        for name, found in behind.items():
            line = self._line(name, min(found)[0], by)
            self.of[line] = own_name(name)
            yield from ((row, line) for _, row in found)

    def _last(self, name: str, by: str) -> int:
        if by == "seq":
            return self.closed[name].last if name in self.closed else 0
        return self.last_time.get(name, NO_TIME)

    def _has_line(self, name: str, value: int, by: str) -> bool:
        """Whether a late row stands on a line that is not one too many."""
        return self._last(late_name(name, MOST_LATE_LINES), by) < value

    def _line(self, name: str, first: int, by: str) -> str:
        """The first line of late reports of a process that ends before a number or time."""
        number = 1
        while True:
            line = late_name(name, number)
            if self._last(line, by) < first or (by == "time" and self._last(line, by) == first):
                return line
            number += 1

    def _behind(self, rows: pa.Table, by: str) -> list[tuple[int, str, int]]:
        """Rows, with process and number or time, that do not come after all that is closed of their process.

        Processes are told as they call themselves.
        """
        if not (self.closed if by == "seq" else self.last_time) or not len(rows):
            return []
        codes, names = _encoded(rows["process"])
        last = np.array([self._last(own_name(name), by) for name in names], np.int64)
        value = rows[by].fill_null(NO_TIME).to_numpy()
        # One number is one event; at one time there may be several, which need not be closed together.
        chosen = (value >= 1) & (value <= last[codes])
        if by == "time":
            chosen = (value != NO_TIME) & (value < last[codes]) & rows["seq"].is_null().to_numpy()
        return [(row, names[codes[row]], int(value[row])) for row in np.flatnonzero(chosen).tolist()]

    def pass_over(self, events: pa.Table, rows: pa.Table) -> None:
        """Close the events of a segment, and remember of the rows it was made of who numbers them."""
        codes, names = _encoded(rows["process"])
        given = np.zeros(len(names), np.bool_)
        given[codes] = rows["seq"].is_valid().to_numpy()
        self.numbered |= dict(zip(names, given.tolist(), strict=True))
        encoded = events["process"].combine_chunks()
        encoded = encoded if pa.types.is_dictionary(encoded.type) else encoded.dictionary_encode()
        codes, names = encoded.indices.to_numpy(), encoded.dictionary.to_pylist()
        seq, time = events["seq"].fill_null(0).to_numpy(), events["time"].fill_null(NO_TIME).to_numpy()
        order = np.argsort(codes, kind="stable")
        starts = np.searchsorted(codes[order], np.arange(len(names) + 1))
        for code, name in enumerate(names):
            mine = order[starts[code] : starts[code + 1]]
            numbers = seq[mine][seq[mine] > 0]
            if len(numbers):
                self._close(name, numbers)
            elif len(mine):
                self.last_time[name] = max(self.last_time.get(name, NO_TIME), int(time[mine].max()))

    def _close(self, name: str, numbers: Longs) -> None:
        closed = self.closed.setdefault(name, ClosedNumbers())
        if numbers[0] == closed.last + 1 and numbers[-1] - numbers[0] + 1 == len(numbers):
            closed.last = int(numbers[-1])
        else:
            closed.add(numbers.tolist())
        if name in self.of:
            self.closed.setdefault(self.of[name], ClosedNumbers()).add(numbers.tolist())


def _encoded(names: pa.ChunkedArray) -> tuple[Longs, list[str]]:
    """By row: the number of its name; and the names."""
    encoded = names.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()


def _renamed(rows: pa.Table, names: list[str]) -> pa.Table:
    return rows.set_column(rows.column_names.index("process"), "process", pa.array(names, pa.string()))
