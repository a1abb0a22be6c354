"""Cycles among rows that could not be placed: contradictions in the input, since nothing precedes itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whence.kernels import kernel

Longs = NDArray[np.int64]


@kernel("int64[::1](int64[::1], int64[::1], int64[::1], boolean[::1])")
def strongly_connected(starts: Longs, offsets: Longs, causes: Longs, placed: NDArray[np.bool_]) -> Longs:
    """By row: the number of its strongly connected component among the rows not placed; -1 for placed rows.

    Tarjan's algorithm without recursion, on the graph from each row to its causes and to the row before it.
    """
    rows = len(placed)
    before = np.full(rows, -1, np.int64)
    for process in range(len(starts) - 1):
        for row in range(starts[process] + 1, starts[process + 1]):
            before[row] = row - 1
    component = np.full(rows, -1, np.int64)
    number = np.full(rows, -1, np.int64)
    low = np.zeros(rows, np.int64)
    path = np.empty(rows, np.int64)
    next_edge = np.zeros(rows, np.int64)
    pending = np.empty(rows, np.int64)
    waiting = 0
    numbered = 0
    components = 0
    for root in range(rows):
        if placed[root] or number[root] >= 0:
            continue
        depth = 1
        path[0] = root
        number[root] = low[root] = numbered
        numbered += 1
        pending[waiting] = root
        waiting += 1
        next_edge[root] = offsets[root] - 1
        while depth:
            row = path[depth - 1]
            if next_edge[row] < offsets[row + 1]:
                at = next_edge[row]
                next_edge[row] += 1
                cause = before[row] if at < offsets[row] else causes[at]
                if cause < 0 or placed[cause]:
                    continue
                if number[cause] < 0:
                    number[cause] = low[cause] = numbered
                    numbered += 1
                    pending[waiting] = cause
                    waiting += 1
                    next_edge[cause] = offsets[cause] - 1
                    path[depth] = cause
                    depth += 1
                elif component[cause] < 0:
                    low[row] = min(low[row], number[cause])
                continue
            depth -= 1
            if depth:
                low[path[depth - 1]] = min(low[path[depth - 1]], low[row])
            if low[row] == number[row]:
                while True:
                    waiting -= 1
                    member = pending[waiting]
                    component[member] = components
                    if member == row:
                        break
                components += 1
    return component
