"""Remember what is closed of each process, and find the place of a report in its process.

A report that comes when later events of its process are closed cannot take its place any more. It goes to a *late
line*, ``NAME (late)``: nothing is claimed about its order with the rest of its process, and `missing` says so. A second
report of a closed event is a duplicate, which the closed numbers show. A process without numbers is in the order of its
own clock, however wrong; a second report of one of its events is recognised only until the event is closed. The first
report of a process decides whether the process numbers its events. Reports that differ are quarantined, because nothing
says where they belong.

A process may itself be called ``t (late)``. It is then called ``t (late) (reported)`` in the history, so that no two
lines share a name.
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

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

MOST_LATE_LINES = 4
"""Most lines of late reports of a process; each comes after what is closed of the one before. Reports that fit on none
are quarantined."""
MOST_GAPS = 4_096
"""Most ranges of missing numbers that are remembered for a process. Beyond that, a report in one of the oldest is
quarantined, because it may have been delivered before."""
_GIVEN_ENDING = re.compile(r" \((?:late|late \d+|reported)\)")


def history_name(name: str) -> str:
    """Get the name of a process in the history: its own, or ``NAME (reported)`` if that looks like a late line's."""
    start = name.rfind(" (")
    return f"{name} (reported)" if start >= 0 and _GIVEN_ENDING.fullmatch(name, start) else name


def late_line_name(name: str, number: int) -> str:
    """Get the name of a process's late line with this number, from 1 on."""
    return f"{name} (late)" if number == 1 else f"{name} (late {number})"


@dataclass(slots=True)
class ClosedNumbers:
    """The closed numbers of one process."""

    last: int = 0
    """The largest."""
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Ranges of smaller numbers that were not reported, ascending, ends included."""
    unknown_until: int = 0
    """Gaps up to this number were forgotten."""
    missing: int = 0
    """How many smaller numbers were not reported."""

    def lacks(self, seq: int) -> bool:
        """Tell whether a number up to the last was not reported."""
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
        """Take a number out of its gap."""
        at = bisect_left(self.gaps, (seq + 1,)) - 1
        if at >= 0 and self.gaps[at][0] <= seq <= self.gaps[at][1]:
            first, last = self.gaps[at]
            self.missing -= 1
            self.gaps[at : at + 1] = [gap for gap in ((first, seq - 1), (seq + 1, last)) if gap[0] <= gap[1]]


@dataclass(slots=True)
class ClosedProcesses:
    """What is closed of all processes of a chain."""

    closed: dict[str, ClosedNumbers] = field(default_factory=dict)
    """By name of a process or late line with numbers."""
    last_time: dict[str, int] = field(default_factory=dict)
    """By name of a process or late line without numbers: the last closed time."""
    of: dict[str, str] = field(default_factory=dict)
    """By name of a late line: the name of its process."""
    numbered: dict[str, bool] = field(default_factory=dict)
    """By process with closed events, as it calls itself: whether it numbers its events."""

    def find_misnumbered(self, waiting: pa.Table, fresh: pa.Table) -> tuple[Flags, Flags]:
        """Flag fresh rows that lack a number although their process has them, and rows with one although it has none.

        `waiting` are the rows of the tail, which came before.
        """
        rows = pa.concat_tables([table.select(["process", "seq"]) for table in (waiting, fresh)])
        codes, names = _encode(rows["process"])
        has_number = rows["seq"].is_valid().to_numpy()
        numbers = np.zeros(len(names), np.bool_)
        # Backwards, so that the first report of each process decides.
        numbers[codes[::-1]] = has_number[::-1]
        for code, name in enumerate(names):
            numbers[code] = self.numbered.get(name, numbers[code])
        lacks, unexpected = numbers[codes] & ~has_number, ~numbers[codes] & has_number
        return lacks[len(waiting) :], unexpected[len(waiting) :]

    def find_repeated_and_too_late(self, rows: pa.Table) -> tuple[Flags, Flags]:
        """Flag rows that report closed events, and rows for which no late line is left."""
        repeated, too_late = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_)
        for row, name, seq in self._behind(rows, "seq"):
            closed = self.closed[history_name(name)]
            if closed.unknown_until < seq and not closed.lacks(seq):
                repeated[row] = True
            elif seq <= closed.unknown_until or not self._has_line(name, seq, "seq"):
                too_late[row] = True
        for row, name, time in self._behind(rows, "time"):
            too_late[row] = not self._has_line(name, time, "time")
        return repeated, too_late

    def is_late(self, rows: pa.Table) -> Flags:
        """Flag rows that do not come after everything that is closed of their process."""
        late = np.zeros(len(rows), np.bool_)
        for by in ("seq", "time"):
            late[[row for row, _, _ in self._behind(rows, by)]] = True
        return late

    def place(self, rows: pa.Table) -> pa.Table:
        """Move late rows to late lines, and say in ``missing`` that their places are unknown."""
        moved = {row: line for by in ("seq", "time") for row, line in self._find_moves(rows, by)}
        renamed = {name: new for name in rows["process"].unique().to_pylist() if (new := history_name(name)) != name}
        if renamed:
            rows = _rename(rows, [renamed.get(name, name) for name in rows["process"].to_pylist()])
        if not moved:
            return rows
        names = rows["process"].to_pylist()
        missing: list[str | None] = [None] * len(rows)
        for row, line in moved.items():
            seq = rows["seq"][row].as_py()
            missing[row] = f"the place of {names[row]}{'' if seq is None else f':{seq}'} in its process: it came late"
            names[row] = line
        placed = _rename(rows, names)
        return placed.append_column("missing", pa.array(missing, pa.string()))

    def _find_moves(self, rows: pa.Table, by: str) -> Iterator[tuple[int, str]]:
        """Yield late rows with the late lines they go to."""
        behind: dict[str, list[tuple[int, int]]] = {}
        for row, name, value in self._behind(rows, by):
            behind.setdefault(name, []).append((value, row))
        for name, late in behind.items():
            line = self._late_line(name, min(late)[0], by)
            self.of[line] = history_name(name)
            yield from ((row, line) for _, row in late)

    def _last(self, name: str, by: str) -> int:
        """Get the last closed number or time of a process or late line."""
        if by == "seq":
            return self.closed[name].last if name in self.closed else 0
        return self.last_time.get(name, NO_TIME)

    def _has_line(self, name: str, value: int, by: str) -> bool:
        """Tell whether a late row fits on one of the late lines that are allowed."""
        return self._last(late_line_name(name, MOST_LATE_LINES), by) < value

    def _late_line(self, name: str, first: int, by: str) -> str:
        """Find the first late line of a process that ends before a number or time."""
        number = 1
        while True:
            line = late_line_name(name, number)
            if self._last(line, by) < first or (by == "time" and self._last(line, by) == first):
                return line
            number += 1

    def _behind(self, rows: pa.Table, by: str) -> list[tuple[int, str, int]]:
        """List rows that do not come after everything that is closed of their process, with process and number or time.

        Processes have the names that they call themselves.
        """
        if not (self.closed if by == "seq" else self.last_time) or not len(rows):
            return []
        codes, names = _encode(rows["process"])
        last = np.array([self._last(history_name(name), by) for name in names], np.int64)
        value = rows[by].fill_null(NO_TIME).to_numpy()
        # A number belongs to one event. A time may belong to several, which need not be closed together.
        chosen = (value >= 1) & (value <= last[codes])
        if by == "time":
            chosen = (value != NO_TIME) & (value < last[codes]) & rows["seq"].is_null().to_numpy()
        return [(row, names[codes[row]], int(value[row])) for row in np.flatnonzero(chosen).tolist()]

    def close(self, events: pa.Table, rows: pa.Table) -> None:
        """Close the events of a segment, made from these rows; remember which processes number their events."""
        codes, names = _encode(rows["process"])
        has_numbers = np.zeros(len(names), np.bool_)
        has_numbers[codes] = rows["seq"].is_valid().to_numpy()
        self.numbered |= dict(zip(names, has_numbers.tolist(), strict=True))
        encoded = events["process"].combine_chunks()
        encoded = encoded if pa.types.is_dictionary(encoded.type) else encoded.dictionary_encode()
        codes, names = encoded.indices.to_numpy(), encoded.dictionary.to_pylist()
        seq, time = events["seq"].fill_null(0).to_numpy(), events["time"].fill_null(NO_TIME).to_numpy()
        order = np.argsort(codes, kind="stable")
        starts = np.searchsorted(codes[order], np.arange(len(names) + 1))
        for code, name in enumerate(names):
            places = order[starts[code] : starts[code + 1]]
            numbers = seq[places][seq[places] > 0]
            if len(numbers):
                self._close_numbers(name, numbers)
            elif len(places):
                self.last_time[name] = max(self.last_time.get(name, NO_TIME), int(time[places].max()))

    def _close_numbers(self, name: str, numbers: Longs) -> None:
        closed = self.closed.setdefault(name, ClosedNumbers())
        if numbers[0] == closed.last + 1 and numbers[-1] - numbers[0] + 1 == len(numbers):
            closed.last = int(numbers[-1])
        else:
            closed.add(numbers.tolist())
        if name in self.of:
            self.closed.setdefault(self.of[name], ClosedNumbers()).add(numbers.tolist())


def _encode(names: pa.ChunkedArray) -> tuple[Longs, list[str]]:
    """Number the names; return the number of each row's name, and the names."""
    encoded = names.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()


def _rename(rows: pa.Table, names: list[str]) -> pa.Table:
    return rows.set_column(rows.column_names.index("process"), "process", pa.array(names, pa.string()))
