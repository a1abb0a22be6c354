"""The logical time-stamp program of the observer paper (Figure 1) on arrays, with vector clocks for the truth.

All stamps of a run are rows of one table, in two arrays: first the latest of each process, then those of messages.

- ``heads``, int64: sender, seq, r, and the largest known reading, which is r + c;
- ``bodies``, int32: a ring with the number of known events at each reading, then the vector clock, which counts
  messages.

Readings in the ring are *absolute* (a reading is at ``reading & mask``), not relative to the process's clock as in
Figure 1, so nothing is shifted at a tick. Only the `width` readings from r + c downwards that `less` compares are kept;
lower ones are never compared again, because r + c never falls. The ring's length is a power of two; `mask` is 1 less.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ledto.kernels import inlined

SENDER, SEQ, R, HIGH, HOLDERS, NEXT_SPARE = range(6)
"""The columns of ``heads``; the last two belong to `ledto.simulation.flight`."""


class StampedRowArrays(NamedTuple):
    """Output columns; see `ledto.events.columns`."""

    process: Any
    seq: Any
    r: Any
    c: Any
    kn: Any
    arrival: Any
    vector: Any


def new_rows(count: int, processes: int, width: int) -> StampedRowArrays:
    """Allocate room for `count` reports."""
    return StampedRowArrays(
        np.empty(count, np.int32),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.empty(count, np.int32),
        np.empty((count, width), np.int32),
        np.empty(count, np.int64),
        np.empty((count, processes), np.int32),
    )


def row_types(types: Any) -> Any:
    """Return the type of `StampedRowArrays` in a signature."""
    numbers, longs, table = types.int32[::1], types.int64[::1], types.int32[:, ::1]
    return types.NamedTuple((numbers, longs, longs, numbers, table, longs, table), StampedRowArrays)


def ring_length(width: int) -> int:
    """Return the power of two that holds `width` entries."""
    return 1 << (width - 1).bit_length()


@inlined
def new_heads(processes: int, slots: int) -> Any:
    """Make Figure 1's initial state: every clock reads 0."""
    return np.zeros((processes + slots, 6), np.int64)


@inlined
def new_bodies(processes: int, slots: int, mask: int) -> Any:
    """Make Figure 1's initial state: each process knows of one event at reading 0."""
    bodies = np.zeros((processes + slots, mask + 1 + processes), np.int32)
    bodies[:processes, 0] = 1
    return bodies


@inlined
def raise_to(heads: Any, bodies: Any, process: int, reading: int, mask: int) -> None:
    """Raise the largest known reading; no events are known at the readings that this adds."""
    high = heads[process, HIGH]
    if reading > high:
        for opened in range(max(high + 1, reading - mask), reading + 1):
            bodies[process, opened & mask] = 0
        heads[process, HIGH] = reading


@inlined
def merge_stamp(heads: Any, bodies: Any, process: int, message: int, width: int, mask: int) -> None:
    """Merge a received message's stamp. Count its event separately, by `count_event`."""
    vector = mask + 1
    if bodies[process, vector + heads[message, SENDER]] >= heads[message, SEQ]:
        return  # Its send is in the process's past already, and so is all that its stamp says.
    top = heads[message, HIGH]
    raise_to(heads, bodies, process, top, mask)
    for reading in range(heads[process, HIGH] - width + 1, top + 1):
        column = reading & mask
        bodies[process, column] = max(bodies[process, column], bodies[message, column])
    for column in range(vector, bodies.shape[1]):
        bodies[process, column] = max(bodies[process, column], bodies[message, column])


@inlined
def count_event(bodies: Any, process: int, reading: int, mask: int) -> None:
    """Count one more event at this reading, which lies less than `width` below the highest known one."""
    bodies[process, reading & mask] += 1


@inlined
def stamp(heads: Any, bodies: Any, process: int, reading: int, message: int, mask: int) -> None:
    """Number a send and write its stamp into the message's row."""
    own_count = mask + 1 + process
    bodies[process, own_count] += 1
    heads[message, SENDER] = process
    heads[message, SEQ] = bodies[process, own_count]
    heads[message, R] = reading
    heads[message, HIGH] = heads[process, HIGH]
    for column in range(bodies.shape[1]):
        bodies[message, column] = bodies[process, column]


@inlined
def report(heads: Any, bodies: Any, message: int, arrival: int, rows: Any, row: int, mask: int) -> None:
    """Write a message's stamp, ``kn`` in the order of `less`, as the row of a report."""
    high = heads[message, HIGH]
    rows.process[row] = heads[message, SENDER]
    rows.seq[row] = heads[message, SEQ]
    rows.r[row] = heads[message, R]
    rows.c[row] = high - heads[message, R]
    for lower in range(rows.kn.shape[1]):
        rows.kn[row, lower] = bodies[message, (high - lower) & mask]
    rows.arrival[row] = arrival
    for process in range(rows.vector.shape[1]):
        rows.vector[row, process] = bodies[message, mask + 1 + process]
