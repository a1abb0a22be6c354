"""Which rows of a computation a segment's task must load so that what it says of its own rows is exact.

All numbers are ticks, of causal time where nothing else is said, and eps bounds c.

- *Stamps* depend on rows within eps before (`ledto.causality.bounded_stamps`). A *delivery* depends on the rows within
  eps before it and in its own tick (`ledto.delivery.stamped`): on the counts kn of those in its own tick, where these
  decide which key is smaller, and on no more than r, c and the arrival of the others, which each row shows by itself. So
  rows from eps before make both right.
- An *inverted pair* is a cause e placed after its effect f. By time, ``time(f) <= time(e)``, so the two lie within eps of
  each other: the rows within eps of a segment hold all causes and effects with which its rows are inverted in
  wall-clock order. Under a policy that is so, too, unless e arrives after it is due: then it can be inverted with whatever
  was delivered meanwhile, and the bounds of the blocks' delivery times tell which blocks that may be.
- Every chain of causes from e to f lies between the two in history order. So among the rows from the first block to the
  last of these, causality shows in these rows alone: vectors that count from the first of them are enough.
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
    """Blocks of a computation, by number."""

    exact: range
    """Their deliveries must be right."""
    loaded: range
    """What that needs."""
    too_far: dict[str, int]
    """Policies under which some pairs reach further than may be loaded, and how many rows that would take."""


@dataclass(frozen=True, slots=True, eq=False)
class Neighbourhood:
    """The blocks of one computation and where they lie in time."""

    blocks: Blocks
    first_lead: Longs
    last_lead: Longs
    eps: int

    def around(self, own: range, *, before: int, after: int) -> range:
        """The blocks that hold any timed row from `before` ticks before these blocks to `after` ticks after them."""
        first, last = self.first_lead[own.start : own.stop].min(), self.last_lead[own.start : own.stop].max()
        if first > last:
            return own
        near = np.flatnonzero((self.last_lead >= first - before) & (self.first_lead <= last + after))
        return range(min(own.start, int(near[0])), max(own.stop, int(near[-1]) + 1))

    def loaded_for(self, exact: range) -> range:
        """The blocks that deliveries in these blocks depend on."""
        return self.around(exact, before=self.eps, after=0)

    def rows(self, chosen: range) -> int:
        """How many rows these blocks have."""
        return int(self.blocks.rows[chosen.start : chosen.stop].sum())

    def block_of(self, positions: Longs) -> Longs:
        """The blocks that hold these positions."""
        return np.searchsorted(self.blocks.first_position, positions, side="right") - 1

    def reach(self, own: range, bounds: Mapping[str, tuple[Longs, Longs]], *, limit_rows: int) -> NearbyBlocks:
        """What a task needs for its `own` blocks, given each policy's bounds of the delivery times (`delivery_bounds`)."""
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


def chain(blocks: Blocks, *, eps_ticks: int, tick: int, prompt: int | None = None) -> Neighbourhood:
    """The blocks of one computation's segments.

    Where stamps are what was known (`prompt`: the longest that a report which counts took), an event's place may be long
    after its time, and what its stamp depends on is near its time.
    """
    first = blocks.least_causal
    if prompt is not None:
        first = np.minimum(first, np.maximum(blocks.least_time, blocks.least_arrival - prompt))
    return Neighbourhood(blocks, first // tick, blocks.largest_causal // tick, eps_ticks)


def delivery_bounds(blocks: Blocks, rule: DeliveryRule, tick: int) -> tuple[Longs, Longs]:
    """By block: times before and after which none of its rows is delivered (`ledto.delivery.stamped` says why)."""
    wait = wait_ticks(rule)
    least = np.maximum(blocks.least_arrival // tick, blocks.least_time // tick + wait)
    largest = np.maximum(blocks.largest_arrival // tick, blocks.largest_causal // tick + wait)
    return least, largest
