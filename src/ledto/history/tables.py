"""Hold the tables of segments and processes of a run as columns, and look things up in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Longs = NDArray[np.int64]
Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """The segments of a run: place s of a column is of segment number s.

    `codes`, `counts`, `before` and `first_seq` are flat, with an entry for each process of each segment: those of segment s
    are ``offsets[s]:offsets[s + 1]``. A *local code* of a process is its place among these.
    """

    first_position: Longs
    rows: Longs
    first_causal_time: Longs
    last_causal_time: Longs
    starts_computation: NDArray[np.bool_]
    offsets: Longs
    codes: Ints
    counts: Longs
    before: Longs
    first_seq: Longs
    events_file: list[str]
    skeleton_file: list[str]
    boundary_file: list[str | None]
    ids_file: list[str | None]
    lines_file: list[str | None]
    words_file: list[str | None]

    def __len__(self) -> int:
        return len(self.rows)

    def codes_of(self, number: int) -> Ints:
        """Give by local code the code of the process in the whole run."""
        return self.codes[self.offsets[number] : self.offsets[number + 1]]

    def before_of(self, number: int) -> Longs:
        """Give by local code the number of the process's events before the segment."""
        return self.before[self.offsets[number] : self.offsets[number + 1]]

    def counts_of(self, number: int) -> Longs:
        """Give by local code the number of the process's events in the segment."""
        return self.counts[self.offsets[number] : self.offsets[number + 1]]

    def segment_of(self, position: int) -> int:
        """Find the segment that holds a position."""
        return int(np.searchsorted(self.first_position, position, side="right")) - 1

    def base_of(self, number: int) -> int:
        """Give the first position of the computation that the segment continues."""
        starting = np.flatnonzero(self.starts_computation[: number + 1])
        return int(self.first_position[starting[-1]]) if len(starting) else 0

    def entries_of(self, code: int) -> Longs:
        """Find the entries of a process in the flat columns, segment by segment."""
        return np.flatnonzero(self.codes == code)

    def segment_of_entry(self, entry: int) -> int:
        """Find the segment of an entry of the flat columns."""
        return int(np.searchsorted(self.offsets, entry, side="right")) - 1


def segments_from(table: pa.Table) -> Segments:
    """Make columns from a table of `layout.SEGMENTS`. Raises `ValueError` if numbers or positions have gaps."""
    table = table.sort_by("number").combine_chunks()
    _check_numbers("segments", "number", table["number"].to_numpy())
    lists = table["processes"].combine_chunks()

    def flat(name: str) -> NDArray[np.int64]:
        return np.asarray(table[name].combine_chunks().flatten().to_numpy(zero_copy_only=False))

    starts = np.asarray(lists.offsets.to_numpy()).astype(np.int64)
    segments = Segments(
        first_position=table["first_position"].to_numpy(),
        rows=table["rows"].to_numpy(),
        first_causal_time=table["first_causal_time"].to_numpy(),
        last_causal_time=table["last_causal_time"].to_numpy(),
        starts_computation=table["starts_computation"].to_numpy(),
        offsets=starts - starts[0],
        codes=flat("processes").astype(np.int32, copy=False),
        counts=flat("counts"),
        before=flat("before"),
        first_seq=flat("first_seq"),
        events_file=table["events_file"].to_pylist(),
        skeleton_file=table["skeleton_file"].to_pylist(),
        boundary_file=table["boundary_file"].to_pylist(),
        ids_file=table["ids_file"].to_pylist(),
        lines_file=table["lines_file"].to_pylist(),
        words_file=table["words_file"].to_pylist(),
    )
    expected = np.concatenate(([0], np.cumsum(segments.rows)[:-1])) if len(table) else segments.first_position
    if not np.array_equal(segments.first_position, expected):
        raise ValueError("positions of segments do not follow each other")
    return segments


@dataclass(frozen=True, slots=True, eq=False)
class Processes:
    """The processes of a run: place c of a column is of the process with code c."""

    computation: pa.Array
    process: pa.Array
    events: Longs
    dense_seq: NDArray[np.bool_]
    computation_number: Ints
    """A number for each computation: equal for processes of the same one."""
    table: pa.Table

    def __len__(self) -> int:
        return len(self.events)

    def name(self, code: int) -> str:
        """Give the name of a process."""
        return str(self.process[code].as_py())

    def computation_of(self, code: int) -> str:
        """Give the name of a process's computation."""
        return str(self.computation[code].as_py())

    def companions(self, code: int) -> Longs:
        """Find all processes of the same computation, this one included; give codes."""
        return np.flatnonzero(self.computation_number == self.computation_number[code])

    def of_computation(self, name: str) -> Longs:
        """Find the processes of a computation; give codes."""
        return np.flatnonzero(pc.equal(self.computation, name).to_numpy(zero_copy_only=False))

    def called(self, name: str) -> Longs:
        """Find the processes of this name, those whose clock has it, and the instances of such a service; give codes.

        An instance is called ``service@instance``.
        """
        matches = np.zeros(len(self.table), np.bool_)
        for names in (self.process, _one_array(self.table["clock_name"])):
            matching = pc.or_(pc.equal(names, name), pc.starts_with(names, f"{name}@"))
            matches |= pc.fill_null(matching, False).to_numpy(zero_copy_only=False)
        return np.flatnonzero(matches)

    def named(self, name: str) -> Longs:
        """Find the processes of exactly this name, at most one in each computation; give codes."""
        return np.flatnonzero(pc.equal(self.process, name).to_numpy(zero_copy_only=False))


def processes_from(table: pa.Table) -> Processes:
    """Make columns from a table of `layout.PROCESSES`. Raises `ValueError` if codes have gaps."""
    table = table.sort_by("code").combine_chunks()
    _check_numbers("processes", "code", table["code"].to_numpy())
    computation, process = (_one_array(table[name]) for name in ("computation", "process"))
    return Processes(
        computation=computation,
        process=process,
        events=table["events"].to_numpy(),
        dense_seq=table["dense_seq"].to_numpy(),
        computation_number=computation.dictionary_encode().indices.to_numpy(),
        table=table,
    )


def _check_numbers(table: str, column: str, numbers: Longs) -> None:
    """Raise `ValueError` unless the sorted numbers are 0, 1, 2 and so on."""
    wrong = np.flatnonzero(numbers != np.arange(len(numbers)))
    if len(wrong):
        expected, number = int(wrong[0]), int(numbers[wrong[0]])
        fault = f"{column} {expected} is missing" if number > expected else f"{column} {number} does not belong there"
        raise ValueError(
            f"the table of {table} is damaged: {fault}. Restore the history from a copy, or make it again with ledto observe"
        )


def count_within_processes(process: NDArray[np.integer[Any]]) -> Longs:
    """Count for each row the rows of its process up to it, itself included."""
    order = np.argsort(process, kind="stable")
    counts = np.bincount(process)
    first = np.cumsum(counts) - counts
    nth = np.empty(len(process), np.int64)
    nth[order] = np.arange(len(order)) - first[process[order]] + 1
    return nth


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    """Convert a column of strings to one array, without dictionary and chunks."""
    whole = column.cast(pa.string()).combine_chunks()
    return whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
