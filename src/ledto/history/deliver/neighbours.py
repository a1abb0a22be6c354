"""Find which rows of a computation a task must load, so that the results for its own segment are exact.

Numbers are ticks, of causal time unless something else is said. eps bounds the c of stamps.

- A *stamp* depends on rows within eps before (`ledto.causality.bounded_stamps`). A *delivery* depends on the rows within eps
  before it and in its own tick (`ledto.delivery.stamped`): on the counts kn of those in its own tick, if these decide which
  key is smaller, and only on r, c and the arrival of the others, which each row has by itself. So loading rows from eps
  before makes both right.
- An *inverted pair* is a cause e placed after its effect f. By time, ``time(f) <= time(e)``, so the two are within eps of
  each other: the rows within eps of a segment hold all causes and effects with which its rows are inverted in wall-clock
  order. The same holds under a policy, unless e arrives after it is due. Then it can be inverted with everything that was
  delivered meanwhile; the bounds of the blocks' delivery times say which blocks that may be.
- Every chain of causes from e to f lies between the two in history order. So the rows from the first of these blocks to the
  last show all causality among them, and vectors that count from the first of these rows are enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledto.delivery.policies import DeliveryRule
from ledto.delivery.stamped import wait_ticks
from ledto.history.deliver.rows import Blocks

Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class NearbyBlocks:
    """The blocks that a task needs, as places among the blocks of its computation."""

    exact: range
    """The blocks whose deliveries must be right."""
    loaded: range
    """The blocks that must be loaded for that."""
    too_far: dict[str, int]
    """Policies under which some inverted pairs reach further than a task may load, and how many rows that would take."""


@dataclass(frozen=True, slots=True, eq=False)
class Neighbourhood:
    """The blocks of one computation and their times."""

    blocks: Blocks
    first_lead: Longs
    """By block: the tick of the first causal time; with `prompt`, of the first time that a stamp depends on."""
    last_lead: Longs
    """By block: the tick of the last causal time."""
    eps: int
    """In ticks."""

    def around(self, own: range, *, before: int, after: int) -> range:
        """Find the blocks with any timed row from `before` ticks before these blocks to `after` ticks after them."""
        first, last = self.first_lead[own.start : own.stop].min(), self.last_lead[own.start : own.stop].max()
        if first > last:
            return own
        near = np.flatnonzero((self.last_lead >= first - before) & (self.first_lead <= last + after))
        return range(min(own.start, int(near[0])), max(own.stop, int(near[-1]) + 1))

    def loaded_for(self, exact: range) -> range:
        """Find the blocks that deliveries in these blocks depend on."""
        return self.around(exact, before=self.eps, after=0)

    def rows(self, chosen: range) -> int:
        """Count the rows of these blocks."""
        return int(self.blocks.rows[chosen.start : chosen.stop].sum())

    def block_of(self, positions: Longs) -> Longs:
        """Find the blocks that hold these positions."""
        return np.searchsorted(self.blocks.first_position, positions, side="right") - 1

    def reach(self, own: range, bounds: Mapping[str, tuple[Longs, Longs]], *, limit_rows: int) -> NearbyBlocks:
        """Find what a task needs for its `own` blocks. `bounds` has the `delivery_bounds` of each policy."""
        exact = self.around(own, before=self.eps, after=self.eps)
        too_far: dict[str, int] = {}
        first, stop = exact.start, exact.stop
        for name, (least, largest) in bounds.items():
            before = np.flatnonzero(largest[: own.start] >= least[own.start : own.stop].min())
            after = np.flatnonzero(least[own.stop :] <= largest[own.start : own.stop].max())
            wanted = range(
                min(exact.start, int(before[0]) if len(before) else own.start),
                max(exact.stop, own.stop + int(after[-1]) + 1 if len(after) else own.stop),
            )
            rows = self.rows(self.loaded_for(wanted))
            if wanted != exact and rows > limit_rows:
                too_far[name] = rows
            else:
                first, stop = min(first, wanted.start), max(stop, wanted.stop)
        exact = range(first, stop)
        return NearbyBlocks(exact, self.loaded_for(exact), too_far)


def neighbourhood_of(blocks: Blocks, *, eps_ticks: int, tick: int, prompt: int | None = None) -> Neighbourhood:
    """Make the neighbourhood of the blocks of one computation.

    Give `prompt`, the longest delay of a report that counts, if stamps are what an observer could know. An event's place may
    then be long after its time, while its stamp depends on rows near its time.
    """
    first = blocks.least_causal
    if prompt is not None:
        first = np.minimum(first, np.maximum(blocks.least_time, blocks.least_arrival - prompt))
    return Neighbourhood(blocks, first // tick, blocks.largest_causal // tick, eps_ticks)


def delivery_bounds(blocks: Blocks, rule: DeliveryRule, tick: int) -> tuple[Longs, Longs]:
    """Give for each block a tick before which, and one after which, none of its rows is delivered.

    `ledto.delivery.stamped` says why.
    """
    wait = wait_ticks(rule)
    least = np.maximum(blocks.least_arrival // tick, blocks.least_time // tick + wait)
    largest = np.maximum(blocks.largest_arrival // tick, blocks.largest_causal // tick + wait)
    return least, largest
