"""Count messages, and keep the least differences that they show, by pair of clocks and time.

A message from clock a to clock b with the wall times s and r says that b was ahead of a by at most ``r - s``, because
no message arrives before it is sent. So of many messages the one of least difference says most, and a *cell* keeps it:
the messages of one pair whose sends lie in one bin of time by a's clock, and whose receives lie in one by b's.

Cells of several tables of messages add up exactly (`merge_pairs`): the result does not depend on how they were cut.
Bins are powers of two wide and lie at multiples of their width, so that wider ones are unions of narrower ones; the
width depends on the times alone (`occupied_bins`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ledto.kernels import kernel

Longs = NDArray[np.int64]
Ints = NDArray[np.int32]

MAX_BINS = 256
"""The most bins of time."""
FEWEST_BINS = 16
"""The fewest bins of time, however many clocks there are, unless cells become too many."""
MAX_CELLS = 200_000
"""The most cells; beyond it bins are made wider, until there is one for all times."""
NO_NEXT = int(np.iinfo(np.int64).max)
"""`ClockPairs.next_least` of a cell with one message."""
DENSE_BINS = 1 << 12
"""Up to so many, bins are numbered by their distance from the first; beyond it only occupied ones are numbered."""
DENSE_BITS = 20
"""The bits of times within which bins are found without sorting all times."""
WIDEST = 63
"""The level of the widest bins: one for the times before 0, and one for the others."""


@dataclass(frozen=True, slots=True, eq=False)
class ClockPairs:
    """Cells, ordered by sender, receiver, send bin and receive bin. Includes messages from a clock to itself."""

    names: tuple[str, ...]
    """The clocks, ascending and distinct."""
    level: int
    """Bin k has the times from ``k << level`` to before ``k + 1 << level``."""
    sender: Ints
    """The clock of the sends, as an index of `names`."""
    receiver: Ints
    send_bin: Longs
    receive_bin: Longs
    messages: Longs
    least: Longs
    """The least of receive time - send time."""
    least_send: Longs
    """The send time of that message; of equal ones, the first."""
    least_position: Longs
    """The position of the event that received it; of equal ones, the first."""
    next_least: Longs
    """The least difference of all other messages; `NO_NEXT` without others."""
    largest: Longs
    before_cause: Longs
    """Messages whose receive time is before their send time."""
    ties: Longs
    """Messages whose two times are equal."""

    def __len__(self) -> int:
        return len(self.least)

    @property
    def least_receive(self) -> Longs:
        """The receive time of the message of least difference."""
        return self.least_send + self.least

    def take(self, chosen: NDArray[np.bool_]) -> Self:
        """Return some of the cells."""
        columns = {name: getattr(self, name)[chosen] for name in COLUMNS}
        return type(self)(self.names, self.level, **columns)


COLUMNS = tuple(field.name for field in fields(ClockPairs) if field.name not in ("names", "level"))
"""The fields of `ClockPairs` that have an entry for each cell."""


def no_pairs(level: int) -> ClockPairs:
    """Return no cells, of this level."""
    none = np.empty(0, np.int32)
    return ClockPairs((), level, none, none, *[np.empty(0, np.int64)] * 10)


def count_pairs(
    names: Sequence[str],
    sender: Ints,
    receiver: Ints,
    send: Longs,
    receive: Longs,
    position: Longs,
    *,
    level: int,
) -> ClockPairs:
    """Make the cells of these messages: clocks as indices of `names`, wall times, and the receiving events' positions."""
    difference = receive - send
    used = np.zeros(len(names), np.bool_)
    used[sender] = True
    used[receiver] = True
    used_names = sorted((names[index], index) for index in np.flatnonzero(used).tolist())
    rank = np.zeros(len(names), np.int32)
    rank[[index for _, index in used_names]] = np.arange(len(used_names), dtype=np.int32)
    return _group(
        ClockPairs(
            tuple(name for name, _ in used_names),
            level,
            rank[sender],
            rank[receiver],
            send >> level,
            receive >> level,
            np.ones(len(send), np.int64),
            difference,
            send,
            position,
            np.full(len(send), NO_NEXT),
            difference,
            (difference < 0).astype(np.int64),
            (difference == 0).astype(np.int64),
        )
    )


def merge_pairs(parts: Sequence[ClockPairs]) -> ClockPairs:
    """Merge the cells of several tables of messages, which must be of one level."""
    if len({part.level for part in parts}) != 1:
        raise ValueError(f"cells of levels {[part.level for part in parts]} cannot be merged: choose one level for all")
    names = sorted({name for part in parts for name in part.names})
    code = {name: np.int32(index) for index, name in enumerate(names)}
    codes = [np.array([code[name] for name in part.names], np.int32) for part in parts]

    def stack(column: str) -> NDArray[Any]:
        if column in ("sender", "receiver"):
            return np.concatenate([code_of[getattr(part, column)] for code_of, part in zip(codes, parts, strict=True)])
        return np.concatenate([getattr(part, column) for part in parts])

    return _group(ClockPairs(tuple(names), parts[0].level, **{name: stack(name) for name in COLUMNS}))


def fit_pairs(pairs: ClockPairs, *, most: int = MAX_CELLS) -> ClockPairs:
    """Make bins wider until there are no more than `most` cells; keep the narrowest bins that do.

    There may be more cells only if there are more pairs of clocks than that.
    """
    while len(pairs) > most and pairs.level < WIDEST:
        wider = {"send_bin": pairs.send_bin >> 1, "receive_bin": pairs.receive_bin >> 1}
        columns = {name: wider.get(name, getattr(pairs, name)) for name in COLUMNS}
        pairs = _group(ClockPairs(pairs.names, pairs.level + 1, **columns))
    return pairs


def _group(cells: ClockPairs) -> ClockPairs:
    """Merge cells of equal clocks and bins."""
    if not len(cells):
        return cells
    key = cells.sender.astype(np.int64) * len(cells.names) + cells.receiver
    for bins in (cells.send_bin, cells.receive_bin):
        codes, count = _numbered(bins)
        key = key * count + codes
    order = _stable_order(key)
    starts = np.flatnonzero(np.append(True, np.diff(key[order]) != 0))
    group = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(key))))
    least = cells.least[order]
    smallest = np.minimum.reduceat(least, starts)
    # Of messages that share the least difference, take the first by send time and then by position.
    sharing = np.flatnonzero(least == smallest[group])
    places = order[sharing]
    by_time = np.lexsort((cells.least_position[places], cells.least_send[places], group[sharing]))
    heads = sharing[by_time[np.append(True, np.diff(group[sharing[by_time]]) != 0)]]
    others = least.copy()
    others[heads] = NO_NEXT
    following = np.minimum(others, cells.next_least[order])
    first = order[heads]
    return ClockPairs(
        cells.names,
        cells.level,
        cells.sender[first],
        cells.receiver[first],
        cells.send_bin[first],
        cells.receive_bin[first],
        np.add.reduceat(cells.messages[order], starts),
        smallest,
        cells.least_send[first],
        cells.least_position[first],
        np.minimum.reduceat(following, starts),
        np.maximum.reduceat(cells.largest[order], starts),
        np.add.reduceat(cells.before_cause[order], starts),
        np.add.reduceat(cells.ties[order], starts),
    )


def _stable_order(keys: Longs) -> Longs:
    """Return the order that sorts keys of 0 or more; by counting if they are dense, in a third of the time."""
    count = int(keys.max()) + 1
    return _counted_order(keys, count) if count <= 8 * len(keys) else np.argsort(keys, kind="stable")


@kernel("int64[::1](int64[::1], int64)")
def _counted_order(keys: Longs, count: int) -> Longs:
    following = np.zeros(count + 1, np.int64)
    for key in keys:
        following[key + 1] += 1
    for key in range(count):
        following[key + 1] += following[key]
    order = np.empty(len(keys), np.int64)
    for row in range(len(keys)):
        order[following[keys[row]]] = row
        following[keys[row]] += 1
    return order


def _numbered(bins: Longs) -> tuple[Longs, int]:
    """Replace bins by small numbers in the same order; return also the limit of these numbers."""
    first = int(bins.min())
    count = int(bins.max()) - first + 1
    if count <= DENSE_BINS:
        return bins - first, count
    distinct, place = np.unique(bins, return_inverse=True)
    return place, len(distinct)


@dataclass(frozen=True, slots=True, eq=False)
class OccupiedBins:
    """The bins of one width that have times, ascending."""

    level: int
    occupied: Longs


def occupied_bins(times: Longs, *, most: int = MAX_BINS) -> OccupiedBins:
    """Find the bins of these times, as narrow as they can be with no more than `most` of them occupied.

    Times far from all others, such as those of a clock that shows 1970, take one bin and widen no other.
    """
    if not len(times):
        return OccupiedBins(0, times)
    first, last = int(times.min()), int(times.max())
    level = max(0, (last - first).bit_length() - DENSE_BITS)
    coarse = times >> level
    seen = np.zeros((last >> level) - (first >> level) + 1, np.bool_)
    seen[coarse - (first >> level)] = True
    occupied = np.flatnonzero(seen) + (first >> level)
    if level and len(occupied) <= most:
        return _narrowest(np.sort(times), 0, most)  # A few times far apart: finer bins may do.
    return _narrowest(occupied, level, most)


def joined_bins(parts: Sequence[OccupiedBins], *, most: int = MAX_BINS) -> OccupiedBins:
    """Join the bins of several tables, each of which was made with the same `most` or a larger one."""
    level = max((part.level for part in parts), default=0)
    occupied = [part.occupied >> (level - part.level) for part in parts]
    return _narrowest(np.unique(np.concatenate([np.empty(0, np.int64), *occupied])), level, most)


def bins_for(clocks: int) -> int:
    """Return how many bins keep the cells of so many clocks few enough, if each sends to each."""
    return int(np.clip(MAX_CELLS // max(1, clocks * (clocks - 1)), FEWEST_BINS, MAX_BINS))


def _narrowest(ascending: Longs, level: int, most: int) -> OccupiedBins:
    """Widen bins of `level`, given ascending, as little as needed; finds the width by bisection."""

    def widen(by: int) -> Longs:
        shifted = ascending >> by
        return shifted[np.append(True, np.diff(shifted) != 0)] if len(shifted) else shifted

    low, high = 0, WIDEST - level
    while low < high:
        middle = (low + high) // 2
        if len(widen(middle)) <= most:
            high = middle
        else:
            low = middle + 1
    return OccupiedBins(level + low, widen(low))
