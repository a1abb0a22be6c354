"""Find what the events of a segment follow in their own processes, from the lines that its rows name.

Across segments, a line is known by its *mark*: a hash of 64 bits of process and line. So segments need not agree on numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.causality.lines import NONE, Fronts, LineRows, Lists, find_fronts
from ledto.causality.skeleton import Ints, Longs
from ledto.events.schema import END, FIRST, RECEIVE, START

Flags = NDArray[np.bool_]
Marks = NDArray[np.uint64]

MARK_SEED = 6
"""Marks are stored: another seed would be another format."""
MARKED_AT_ONCE = 1 << 16
AS_PARENT = np.uint64(1 << 63)
"""A bit in the mark of a parent. It says: if a server in this process shares the parent's id, the server is meant."""
SHARED = "/server"
"""Ends the name of a server's line if the server shares the id of its client's span, as in Zipkin."""
NO_TEXT = -1
"""In place of the number of a text: null."""


@dataclass(frozen=True, slots=True, eq=False)
class LineEnds:
    """The lines that cross the ends of a segment, as stored beside its skeleton.

    Four tables, by column; `ledto.causality.lines.Fronts` has three of them with numbers instead of marks. Rows that
    continue a line from before the segment (``continued_*``); rows that are the first of their line here and name its parent
    (``begun_*``); servers that share the id of their client's span (``server_mark``, ``client_mark``); and lines that later
    segments may continue or wait for (``open_*``).
    """

    continued_row: Longs
    """The row, ascending."""
    continued_mark: Marks
    """The line whose front before the segment the row also follows; with `AS_PARENT` if the row starts a line from it."""
    begun_row: Longs
    """The row, ascending. It follows its parent only if its own line has no front before the segment."""
    begun_mark: Marks
    """Its line."""
    begun_here: Flags
    """Whether the row's first reference is the parent's front in the segment."""
    begun_before: Flags
    """Whether the row also follows the parent's front before the segment."""
    begun_parent: Marks
    """The parent, with `AS_PARENT`; 0 unless `begun_before`."""
    server_mark: Marks
    """The server's line, ascending; it has events in the segment."""
    client_mark: Marks
    """The line with the shared id in the same process."""
    open_mark: Marks
    """The line, ascending."""
    open_front: Longs
    """A reference to its front in the segment."""
    open_extends: Flags
    """Whether its front before the segment is to be added."""


@dataclass(frozen=True, slots=True, eq=False)
class SegmentLines:
    """What the rows of a segment follow in their own process: their recorded causes, besides messages."""

    offsets: Longs
    follows: Longs
    """Row i follows the references ``follows[offsets[i]:offsets[i + 1]]``, as in `ledto.causality.lines`."""
    lists: Lists
    ends: LineEnds


@lru_cache(maxsize=10_000)
def mark_of(process: str, line: str | None) -> int:
    """Compute the mark of a line; None for what a process does on no line."""
    return int(_marks([process], np.zeros(1, np.int64), pa.array([line], pa.string()))[0])


def _marks(names: Sequence[str], process: Longs, lines: pa.Array) -> Marks:
    """Compute marks; `process` are numbers of `names`.

    Each byte of a line is multiplied by a random factor of its place. So two lines of a process share a mark by chance only:
    one pair in 2^56 or fewer.
    """
    of_process = np.zeros(len(names), np.uint64)
    for number in np.unique(process).tolist():
        text = names[number].encode("utf-8", "surrogatepass")
        of_process[number] = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
    marks = of_process[process]
    longest = pc.max(pc.binary_length(lines)).as_py() or 0
    factors = np.random.PCG64(MARK_SEED).random_raw(longest + 1)
    for first in range(0, len(lines), MARKED_AT_ONCE):
        part = lines.slice(first, MARKED_AT_ONCE)
        _, starts, texts = part.buffers()
        offsets = np.frombuffer(starts, np.int32)[part.offset : part.offset + len(part) + 1].astype(np.int64)
        content = np.frombuffer(texts or b"", np.uint8)[offsets[0] : offsets[-1]]
        stop, length = offsets[1:] - offsets[0], np.diff(offsets)
        place = np.arange(len(content)) - np.repeat(stop - length, length)
        sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum((content + np.uint64(1)) * factors[place + 1])))
        # No line at all differs from a line with an empty name.
        no_line = part.is_null().to_numpy(zero_copy_only=False) * factors[0]
        marks[first : first + len(part)] += sums[stop] - sums[stop - length] + no_line
    return marks & ~AS_PARENT


def find_lines(rows: pa.Table, process: Ints, names: Sequence[str], *, always: bool = False) -> SegmentLines | None:
    """Find what the events of a segment follow in their processes; None if no row has a line.

    Then each event follows the one before in its process. `always`: return that as `SegmentLines`, and not None.

    `rows` are the reports of the events, in history order; `process` are their processes, numbers of `names`.
    """
    if not always and all(
        name not in rows.column_names or rows[name].null_count == len(rows) for name in ("line", "line_joins")
    ):
        return None
    numbered = _NumberedLines(rows, process)
    fronts = find_fronts(numbered.line_rows)
    crossing = [fronts.continued_line, fronts.begun_line, fronts.begun_parent, fronts.open_line]
    used = np.unique(np.concatenate(crossing))
    used = used[used != NONE]
    marks = np.zeros(numbered.line_rows.lines, np.uint64)
    marks[used] = _marks(names, *numbered.processes_and_names(used))
    server, client = numbered.servers(names)
    return SegmentLines(fronts.offsets, fronts.follows, fronts.lists, _line_ends(fronts, marks, server, client))


def _line_ends(fronts: Fronts, marks: Marks, server: Marks, client: Marks) -> LineEnds:
    """Replace numbers of lines by marks."""
    order = np.argsort(marks[fronts.open_line])
    before = fronts.begun_parent != NONE
    return LineEnds(
        fronts.continued_row,
        marks[fronts.continued_line] | np.where(fronts.continued_parent, AS_PARENT, np.uint64(0)),
        fronts.begun_row,
        marks[fronts.begun_line],
        fronts.begun_here,
        before,
        np.where(before, marks[fronts.begun_parent] | AS_PARENT, np.uint64(0)) if len(marks) else marks,
        server,
        client,
        marks[fronts.open_line][order],
        fronts.open_front[order],
        fronts.open_extends[order],
    )


class _NumberedLines:
    """Numbers for lines: one for each pair of process and line that a row is on, names as parent, or waited for."""

    def __init__(self, rows: pa.Table, process: Ints) -> None:
        line, parent, phase, kind = (_text(rows, name) for name in ("line", "line_parent", "line_phase", "kind"))
        waited, join_offsets = _lists(rows, "line_joins")
        texts = pa.concat_arrays([line, parent, waited]).dictionary_encode()
        self._texts = texts.dictionary
        codes: Longs = texts.indices.fill_null(NO_TEXT).to_numpy(zero_copy_only=False).astype(np.int64)
        own, parent_line, joins = np.split(codes, [len(line), 2 * len(line)])
        starts, ends = _is(phase, START), _is(phase, END)
        # A row that belongs to a span names its own line as the parent. The parent of a server is in another process.
        parent_line = np.where((parent_line == own) | (starts & _is(kind, RECEIVE)), NO_TEXT, parent_line)
        starts |= _is(phase, FIRST)
        self._width = len(self._texts) + 1
        of_joins = np.repeat(process, np.diff(join_offsets))
        has_parent = np.flatnonzero(parent_line != NO_TEXT)
        parent_pair = self._pairs_of(process, self._replace_by_servers(process, own, parent_line))[has_parent]
        pairs = np.concatenate((self._pairs_of(process, own), parent_pair, self._pairs_of(of_joins, joins)))
        self._pairs, numbers = np.unique(pairs, return_inverse=True)
        of_rows, of_parents, of_joined = np.split(
            numbers.astype(np.int64), [len(line), len(line) + len(has_parent)]
        )  # fmt: skip
        parents = np.full(len(line), NONE, np.int64)
        parents[has_parent] = of_parents
        self.line_rows = LineRows(of_rows, parents, starts, ends, join_offsets, of_joined, len(self._pairs))

    def _pairs_of(self, process: Ints, text: Longs) -> Longs:
        """Code pairs of process and text, or `NO_TEXT`, as numbers from 0; `processes_and_names` decodes them."""
        return process.astype(np.int64) * self._width + (text - NO_TEXT)

    def _replace_by_servers(self, process: Ints, own: Longs, parent_line: Longs) -> Longs:
        """Replace parents by the server that shares their id, if it has rows in the process and is not the row's line."""
        servers = pc.ends_with(self._texts, SHARED).to_numpy(zero_copy_only=False)
        if not servers.any():
            return parent_line
        client = pc.index_in(pc.utf8_slice_codeunits(self._texts, 0, -len(SHARED)), value_set=self._texts)
        # The last entry is for `NO_TEXT`.
        server_of = np.full(self._width, NO_TEXT, np.int64)
        clients = client.fill_null(NO_TEXT).to_numpy(zero_copy_only=False).astype(np.int64)
        chosen = np.flatnonzero(servers & (clients != NO_TEXT))
        server_of[clients[chosen]] = chosen
        server = server_of[parent_line]
        has_rows = np.isin(self._pairs_of(process, server), self._pairs_of(process, own)) & (server != NO_TEXT)
        return np.where(has_rows & (server != own), server, parent_line)

    def servers(self, names: Sequence[str]) -> tuple[Marks, Marks]:
        """Find the lines of servers that share an id and have rows; return their marks, ascending, and those of that id."""
        is_server = pc.fill_null(pc.ends_with(self._texts, SHARED), False).to_numpy(zero_copy_only=False)
        if not is_server.any():
            return np.empty(0, np.uint64), np.empty(0, np.uint64)
        present = np.unique(self.line_rows.line)
        process, texts = self.processes_and_names(present)
        chosen = np.flatnonzero(pc.fill_null(pc.ends_with(texts, SHARED), False).to_numpy(zero_copy_only=False))
        texts = texts.take(pa.array(chosen))
        clients = pc.utf8_slice_codeunits(texts, 0, -len(SHARED))
        server, client = _marks(names, process[chosen], texts), _marks(names, process[chosen], clients)
        order = np.argsort(server)
        return server[order], client[order]

    def processes_and_names(self, lines: Longs) -> tuple[Longs, pa.Array]:
        """Give the processes and names of lines."""
        process, text = np.divmod(self._pairs[lines], self._width)
        text += NO_TEXT
        return process, self._texts.take(pa.array(text, mask=text == NO_TEXT))


def _text(rows: pa.Table, name: str) -> Any:
    """Take a column as one array of strings; nulls if it is absent."""
    if name not in rows.column_names:
        return pa.nulls(len(rows), pa.string())
    column = rows[name].cast(pa.string()).combine_chunks()
    return pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column


def _lists(rows: pa.Table, name: str) -> tuple[Any, Longs]:
    """Take all texts of a column of lists; return them, and where those of each row start."""
    if name not in rows.column_names or rows[name].null_count == len(rows):
        return pa.array([], pa.string()), np.zeros(len(rows) + 1, np.int64)
    column = rows[name].combine_chunks()
    column = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    return column.flatten().cast(pa.string()), np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


def _is(values: Any, name: str) -> Flags:
    """Tell for each text whether it is this one; null is not."""
    same: Flags = pc.fill_null(pc.equal(values, name), False).to_numpy(zero_copy_only=False).astype(np.bool_)
    return same
