"""Deliveries by spans of time that can run in parallel, each from the reports of its span and of a halo before it.

A span owns the deliveries of times ``start <= at < stop``; put one after another, the spans' deliveries are those of
the whole table. Why a halo of ``2 (delta + 2 eps)`` ticks is enough:

- by G1 the observer's clock is at most eps behind the largest reading anyone has heard of, so ``r + c - arrival <=
  eps``, and a message is due at most ``delta + 2 eps`` after it arrived;
- a message still waiting at `start` therefore arrived less than ``delta + 2 eps`` before, and so did, before that,
  whatever it was waiting for since.

Duplicates need G2 as well: copies that carry one stamp arrive within ``delta + 2 eps`` of each other, so the halo
shows the first. Both inequalities are checked on every row given, and a row that breaks one is an error, never a
wrong order. What cannot be checked: that copies of one message carry the same stamp.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from whence.clocks.errors import WhenceError
from whence.delivery.batch import Deliveries, deliver_batch
from whence.delivery.policies import StampPolicy
from whence.events.columns import Reports

Longs = NDArray[np.int64]
WhenBroken: TypeAlias = Literal["raise", "whole-table"]


class GuaranteeBroken(WhenceError):
    """A report breaks eps or delta, so spans of time cannot be delivered on their own."""


def halo_ticks(policy: StampPolicy) -> int:
    """How far before a span's start its reports must reach."""
    return 2 * (policy.delta + 2 * policy.eps)


def deliver_span(
    reports: Reports, policy: StampPolicy, start: int | None, stop: int | None, *, distinct: bool = False
) -> Deliveries:
    """The deliveries of times ``start <= at < stop``; None leaves a side open.

    `reports` must hold every report that arrives from ``start - halo_ticks(policy)`` up to `stop`; more do no harm.
    `distinct` promises that no message comes twice in the whole table; then delta is not relied on, and reports may
    be as late as they like. `duplicates` counts the rows that arrive in the span. Raises `GuaranteeBroken`.
    """
    check_guarantees(reports, policy, distinct=distinct)
    found = deliver_batch(reports, policy)
    first = 0 if start is None else int(np.searchsorted(found.at, start))
    last = len(found) if stop is None else int(np.searchsorted(found.at, stop))
    duplicates = 0
    if found.duplicates:
        dropped = np.ones(len(reports), np.bool_)
        dropped[found.order] = False
        arrival = reports.arrival[dropped]
        inside = np.ones(len(arrival), np.bool_)
        inside &= True if start is None else arrival >= start
        inside &= True if stop is None else arrival < stop
        duplicates = int(inside.sum())
    own = slice(first, max(first, last))
    return Deliveries(found.order[own], found.at[own], found.waited[own], found.late[own], duplicates)


def check_guarantees(reports: Reports, policy: StampPolicy, *, distinct: bool) -> None:
    """Raise `GuaranteeBroken` unless every row keeps what `deliver_span` relies on."""
    ahead = reports.r + reports.c.astype(np.int64) - reports.arrival
    if len(ahead) and ahead.max() > policy.eps:
        row = int(ahead.argmax())
        raise GuaranteeBroken(
            f"message {reports.seq[row]} of process {reports.process[row]} knew a clock reading {ahead[row]} "
            f"{policy.unit} ahead of the observer's at its arrival, and eps is {policy.eps}: raise eps, or deliver the "
            "whole table at once"
        )
    took = reports.arrival - reports.r
    if not distinct and len(took) and took.max() > policy.delta + policy.eps:
        row = int(took.argmax())
        raise GuaranteeBroken(
            f"message {reports.seq[row]} of process {reports.process[row]} arrived {took[row]} {policy.unit} after its "
            f"send, and delta + eps is {policy.delta + policy.eps}: raise delta, remove duplicates first and say "
            "distinct, or deliver the whole table at once"
        )


def deliver_in_chunks(
    reports: Reports,
    policy: StampPolicy,
    *,
    chunk_ticks: int,
    distinct: bool = False,
    when_broken: WhenBroken = "raise",
) -> Deliveries:
    """The whole table by spans of `chunk_ticks`; equal to `deliver_batch` on the whole table.

    When a report breaks a guarantee, ``when_broken="whole-table"`` delivers the table at once instead of raising.
    """
    if chunk_ticks < 1:
        raise ValueError(f"chunk_ticks is 1 or more, not {chunk_ticks}")
    if when_broken not in get_args(WhenBroken):
        raise ValueError(f"when_broken is one of {', '.join(get_args(WhenBroken))}, not {when_broken!r:.60}")
    if not len(reports):
        return deliver_batch(reports, policy)
    try:
        parts = list(_spans(reports, policy, chunk_ticks, distinct))
    except GuaranteeBroken:
        if when_broken == "raise":
            raise
        return deliver_batch(reports, policy)
    return Deliveries(
        np.concatenate([part.order for part in parts]),
        np.concatenate([part.at for part in parts]),
        np.concatenate([part.waited for part in parts]),
        np.concatenate([part.late for part in parts]),
        sum(part.duplicates for part in parts),
    )


def _spans(reports: Reports, policy: StampPolicy, chunk_ticks: int, distinct: bool) -> Iterator[Deliveries]:
    by_arrival: Longs = np.argsort(reports.arrival, kind="stable")
    arrival = reports.arrival[by_arrival]
    starts = list(range(int(arrival[0]), int(arrival[-1]) + 1, chunk_ticks))
    for start in starts:
        stop = start + chunk_ticks if start != starts[-1] else None
        first = int(np.searchsorted(arrival, start - halo_ticks(policy)))
        last = len(arrival) if stop is None else int(np.searchsorted(arrival, stop))
        if first == last:
            continue
        rows = by_arrival[first:last]
        part = deliver_span(_take(reports, rows), policy, start, stop, distinct=distinct)
        yield Deliveries(rows[part.order], part.at, part.waited, part.late, part.duplicates)


def _take(reports: Reports, rows: Longs) -> Reports:
    return Reports(
        reports.process[rows],
        reports.seq[rows],
        reports.r[rows],
        reports.c[rows],
        reports.kn[rows],
        reports.arrival[rows],
    )
