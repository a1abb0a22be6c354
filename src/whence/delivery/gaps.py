"""Messages known to be missing before each delivery, for deliveries held as columns.

The same as `Delivery.missing` of the observer, as a count: how many numbers lie between the sender's highest message
delivered so far and this one. Deliveries computed by spans of time need the highest numbers of the spans before; take
the maximum of theirs, per sender.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whence.events.columns import Ints
from whence.kernels import kernel

Longs = NDArray[np.int64]


def missing_before(process: Ints, seq: Ints, *, highest: Longs | None = None) -> tuple[Longs, Longs]:
    """``(missing, highest)`` for messages in delivery order: the count of each, and the highest numbers after all.

    `highest` holds, by sender, the highest number delivered before these rows; nothing was delivered if it is not
    given.
    """
    senders = int(process.max()) + 1 if len(process) else 0
    after = np.zeros(max(senders, 0 if highest is None else len(highest)), np.int64)
    if highest is not None:
        after[: len(highest)] = highest
    missing = np.empty(len(process), np.int64)
    count_missing(np.ascontiguousarray(process, np.int32), np.ascontiguousarray(seq, np.int64), after, missing)
    return missing, after


@kernel("void(int32[::1], int64[::1], int64[::1], int64[::1])")
def count_missing(process: NDArray[np.int32], seq: Longs, highest: Longs, missing: Longs) -> None:
    """Fill `missing`, raising `highest` on the way."""
    for row in range(len(process)):
        have = highest[process[row]]
        missing[row] = max(0, seq[row] - 1 - have)
        highest[process[row]] = max(have, seq[row])
