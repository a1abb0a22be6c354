"""The segments and processes of a run as columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Longs = NDArray[np.int64]
Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """Row s describes segment number s. What is told per process is flat: segment s owns ``offsets[s]:offsets[s + 1]``."""

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

    def __len__(self) -> int:
        return len(self.rows)

    def codes_of(self, number: int) -> Ints:
        """Global codes of the segment's processes, by local code."""
        return self.codes[self.offsets[number] : self.offsets[number + 1]]

    def before_of(self, number: int) -> Longs:
        """Events of each of the segment's processes before it, by local code."""
        return self.before[self.offsets[number] : self.offsets[number + 1]]

    def counts_of(self, number: int) -> Longs:
        """Events of each of the segment's processes in it, by local code."""
        return self.counts[self.offsets[number] : self.offsets[number + 1]]

    def segment_of(self, position: int) -> int:
        """The segment that holds the position."""
        return int(np.searchsorted(self.first_position, position, side="right")) - 1

    def base_of(self, number: int) -> int:
        """The first position of the computation that the segment goes on with."""
        starting = np.flatnonzero(self.starts_computation[: number + 1])
        return int(self.first_position[starting[-1]]) if len(starting) else 0

    def entries_of(self, code: int) -> Longs:
        """Places in the flat columns that belong to a process, segment by segment."""
        return np.flatnonzero(self.codes == code)

    def segment_of_entry(self, entry: int) -> int:
        """The segment that owns a place in the flat columns."""
        return int(np.searchsorted(self.offsets, entry, side="right")) - 1


def segments_from(table: pa.Table) -> Segments:
    """The segments of `layout.SEGMENTS`, by number."""
    table = table.sort_by("number").combine_chunks()
    if not np.array_equal(table["number"].to_numpy(), np.arange(len(table))):
        raise ValueError("segments are not numbered from 0 without gaps")
    lists = table["processes"].combine_chunks()

    def flat(name: str) -> NDArray[np.int64]:
        return np.asarray(table[name].combine_chunks().flatten().to_numpy(zero_copy_only=False))

    starts = np.asarray(lists.offsets.to_numpy()).astype(np.int64)
    found = Segments(
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
    )
    expected = np.concatenate(([0], np.cumsum(found.rows)[:-1])) if len(table) else found.first_position
    if not np.array_equal(found.first_position, expected):
        raise ValueError("positions of segments do not follow each other")
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Processes:
    """Row c describes the process of code c."""

    computation: pa.Array
    process: pa.Array
    events: Longs
    dense_seq: NDArray[np.bool_]
    computation_number: Ints
    """The same number for processes of the same computation, and different ones for others."""
    table: pa.Table

    def __len__(self) -> int:
        return len(self.events)

    def name(self, code: int) -> str:
        """The process's name."""
        return str(self.process[code].as_py())

    def computation_of(self, code: int) -> str:
        """The name of the process's computation."""
        return str(self.computation[code].as_py())

    def companions(self, code: int) -> Longs:
        """Codes of all processes of the same computation, this one included."""
        return np.flatnonzero(self.computation_number == self.computation_number[code])

    def called(self, name: str) -> Longs:
        """Codes of the processes of this name, of the lines of such a process, and of the instances of such a service.

        A line is known by the name of its clock; an instance is called ``service@instance``.
        """
        found = np.zeros(len(self.table), np.bool_)
        for names in (self.process, _whole(self.table["clock_name"])):
            is_it = pc.or_(pc.equal(names, name), pc.starts_with(names, f"{name}@"))
            found |= pc.fill_null(is_it, False).to_numpy(zero_copy_only=False)
        return np.flatnonzero(found)

    def named(self, name: str) -> Longs:
        """Codes of the processes of this name: one a computation."""
        return np.flatnonzero(pc.equal(self.process, name).to_numpy(zero_copy_only=False))


def processes_from(table: pa.Table) -> Processes:
    """The processes of `layout.PROCESSES`, by code."""
    table = table.sort_by("code").combine_chunks()
    if not np.array_equal(table["code"].to_numpy(), np.arange(len(table))):
        raise ValueError("processes are not numbered from 0 without gaps")
    computation, process = (_whole(table[name]) for name in ("computation", "process"))
    return Processes(
        computation=computation,
        process=process,
        events=table["events"].to_numpy(),
        dense_seq=table["dense_seq"].to_numpy(),
        computation_number=computation.dictionary_encode().indices.to_numpy(),
        table=table,
    )


def _whole(column: pa.ChunkedArray) -> pa.Array:
    whole = column.cast(pa.string()).combine_chunks()
    return whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
