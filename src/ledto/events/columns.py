"""Stamped reports and their truth as NumPy columns, for the kernels of delivery and measures.

One literal record, the first row of each column of `ReportArrays`::

    process=3  seq=17  r=120  c=2  kn=[4, 1, 0, ...]  arrival=127

says: process 3 sent its 17th message when its clock read 120, with ``c = 2``; it knew of 4 events at reading 122 and of
1 at 121. The report arrived when the observer's own clock read 127.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, slots=True)
class ReportArrays:
    """Messages as the observer received them, in any row order; all clock readings in one unit (ticks)."""

    process: Ints
    """int32: the sender, 0 <= process < processes."""
    seq: Ints
    """int64: the message's number among its sender's messages, from 1."""
    r: Ints
    """int64: the sender's physical clock at the send."""
    c: Ints
    """int32: how far the largest clock reading that the sender knew of was ahead of r."""
    kn: Ints
    """int32, two-dimensional: ``kn[:, i]`` is the stamp's ``kn[c - i]``, the elements in the order `less` compares
    them."""
    arrival: Ints
    """int64: the observer's clock when the report arrived."""

    def __len__(self) -> int:
        return len(self.process)


@dataclass(frozen=True, slots=True)
class TrueOrder:
    """True happened-before among the same rows, by vector clocks that count messages only.

    Row a happened before row b iff ``vector[b, process[a]] >= seq[a]`` and a is not b.
    """

    process: Ints
    seq: Ints
    vector: Ints
    """int32, two-dimensional: how many messages of each process were sent in the row's causal past, its own send
    included."""
