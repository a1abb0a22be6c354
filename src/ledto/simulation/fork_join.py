"""Draw histories of instances that fork and join (autonomous causality), as columns of operations without stamps.

Instances are numbered in the order they appear, from 0, the root. A fork or a join retires the instances it takes and
makes new ones: nothing here says how a clock should name them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ledto.events.columns import Ints
from ledto.kernels import kernel
from ledto.simulation.draws import below, seeded

EVENT, FORK, JOIN = range(3)
"""The values of `ForkJoin.kind`."""
_KIND, _TAKES, _TAKES_TOO, _GIVES, _GIVES_TOO = range(5)
NO_INSTANCE = -1
"""In a column of instances: none."""


class ForkJoin(NamedTuple):
    """Operations in the order they happened, as int64 columns.

    One literal row: ``kind=FORK takes=4 takes_too=-1 gives=9 gives_too=10``.
    """

    kind: Ints
    takes: Ints
    """The instance that acts; after an event it lives on."""
    takes_too: Ints
    """The other instance of a join, or `NO_INSTANCE`."""
    gives: Ints
    """The first new instance of a fork, the joined one, or `NO_INSTANCE`."""
    gives_too: Ints
    """The second new instance of a fork, or `NO_INSTANCE`."""


def fork_join(operations: int, live: int, seed: int, *, events: int = 2, forks: int = 1, joins: int = 1) -> ForkJoin:
    """Draw a history of so many operations in which at most `live` instances live at once.

    Events, forks and joins come in these proportions, as far as they are possible: a fork needs fewer than `live`
    instances and a join needs two; an impossible one becomes an event.
    """
    if operations < 0 or live < 1:
        raise ValueError(f"operations must be 0 or more and live 1 or more, not {operations} and {live}")
    if min(events, forks, joins) < 0 or not 0 < events + forks + joins < 1 << 31:
        proportions = (events, forks, joins)
        raise ValueError(
            f"events, forks and joins are proportions of 0 or more, one of them above 0, not {proportions}"
        )
    table = play(operations, live, events, forks, joins, seeded(seed))
    return ForkJoin(*(np.ascontiguousarray(table[:, column]) for column in range(table.shape[1])))


@kernel("int64[:, ::1](int64, int64, int64, int64, int64, uint64[::1])", work=lambda operations, *_: 20 * operations)
def play(operations: int, live: int, events: int, forks: int, joins: int, state: Any) -> Any:
    """Fill the rows of `ForkJoin`."""
    table = np.full((operations, _GIVES_TOO + 1), NO_INSTANCE, np.int64)
    alive = np.zeros(min(live, operations + 1), np.int64)
    count, next_instance = 1, 1
    for row in range(operations):
        place = below(state, count)
        table[row, _TAKES] = alive[place]
        choice = below(state, events + forks + joins)
        if choice < forks and count < live:
            table[row, _KIND] = FORK
            table[row, _GIVES], table[row, _GIVES_TOO] = next_instance, next_instance + 1
            alive[place], alive[count] = next_instance, next_instance + 1
            count += 1
            next_instance += 2
        elif forks <= choice < forks + joins and count > 1:
            other = below(state, count - 1)
            other += other >= place
            table[row, _KIND] = JOIN
            table[row, _TAKES_TOO], table[row, _GIVES] = alive[other], next_instance
            alive[place] = next_instance
            count -= 1
            alive[other] = alive[count]
            next_instance += 1
        else:
            table[row, _KIND] = EVENT
    return table
