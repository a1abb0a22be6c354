"""Find the past of one event, or its future, part by part, without vector clocks.

A sweep keeps little between parts: the processes it has reached and, for the past, the sends it has not met yet. So it can
run over row groups and over segments one by one, and stop as soon as it has enough. Give it all parts of the computation, in
order; segments of other computations may be left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ledto.causality.boundary import Boundary
from ledto.causality.skeleton import NO_EDGES, NO_ROWS, Flags, Longs, Skeleton, longs
from ledto.causality.sweep_loops import NOT_YET, NOTHING_SKIPPED, future_rows, past_rows

NO_LIMIT = np.iinfo(np.int64).max
ALL_WANTED: Flags = np.empty(0, np.uint8)
"""In place of flags by row: all rows are wanted."""


class PastSweep:
    """A search backward from one event for the rows that happened before it. Parts come newest first.

    `start_position` is the event's own; parts after it may be left out. With a `limit`, the sweep ends when that many rows
    were found.
    """

    def __init__(self, processes: int, start_position: int, *, limit: int | None = None) -> None:
        self._start = start_position
        self._room = NO_LIMIT if limit is None else limit
        self._below = NO_LIMIT
        self._reached = np.zeros(processes, np.uint8)
        self._visited = np.zeros(processes, np.int64)
        self._unreached = processes
        self._sends = np.array([start_position], np.int64)
        self._distinct = 1
        self._marked: Flags = np.zeros(0, np.uint8)
        self._found = NO_ROWS

    @property
    def done(self) -> bool:
        """Whether nothing more can be found, or the limit is met."""
        return self._room <= 0 or not (len(self._sends) or self._reached.any())

    @property
    def reached(self) -> NDArray[np.bool_]:
        """By process: whether all of its events before the parts so far are in the past."""
        return self._reached.astype(np.bool_)

    @property
    def sends(self) -> Longs:
        """Positions of sends before the parts so far that are in the past, ascending; other events there may be, too."""
        self._sends = np.unique(self._sends)
        return self._sends

    def step(
        self,
        part: Skeleton,
        first_position: int,
        *,
        edges_across: tuple[Longs, Longs] = NO_EDGES,
        wanted: NDArray[np.bool_] | None = None,
    ) -> Longs:
        """Find the rows of the next part that happened before the event, ascending.

        `first_position` is the position of the part's first row. `edges_across` are causes before the part's segment: rows
        of the part, ascending, and positions of their causes. Rows that are not `wanted` are followed, but not returned and
        not counted.

        If the limit is met, the rows nearest to the event are returned: the last in history order. Raises `ValueError` if
        parts come in the wrong order or one is missing.
        """
        if self.done:
            return NO_ROWS
        rows, positions = _checked_edges(part, first_position, len(self._reached), edges_across)
        if first_position + len(part) > self._below:
            raise ValueError(
                f"parts come newest first: this one ends before position {first_position + len(part)}, "
                f"the last began at {self._below}"
            )
        if self._sends.max(initial=-1) >= first_position + len(part):
            raise ValueError(
                f"position {self._sends.max()} is in the past and was passed over: this part ends before "
                f"{first_position + len(part)}. Give every part of the computation from the event's own on"
            )
        if len(self._marked) <= len(part):
            self._marked, self._found = np.zeros(len(part) + 1, np.uint8), np.empty(len(part), np.int64)
        below = len(part.back) if part.reach_below else 0
        sends = np.empty(len(self._sends) + len(positions) + below + 1, np.int64)
        count, send_count, self._unreached = past_rows(
            part.process,
            part.offsets,
            part.back,
            first_position,
            rows,
            positions,
            _wanted(part, wanted),
            self._room,
            self._start,
            self._reached,
            self._visited,
            self._unreached,
            self._sends,
            self._marked,
            self._found,
            sends,
        )
        self._below = first_position
        self._room -= count
        self._sends = sends[:send_count].copy()
        if send_count > 2 * self._distinct + 1024:
            self._distinct = len(self.sends)
        return self._found[len(part) - count : len(part)].copy()

    def forget_exhausted(self, before: Longs) -> None:
        """Stop searching for processes that have no events before the current segment; `before` counts events by process."""
        self._reached[before == 0] = 0
        self._unreached = int(((before > 0) & (self._reached == 0)).sum())

    def vector(self, boundary: Boundary) -> Longs:
        """Compute the event's vector clock, int64[P], from the boundary of its own segment, whose rows have been swept."""
        sends = self.sends
        places = np.searchsorted(boundary.send_position, sends)
        if len(sends) and not (
            places[-1] < len(boundary.send_position) and np.array_equal(boundary.send_position[places], sends)
        ):
            raise ValueError(
                "the boundary does not have the sends that the sweep has yet to meet: take the vector at the start of the "
                "event's own segment, after its first row"
            )
        if self._room <= 0:
            raise ValueError("a sweep that met its limit has not seen the whole past: take the vector without a limit")
        past = np.where(self._visited > 0, boundary.before + self._visited, 0)
        if boundary.starts:
            return past
        for known in (boundary.known.take(np.flatnonzero(self._reached)), boundary.send_known.take(places)):
            np.maximum.at(past, known.process, known.count.astype(np.int64))
        return past


class Edge(NamedTuple):
    """One step from a cause to its effect, as positions in the history."""

    cause: int
    effect: int
    message: bool
    """Whether a message went from one to the other. If not, both are of one process, and other events may lie between."""


class FutureSweep:
    """A search forward from one event for the rows that it happened before, and how each process first heard of it.

    Parts come oldest first; those before the event's own may be left out. With a `limit`, the sweep ends when that many rows
    were found. Memory is one bit per row, until every process is reached.
    """

    def __init__(self, processes: int, start_position: int, *, limit: int | None = None) -> None:
        self._start = start_position
        self._room = NO_LIMIT if limit is None else limit
        self._end = 0
        # By process: the position of its first row in the future, of the message that this row received, and its sender.
        self._entered = np.full(processes, NOT_YET, np.int64)
        self._through = np.full(processes, NOT_YET, np.int64)
        self._through_process = np.full(processes, NOT_YET, np.int32)
        # By part: its first position, its end, and where its bits start.
        self._parts: list[tuple[int, int, int]] = []
        self._bits: Flags = np.empty(1024, np.uint8)
        self._bytes = 0
        self._inside: Flags = np.empty(0, np.uint8)
        self._found = NO_ROWS

    @property
    def complete(self) -> bool:
        """Whether every process is reached: all later events are in the future."""
        return bool((self._entered >= 0).all())

    @property
    def done(self) -> bool:
        """Whether the limit is met."""
        return self._room <= 0

    @property
    def entered(self) -> Longs:
        """int64[P]: the position of each process's first event in the future, start included; -1 for none so far."""
        return self._entered.copy()

    def step(
        self,
        part: Skeleton,
        first_position: int,
        *,
        edges_across: tuple[Longs, Longs] = NO_EDGES,
        wanted: NDArray[np.bool_] | None = None,
    ) -> Longs:
        """Find the rows of the next part that the event happened before, ascending. Arguments are those of `PastSweep.step`.

        If the limit is met, the first rows are returned. Raises `ValueError` if parts come in the wrong order or one is
        missing.
        """
        if self.done or first_position + len(part) <= self._start:
            return NO_ROWS
        rows, positions = _checked_edges(part, first_position, len(self._entered), edges_across)
        if first_position < self._end:
            raise ValueError(
                f"parts come oldest first: this one begins at position {first_position}, the last ended before {self._end}"
            )
        if first_position > self._start and (self._entered < 0).all():
            raise ValueError(
                f"the first part begins at position {first_position}: start with the one that holds {self._start}"
            )
        if len(self._inside) < len(part):
            self._inside, self._found = np.empty(len(part), np.uint8), np.empty(len(part), np.int64)
        firsts, ends, starts = np.array(self._parts, np.int64).reshape(-1, 3).T.copy()
        count, skipped = future_rows(
            part.process,
            part.offsets,
            part.back,
            first_position,
            rows,
            positions,
            _wanted(part, wanted),
            self._room,
            self._start,
            self._entered,
            self._through,
            self._through_process,
            firsts,
            ends,
            starts,
            self._bits,
            self._inside,
            self._found,
        )
        if skipped != NOTHING_SKIPPED:
            raise ValueError(
                f"a cause at position {skipped} was passed over: give every part of the computation from the event's on"
            )
        self._room -= count
        self._end = first_position + len(part)
        self._remember(part, first_position)
        return self._found[:count].copy()

    def path(self, position: int, process: int, *, process_of: Callable[[int], int] | None = None) -> list[Edge] | None:
        """List the steps by which the event led to the one at this position, of this process.

        Each message is the first by which its receiver heard of the event; of several received at once, the one sent first.
        So the path does not depend on how the history is cut. `None` if the event did not happen before the other; an empty
        list from the event to itself.

        `process_of` gives the process of a position. It is called for senders in other parts than the receiver's, at most
        once per process. Raises `LookupError` if it is needed and not given.
        """
        if position >= self._end:
            raise ValueError(f"position {position} was not reached yet: the parts so far end before {self._end}")
        if not NOT_YET < self._entered[process] <= position:
            return None
        steps: list[Edge] = []
        while position != self._start:
            entered, through = int(self._entered[process]), int(self._through[process])
            if entered < position:
                steps.append(Edge(entered, position, message=False))
            if through != NOT_YET:
                steps.append(Edge(through, entered, message=True))
                process = self._sender(process, process_of)
            position = through if through != NOT_YET else self._start
        return steps[::-1]

    def _sender(self, process: int, process_of: Callable[[int], int] | None) -> int:
        """Find the process that sent the message by which this one first heard of the event."""
        if self._through_process[process] == NOT_YET:
            position = int(self._through[process])
            if process_of is None:
                raise LookupError(f"the process of position {position} is needed for the path: pass process_of")
            self._through_process[process] = process_of(position)
        return int(self._through_process[process])

    def _remember(self, part: Skeleton, first_position: int) -> None:
        """Keep which rows are in the future, unless every process is reached: then nothing will ask."""
        if self.complete:
            return
        packed = np.packbits(self._inside[: len(part)], bitorder="little")
        if self._bytes + len(packed) > len(self._bits):
            larger = np.empty(2 * (self._bytes + len(packed)), np.uint8)
            larger[: self._bytes] = self._bits[: self._bytes]
            self._bits = larger
        self._bits[self._bytes : self._bytes + len(packed)] = packed
        self._parts.append((first_position, first_position + len(part), 8 * self._bytes))
        self._bytes += len(packed)


def _checked_edges(
    part: Skeleton, first_position: int, processes: int, edges: tuple[Longs, Longs]
) -> tuple[Longs, Longs]:
    """Convert the edges to the kernels' types. Raises `ValueError` if they do not fit the part, or the part the sweep."""
    if part.highest_process >= processes:
        raise ValueError(f"the part has process {part.highest_process}; the sweep, {processes}")
    rows, positions = longs(edges[0]), longs(edges[1])
    if rows.shape != positions.shape:
        raise ValueError(
            f"edges across are pairs of row and position, not {len(rows)} rows and {len(positions)} positions"
        )
    if len(rows) and (rows[0] < 0 or rows[-1] >= len(part) or (np.diff(rows) < 0).any()):
        raise ValueError(f"rows of edges across ascend within the part's {len(part)} rows")
    if len(rows) and positions.max() >= first_position:
        raise ValueError(
            f"a cause at position {positions.max()} is not before the part, which starts at {first_position}"
        )
    return rows, positions


def _wanted(part: Skeleton, wanted: NDArray[np.bool_] | None) -> Flags:
    """Convert to the kernels' type, in which an empty array means all rows."""
    if wanted is None:
        return ALL_WANTED
    if wanted.shape != (len(part),) or wanted.dtype != np.bool_:
        raise ValueError(f"wanted is a truth value for each of {len(part)} rows, not {wanted.dtype} {wanted.shape}")
    return np.ascontiguousarray(wanted).view(np.uint8)
