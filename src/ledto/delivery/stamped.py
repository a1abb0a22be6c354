"""Deliver stored rows, each event once, under several policies; from no more rows than they depend on.

The same deliveries as `ledto.delivery.batch.deliver_batch`, by the same rules. The differences: rows come in history
order, computations one after the other; the sort by key, the dearest step, is done once for all policies that compare
alike; and keys of any length are cheap, because the first words distinguish most rows.

**Which rows a delivery depends on.** Let W be the wait ``ceil(phi * (delta + eps))`` and all numbers be ticks. A
message m is delivered at the first time s, from its arrival on, at which every smaller or equal m' that has arrived is
due. As m itself is one of them, ``s >= due(m) >= r(m) + W``. So a smaller m' delays m only if ``due(m') > r(m) + W``;
and ``due(m') <= r(m') + c(m') + W``. Hence ``r(m) < r(m') + c(m') <= r(m) + c(m)``: whatever delta and the arrivals
are, *a delivery depends on rows within eps of causal time before it, and on none after its own tick*. Likewise::

    max(arrival, r + W)  <=  at  <=  max(arrival, r + c + W)

A policy that does not use c delivers every report when it has arrived and is due; nothing delays it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledto.delivery.batch import is_ascending
from ledto.delivery.policies import MILLION, DeliveryRule
from ledto.delivery.queue_kernel import check_before_delivery
from ledto.delivery.sort import WORD_BITS, argsort_packed, column_maxima, pack

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

NO_LOW: Longs = np.empty(0, np.int64)
"""No second words of keys."""
MAX_LINE = 1 << 61
"""The most ticks that the computations of one table may take, one after the other; beyond that, ranks replace times."""


@dataclass(frozen=True, slots=True, eq=False)
class StampedRows:
    """Events with their stamps, each once; those of one process in its order, computations one after the other."""

    starts: Longs
    """int64[k + 1]: where each computation's rows start."""
    process: Ints
    """Breaks ties of keys, within a computation."""
    r: Longs
    c: Ints
    kn: Ints
    arrival: Longs


@dataclass(frozen=True, slots=True, eq=False)
class PlacedDeliveries:
    """Deliveries by row, and their order."""

    order: Longs
    """Rows in the order of delivery, computation after computation."""
    place: Longs
    """By row: its place in `order`."""
    at: Longs
    late: Flags
    lead: Longs
    """By row: the first field of its key. Deliveries of one time and one lead are next to each other."""


def wait_ticks(rule: DeliveryRule) -> int:
    """Return W: how long after its physical time a report is held at least, unless it arrives later."""
    return -(-rule.phi_millionths * (rule.delta + rule.eps) // MILLION)


def prompt_ticks(rule: DeliveryRule) -> int:
    """Return how long a report may take at most and still be there, whenever an effect of its event is due.

    An effect is due at its own reading plus W, or later. The reading of its cause is at most eps larger, if the clocks
    keep their bound. So a report that takes up to ``W - eps`` has come by then. A report that itself takes longer than
    W is delivered when it comes, and nothing is sure to have come by then.
    """
    return wait_ticks(rule) - rule.eps


class Deliverer:
    """Delivers the same rows under one policy after another."""

    def __init__(self, rows: StampedRows) -> None:
        self._rows = rows
        self._key_orders: dict[tuple[bool, int], Longs] = {}

    def deliver(self, rule: DeliveryRule) -> PlacedDeliveries:
        """Deliver every row; exact for rows whose computation has all rows that they depend on."""
        rows = self._rows
        c = rows.c.astype(np.int64) if rule.uses_c else np.zeros(len(rows.r), np.int64)
        lead = rows.r + c
        due = rows.r - (-rule.phi_millionths * (c + (rule.delta + rule.eps))) // MILLION
        at = np.maximum(rows.arrival, due)
        late = rows.arrival > due
        by_key = self._by_key(rule, lead)
        if rule.checks_queue and rule.uses_c:
            line = TimeAxis(rows.starts, rows.arrival, due)
            order, on_line = _check_before_delivery(line.columns[0], line.columns[1], by_key)
            at[order] = line.back(on_line, order)
        else:
            order = argsort_packed(TimeAxis(rows.starts, at).columns[0], inverse(by_key))
        return PlacedDeliveries(order, inverse(order), at, late, lead)

    def _by_key(self, rule: DeliveryRule, lead: Longs) -> Longs:
        """Return the rows in the order of their keys; sorts once for all rules that compare alike."""
        compared = rule.compared(self._rows.kn.shape[1])
        kind = (rule.uses_c, compared)
        if kind not in self._key_orders:
            on_line = TimeAxis(self._rows.starts, lead).columns[0]
            self._key_orders[kind] = key_order(on_line, self._rows.kn[:, :compared], self._rows.process)
        return self._key_orders[kind]


def key_order(lead: Longs, kn: Ints, process: Ints) -> Longs:
    """Return the rows by ``(lead, kn..., process)``, equal ones in row order."""
    if not len(lead):
        return np.empty(0, np.int64)
    bits = [int(most).bit_length() for most in column_maxima(np.ascontiguousarray(kn))]
    used = (int(lead.max()) - int(lead.min())).bit_length()
    columns = 0
    while columns < len(bits) and used + bits[columns] <= 2 * WORD_BITS:
        used += bits[columns]
        columns += 1
    whole = columns == len(bits) and used + int(process.max()).bit_length() <= 2 * WORD_BITS
    none = np.zeros(len(lead), np.int32)
    packed = pack([lead], np.ascontiguousarray(kn[:, :columns]), process if whole else none, none.astype(np.int64))
    order = argsort_packed(packed.high, packed.low)
    if whole:
        return order
    high = packed.high[order]
    same = high[1:] == high[:-1]
    if len(packed.low):
        low = packed.low[order]
        same &= low[1:] == low[:-1]
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    if len(tied):
        group = np.cumsum(np.append(True, ~same))[tied]
        rows = order[tied]
        order[tied] = rows[np.lexsort((process[rows], *kn[rows, columns:].T[::-1], group))]
    return order


class TimeAxis:
    """Times of several computations on one axis, each computation's after those of the one before it.

    Within a computation the order of times does not change. So a computation's rows are sorted among themselves, and do
    not delay those of others.
    """

    def __init__(self, starts: Longs, *columns: Longs) -> None:
        self.columns = list(columns)
        self._shift: Longs | None = None
        self._times = np.empty(0, np.int64)
        firsts = np.flatnonzero(np.diff(starts))
        if not len(firsts):
            self._shift = self._times
            return
        least = np.minimum.reduceat(np.minimum.reduce(columns), starts[firsts])
        widths = np.maximum.reduceat(np.maximum.reduce(columns), starts[firsts]) - least + 1
        if float(widths.astype(np.float64).sum()) < MAX_LINE and widths.min() > 0:
            self._shift = np.repeat(np.cumsum(widths) - widths - least, np.diff(starts)[firsts])
            self.columns = [column + self._shift for column in columns]
        else:
            self._rank(np.repeat(np.arange(len(firsts)), np.diff(starts)[firsts]))

    def _rank(self, computation: Longs) -> None:
        """Replace times that together are too far apart by ranks."""
        times, owner = np.concatenate(self.columns), np.tile(computation, len(self.columns))
        order = np.lexsort((times, owner))
        times, owner = times[order], owner[order]
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.cumsum(np.append(False, (times[1:] != times[:-1]) | (owner[1:] != owner[:-1])))
        self._times = np.empty(int(ranks.max()) + 1, np.int64)
        self._times[ranks[order]] = times
        self.columns = list(ranks.reshape(len(self.columns), len(computation)))

    def back(self, on_line: Longs, rows: Longs) -> Longs:
        """Return the times of these rows, which are at these places of the axis."""
        return self._times[on_line] if self._shift is None else on_line - self._shift[rows]


def _check_before_delivery(arrival: Longs, due: Longs, by_key: Longs) -> tuple[Longs, Longs]:
    order, at = np.empty(len(arrival), np.int64), np.empty(len(arrival), np.int64)
    if is_ascending(arrival):
        check_before_delivery(arrival, due, by_key, order, at)
        return order, at
    rows = argsort_packed(arrival, NO_LOW)
    check_before_delivery(arrival[rows], due[rows], inverse(rows)[by_key], order, at)
    return rows[order], at


def inverse(order: Longs) -> Longs:
    """Return each row's place in the order."""
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return places
