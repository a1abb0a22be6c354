"""The lines of a segment, from the rows it was made of: what its events follow in their own processes.

Lines go by a *mark* of 64 bits, made of the process and the line, so that segments need not agree on numbers for them.
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

from ledto.causality.lines import Fronts, LineRows, Lists, find_fronts
from ledto.causality.skeleton import Ints, Longs
from ledto.events.schema import END, FIRST, RECEIVE, START

Flags = NDArray[np.bool_]
Marks = NDArray[np.uint64]

MARK_SEED = 6
"""Marks are stored: another seed would be another format."""
MARKED_AT_ONCE = 1 << 16
AS_PARENT = np.uint64(1 << 63)
"""Is added to the mark of a line that another was started from: a server that shares its id counts in place of that."""
SHARED = "/server"
"""Ends the line of a server that shares the id of its client's span, as Zipkin's may."""


@dataclass(frozen=True, slots=True, eq=False)
class LineEnds:
    """The lines that cross the ends of a segment: what is stored beside its skeleton.

    References are those of `ledto.causality.lines`.
    """

    continued_row: Longs
    """Rows, ascending, that also follow what a line was before the segment ..."""
    continued_mark: Marks
    """... the line of this mark, and `AS_PARENT` where theirs was started from that."""
    begun_row: Longs
    """Rows, ascending, that name the line which theirs was started from, if theirs was nothing before the segment ..."""
    begun_mark: Marks
    """... their line ..."""
    begun_here: Flags
    """... whether the first thing that they follow in the segment is of the line that they name ..."""
    begun_before: Flags
    """... and whether they follow what that was before the segment, too ..."""
    begun_parent: Marks
    """... by its mark and `AS_PARENT`."""
    server_mark: Marks
    """Lines of servers that share the id of their client's span and have events here, ascending ..."""
    client_mark: Marks
    """... and the lines of that id in the same process."""
    open_mark: Marks
    """Lines that later segments may go on with or wait for, ascending ..."""
    open_front: Longs
    """... a reference to what their next event follows ..."""
    open_extends: Flags
    """... besides what the line was before the segment."""


@dataclass(frozen=True, slots=True, eq=False)
class SegmentLines:
    """What the rows of a segment follow in their own process, by row: recorded causes besides messages."""

    offsets: Longs
    follows: Longs
    """Row i follows what the references ``follows[offsets[i]:offsets[i + 1]]`` say."""
    lists: Lists
    ends: LineEnds


@lru_cache(maxsize=10_000)
def mark_of(process: str, line: str | None) -> int:
    """The mark of a line; None for what a process does on no line."""
    return int(_marks([process], np.zeros(1, np.int64), pa.array([line], pa.string()))[0])


def _marks(names: Sequence[str], process: Longs, lines: pa.Array) -> Marks:
    """The marks of lines of processes, which are numbers of `names`.

    Each byte of a line counts by a factor that its place has, so that two lines of a process share a mark by chance only:
    one pair in 2^56 or fewer.
    """
    of_process = np.zeros(len(names), np.uint64)
    for number in np.unique(process).tolist():
        text = names[number].encode("utf-8", "surrogatepass")
        of_process[number] = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
    found = of_process[process]
    longest = pc.max(pc.binary_length(lines)).as_py() or 0
    factors = np.random.PCG64(MARK_SEED).random_raw(longest + 1)
    for first in range(0, len(lines), MARKED_AT_ONCE):
        part = lines.slice(first, MARKED_AT_ONCE)
        _, starts, texts = part.buffers()
        offsets = np.frombuffer(starts, np.int32)[part.offset : part.offset + len(part) + 1].astype(np.int64)
        content = np.frombuffer(texts or b"", np.uint8)[offsets[0] : offsets[-1]]
        stop, length = offsets[1:] - offsets[0], np.diff(offsets)
        place = np.arange(len(content)) - np.repeat(stop - length, length)
        # No line at all is another than one without a name.
        sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum((content + np.uint64(1)) * factors[place + 1])))
        none = part.is_null().to_numpy(zero_copy_only=False) * factors[0]
        found[first : first + len(part)] += sums[stop] - sums[stop - length] + none
    return found & ~AS_PARENT


def lines_of(rows: pa.Table, process: Ints, names: Sequence[str], *, always: bool = False) -> SegmentLines | None:
    """Find what the events of a segment follow; None where no row tells of a line: then each follows the one before.

    `always`: gives no None, but lines that say so.

    `rows` are the reports of the events, in history order, `process` their processes, which are numbers of `names`.
    """
    if not always and all(
        name not in rows.column_names or rows[name].null_count == len(rows) for name in ("line", "line_joins")
    ):
        return None
    coded = _Coded(rows, process)
    found = find_fronts(coded.line_rows)
    named = [found.continued_line, found.begun_line, found.begun_parent, found.open_line]
    used = np.unique(np.concatenate(named))
    used = used[used >= 0]
    marks = np.zeros(coded.line_rows.lines, np.uint64)
    marks[used] = _marks(names, *coded.named(used))
    server, client = coded.servers(names)
    return SegmentLines(found.offsets, found.follows, found.lists, _line_ends(found, marks, server, client))


def _line_ends(found: Fronts, marks: Marks, server: Marks, client: Marks) -> LineEnds:
    order = np.argsort(marks[found.open_line])
    before = found.begun_parent >= 0
    return LineEnds(
        found.continued_row,
        marks[found.continued_line] | np.where(found.continued_parent, AS_PARENT, np.uint64(0)),
        found.begun_row,
        marks[found.begun_line],
        found.begun_here,
        before,
        np.where(before, marks[found.begun_parent] | AS_PARENT, np.uint64(0)) if len(marks) else marks,
        server,
        client,
        marks[found.open_line][order],
        found.open_front[order],
        found.open_extends[order],
    )


class _Coded:
    """Lines as numbers: one for each process and line that a row is on, was started from, or waited for."""

    def __init__(self, rows: pa.Table, process: Ints) -> None:
        line, parent, phase, kind = (_text(rows, name) for name in ("line", "line_parent", "line_phase", "kind"))
        waited, join_offsets = _lists(rows, "line_joins")
        texts = pa.concat_arrays([line, parent, waited]).dictionary_encode()
        self._texts = texts.dictionary
        codes: Longs = texts.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        own, started_from, joins = np.split(codes, [len(line), 2 * len(line)])
        starts, ends = _is(phase, START), _is(phase, END)
        # A row that belongs to a span which another starts names itself; a server was started in another process.
        started_from = np.where((started_from == own) | (starts & _is(kind, RECEIVE)), -1, started_from)
        starts |= _is(phase, FIRST)
        self._width = len(self._texts) + 1
        of_joins = np.repeat(process, np.diff(join_offsets)).astype(np.int64)
        shared = self._shared(process, own, started_from)
        pairs = np.concatenate(
            (
                process.astype(np.int64) * self._width + own + 1,
                np.where(started_from >= 0, process.astype(np.int64) * self._width + shared + 1, -1),
                of_joins * self._width + joins + 1,
            )
        )
        self._pairs, numbers = np.unique(pairs, return_inverse=True)
        # The first pair is that of no parent, where there is one.
        none = int(len(self._pairs) > 0 and self._pairs[0] < 0)
        self._pairs, numbers = self._pairs[none:], numbers - none
        of_rows, of_parents, of_joined = np.split(numbers.astype(np.int64), [len(line), 2 * len(line)])
        self.line_rows = LineRows(of_rows, of_parents, starts, ends, join_offsets, of_joined, len(self._pairs))

    def _shared(self, process: Ints, own: Longs, started_from: Longs) -> Longs:
        """The parents, of which those that are only there as a server that shares its client's id are that server."""
        servers = pc.ends_with(self._texts, SHARED).to_numpy(zero_copy_only=False)
        if not servers.any():
            return started_from
        client = pc.index_in(pc.utf8_slice_codeunits(self._texts, 0, -len(SHARED)), value_set=self._texts)
        server_of = np.full(self._width, -1, np.int64)
        clients = client.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        chosen = np.flatnonzero(servers & (clients >= 0))
        server_of[clients[chosen]] = chosen
        pairs = np.unique(process.astype(np.int64) * self._width + own + 1)
        instead = server_of[started_from]
        there = np.isin(process.astype(np.int64) * self._width + instead + 1, pairs) & (instead >= 0)
        return np.where(there & (instead != own), instead, started_from)

    def servers(self, names: Sequence[str]) -> tuple[Marks, Marks]:
        """The marks, ascending, of lines of servers that share an id and have rows, and of the lines of that id."""
        is_server = pc.fill_null(pc.ends_with(self._texts, SHARED), False).to_numpy(zero_copy_only=False)
        if not is_server.any():
            return np.empty(0, np.uint64), np.empty(0, np.uint64)
        present = np.unique(self.line_rows.line)
        process, texts = self.named(present)
        chosen = np.flatnonzero(pc.fill_null(pc.ends_with(texts, SHARED), False).to_numpy(zero_copy_only=False))
        texts = texts.take(pa.array(chosen))
        clients = pc.utf8_slice_codeunits(texts, 0, -len(SHARED))
        server, client = _marks(names, process[chosen], texts), _marks(names, process[chosen], clients)
        order = np.argsort(server)
        return server[order], client[order]

    def named(self, lines: Longs) -> tuple[Longs, pa.Array]:
        """The processes and names of some lines."""
        pairs = self._pairs[lines]
        return pairs // self._width, self._texts.take(pa.array(pairs % self._width - 1, mask=pairs % self._width == 0))


def _text(rows: pa.Table, name: str) -> Any:
    if name not in rows.column_names:
        return pa.nulls(len(rows), pa.string())
    column = rows[name].cast(pa.string()).combine_chunks()
    return pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column


def _lists(rows: pa.Table, name: str) -> tuple[Any, Longs]:
    """All texts of a column of lists, and where those of each row start."""
    if name not in rows.column_names or rows[name].null_count == len(rows):
        return pa.array([], pa.string()), np.zeros(len(rows) + 1, np.int64)
    column = rows[name].combine_chunks()
    column = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    return column.flatten().cast(pa.string()), np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


def _is(values: Any, name: str) -> Flags:
    found: Flags = pc.fill_null(pc.equal(values, name), False).to_numpy(zero_copy_only=False).astype(np.bool_)
    return found
