"""Deliver a table of reports at once; the same deliveries as `ledto.delivery.observer.Observer`, exactly.

Steps: drop duplicates, pack the sort keys, sort. For the timed policies (Exact, DAPW) the key starts with the delivery
time and the sort is the answer; check before delivery (CBD) sorts by key and then runs through the arrivals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledto.delivery.duplicates import repeated_rows
from ledto.delivery.policies import MILLION, DeliveryRule, StampPolicy
from ledto.delivery.queue_kernel import check_before_delivery
from ledto.delivery.sort import PackedKeys, argsort_packed, pack
from ledto.events.columns import Ints, ReportArrays
from ledto.events.report import MAX_TIME
from ledto.kernels import kernel

Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Deliveries as columns, in the order of delivery."""

    order: Longs
    """By delivery: the report's row in the table."""
    at: Longs
    """The observer's clock at the delivery."""
    waited: Longs
    """``at`` minus the arrival."""
    late: NDArray[np.bool_]
    """Whether the report arrived after its due time."""
    duplicates: int
    """How many rows were not delivered because another row of the same message was; all other rows were delivered."""

    def __len__(self) -> int:
        return len(self.order)


@dataclass(frozen=True, slots=True)
class _CheckedColumns:
    """Checked columns in fixed types, with c and kn cut to what the rule uses."""

    process: NDArray[np.int32]
    seq: Longs
    lead: Longs
    """r + c."""
    kn: NDArray[np.int32]
    arrival: Longs
    due: Longs

    def place(self, rule: DeliveryRule) -> list[Longs]:
        """Return the columns that are compared before kn."""
        if rule.checks_queue:
            return [self.lead]
        # At one delivery time the second field orders as r + c does, in fewer bits.
        at = np.maximum(self.arrival, self.due)
        return [at, self.lead - at]

    def take(self, rows: Longs) -> _CheckedColumns:
        return _CheckedColumns(
            self.process[rows], self.seq[rows], self.lead[rows], self.kn[rows], self.arrival[rows], self.due[rows]
        )


def deliver_batch(reports: ReportArrays, policy: StampPolicy) -> Deliveries:
    """Deliver every report once; rows may come in any order, and more than once.

    Of several rows of one message the first to arrive counts; of those with one arrival, the one that the policy places
    first. Raises `ValueError` for values that no report can have.
    """
    rule = policy.rule()
    table = _checked(reports, rule)
    kept = _without_duplicates(table, rule)
    if kept is not None:
        table = table.take(kept)
    keys = pack(table.place(rule), table.kn, table.process, table.seq)
    if rule.checks_queue:
        order, at = _check_before_delivery(table, keys)
    else:
        order = argsort_packed(keys.high, keys.low)
        at = np.maximum(table.arrival, table.due)[order]
    waited, late = waits(order, at, table.arrival, table.due)
    return Deliveries(order if kept is None else kept[order], at, waited, late, len(reports) - len(order))


def _check_before_delivery(table: _CheckedColumns, keys: PackedKeys) -> tuple[Longs, Longs]:
    """Deliver under CBD; return rows and times in the order of delivery."""
    arrival, due = table.arrival, table.due
    rows: Longs | None = None
    if not is_ascending(arrival):
        rows = argsort_packed(arrival, np.empty(0, np.int64))
        arrival, due, keys = arrival[rows], due[rows], keys.take(rows)
    order, at = np.empty(len(arrival), np.int64), np.empty(len(arrival), np.int64)
    check_before_delivery(arrival, due, argsort_packed(keys.high, keys.low), order, at)
    return order if rows is None else rows[order], at


def _checked(reports: ReportArrays, rule: DeliveryRule) -> _CheckedColumns:
    """Check the columns and cut them to what the rule uses."""
    rows = len(reports)
    for name in ("seq", "r", "c", "kn", "arrival"):
        column = getattr(reports, name)
        if len(column) != rows or column.ndim != (2 if name == "kn" else 1):
            raise ValueError(
                f"column {name} of the reports has the shape {column.shape}; there are {rows} rows of process"
            )
    _within("process", reports.process, 0, (1 << 31) - 1)
    _within("seq", reports.seq, 1, (1 << 63) - 1)
    _within("r", reports.r, -MAX_TIME, MAX_TIME)
    _within("c", reports.c, 0, (1 << 31) - 1)
    _within("arrival", reports.arrival, -MAX_TIME, MAX_TIME)
    kn = reports.kn[:, : rule.compared(reports.kn.shape[1]) if rows else 0]
    _within("kn", kn, 0, (1 << 31) - 1)
    r = reports.r.astype(np.int64, copy=False)
    c = reports.c.astype(np.int64) if rule.uses_c else np.zeros(rows, np.int64)
    return _CheckedColumns(
        process=np.ascontiguousarray(reports.process, np.int32),
        seq=np.ascontiguousarray(reports.seq, np.int64),
        lead=r + c,
        kn=np.ascontiguousarray(kn, np.int32),
        arrival=np.ascontiguousarray(reports.arrival, np.int64),
        due=r - (-rule.phi_millionths * (c + (rule.delta + rule.eps))) // MILLION,
    )


def _within(name: str, column: Ints, least: int, most: int) -> None:
    """Raise `ValueError` for a column with values outside of its range."""
    if column.size and not (least <= column.min() and column.max() <= most):
        row = int(np.argwhere((column < least) | (column > most))[0][0])
        raise ValueError(f"{name} of a report runs from {least} to {most}, and row {row} has {column[row]}")


def _without_duplicates(table: _CheckedColumns, rule: DeliveryRule) -> Longs | None:
    """Return the rows that count, ascending; None for all."""
    repeated = repeated_rows(table.process, table.seq)
    if not len(repeated):
        return None
    copies = table.take(repeated)
    by_priority = np.lexsort(
        [copies.process, copies.seq, copies.arrival, *copies.place(rule), *copies.kn.T, copies.due][::-1]
    )
    process, seq = copies.process[by_priority], copies.seq[by_priority]
    kept = np.ones(len(table.seq), np.bool_)
    kept[repeated[by_priority[1:]]] = (process[1:] != process[:-1]) | (seq[1:] != seq[:-1])
    return np.flatnonzero(kept)


@kernel("Tuple((int64[::1], boolean[::1]))(int64[::1], int64[::1], int64[::1], int64[::1])")
def waits(order: Longs, at: Longs, arrival: Longs, due: Longs) -> tuple[Longs, NDArray[np.bool_]]:
    """Return how long each delivery waited, and whether its report came after its due time."""
    waited, late = np.empty(len(order), np.int64), np.empty(len(order), np.bool_)
    for place in range(len(order)):
        row = order[place]
        waited[place] = at[place] - arrival[row]
        late[place] = arrival[row] > due[row]
    return waited, late


@kernel("boolean(int64[::1])")
def is_ascending(values: Longs) -> bool:
    """Tell whether no value is smaller than the one before it."""
    falls = 0
    for row in range(1, len(values)):
        falls += values[row] < values[row - 1]
    return falls == 0
